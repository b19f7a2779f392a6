// Package simulated is a driver that builds nothing and behaves as its labels
// say: for trying Carafe, for testing clients, and for load tests. What it
// pretends is kept in the database and survives a restart.
//
// Labels of the cluster (or, for the operations of a node group, of the group):
//
//	test_polls=N      observations until an operation is done; 1 if absent
//	test_delay=N      and not before so many seconds
//	test_fail=a,b     these operations end as *_FAILED
//	test_raise=a,b    the driver refuses these when it is called
//	test_hold=true    an operation never ends (a delete does)
//	test_not_ready=N  so many nodes of each group are not Ready
//
// A delete that was told to fail or to raise does so once. Operations are create,
// update, resize, upgrade, delete, rotate_ca, rotate_credential, ng_create,
// ng_update and ng_delete.
package simulated

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Config is the environment of the driver.
type Config struct {
	// Name is what templates call the driver: images and templates made for
	// another one can be tried under its name.
	Name string `envconfig:"CARAFE_SIMULATED_NAME" default:"simulated"`
	// Delay is test_delay where no label says so.
	Delay time.Duration `envconfig:"CARAFE_SIMULATED_DELAY" default:"0s"`
	// Address is the api_address of every cluster. Empty: each has its own, where
	// Endpoint serves its API; in a process without one, NoAddress.
	Address string `envconfig:"CARAFE_SIMULATED_ADDRESS"`
	// Port is where Endpoint listens; 0: the one of the clusters that there are,
	// else 6443, else one that is free.
	Port int `envconfig:"CARAFE_SIMULATED_PORT" default:"0"`
	// Credential asks for an application credential of the user's for each
	// cluster, as a driver does that builds something in their name. It needs Keystone.
	Credential bool `envconfig:"CARAFE_SIMULATED_CREDENTIAL" default:"false"`
}

// NoAddress is the api_address of clusters whose API nobody serves.
const NoAddress = "https://172.24.4.3:6443"

// Driver is the simulated driver.
type Driver struct {
	config   Config
	db       *postgres.DB
	endpoint *Endpoint // nil: there is none in this process
	now      func() time.Time
}

// New makes the driver.
func New(config Config, db *postgres.DB, now func() time.Time) *Driver {
	return &Driver{config: config, db: db, now: now}
}

// Describe implements driver.Driver.
func (d *Driver) Describe() driver.Description {
	return driver.Description{
		Name: d.config.Name,
		ClusterTypes: []driver.ClusterType{
			{ServerType: "vm", OS: "ubuntu", COE: "kubernetes"},
			{ServerType: "vm", OS: "flatcar", COE: "kubernetes"},
		},
		RotateCA:         true,
		RotateCredential: true,
		Credential:       d.config.Credential,
	}
}

// operations are what labels call the kinds.
var operations = map[magnum.OperationKind]string{
	magnum.ClusterCreate: "create", magnum.ClusterUpdate: "update", magnum.ClusterResize: "resize",
	magnum.ClusterUpgrade: "upgrade", magnum.ClusterDelete: "delete", magnum.NodeGroupCreate: "ng_create",
	magnum.NodeGroupUpdate: "ng_update", magnum.NodeGroupDelete: "ng_delete", magnum.CARotate: "rotate_ca",
	magnum.CredentialRotate: "rotate_credential",
}

// Check implements driver.Driver: labels that say how long must be numbers,
// and control planes odd. Any template is an upgrade, also back, as with the
// driver of the recordings.
func (d *Driver) Check(_ context.Context, current *driver.Ref, desired driver.Cluster) error {
	for _, n := range desired.NodeGroups {
		for _, name := range []string{"test_polls", "test_delay", "test_not_ready"} {
			if v, ok := n.Labels[name]; ok {
				if count, err := strconv.Atoi(v); err != nil || count < 0 {
					return fault.New(fault.Invalid, "The label %s must be a whole number from 0, not '%s'.", name, v)
				}
			}
		}
		if n.IsMaster() {
			if err := driver.CheckMasterSize(n.NodeCount); err != nil {
				return err
			}
		}
	}
	return checkNodes(current, desired)
}

