package simulated

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
)

// trial is a driver with one cluster in a real database, and a clock.
type trial struct {
	*Driver
	clock   time.Time
	cluster driver.Cluster
}

func newTrial(t *testing.T, labels map[string]string) *trial {
	t.Helper()
	x := &trial{clock: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	x.Driver = New(Config{Name: "simulated"}, pgtest.New(t), func() time.Time { return x.clock })
	x.cluster = x.add(t, "demo", labels)
	return x
}

// add stores a cluster with one master and two workers.
func (x *trial) add(t *testing.T, name string, labels map[string]string) driver.Cluster {
	t.Helper()
	distro, ctx := "ubuntu", t.Context()
	template := magnum.ClusterTemplate{UUID: uuid.NewString(), ProjectID: "p1", UserID: "u1", Name: "t", COE: "kubernetes",
		ImageID: "ubuntu", ServerType: "vm", ClusterDistro: &distro, CreatedAt: x.clock}
	if _, err := x.db.Templates.Create(ctx, template); err != nil {
		t.Fatal(err)
	}
	c := driver.Cluster{Template: template, Cluster: magnum.Cluster{UUID: uuid.NewString(), ProjectID: "p1", UserID: "u1", Name: name,
		ClusterTemplateID: template.UUID, Labels: labels, Status: magnum.CreateInProgress, Driver: "simulated", CreatedAt: x.clock}}
	if err := x.db.Clusters.Create(ctx, c.Cluster); err != nil {
		t.Fatal(err)
	}
	for i, group := range []string{"default-master", "default-worker"} {
		n, err := x.db.NodeGroups.Create(ctx, magnum.NodeGroup{UUID: uuid.NewString(), Name: group, ClusterID: c.UUID, ProjectID: "p1", Labels: labels,
			NodeCount: 1 + i, Role: []string{"master", "worker"}[i], IsDefault: true, Status: magnum.CreateInProgress, CreatedAt: x.clock}, name)
		if err != nil {
			t.Fatal(err)
		}
		c.NodeGroups = append(c.NodeGroups, n)
	}
	return c
}

// apply starts an operation on the rows as they are in x.cluster.
func (x *trial) apply(t *testing.T, kind magnum.OperationKind, change func(*driver.Cluster)) error {
	t.Helper()
	x.cluster.Operation, x.cluster.NodesToRemove = magnum.Operation{ID: uuid.NewString(), Kind: kind}, nil
	if change != nil {
		change(&x.cluster)
	}
	if kind == magnum.ClusterDelete {
		return x.Delete(t.Context(), x.ref())
	}
	_, err := x.Apply(t.Context(), x.cluster)
	return err
}

func (x *trial) ref() driver.Ref {
	o := x.cluster.Operation
	return driver.Ref{Cluster: x.cluster.Cluster, Template: x.cluster.Template, NodeGroups: x.cluster.NodeGroups, Operation: &o}
}

// observe looks once and takes over what it sees of the groups, as the conductor does.
func (x *trial) observe(t *testing.T) driver.Observation {
	t.Helper()
	o, err := x.Observe(t.Context(), x.ref())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range x.cluster.NodeGroups {
		if g, ok := o.NodeGroups[n.UUID]; ok && g.NodeAddresses != nil {
			x.cluster.NodeGroups[i].NodeAddresses = g.NodeAddresses
		}
	}
	return o
}

func TestLabelsSteer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		labels map[string]string
		kind   magnum.OperationKind
		raises bool
		want   []driver.Progress // look by look, ten seconds apart
	}{
		{name: "Plain", kind: magnum.ClusterCreate, want: []driver.Progress{driver.Complete}},
		{name: "Polls", labels: map[string]string{"test_polls": "3"}, kind: magnum.ClusterCreate,
			want: []driver.Progress{driver.InProgress, driver.InProgress, driver.Complete}},
		{name: "Delay", labels: map[string]string{"test_delay": "15"}, kind: magnum.ClusterCreate,
			want: []driver.Progress{driver.InProgress, driver.InProgress, driver.Complete}},
		{name: "Hold", labels: map[string]string{"test_hold": "True"}, kind: magnum.ClusterCreate,
			want: []driver.Progress{driver.InProgress, driver.InProgress, driver.InProgress}},
		{name: "HoldDoesNotHoldADelete", labels: map[string]string{"test_hold": "True"}, kind: magnum.ClusterDelete, want: []driver.Progress{driver.Gone}},
		{name: "Fail", labels: map[string]string{"test_fail": "resize, create"}, kind: magnum.ClusterCreate, want: []driver.Progress{driver.Failed}},
		{name: "FailOfAnother", labels: map[string]string{"test_fail": "resize"}, kind: magnum.ClusterCreate, want: []driver.Progress{driver.Complete}},
		{name: "Raise", labels: map[string]string{"test_raise": "create"}, kind: magnum.ClusterCreate, raises: true},
		{name: "FailedDelete", labels: map[string]string{"test_fail": "delete"}, kind: magnum.ClusterDelete, want: []driver.Progress{driver.Failed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			x := newTrial(t, tc.labels)
			err := x.apply(t, tc.kind, nil)
			if tc.raises {
				if !fault.Is(err, fault.Invalid) || fault.Text(err) != "simulated driver: create was told to raise" {
					t.Fatalf("said %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tc.want {
				o := x.observe(t)
				if o.Progress != want {
					t.Fatalf("look %d: %v, want %v", i+1, o.Progress, want)
				}
				if want == driver.Failed && o.Reason != "simulated driver: "+operations[tc.kind]+" was told to fail" {
					t.Errorf("the reason is %q", o.Reason)
				}
				x.clock = x.clock.Add(10 * time.Second)
			}
		})
	}
}

func TestADeleteFailsOnce(t *testing.T) {
	t.Parallel()
	for _, label := range []string{"test_fail", "test_raise"} {
		x := newTrial(t, map[string]string{label: "delete"})
		if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
			t.Fatal(err)
		}
		first := x.apply(t, magnum.ClusterDelete, nil)
		if label == "test_raise" && first == nil || label == "test_fail" && x.observe(t).Progress != driver.Failed {
			t.Errorf("%s: the first delete did not fail: %v", label, first)
		}
		// The same one again, as after a crash, is no second one.
		if again := x.Delete(t.Context(), x.ref()); (again == nil) != (first == nil) {
			t.Errorf("%s: the same delete again: %v", label, again)
		}
		if err := x.apply(t, magnum.ClusterDelete, nil); err != nil {
			t.Fatal(err)
		}
		if p := x.observe(t).Progress; p != driver.Gone {
			t.Errorf("%s: the second delete is %v", label, p)
		}
	}
}

