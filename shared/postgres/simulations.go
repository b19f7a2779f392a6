package postgres

import (
	"context"
	"time"

	"carafe/shared/postgres/internal/sqlc"
)

// Simulations are what the simulated driver pretends.
type Simulations struct{ s *sqlc.Queries }

// Simulation is the pretended state of one cluster.
type Simulation struct {
	ClusterID   string
	Operation   string // create, resize, ng_create, … of the last Apply or Delete
	OperationID string
	Polls       int
	Deletes     int // begun so far
	BeganAt     time.Time
}

func simulation(r sqlc.SimulatedCluster) Simulation {
	return Simulation{ClusterID: r.ClusterID, Operation: r.Operation, OperationID: orEmpty(r.OperationID),
		Polls: r.Polls, Deletes: r.Deletes, BeganAt: r.BeganAt}
}

// Begin starts an operation from its first poll, unless it is the one that goes
// on already, and gives the state.
func (x Simulations) Begin(ctx context.Context, clusterID, operation, operationID string, now time.Time) (Simulation, error) {
	r, err := x.s.BeginSimulation(ctx, sqlc.BeginSimulationParams{ClusterID: clusterID, Operation: operation, OperationID: &operationID, Now: now})
	if noRows(err) { // it goes on already
		r, err = x.s.Simulation(ctx, clusterID)
	}
	return simulation(r), classify(err, "begin simulation")
}

// Poll counts one observation of each cluster and gives their states, by cluster uuid.
func (x Simulations) Poll(ctx context.Context, clusterIDs []string) (map[string]Simulation, error) {
	rows, err := x.s.PollSimulations(ctx, clusterIDs)
	return simulations(rows), classify(err, "poll simulations")
}

// Of gives the states without counting, by cluster uuid.
func (x Simulations) Of(ctx context.Context, clusterIDs []string) (map[string]Simulation, error) {
	rows, err := x.s.SimulationsOf(ctx, clusterIDs)
	return simulations(rows), classify(err, "read simulations")
}

func simulations(rows []sqlc.SimulatedCluster) map[string]Simulation {
	of := make(map[string]Simulation, len(rows))
	for _, r := range rows {
		of[r.ClusterID] = simulation(r)
	}
	return of
}

// End forgets a cluster.
func (x Simulations) End(ctx context.Context, clusterID string) error {
	return classify(x.s.EndSimulation(ctx, clusterID), "end simulation")
}