// defaultTag is the Kubernetes that clusters without a kube_tag have.
const defaultTag = "v1.34.1"

// version is the Kubernetes of a cluster: that of the template which it is being
// upgraded to, else the one it has, else the one it was asked to begin with.
func version(ref driver.Ref) string {
	upgrading := ref.Operation != nil && ref.Operation.Kind == magnum.ClusterUpgrade
	if v := ref.Template.Labels["kube_tag"]; upgrading && v != "" {
		return v
	}
	if v := ref.COEVersion; v != nil && *v != "" {
		return *v
	}
	for _, labels := range []map[string]string{ref.Labels, ref.Template.Labels} {
		if v := labels["kube_tag"]; v != "" {
			return v
		}
	}
	return defaultTag
}

// Apply implements driver.Driver: it begins to pretend.
func (d *Driver) Apply(ctx context.Context, desired driver.Cluster) (driver.Accepted, error) {
	if err := d.begin(ctx, desired); err != nil {
		return driver.Accepted{}, err
	}
	return driver.Accepted{StackID: stackID(desired.Cluster)}, nil
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	o := magnum.Operation{Kind: magnum.ClusterDelete}
	if ref.Operation != nil && ref.Operation.Kind == magnum.ClusterDelete {
		o.ID = ref.Operation.ID
	}
	return d.begin(ctx, driver.Cluster{Cluster: ref.Cluster, NodeGroups: ref.NodeGroups, Operation: o})
}

// RotateCA implements driver.CARotator.
func (d *Driver) RotateCA(ctx context.Context, desired driver.Cluster) error {
	return d.begin(ctx, desired)
}

// RotateCredential implements driver.CredentialRotator: it takes no time.
func (d *Driver) RotateCredential(_ context.Context, desired driver.Cluster) error {
	if slices.Contains(told(desired.Labels, "test_raise"), "rotate_credential") {
		return fault.New(fault.Invalid, "simulated driver: rotate_credential was told to raise")
	}
	return nil
}

// Federate and Dissolve implement driver.Federator.
func (d *Driver) Federate(context.Context, magnum.Federation) error { return nil }

// Dissolve does nothing either.
func (d *Driver) Dissolve(context.Context, magnum.Federation) error { return nil }

// begin starts an operation from its first poll, unless it is the one that goes
// on already.
func (d *Driver) begin(ctx context.Context, desired driver.Cluster) error {
	name, labels := operations[desired.Operation.Kind], labelsOf(desired.Cluster, desired.NodeGroups, desired.Operation)
	var state postgres.Simulation
	err := d.db.InTx(ctx, func(tx *postgres.Store) error {
		var err error
		state, err = tx.Simulations.Lock(ctx, desired.Cluster.UUID)
		fresh := fault.Is(err, fault.NotFound)
		if err != nil && !fresh {
			return err
		}
		if !fresh && state.Operation == name && state.OperationID == desired.Operation.ID {
			return nil
		}
		if name != "delete" && state.Version > desired.Cluster.Version {
			return fault.New(fault.Unavailable, "A later state of the cluster is here already.")
		}
		nodes := d.nodesAfter(state, desired)
		state.ClusterID, state.Operation, state.OperationID = desired.Cluster.UUID, name, desired.Operation.ID
		state.Polls, state.BeganAt, state.Nodes, state.Version = 0, d.now(), nodes, desired.Cluster.Version
		if name == "delete" {
			state.Deletes++
		}
		if fresh {
			state, err = tx.Simulations.Create(ctx, state)
		} else {
			state, err = tx.Simulations.Change(ctx, state)
		}
		return err
	})
	if err != nil {
		return err
	}
	if slices.Contains(told(labels, "test_raise"), name) && !(name == "delete" && state.Deletes > 1) {
		return fault.New(fault.Invalid, "simulated driver: %s was told to raise", name)
	}
	return nil
}