func TestTheSameApplyChangesNothing(t *testing.T) {
	t.Parallel()
	x := newTrial(t, map[string]string{"test_polls": "2"})
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	if _, err := x.Apply(t.Context(), x.cluster); err != nil {
		t.Fatal(err)
	}
	if p := x.observe(t).Progress; p != driver.Complete {
		t.Errorf("after the same Apply once more: %v", p)
	}
}

// workers are the indexes of the workers, "+" for those without a server yet.
func (x *trial) workers(t *testing.T) string {
	t.Helper()
	nodes, err := x.Nodes(t.Context(), x.ref())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, n := range nodes[x.cluster.NodeGroups[1].UUID] {
		mark := ""
		if n.ServerID == "" {
			mark = "+"
		}
		list = append(list, fmt.Sprint(n.Index)+mark)
	}
	return strings.Join(list, " ")
}

func TestTheNamedNodesGoAndNoOthers(t *testing.T) {
	t.Parallel()
	x := newTrial(t, nil)
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	worker := &x.cluster.NodeGroups[1]
	named := func(index int, how func(driver.Node) string) string {
		return how(node(x.cluster.Cluster, *worker, index))
	}
	server := func(n driver.Node) string { return n.ServerID }
	for _, step := range []struct {
		name   string
		count  int
		remove []string
		during string
		after  string
	}{
		{name: "Grow", count: 5, during: "0 1 2+ 3+ 4+", after: "0 1 2 3 4"},
		{name: "ByServer", count: 4, remove: []string{strings.ToUpper(named(1, server))}, during: "0 1 2 3 4", after: "0 2 3 4"},
		{name: "ByIndexAndName", count: 2, remove: []string{"0", named(3, func(n driver.Node) string { return n.Name })}, during: "0 2 3 4", after: "2 4"},
		{name: "Replace", count: 2, remove: []string{named(2, func(n driver.Node) string { return n.Address })}, during: "2 4 5+", after: "4 5"},
		{name: "NoNumberTwice", count: 4, during: "4 5 6+ 7+", after: "4 5 6 7"},
		{name: "UnnamedTheYoungestGo", count: 1, during: "4 5 6 7", after: "4"},
		{name: "ToNone", count: 0, during: "4", after: ""},
		{name: "FromNone", count: 1, during: "8+", after: "8"},
	} {
		err := x.apply(t, magnum.ClusterResize, func(c *driver.Cluster) {
			current := x.ref()
			current.NodeGroups = append([]magnum.NodeGroup(nil), current.NodeGroups...)
			worker.NodeCount = step.count
			c.NodesToRemove = map[string][]string{worker.UUID: step.remove}
			if err := x.Check(t.Context(), &current, *c); err != nil {
				t.Fatalf("%s: refused: %v", step.name, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		during := x.workers(t)
		o := x.observe(t)
		if after := x.workers(t); during != step.during || after != step.after {
			t.Errorf("%s: [%s], then [%s]; want [%s], then [%s]", step.name, during, after, step.during, step.after)
		}
		if g := o.NodeGroups[worker.UUID]; len(g.NodeAddresses) != step.count || g.NodeAddresses == nil || g.ReadyNodes != step.count {
			t.Errorf("%s: observed %+v", step.name, g)
		}
	}
}

func TestASupersededGrowthIsDroppedFirst(t *testing.T) {
	t.Parallel()
	x := newTrial(t, map[string]string{"test_polls": "2"})
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	x.observe(t)
	worker := &x.cluster.NodeGroups[1]
	if err := x.apply(t, magnum.ClusterResize, func(*driver.Cluster) { worker.NodeCount = 4; worker.Status = magnum.UpdateInProgress }); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	err := x.apply(t, magnum.ClusterResize, func(c *driver.Cluster) {
		current := x.ref()
		worker.NodeCount = 3
		c.NodesToRemove = map[string][]string{worker.UUID: {"2"}} // never came up: it has no name but its index
		if err := x.Check(t.Context(), &current, *c); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if now := x.workers(t); now != "0 1 3+" {
		t.Errorf("the workers are %s", now)
	}
}

func TestAFailedResizeLeavesTheNodes(t *testing.T) {
	t.Parallel()
	x := newTrial(t, map[string]string{"test_fail": "resize"})
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	if err := x.apply(t, magnum.ClusterResize, func(c *driver.Cluster) {
		c.NodeGroups[1].NodeCount = 1
		c.NodesToRemove = map[string][]string{c.NodeGroups[1].UUID: {"0"}}
	}); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	if now := x.workers(t); now != "0 1" {
		t.Errorf("the workers are %s", now)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	x := newTrial(t, nil)
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	x.observe(t)
	x.cluster.NodeGroups[1].Status = magnum.CreateComplete
	for _, tc := range []struct {
		change func(*driver.Cluster)
		want   string
	}{
		{func(c *driver.Cluster) { c.NodeGroups[0].NodeCount = 2 }, "master nodegroup size of 2 is invalid, size cannot be an even number."},
		{func(c *driver.Cluster) { c.NodeGroups[0].NodeCount = 0 }, "master nodegroup size of 0 is invalid, size cannot be an even number."},
		{func(c *driver.Cluster) { c.NodeGroups[0].NodeCount = 3 }, ""},
		{func(c *driver.Cluster) { c.NodeGroups[1].Labels = map[string]string{"test_delay": "soon"} }, "The label test_delay must be a whole number from 0, not 'soon'."},
		{func(c *driver.Cluster) { c.NodesToRemove = map[string][]string{c.NodeGroups[1].UUID: {"nobody"}} }, "The node nobody is not in the node group default-worker."},
		{func(c *driver.Cluster) { c.NodesToRemove = map[string][]string{c.NodeGroups[1].UUID: {"7"}} }, "The node 7 is not in the node group default-worker."},
		{func(c *driver.Cluster) {
			c.NodesToRemove = map[string][]string{c.NodeGroups[1].UUID: {"1", c.NodeGroups[1].NodeAddresses[1]}}
		}, "nodes_to_remove names a node of default-worker twice: 1, " + x.cluster.NodeGroups[1].NodeAddresses[1] + "."},
	} {
		current, desired := x.ref(), x.cluster
		desired.NodeGroups = append([]magnum.NodeGroup(nil), x.cluster.NodeGroups...)
		tc.change(&desired)
		got := ""
		if err := x.Check(t.Context(), &current, desired); err != nil {
			got = fault.Text(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNamesTellGroupsApart(t *testing.T) {
	t.Parallel()
	c := magnum.Cluster{UUID: uuid.NewString(), Name: strings.Repeat("Größe ", 20)}
	names := map[string]bool{}
	for _, group := range []string{"workers", "Workers", "workers_", "a-group-with-a-long-name-1", "a-group-with-a-long-name-2", "Ω"} {
		n := node(c, magnum.NodeGroup{UUID: uuid.NewString(), Name: group, ClusterID: c.UUID}, 4999)
		if names[n.Name] || len(n.Name) > 63 || strings.Trim(n.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the node of %s is called %s", group, n.Name)
		}
		names[n.Name] = true
	}
}

func TestAddressesLeadBackToTheirNodes(t *testing.T) {
	t.Parallel()
	n := magnum.NodeGroup{UUID: uuid.NewString(), Name: "big", ClusterID: uuid.NewString()}
	seen := map[string]bool{}
	for index := range 5000 {
		a := address(n, index)
		back, ok := indexOf(n, a)
		if !ok || back != index || seen[a] {
			t.Fatalf("node %d is at %s, which is that of %d", index, a, back)
		}
		seen[a] = true
	}
}

func TestAnOlderStateComesTooLate(t *testing.T) {
	t.Parallel()
	x := newTrial(t, nil)
	for _, step := range []struct {
		version int64
		count   int
		late    bool
	}{{1, 2, false}, {3, 5, false}, {2, 3, true}, {3, 4, false}} {
		err := x.apply(t, magnum.ClusterResize, func(c *driver.Cluster) { c.Version, c.NodeGroups[1].NodeCount = step.version, step.count })
		if late := fault.Is(err, fault.Unavailable); late != step.late || err != nil && !late {
			t.Errorf("version %d: %v", step.version, err)
		}
	}
	x.observe(t)
	if now := x.workers(t); now != "0 1 2 3" {
		t.Errorf("the workers are %s", now)
	}
}

// Each node takes memory: a group that nobody could pay for must not take all of it.
func TestThereIsRoomForSoManyNodes(t *testing.T) {
	t.Parallel()
	x := newTrial(t, nil)
	x.cluster.NodeGroups[1].NodeCount = math.MaxInt32
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	if o := x.observe(t); o.Progress != driver.Failed || !strings.Contains(o.Reason, "room for 10000 nodes in a node group, not for the 2147483647") {
		t.Errorf("seen %v: %s", o.Progress, o.Reason)
	}
	states, err := x.db.Simulations.Of(t.Context(), []string{x.cluster.UUID})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(states[x.cluster.UUID].Nodes[x.cluster.NodeGroups[1].UUID].Now); n > 10000 {
		t.Errorf("%d nodes are kept", n)
	}
}
