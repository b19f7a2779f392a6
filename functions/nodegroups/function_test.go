package nodegroups

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// bench is a cluster in the status, with a group "extra" in the other; both still have
// the reason of what was before.
func bench(t *testing.T, cluster, group magnum.Status) *functiontest.Bench {
	t.Helper()
	b := functiontest.New(t)
	c := b.Cluster
	c.Status, c.StatusReason, c.APIAddress = cluster, new("before"), new("https://192.0.2.1:6443")
	if err := b.DB.Clusters.Update(t.Context(), &c, b.Clock); err != nil {
		t.Fatal(err)
	}
	for _, n := range []magnum.NodeGroup{
		{Name: magnum.DefaultMaster, Role: magnum.RoleMaster, IsDefault: true, Status: cluster},
		{Name: magnum.DefaultWorker, Role: "worker", IsDefault: true, Status: cluster},
		{Name: "extra", Role: "worker", Status: group},
	} {
		n.UUID, n.ClusterID, n.ProjectID, n.NodeCount, n.CreatedAt, n.StatusReason = b.NewID(), c.UUID, "p1", 1, b.Clock, new("before")
		if _, err := b.DB.NodeGroups.Create(t.Context(), n, c.Name); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func call(t *testing.T, b *functiontest.Bench, method, path, body string) functiontest.Answer {
	t.Helper()
	return b.Call(t, Function(), functiontest.Request{Method: method, Path: "/v1/clusters/" + b.Cluster.UUID + "/nodegroups" + path, Body: body})
}

func operations(t *testing.T, b *functiontest.Bench) int {
	t.Helper()
	list, err := b.DB.Operations.History(t.Context(), b.Cluster.UUID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

const (
	creation = `{"name": "more", "node_count": 1}`
	patch    = `[{"op": "replace", "path": "/max_node_count", "value": 7}]`
)

// PB-13: the status that is named is that of what is refused.
func TestARefusalNamesTheGroupsOwnStatus(t *testing.T) {
	t.Parallel()
	b := bench(t, magnum.UpdateComplete, magnum.CreateFailed)
	a := call(t, b, "PATCH", "/extra", patch)
	if want := `Updating a nodegroup when status is "CREATE_FAILED" is not supported.`; a.Status != http.StatusBadRequest || !strings.Contains(a.Detail(), want) {
		t.Errorf("%d %s", a.Status, a.Text)
	}
}

// PB-31: a cluster that is being deleted is not called back by its groups.
func TestADeletingClusterIsNotRevived(t *testing.T) {
	t.Parallel()
	b := bench(t, magnum.DeleteInProgress, magnum.CreateComplete)
	for _, r := range [][3]string{{"POST", "", creation}, {"PATCH", "/extra", patch}, {"DELETE", "/extra", ""}} {
		if a := call(t, b, r[0], r[1], r[2]); a.Status != http.StatusBadRequest || !strings.Contains(a.Detail(), "DELETE_IN_PROGRESS") {
			t.Errorf("%s: %d %s", r[0], a.Status, a.Text)
		}
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.DeleteInProgress || operations(t, b) != 0 {
		t.Errorf("the cluster is %s with %d operations", c.Status, operations(t, b))
	}
}

// PB-32: of many requests for one name one is accepted, and the others leave nothing.
func TestOneOfManyGetsTheName(t *testing.T) {
	t.Parallel()
	b := bench(t, magnum.CreateComplete, magnum.CreateComplete)
	statuses := make([]int, 6)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = call(t, b, "POST", "", creation).Status })
	}
	all.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{202, 409, 409, 409, 409, 409}) || operations(t, b) != 1 {
		t.Errorf("%v, %d operations", statuses, operations(t, b))
	}
}

// PB-33: what the server owns is not the client's to say.
func TestServerOwnedFieldsDoNotCount(t *testing.T) {
	t.Parallel()
	b := bench(t, magnum.CreateComplete, magnum.CreateComplete)
	a := call(t, b, "POST", "", `{"name": "more", "node_count": 1, "is_default": true, "status": "CREATE_FAILED", "status_reason": "mine", "id": 1, "version": "v9"}`)
	if a.Status == http.StatusBadRequest && operations(t, b) == 0 {
		return // refused is right too
	}
	if a.Status != http.StatusAccepted || a.Body["is_default"] != false || a.Body["status"] != "CREATE_IN_PROGRESS" || a.Body["status_reason"] != nil {
		t.Errorf("%d %s", a.Status, a.Text)
	}
}

// PB-34: subscribers hear of what is done to a group. PB-24: what begins clears the
// reason of what was before.
func TestWhatBeginsIsToldAndClearsTheReason(t *testing.T) {
	t.Parallel()
	for _, r := range [][3]string{{"POST", "", creation}, {"PATCH", "/extra", patch}, {"DELETE", "/extra", ""}} {
		b := bench(t, magnum.UpdateFailed, magnum.UpdateFailed)
		if a := call(t, b, r[0], r[1], r[2]); a.Status >= 300 {
			t.Fatalf("%s: %d %s", r[0], a.Status, a.Text)
		}
		if told := b.Events(t, b.Cluster.UUID); !slices.Equal(told, []string{"magnum.cluster.update pending"}) {
			t.Errorf("%s is told as %v", r[0], told)
		}
		if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.UpdateInProgress || c.StatusReason != nil {
			t.Errorf("%s: the cluster is %s because of %v", r[0], c.Status, c.StatusReason)
		}
		groups, err := b.DB.NodeGroups.OfCluster(t.Context(), b.Cluster.UUID)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range groups {
			if n.Status.InProgress() && n.StatusReason != nil {
				t.Errorf("%s: %s is %s because of %q", r[0], n.Name, n.Status, *n.StatusReason)
			}
		}
	}
}
