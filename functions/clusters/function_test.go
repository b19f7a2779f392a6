package clusters

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// user asks the function as p1/u1.
type user struct {
	t *testing.T
	b *functiontest.Bench
}

func newAPI(t *testing.T) user {
	t.Helper()
	return user{t, functiontest.New(t)}
}

func (a user) call(method, path, body string) functiontest.Answer {
	a.t.Helper()
	return a.b.Call(a.t, Function(), functiontest.Request{Method: method, Path: "/v1/clusters" + path, Body: body})
}

func (a user) body(more string) string {
	return fmt.Sprintf(`{"name": "new", "cluster_template_id": %q, "node_count": 2%s}`, a.b.Cluster.ClusterTemplateID, more)
}

// created is a new cluster, moved to the status.
func (a user) created(status magnum.Status, more string) string {
	a.t.Helper()
	answer := a.call("POST", "", a.body(more))
	if answer.Status != http.StatusAccepted {
		a.t.Fatalf("create: %d %s", answer.Status, answer.Text)
	}
	uuid := answer.Body["uuid"].(string)
	c := a.b.Reload(a.t, uuid)
	c.Status = status
	if err := a.b.DB.Clusters.Update(a.t.Context(), &c, a.b.Clock); err != nil {
		a.t.Fatal(err)
	}
	return uuid
}

func (a user) list() int {
	a.t.Helper()
	list, _ := a.call("GET", "", "").Body["clusters"].([]any)
	return len(list)
}

// PB-14: what was accepted is there.
func TestACreatedClusterIsThereAtOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	uuid := a.call("POST", "", a.body("")).Body["uuid"].(string)
	got := a.call("GET", "/"+uuid, "")
	if got.Status != http.StatusOK || got.Body["status"] != "CREATE_IN_PROGRESS" || got.Body["node_count"] != 2.0 || got.Body["master_count"] != 1.0 {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	if events := a.b.Events(t, uuid); len(events) != 1 || events[0] != "magnum.cluster.create pending" {
		t.Errorf("events %v", events)
	}
}

func TestCreateRefusesWithoutATrace(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	before := a.list()
	for _, tc := range []struct{ name, more, detail string }{
		{"PB-16", `, "labels": {"min_node_count": "x"}`, "whole number"},
		{"PB-39", `, "labels": {"min_node_count": "5"}`, "less or equal to node_count"},
	} {
		answer := a.call("POST", "", a.body(tc.more))
		if answer.Status != http.StatusBadRequest || !strings.Contains(answer.Detail(), tc.detail) {
			t.Errorf("%s: %d %s", tc.name, answer.Status, answer.Text)
		}
	}
	if n := a.list(); n != before {
		t.Errorf("%d clusters", n-before)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	count := func(n int) string {
		return fmt.Sprintf(`[{"op": "replace", "path": "/node_count", "value": %d}]`, n)
	}
	for _, tc := range []struct {
		name   string
		status magnum.Status
		patch  string
		want   int
		detail string
		after  magnum.Status
		events int // besides that of the create
	}{
		{"PB-11 PB-12 RefusedInTheRequest", magnum.UpdateInProgress, count(3), 400, `Updating a cluster when status is "UPDATE_IN_PROGRESS" is not supported.`, magnum.UpdateInProgress, 0},
		{"PB-21 TheGroupsBoundsCount", magnum.CreateComplete, count(1), 400, "outside the allowed range: min_node_count = 2", magnum.CreateComplete, 0},
		{"PB-21 AResizeOfTheDefaultWorkers", magnum.CreateComplete, count(3), 202, "", magnum.UpdateInProgress, 1},
		{"PB-22 HealthInAnyStatus", magnum.CreateFailed, `[{"op": "replace", "path": "/health_status", "value": "UNHEALTHY"}]`, 202, "", magnum.CreateFailed, 1},
	} {
		uuid := a.created(tc.status, `, "labels": {"min_node_count": "2"}`)
		answer := a.call("PATCH", "/"+uuid, tc.patch)
		if answer.Status != tc.want || !strings.Contains(answer.Detail(), tc.detail) {
			t.Errorf("%s: %d %s", tc.name, answer.Status, answer.Text)
		}
		if c := a.b.Reload(t, uuid); c.Status != tc.after {
			t.Errorf("%s: %s", tc.name, c.Status)
		}
		if events := a.b.Events(t, uuid); len(events)-1 != tc.events {
			t.Errorf("%s: events %v", tc.name, events)
		}
	}
}

// PB-30: the status comes before the driver, and a second delete has nothing to do.
func TestDeleteTwiceIsOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	uuid := a.created(magnum.CreateFailed, "")
	for range 2 {
		if answer := a.call("DELETE", "/"+uuid, ""); answer.Status != http.StatusNoContent {
			t.Fatalf("%d %s", answer.Status, answer.Text)
		}
	}
	if c := a.b.Reload(t, uuid); c.Status != magnum.DeleteInProgress {
		t.Error(c.Status)
	}
	if list, err := a.b.DB.Operations.History(t.Context(), uuid, 0, 10); err != nil || len(list) != 2 { // with the create
		t.Errorf("%d operations, %v", len(list), err)
	}
}