// nodesAfter are the nodes that there will be. A delete leaves them alone: they
// go with the cluster.
func (d *Driver) nodesAfter(state postgres.Simulation, desired driver.Cluster) map[string]postgres.SimulatedNodes {
	after := map[string]postgres.SimulatedNodes{}
	for _, n := range desired.NodeGroups {
		was := state.Nodes[n.UUID]
		present := d.present(state, desired.Cluster, n)
		if d.outcome(state, desired.Cluster.Labels, n.Labels) == driver.Failed {
			was.Now = present
		}
		switch {
		case desired.Operation.Kind == magnum.ClusterDelete:
			was.Before, was.Now = present, present
			after[n.UUID] = was
		case n.Status == magnum.DeleteInProgress:
			n.NodeCount = 0
			after[n.UUID] = planned(was, present, desired.Cluster, n, nil)
		default:
			after[n.UUID] = planned(was, present, desired.Cluster, n, desired.NodesToRemove[n.UUID])
		}
	}
	return after
}

// present are the indexes of the nodes that a group has now.
func (d *Driver) present(state postgres.Simulation, c magnum.Cluster, n magnum.NodeGroup) []int {
	if d.outcome(state, c.Labels, n.Labels) == driver.Complete {
		return state.Nodes[n.UUID].Now
	}
	return state.Nodes[n.UUID].Before
}

// labelsOf are those that steer an operation: the group's for its own.
func labelsOf(c magnum.Cluster, groups []magnum.NodeGroup, o magnum.Operation) map[string]string {
	if o.NodeGroupID == nil || !strings.HasPrefix(operations[o.Kind], "ng_") {
		return c.Labels
	}
	for _, n := range groups {
		if n.UUID == *o.NodeGroupID {
			return n.Labels
		}
	}
	return c.Labels
}

func told(labels map[string]string, name string) []string {
	return strings.FieldsFunc(labels[name], func(r rune) bool { return r == ',' || r == ' ' })
}

// Observe implements driver.Driver.
func (d *Driver) Observe(ctx context.Context, ref driver.Ref) (driver.Observation, error) {
	r := d.ObserveAll(ctx, []driver.Ref{ref})[0]
	return r.Observation, r.Err
}

// ObserveAll implements driver.BatchObserver with one statement: it counts a
// poll of each cluster.
func (d *Driver) ObserveAll(ctx context.Context, refs []driver.Ref) []driver.Result {
	ids := make([]string, len(refs))
	for i := range refs {
		ids[i] = refs[i].Cluster.UUID
	}
	states, err := d.db.Simulations.Poll(ctx, ids)
	results := make([]driver.Result, len(refs))
	for i := range refs {
		if err != nil {
			results[i].Err = err
			continue
		}
		state, ok := states[ids[i]]
		results[i].Observation = d.observation(refs[i], state, ok)
	}
	return results
}

// outcome is how the operation stands, for the cluster or, with its labels, for
// one of its groups.
func (d *Driver) outcome(state postgres.Simulation, labels, group map[string]string) driver.Progress {
	if held, _ := strconv.ParseBool(labels["test_hold"]); held && state.Operation != "delete" {
		return driver.InProgress
	}
	if state.Polls < max(number(labels, "test_polls", 1), 1) ||
		d.now().Sub(state.BeganAt) < d.delay(labels) {
		return driver.InProgress
	}
	fails := slices.Contains(told(labels, "test_fail"), state.Operation) ||
		state.Operation != "delete" && slices.Contains(told(group, "test_fail"), state.Operation)
	if fails && !(state.Operation == "delete" && state.Deletes > 1) {
		return driver.Failed
	}
	return driver.Complete
}

func (d *Driver) delay(labels map[string]string) time.Duration {
	if _, ok := labels["test_delay"]; !ok {
		return d.config.Delay
	}
	return time.Duration(number(labels, "test_delay", 0)) * time.Second
}

// observation is what can be seen of a cluster whose pretence has the state.
func (d *Driver) observation(ref driver.Ref, state postgres.Simulation, known bool) driver.Observation {
	if !known {
		return driver.Observation{Progress: driver.Gone}
	}
	switch d.outcome(state, ref.Labels, nil) {
	case driver.InProgress:
		return driver.Observation{}
	case driver.Failed:
		return failed(ref, toldToFail(state.Operation))
	}
	if state.Operation == "delete" {
		return driver.Observation{Progress: driver.Gone}
	}
	if reason, ok := tooLarge(ref.NodeGroups); ok {
		return failed(ref, reason)
	}
	return d.up(ref, state)
}

