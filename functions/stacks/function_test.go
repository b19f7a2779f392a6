package stacks

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"carafe/shared/driver"
	"carafe/shared/driver/simulated"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

func TestOffUnlessAskedFor(t *testing.T) {
	b := functiontest.New(t)
	if h, err := Function().Build(t.Context(), b.Platform); h != nil || err != nil {
		t.Errorf("it is built: %v, %v", h, err)
	}
}

// The autoscaler takes a failed node for what it is only by its resource's status.
func TestANodeThatCannotBeMade(t *testing.T) {
	group := magnum.NodeGroup{UUID: "6b7f5c2e-8f0e-4a57-9a59-0c9d6c1f2a3b", Name: "workers", Status: magnum.UpdateInProgress}
	s := (&tree{nodes: map[string][]driver.Node{group.UUID: {{Index: "a", ServerID: "server"}, {Index: "b"}, {Index: "c", Fault: "Quota exceeded"}}}}).nodesOf(group)
	got := ""
	for _, r := range s.resources {
		got += r.name + " " + string(r.status) + " " + r.reason + "\n"
	}
	if want := "a CREATE_COMPLETE \nb CREATE_IN_PROGRESS \nc CREATE_FAILED Quota exceeded\n"; got != want {
		t.Errorf("%s", got)
	}
}

func TestWhoSeesWhat(t *testing.T) {
	t.Setenv("CARAFE_STACKS", "true")
	b := functiontest.New(t)
	b.Drivers = driver.NewRegistry(driver.Selection{}, b.Driver, simulated.New(simulated.Config{Name: "simulated"}, b.DB, b.Now))
	stackID := func(c magnum.Cluster, id string) {
		c.StackID = &id
		if err := b.DB.Clusters.Update(t.Context(), &c, b.Clock); err != nil {
			t.Fatal(err)
		}
	}
	c := b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name, c.Driver = "seen", "simulated" })
	stackID(c, "seen-1")
	stackID(b.Cluster, "scripted-1")
	group, err := b.DB.NodeGroups.Create(t.Context(), magnum.NodeGroup{UUID: b.NewID(), Name: "default-worker", ClusterID: c.UUID, ProjectID: "p1",
		NodeCount: 1, Role: "worker", IsDefault: true, Status: magnum.CreateComplete, CreatedAt: b.Clock}, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Function().Build(t.Context(), b.Platform)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, method, project, path string
		want                        int
	}{
		{"TheCluster", "GET", "p1", "p1/stacks/seen-1", 200},
		{"ByNameAndID", "GET", "p1", "p1/stacks/seen-1/seen-1", 200},
		{"TheNodes", "GET", "p1", "p1/stacks/" + group.UUID, 200},
		{"AResource", "GET", "p1", "p1/stacks/seen-1/seen-1/resources/kube_minions", 200},
		{"ResourcesByID", "GET", "p1", "p1/stacks/seen-1/resources", 200},
		{"NoSuchResource", "GET", "p1", "p1/stacks/seen-1/seen-1/resources/other", 404},
		{"NoSuchStack", "GET", "p1", "p1/stacks/nobody", 404},
		{"NoSuchNode", "GET", "p1", "p1/stacks/" + group.UUID + "-7", 404},
		{"OfAnotherProject", "GET", "p2", "p2/stacks/seen-1", 404},
		{"TokenOfAnotherProject", "GET", "p2", "p1/stacks/seen-1", 403},
		{"ADriverThatDoesNotTell", "GET", "p1", "p1/stacks/scripted-1", 501},
		{"List", "GET", "p1", "p1/stacks", 404},
		{"Update", "PATCH", "p1", "p1/stacks/seen-1/seen-1", 405},
		{"Delete", "DELETE", "p1", "p1/stacks/seen-1/seen-1", 405},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, path+"/v1/"+tc.path, nil)
			r.Header.Set("X-Project-Id", tc.project)
			r.Header.Set("X-User-Id", "u1")
			r.Header.Set("X-Roles", "member,reader")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Fatalf("answered %d, want %d: %s", w.Code, tc.want, w.Body)
			}
			var body struct {
				Code  int
				Error struct{ Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if tc.want >= http.StatusBadRequest && (body.Code != tc.want || body.Error.Message == "") {
				t.Errorf("the error says %s", w.Body)
			}
		})
	}
}