// PB-79: of creates at the same moment, no more win than the quota has places.
func TestQuotaHoldsAgainstMany(t *testing.T) {
	t.Parallel()
	const limit = 3
	a := newAPI(t)
	if _, err := a.b.DB.Quotas.Create(t.Context(), magnum.Quota{ProjectID: "p1", Resource: magnum.ResourceCluster, HardLimit: limit, CreatedAt: a.b.Clock}); err != nil {
		t.Fatal(err)
	}
	answers := make([]functiontest.Answer, 12)
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() { answers[i] = a.call("POST", "", a.body("")) })
	}
	wait.Wait()
	accepted := 0
	for _, answer := range answers {
		switch answer.Status {
		case http.StatusAccepted:
			accepted++
		case http.StatusForbidden:
		default:
			t.Errorf("%d %s", answer.Status, answer.Text)
		}
	}
	if accepted != limit-1 || a.list() != limit { // the bench's own has a place
		t.Errorf("%d accepted, %d clusters", accepted, a.list())
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ask := func(body string) functiontest.Answer {
		return a.b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/clusters", Body: body, Header: map[string]string{"Idempotency-Key": "k1"}})
	}
	answers := make([]functiontest.Answer, 8)
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() { answers[i] = ask(a.body("")) })
	}
	wait.Wait()
	first := ask(a.body(""))
	if first.Status != http.StatusAccepted || a.list() != 2 {
		t.Fatalf("%d %s, %d clusters", first.Status, first.Text, a.list())
	}
	for _, answer := range answers { // those at the same moment may be told to come again
		if answer.Status != http.StatusConflict && answer.Text != first.Text {
			t.Errorf("%d %s", answer.Status, answer.Text)
		}
	}
	if other := ask(a.body(`, "master_count": 1`)); other.Status != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d %s", other.Status, other.Text)
	}
	a.b.Clock = a.b.Clock.Add(25 * time.Hour) // and no relay has been here
	if later := ask(a.body("")); later.Status != http.StatusAccepted || later.Text == first.Text || a.list() != 3 {
		t.Errorf("a day later: %d %s", later.Status, later.Text)
	}
}

func TestHistoryIsPagedNewestFirst(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	uuid := a.created(magnum.CreateComplete, "")
	a.call("DELETE", "/"+uuid, "")
	for _, tc := range []struct{ list, attribute, newest, oldest string }{
		{"operations", "kind", "cluster.delete", "cluster.create"},
		{"events", "type", "magnum.cluster.delete", ""},
	} {
		page := a.call("GET", "/"+uuid+"/"+tc.list+"?limit=1", "")
		rows, _ := page.Body[tc.list].([]any)
		if len(rows) != 1 || rows[0].(map[string]any)[tc.attribute] != tc.newest {
			t.Fatalf("%s: %d %s", tc.list, page.Status, page.Text)
		}
		next, _ := page.Body["next"].(string)
		_, path, _ := strings.Cut(next, "/v1/clusters")
		page = a.call("GET", path, "")
		rows, _ = page.Body[tc.list].([]any)
		if len(rows) != 1 || tc.oldest != "" && rows[0].(map[string]any)[tc.attribute] != tc.oldest {
			t.Errorf("second page of %s at %q: %d %s", tc.list, next, page.Status, page.Text)
		}
		if other := a.b.Call(t, Function(), functiontest.Request{Method: "GET", Path: "/v1/clusters/" + uuid + "/" + tc.list, Who: "p2/u2"}); other.Status != http.StatusNotFound {
			t.Errorf("%s for another project: %d", tc.list, other.Status)
		}
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	before := a.list()
	if answer := a.call("POST", "?dry_run=true", a.body("")); answer.Status != http.StatusOK || a.list() != before {
		t.Errorf("create: %d %s", answer.Status, answer.Text)
	}
	uuid := a.created(magnum.CreateComplete, "")
	version := a.b.Reload(t, uuid).Version
	answer := a.call("PATCH", "/"+uuid+"?dry_run=true", `[{"op": "replace", "path": "/node_count", "value": 3}]`)
	if c := a.b.Reload(t, uuid); answer.Status != http.StatusOK || answer.Body["node_count"] != 3.0 || c.Version != version {
		t.Errorf("patch: %d %s, version %d then %d", answer.Status, answer.Text, version, c.Version)
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	uuid := a.created(magnum.CreateComplete, "")
	tag := a.call("GET", "/"+uuid, "").Header.Get("ETag")
	patch := func(n int) int {
		return a.b.Call(t, Function(), functiontest.Request{Method: "PATCH", Path: "/v1/clusters/" + uuid, Header: map[string]string{"If-Match": tag},
			Body: fmt.Sprintf(`[{"op": "replace", "path": "/node_count", "value": %d}]`, n)}).Status
	}
	if tag == "" || patch(3) != http.StatusAccepted {
		t.Fatalf("ETag %q", tag)
	}
	if status := patch(4); status != http.StatusPreconditionFailed {
		t.Errorf("with the ETag of before: %d", status)
	}
}
