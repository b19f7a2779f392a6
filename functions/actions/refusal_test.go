package actions

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// bench is a steady cluster with its two groups, and a template "next" to go to.
func bench(t *testing.T, next func(*magnum.ClusterTemplate)) *functiontest.Bench {
	t.Helper()
	b := functiontest.New(t)
	for _, n := range []magnum.NodeGroup{
		{Name: magnum.DefaultMaster, Role: magnum.RoleMaster},
		{Name: magnum.DefaultWorker, Role: "worker"},
	} {
		n.UUID, n.ClusterID, n.ProjectID, n.NodeCount, n.CreatedAt = b.NewID(), b.Cluster.UUID, "p1", 1, b.Clock
		n.Status, n.IsDefault = magnum.CreateComplete, true
		if _, err := b.DB.NodeGroups.Create(t.Context(), n, b.Cluster.Name); err != nil {
			t.Fatal(err)
		}
	}
	template := magnum.ClusterTemplate{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: "next", COE: "kubernetes", ImageID: "image",
		ServerType: "vm", ClusterDistro: new("ubuntu"), CreatedAt: b.Clock}
	if next != nil {
		next(&template)
	}
	if _, err := b.DB.Templates.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	return b
}

func act(t *testing.T, b *functiontest.Bench, action, body string) functiontest.Answer {
	t.Helper()
	return b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/clusters/" + b.Cluster.UUID + "/actions/" + action, Body: body})
}

// untouched checks that a refusal has left nothing behind.
func untouched(t *testing.T, b *functiontest.Bench) {
	t.Helper()
	list, err := b.DB.Operations.History(t.Context(), b.Cluster.UUID, 0, 1)
	if c := b.Reload(t, b.Cluster.UUID); err != nil || c.Status != magnum.CreateComplete || c.Version != b.Cluster.Version || len(list) > 0 {
		t.Errorf("the cluster is %s, version %d, with operations %v (%v)", c.Status, c.Version, list, err)
	}
}

// PB-26: an upgrade is accepted and recorded, and nodes go one by one if nobody says
// otherwise.
func TestAnUpgradeIsAnOperation(t *testing.T) {
	t.Parallel()
	b := bench(t, nil)
	if a := act(t, b, "upgrade", `{"cluster_template": "next"}`); a.Status != http.StatusAccepted {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	o := b.Operation(t, b.Cluster.UUID)
	if o.Kind != magnum.ClusterUpgrade || o.State != magnum.Pending || !strings.Contains(string(o.Arguments), `"max_batch_size": 1`) {
		t.Errorf("%s %s %s", o.Kind, o.State, o.Arguments)
	}
}

// PB-27: a cluster keeps its driver, whatever the new template names.
func TestAnUpgradeKeepsTheDriver(t *testing.T) {
	t.Parallel()
	b := bench(t, func(k *magnum.ClusterTemplate) { k.Driver = new("another") })
	another := &functiontest.Driver{Description: b.Driver.Description}
	another.Description.Name = "another"
	drivers := driver.NewRegistry(driver.Selection{}, b.Driver, another)
	b.Platform.Drivers, b.Conductor.Drivers = drivers, drivers
	a := act(t, b, "upgrade", `{"cluster_template": "next"}`)
	if a.Status != http.StatusConflict || !strings.Contains(a.Detail(), "its driver is another") {
		t.Errorf("%d %s", a.Status, a.Text)
	}
	untouched(t, b)
}

// PB-28: what the driver cannot do is refused in the request, and nothing has happened.
func TestWhatADriverCannotDoNeverHappened(t *testing.T) {
	t.Parallel()
	for action, body := range map[string]string{"resize": `{"node_count": 3}`, "upgrade": `{"cluster_template": "next"}`} {
		b := bench(t, nil)
		b.Driver.OnCheck = func(driver.Cluster) error { return fault.New(fault.Invalid, "Not with this driver.") }
		if a := act(t, b, action, body); a.Status != http.StatusBadRequest || a.Detail() != "Not with this driver." {
			t.Errorf("%s: %d %s", action, a.Status, a.Text)
		}
		untouched(t, b)
	}
}

// PB-09: a cluster that has lost its groups is refused, and breaks nothing.
func TestAClusterWithoutGroupsIsRefused(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	for action, body := range map[string]string{"resize": `{"node_count": 3}`, "upgrade": fmt.Sprintf(`{"cluster_template": %q}`, b.Cluster.ClusterTemplateID)} {
		if a := act(t, b, action, body); a.Status != http.StatusConflict {
			t.Errorf("%s: %d %s", action, a.Status, a.Text)
		}
	}
	untouched(t, b)
}