func toldToFail(operation string) string {
	return fmt.Sprintf("simulated driver: %s was told to fail", operation)
}

// failed is a cluster that did not become what it should.
func failed(ref driver.Ref, reason string) driver.Observation {
	o := driver.Observation{Progress: driver.Failed, Reason: reason, NodeGroups: map[string]driver.NodeGroupObservation{}}
	for _, n := range ref.NodeGroups {
		o.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: driver.Failed, Reason: reason}
	}
	return o
}

// up is a cluster that is as it should be, but for groups that were told to fail.
func (d *Driver) up(ref driver.Ref, state postgres.Simulation) driver.Observation {
	o := driver.Observation{
		Progress: driver.Complete, APIAddress: d.address(state), COEVersion: version(ref),
		StackID: stackID(ref.Cluster), NodeGroups: map[string]driver.NodeGroupObservation{},
	}
	for _, n := range ref.NodeGroups {
		present := d.present(state, ref.Cluster, n)
		g := driver.NodeGroupObservation{Progress: driver.Complete, StackID: groupStackID(ref.Cluster, n),
			ReadyNodes: max(len(present)-number(n.Labels, "test_not_ready", 0), 0), NodeAddresses: make([]string, len(present))}
		for i, index := range present {
			g.NodeAddresses[i] = address(n, index)
		}
		switch failing := d.outcome(state, ref.Labels, n.Labels) == driver.Failed; {
		case n.Status == magnum.DeleteInProgress && !slices.Contains(told(n.Labels, "test_fail"), "ng_delete"):
			g = driver.NodeGroupObservation{Progress: driver.Gone}
		case failing && n.Status.InProgress():
			g = driver.NodeGroupObservation{Progress: driver.Failed, Reason: toldToFail(state.Operation)}
		}
		o.NodeGroups[n.UUID] = g
	}
	return o
}

// address is the api_address of a cluster.
func (d *Driver) address(state postgres.Simulation) string {
	switch {
	case d.config.Address != "":
		return d.config.Address
	case d.endpoint != nil:
		return d.endpoint.address(state.Number)
	default:
		return NoAddress
	}
}

// Nodes implements driver.NodeLister. Those that are on their way, or that the
// last operation has failed to make, have no server.
func (d *Driver) Nodes(ctx context.Context, ref driver.Ref) (map[string][]driver.Node, error) {
	states, err := d.db.Simulations.Of(ctx, []string{ref.Cluster.UUID})
	if err != nil {
		return nil, err
	}
	state := states[ref.Cluster.UUID]
	of := map[string][]driver.Node{}
	for _, n := range ref.NodeGroups {
		present := d.present(state, ref.Cluster, n)
		for _, index := range present {
			of[n.UUID] = append(of[n.UUID], node(ref.Cluster, n, index))
		}
		for _, index := range state.Nodes[n.UUID].Now {
			if !slices.Contains(present, index) {
				coming := node(ref.Cluster, n, index)
				coming.ServerID, coming.ProviderID, coming.Address = "", "", ""
				of[n.UUID] = append(of[n.UUID], coming)
			}
		}
	}
	return of, nil
}

func number(labels map[string]string, name string, otherwise int) int {
	if n, err := strconv.Atoi(labels[name]); err == nil {
		return n
	}
	return otherwise
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// stackID is the driver's own name for a cluster: always the same for the same one.
func stackID(c magnum.Cluster) string { return named(c, 30) }

// groupStackID tells a group from the others, for those who look for its nodes
// by it; the default ones are the cluster's own.
func groupStackID(c magnum.Cluster, n magnum.NodeGroup) string {
	if n.IsDefault {
		return stackID(c)
	}
	return stackID(c) + "-" + groupName(n)
}

// named starts with as much of the cluster's name, and is its own by its uuid.
func named(c magnum.Cluster, most int) string {
	name := unfit.ReplaceAllString(strings.ToLower(c.Name), "-")
	return name[:min(len(name), most)] + "-" + strings.ReplaceAll(c.UUID, "-", "")[:12]
}
