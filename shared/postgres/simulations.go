package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carafe/shared/fault"
	"carafe/shared/postgres/internal/sqlc"
)

// Simulations are what the simulated driver pretends.
type Simulations struct{ s *sqlc.Queries }

// Simulation is the pretended state of one cluster.
type Simulation struct {
	ClusterID   string
	Number      int    // its own among all simulated clusters; the database gives it
	Operation   string // create, resize, ng_create, … of the last Apply or Delete
	OperationID string
	Polls       int
	Deletes     int // begun so far
	BeganAt     time.Time
	Version     int64                     // of the cluster, as it was then
	Nodes       map[string]SimulatedNodes // by node group uuid
}

// SimulatedNodes are the nodes of one group, by their numbers in it. No number
// is given twice.
type SimulatedNodes struct {
	Before []int `json:"before,omitempty"` // while the operation goes on, and if it fails
	Now    []int `json:"now"`              // once it is done
	Next   int   `json:"next"`
}

func simulation(r sqlc.SimulatedCluster) (Simulation, error) {
	s := Simulation{ClusterID: r.ClusterID, Number: r.Number, Operation: r.Operation, OperationID: orEmpty(r.OperationID),
		Polls: r.Polls, Deletes: r.Deletes, BeganAt: r.BeganAt, Version: r.Version}
	if err := json.Unmarshal(r.Nodes, &s.Nodes); err != nil {
		return s, fmt.Errorf("read the nodes of simulated cluster %s: %w", r.ClusterID, err)
	}
	return s, nil
}

func oneSimulation(r sqlc.SimulatedCluster, err error, doing string) (Simulation, error) {
	if noRows(err) {
		return Simulation{}, fault.New(fault.NotFound, "There is no such simulated cluster.")
	}
	if err != nil {
		return Simulation{}, classify(err, doing)
	}
	return simulation(r)
}

// Lock reads the state of a cluster for a change in the same transaction. Fault
// NotFound: there is none yet.
func (x Simulations) Lock(ctx context.Context, clusterID string) (Simulation, error) {
	r, err := x.s.LockSimulation(ctx, clusterID)
	return oneSimulation(r, err, "lock simulation")
}

// Create stores the first state of a cluster and gives it with its number.
func (x Simulations) Create(ctx context.Context, s Simulation) (Simulation, error) {
	nodes, err := json.Marshal(s.Nodes)
	if err != nil {
		return s, fmt.Errorf("write nodes: %w", err)
	}
	r, err := x.s.CreateSimulation(ctx, sqlc.CreateSimulationParams{ClusterID: s.ClusterID, Operation: s.Operation,
		OperationID: orNull(s.OperationID), Deletes: s.Deletes, BeganAt: s.BeganAt, Version: s.Version, Nodes: nodes})
	return oneSimulation(r, err, "create simulation")
}

// Change stores a state that was locked.
func (x Simulations) Change(ctx context.Context, s Simulation) (Simulation, error) {
	nodes, err := json.Marshal(s.Nodes)
	if err != nil {
		return s, fmt.Errorf("write nodes: %w", err)
	}
	r, err := x.s.ChangeSimulation(ctx, sqlc.ChangeSimulationParams{ClusterID: s.ClusterID, Operation: s.Operation,
		OperationID: orNull(s.OperationID), Polls: s.Polls, Deletes: s.Deletes, BeganAt: s.BeganAt, Version: s.Version, Nodes: nodes})
	return oneSimulation(r, err, "change simulation")
}

// Poll counts one observation of each cluster and gives their states, by cluster uuid.
func (x Simulations) Poll(ctx context.Context, clusterIDs []string) (map[string]Simulation, error) {
	rows, err := x.s.PollSimulations(ctx, clusterIDs)
	if err != nil {
		return nil, classify(err, "poll simulations")
	}
	return simulations(rows)
}

// Of gives the states without counting, by cluster uuid.
func (x Simulations) Of(ctx context.Context, clusterIDs []string) (map[string]Simulation, error) {
	rows, err := x.s.SimulationsOf(ctx, clusterIDs)
	if err != nil {
		return nil, classify(err, "read simulations")
	}
	return simulations(rows)
}

// ByNumber gives the state of the cluster that has the number. Fault NotFound:
// none has.
func (x Simulations) ByNumber(ctx context.Context, number int) (Simulation, error) {
	r, err := x.s.SimulationByNumber(ctx, number)
	return oneSimulation(r, err, "find simulation")
}

func simulations(rows []sqlc.SimulatedCluster) (map[string]Simulation, error) {
	of := make(map[string]Simulation, len(rows))
	for _, r := range rows {
		s, err := simulation(r)
		if err != nil {
			return nil, err
		}
		of[r.ClusterID] = s
	}
	return of, nil
}

// SimulatedAddress is the api_address of a simulated cluster that has one.
type SimulatedAddress struct {
	ClusterID  string
	Number     int
	APIAddress string
}

// Addresses gives them all, the youngest cluster first.
func (x Simulations) Addresses(ctx context.Context) ([]SimulatedAddress, error) {
	rows, err := x.s.SimulatedAddresses(ctx)
	list := make([]SimulatedAddress, len(rows))
	for i, r := range rows {
		list[i] = SimulatedAddress(r)
	}
	return list, classify(err, "read simulated addresses")
}

// Move gives a cluster another api_address: what serves it is elsewhere now.
func (x Simulations) Move(ctx context.Context, clusterID, apiAddress string) error {
	return classify(x.s.MoveSimulatedAddress(ctx, sqlc.MoveSimulatedAddressParams{APIAddress: apiAddress, UUID: clusterID}), "move simulated cluster")
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
