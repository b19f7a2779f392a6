package actions

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// rows are what an upgrade moves: the cluster's template and labels, and each
// group's image and labels.
type rows struct {
	Template string
	Labels   map[string]string
	Groups   map[string]string
	Own      map[string]map[string]string
}

func rowsOf(t *testing.T, b *functiontest.Bench, uuid string) rows {
	t.Helper()
	c := b.Reload(t, uuid)
	groups, err := b.DB.NodeGroups.OfCluster(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	r := rows{Template: c.ClusterTemplateID, Labels: c.Labels, Groups: map[string]string{}, Own: map[string]map[string]string{}}
	for _, n := range groups {
		r.Groups[n.Name], r.Own[n.Name] = *n.ImageID, n.Labels
	}
	return r
}

// Where the driver says so, an upgrade moves the rows to the new template's image
// and labels, except for what the user had chosen; and back, if the driver refuses.
func TestRowsFollowTheTemplate(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Driver.Description.FollowsTemplate = true
	c := b.NewCluster(t, func(k *magnum.ClusterTemplate) {
		k.Labels = map[string]string{"kube_tag": "v1.34.3", "boot_volume_size": "20", "calico_tag": "v3", "dropped": "x"}
	}, func(c *magnum.Cluster) {
		c.Name = "moved"
		c.Labels = map[string]string{"kube_tag": "v1.34.2", "boot_volume_size": "80", "calico_tag": "v3", "dropped": "x", "own": "y"}
	})
	b.Certify(t, c.UUID)
	for _, n := range []magnum.NodeGroup{
		{Name: magnum.DefaultMaster, Role: magnum.RoleMaster, IsDefault: true, Labels: c.Labels},
		{Name: magnum.DefaultWorker, Role: "worker", IsDefault: true, Labels: c.Labels},
		{Name: "gpu", Role: "gpu", Labels: map[string]string{"boot_volume_size": "99"}},
	} {
		n.UUID, n.ClusterID, n.ProjectID, n.NodeCount, n.CreatedAt = b.NewID(), c.UUID, "p1", 1, b.Clock
		n.Status, n.ImageID = magnum.CreateComplete, new("image")
		if _, err := b.DB.NodeGroups.Create(t.Context(), n, c.Name); err != nil {
			t.Fatal(err)
		}
	}
	before := rowsOf(t, b, c.UUID)
	distro := "ubuntu"
	next := magnum.ClusterTemplate{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: "next", COE: "kubernetes", ImageID: "image-2", ServerType: "vm",
		ClusterDistro: &distro, CreatedAt: b.Clock, Labels: map[string]string{"kube_tag": "v1.35.1", "boot_volume_size": "30", "calico_tag": "v4", "added": "z"}}
	if _, err := b.DB.Templates.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	upgrade := func(status int) {
		t.Helper()
		a := b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/clusters/moved/actions/upgrade", Body: `{"cluster_template": "next"}`})
		if a.Status != status {
			t.Fatalf("%d %s, want %d", a.Status, a.Text, status)
		}
	}
	var checked driver.Cluster
	b.Driver.OnCheck = func(d driver.Cluster) error {
		checked = d
		return fault.New(fault.Invalid, "Not that.")
	}
	upgrade(http.StatusBadRequest)
	if diff := cmp.Diff(before, rowsOf(t, b, c.UUID)); diff != "" {
		t.Errorf("a refusal in the request has changed the rows:\n%s", diff)
	}
	labels := map[string]string{"kube_tag": "v1.35.1", "boot_volume_size": "80", "calico_tag": "v4", "own": "y", "added": "z"}
	if diff := cmp.Diff(labels, checked.Labels); diff != "" {
		t.Errorf("the driver is asked about other labels:\n%s", diff)
	}

	b.Driver.OnCheck = nil
	upgrade(http.StatusAccepted)
	after := rows{Template: next.UUID, Labels: labels,
		Groups: map[string]string{magnum.DefaultMaster: "image-2", magnum.DefaultWorker: "image-2", "gpu": "image-2"},
		Own:    map[string]map[string]string{magnum.DefaultMaster: labels, magnum.DefaultWorker: labels, "gpu": {"boot_volume_size": "99"}}}
	if diff := cmp.Diff(after, rowsOf(t, b, c.UUID)); diff != "" {
		t.Errorf("after the upgrade was accepted:\n%s", diff)
	}

	b.Driver.OnApply = func(driver.Cluster) error { return fault.New(fault.Invalid, "No.") }
	f := function.Function{Name: "clusterupgrade", Build: func(_ context.Context, p *function.Platform) (http.Handler, error) {
		return p.Conductor.Handler(magnum.ClusterUpgrade, conductor.Apply()), nil
	}}
	if status := b.Deliver(t, f, events.ClusterUpgrade, b.Operation(t, c.UUID)); status != http.StatusNoContent {
		t.Fatalf("delivery: %d", status)
	}
	if diff := cmp.Diff(before, rowsOf(t, b, c.UUID)); diff != "" {
		t.Errorf("after the driver refused it:\n%s", diff)
	}
}

// A driver that does not say so has its rows left alone: only the template moves.
func TestRowsStay(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	if _, err := b.DB.NodeGroups.Create(t.Context(), magnum.NodeGroup{UUID: b.NewID(), Name: magnum.DefaultWorker, Role: "worker", IsDefault: true, ClusterID: b.Cluster.UUID,
		ProjectID: "p1", NodeCount: 1, ImageID: new("image"), Status: magnum.CreateComplete, CreatedAt: b.Clock}, "c1"); err != nil {
		t.Fatal(err)
	}
	distro := "ubuntu"
	next := magnum.ClusterTemplate{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: "next", COE: "kubernetes", ImageID: "image-2", ServerType: "vm",
		ClusterDistro: &distro, CreatedAt: b.Clock, Labels: map[string]string{"kube_tag": "v1.35.1"}}
	if _, err := b.DB.Templates.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	want := rowsOf(t, b, b.Cluster.UUID)
	want.Template = next.UUID
	a := b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/clusters/c1/actions/upgrade", Body: `{"cluster_template": "next"}`})
	if diff := cmp.Diff(want, rowsOf(t, b, b.Cluster.UUID)); a.Status != http.StatusAccepted || diff != "" {
		t.Errorf("%d %s\n%s", a.Status, a.Text, diff)
	}
}
