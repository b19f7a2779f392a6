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
//
// A delete that was told to fail or to raise does so once. Operations are create,
// update, resize, upgrade, delete, rotate_ca, rotate_credential, ng_create,
// ng_update and ng_delete.
package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
}

// Driver is the simulated driver.
type Driver struct {
	name        string
	simulations postgres.Simulations
	address     func(clusterID string) string
	now         func() time.Time
}

// New makes the driver. address gives the api_address of a cluster that is up.
func New(config Config, simulations postgres.Simulations, address func(clusterID string) string, now func() time.Time) *Driver {
	return &Driver{name: config.Name, simulations: simulations, address: address, now: now}
}

// Describe implements driver.Driver.
func (d *Driver) Describe() driver.Description {
	return driver.Description{
		Name: d.name,
		ClusterTypes: []driver.ClusterType{
			{ServerType: "vm", OS: "ubuntu", COE: "kubernetes"},
			{ServerType: "vm", OS: "flatcar", COE: "kubernetes"},
		},
		RotateCA:         true,
		RotateCredential: true,
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
func (d *Driver) Check(_ context.Context, _ *driver.Ref, desired driver.Cluster) error {
	for _, n := range desired.NodeGroups {
		for _, name := range []string{"test_polls", "test_delay"} {
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
	return nil
}

// defaultTag is the Kubernetes that clusters without a kube_tag have.
const defaultTag = "v1.34.1"

// version is the Kubernetes that is wanted: the label of the cluster unless its
// template has another one since.
func version(labels map[string]string, t magnum.ClusterTemplate) string {
	if v := t.Labels["kube_tag"]; v != "" {
		return v
	}
	if v := labels["kube_tag"]; v != "" {
		return v
	}
	return defaultTag
}

// Apply implements driver.Driver: it begins to pretend.
func (d *Driver) Apply(ctx context.Context, desired driver.Cluster) (driver.Accepted, error) {
	if err := d.begin(ctx, desired.Cluster.UUID, desired.Operation, labelsOf(desired.Cluster, desired.NodeGroups, desired.Operation)); err != nil {
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
	return d.begin(ctx, ref.Cluster.UUID, o, ref.Labels)
}

// RotateCA implements driver.CARotator.
func (d *Driver) RotateCA(ctx context.Context, desired driver.Cluster) error {
	return d.begin(ctx, desired.Cluster.UUID, desired.Operation, desired.Labels)
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

func (d *Driver) begin(ctx context.Context, clusterID string, o magnum.Operation, labels map[string]string) error {
	name := operations[o.Kind]
	state, err := d.simulations.Begin(ctx, clusterID, name, o.ID, d.now())
	if err != nil {
		return err
	}
	if slices.Contains(told(labels, "test_raise"), name) && !(name == "delete" && state.Deletes > 1) {
		return fault.New(fault.Invalid, "simulated driver: %s was told to raise", name)
	}
	return nil
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
	states, err := d.simulations.Poll(ctx, ids)
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

// observation is what can be seen of a cluster whose pretence has the state.
func (d *Driver) observation(ref driver.Ref, state postgres.Simulation, known bool) driver.Observation {
	if !known {
		return driver.Observation{Progress: driver.Gone}
	}
	labels := ref.Labels
	if held, _ := strconv.ParseBool(labels["test_hold"]); held && state.Operation != "delete" {
		return driver.Observation{}
	}
	if state.Polls < max(number(labels, "test_polls", 1), 1) ||
		d.now().Sub(state.BeganAt) < time.Duration(number(labels, "test_delay", 0))*time.Second {
		return driver.Observation{}
	}
	if state.Operation == "delete" {
		if slices.Contains(told(labels, "test_fail"), "delete") && state.Deletes < 2 {
			return failed("delete")
		}
		return driver.Observation{Progress: driver.Gone}
	}
	if slices.Contains(told(labels, "test_fail"), state.Operation) {
		o := failed(state.Operation)
		o.NodeGroups = map[string]driver.NodeGroupObservation{}
		for _, n := range ref.NodeGroups {
			o.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: driver.Failed, Reason: o.Reason}
		}
		return o
	}
	return d.up(ref, state)
}

func failed(operation string) driver.Observation {
	return driver.Observation{Progress: driver.Failed, Reason: fmt.Sprintf("simulated driver: %s was told to fail", operation)}
}

// up is a cluster that is as it should be, but for groups that were told to fail.
func (d *Driver) up(ref driver.Ref, state postgres.Simulation) driver.Observation {
	o := driver.Observation{
		Progress: driver.Complete, APIAddress: d.address(ref.Cluster.UUID), COEVersion: version(ref.Labels, ref.Template),
		StackID: stackID(ref.Cluster), NodeGroups: map[string]driver.NodeGroupObservation{},
	}
	for _, n := range ref.NodeGroups {
		g := driver.NodeGroupObservation{Progress: driver.Complete, StackID: o.StackID, ReadyNodes: n.NodeCount, NodeAddresses: Addresses(n)}
		switch {
		case n.Status == magnum.DeleteInProgress && !(slices.Contains(told(n.Labels, "test_fail"), "ng_delete")):
			g = driver.NodeGroupObservation{Progress: driver.Gone}
		case slices.Contains(told(n.Labels, "test_fail"), state.Operation) && n.Status.InProgress():
			g = driver.NodeGroupObservation{Progress: driver.Failed, Reason: failed(state.Operation).Reason}
		}
		o.NodeGroups[n.UUID] = g
	}
	return o
}

func number(labels map[string]string, name string, otherwise int) int {
	if n, err := strconv.Atoi(labels[name]); err == nil {
		return n
	}
	return otherwise
}

// Addresses are the addresses of a group's nodes: the same ones every time.
func Addresses(n magnum.NodeGroup) []string {
	sum := sha256.Sum256([]byte(n.ClusterID + n.Name))
	seed := binary.BigEndian.Uint16(sum[:2])
	list := make([]string, n.NodeCount)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d", seed>>8, (int(seed)+(i+10)/256)&255, (i+10)%256)
	}
	return list
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// stackID is the driver's own name for a cluster: always the same for the same one.
func stackID(c magnum.Cluster) string {
	name := unfit.ReplaceAllString(strings.ToLower(c.Name), "-")
	return name[:min(len(name), 30)] + "-" + strings.ReplaceAll(c.UUID, "-", "")[:12]
}
