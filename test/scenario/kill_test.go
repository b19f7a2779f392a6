package scenario

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// moments after the requests were sent at which the process is killed: while
// they are answered, between the steps of the operations, and while the driver
// is watched.
var moments = []time.Duration{
	0, 3 * time.Millisecond, 8 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	120 * time.Millisecond, 250 * time.Millisecond, 450 * time.Millisecond, 800 * time.Millisecond, 1400 * time.Millisecond,
}

// TestKilled kills the process with SIGKILL at ten moments of a create, a
// resize and a delete at once, and starts it again on the same data. Whatever
// was accepted reaches its right end; what was not answered has happened whole
// or not at all.
func TestKilled(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	c := latest(t, carafe.URL)
	// Three observations, so that the late moments fall into the watching.
	template := c.template("killed", `{"kube_tag": "v1.34.1", "test_polls": "3"}`)
	name := func(what string, i int) string { return fmt.Sprintf("%s-%d", what, i) }
	for i := range moments {
		for _, what := range []string{"resized", "deleted"} {
			c.want(202, "POST", "/clusters", `{"name": "`+name(what, i)+`", "cluster_template_id": "`+template+`", "node_count": 1}`)
		}
	}
	for i := range moments {
		c.until("/clusters/"+name("resized", i), nil, "CREATE_COMPLETE")
		c.until("/clusters/"+name("deleted", i), nil, "CREATE_COMPLETE")
	}

	for i, moment := range moments {
		var create, resize, remove int // status, 0: no answer
		var wait sync.WaitGroup
		send := func(status *int, method, path, body string) {
			wait.Add(1)
			go func() {
				defer wait.Done()
				*status = unanswered(t.Context(), c, method, path, body)
			}()
		}
		send(&create, "POST", "/clusters", `{"name": "`+name("created", i)+`", "cluster_template_id": "`+template+`", "node_count": 2}`)
		send(&resize, "POST", "/clusters/"+name("resized", i)+"/actions/resize", `{"node_count": 3}`)
		send(&remove, "DELETE", "/clusters/"+name("deleted", i), "")
		time.Sleep(moment) // the moment is the test
		carafe.End(syscall.SIGKILL)
		wait.Wait()
		carafe.Run()
		t.Logf("killed after %v: create %d, resize %d, delete %d", moment, create, resize, remove)

		switch r := c.send("GET", "/clusters/"+name("created", i), ""); {
		case r.status == http.StatusOK:
			r = c.until("/clusters/"+name("created", i), []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE")
			if nodes, _ := r.body["node_addresses"].([]any); r.number("node_count") != 2 || len(nodes) != 2 || r.text("api_address") == "" {
				t.Errorf("killed after %v: the cluster ends as %v", moment, r.body)
			}
		case create != 0:
			t.Errorf("killed after %v: create was answered %d, and there is no cluster", moment, create)
		}

		r := c.until("/clusters/"+name("resized", i), []string{"UPDATE_IN_PROGRESS"}, "CREATE_COMPLETE", "UPDATE_COMPLETE")
		want := 3
		if resize == 0 && r.text("status") == "CREATE_COMPLETE" {
			want = 1 // it never came in
		}
		if nodes, _ := r.body["node_addresses"].([]any); r.number("node_count") != want || len(nodes) != want {
			t.Errorf("killed after %v: resize was answered %d, and the cluster ends as %v", moment, resize, r.body)
		}

		r = c.send("GET", "/clusters/"+name("deleted", i), "")
		if r.status == http.StatusOK && !(remove == 0 && r.text("status") == "CREATE_COMPLETE") {
			c.until("/clusters/"+name("deleted", i), []string{"DELETE_IN_PROGRESS"}, "gone")
		}
	}

	// Nothing is left that waits for ever.
	for _, cluster := range c.want(200, "GET", "/clusters", "").body["clusters"].([]any) {
		cluster := cluster.(map[string]any)
		if status, _ := cluster["status"].(string); !strings.HasSuffix(status, "_COMPLETE") {
			t.Errorf("%s is %s in the end", cluster["name"], status)
		}
	}
}

// unanswered sends a request to a server that may be killed, and gives the
// status of the answer, 0 if none came.
func unanswered(ctx context.Context, c caller, method, path, body string) int {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close() // only the status counts
	return resp.StatusCode
}
