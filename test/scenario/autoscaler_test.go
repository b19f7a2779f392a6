package scenario

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestAutoscaler sends what the cluster-autoscaler's Magnum provider sends
// (kubernetes/autoscaler, cloudprovider/magnum): the version latest, a cluster
// by name, node groups with bounds, resizes with and without named nodes.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	c := latest(t, carafe.URL)
	template := c.template("scaled", `{"kube_tag": "v1.34.1"}`)
	c.want(202, "POST", "/clusters", `{"name": "scaled", "cluster_template_id": "`+template+`", "node_count": 2, "flavor_id": "m1.small"}`)
	c.until("/clusters/scaled", nil, "CREATE_COMPLETE")
	group := c.want(202, "POST", "/clusters/scaled/nodegroups", `{"name": "scaling", "node_count": 1, "min_node_count": 1, "max_node_count": 5, "labels": {"a": "b"}, "merge_labels": true}`).text("uuid")
	c.until("/clusters/scaled", nil, "UPDATE_COMPLETE", "CREATE_COMPLETE")
	other := c.want(202, "POST", "/clusters/scaled/nodegroups", `{"name": "scaling2", "node_count": 1, "max_node_count": 3}`).text("uuid")
	c.until("/clusters/scaled", nil, "UPDATE_COMPLETE", "CREATE_COMPLETE")

	// Start: the cluster by its name (magnum_openstack_clients.go), decoded whole.
	cluster := c.want(200, "GET", "/clusters/scaled", "")
	for _, timestamp := range []string{"created_at", "updated_at"} {
		if s := cluster.text(timestamp); !strings.HasSuffix(s, "+00:00") {
			t.Errorf("%s is %q: gophercloud wants an offset", timestamp, s)
		}
	}

	// Discovery, each minute: the list, then each group that is no master.
	discovered := map[string]reply{}
	for _, g := range c.want(200, "GET", "/clusters/scaled/nodegroups", "").body["nodegroups"].([]any) {
		g := g.(map[string]any)
		if g["role"] == "master" {
			continue
		}
		full := c.want(200, "GET", "/clusters/scaled/nodegroups/"+g["uuid"].(string), "")
		if full.body["max_node_count"] != nil { // null: not autoscaled
			discovered[full.text("name")] = full
		}
		if full.text("flavor_id") == "" || full.body["labels"] == nil {
			t.Errorf("%s has no flavor or labels: the node template needs them", full.text("name"))
		}
	}
	if len(discovered) != 2 || discovered["scaling"].number("max_node_count") != 5 || discovered["scaling"].number("min_node_count") != 1 {
		t.Errorf("discovered %v, not the two groups that have bounds", discovered)
	}

	resize := func(body string) reply {
		t.Helper()
		r := c.send("POST", "/clusters/scaled/actions/resize", body)
		if (r.status == 200 || r.status == 202) && r.text("uuid") != cluster.text("uuid") {
			t.Errorf("the answer to a resize is %v: the client reads uuid", r.body)
		}
		return r
	}
	size := func(group string, want int) {
		t.Helper()
		if n := c.want(200, "GET", "/clusters/scaled/nodegroups/"+group, "").number("node_count"); n != want {
			t.Errorf("node group %s has %d nodes, not %d", group, n, want)
		}
	}
	settled := func() { t.Helper(); c.until("/clusters/scaled", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE") }

	// Scale up.
	if r := resize(`{"node_count": 3, "nodegroup": "` + group + `"}`); r.status != 202 {
		t.Fatalf("scale up: %d %v", r.status, r.body)
	}
	size(group, 3)
	// Another scale up while that one runs, and of the other group: the last
	// wish counts.
	var wait sync.WaitGroup
	for _, body := range []string{`{"node_count": 4, "nodegroup": "` + group + `"}`, `{"node_count": 2, "nodegroup": "` + other + `"}`} {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if r := c.send("POST", "/clusters/scaled/actions/resize", body); r.status != 202 {
				t.Errorf("a scale up during another one: %d %v", r.status, r.body)
			}
		}()
	}
	wait.Wait()
	settled()
	size(group, 4)
	size(other, 2)

	// Scale down, by bare indexes as for nodes that never came up. Who is not in
	// the group cannot go, and nobody goes in its place.
	if r := resize(`{"node_count": 3, "nodes_to_remove": ["4c6ec3b5-8e0b-4b5c-9a83-5a29e4e0c3d1"], "nodegroup": "` + group + `"}`); r.status != 400 {
		t.Errorf("a stranger named for removal: %d %v", r.status, r.body)
	}
	c.want(202, "POST", "/clusters/scaled/actions/resize", `{"node_count": 2, "nodes_to_remove": ["1", "3"], "nodegroup": "`+group+`"}`)
	settled()
	size(group, 2)

	// Out of bounds, and a cluster that cannot be resized: a 400 with a text at once.
	for _, tc := range []struct{ body, says string }{
		{`{"node_count": 6, "nodegroup": "` + group + `"}`, "Resizing scaling outside the allowed range: min_node_count = 1, max_node_count = 5"},
		{`{"node_count": 0, "nodegroup": "` + group + `"}`, "Resizing scaling outside the allowed range"},
	} {
		if r := resize(tc.body); r.status != 400 || !strings.Contains(fmt.Sprint(r.body), tc.says) {
			t.Errorf("%s: %d %v, not 400 %s", tc.body, r.status, r.body, tc.says)
		}
	}

	// A template change leaves the groups to be found.
	next := c.template("scaled-next", `{"kube_tag": "v1.35.0"}`)
	c.want(202, "POST", "/clusters/scaled/actions/upgrade", `{"cluster_template": "`+next+`", "max_batch_size": 1}`)
	settled()
	size(group, 2)
}

// TestAutoHealer sends what magnum-auto-healer sends
// (kubernetes/cloud-provider-openstack, pkg/autohealing).
func TestAutoHealer(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	c := latest(t, carafe.URL)
	template := c.template("healed", `{"kube_tag": "v1.34.1", "auto_healing_enabled": "true", "auto_healing_controller": "magnum-auto-healer"}`)
	c.want(202, "POST", "/clusters", `{"name": "healed", "cluster_template_id": "`+template+`", "node_count": 2}`)
	c.until("/clusters/healed", nil, "CREATE_COMPLETE")

	// Each round: act only on a cluster at rest, with the label.
	cluster := c.want(200, "GET", "/clusters/healed", "")
	labels, _ := cluster.body["labels"].(map[string]any)
	if !strings.HasSuffix(cluster.text("status"), "_COMPLETE") || labels["auto_healing_enabled"] != "true" {
		t.Fatalf("the healer would not act on %v", cluster.body)
	}

	// Health report: two operations, the reason as JSON with single quotes.
	report := func(status, reason string) {
		t.Helper()
		r := c.send("PATCH", "/clusters/healed", `[{"op": "replace", "path": "/health_status", "value": "`+status+`"},
			{"op": "replace", "path": "/health_status_reason", "value": "`+reason+`"}]`)
		if r.status != 200 && r.status != 202 || r.text("uuid") == "" {
			t.Fatalf("health report: %d %v", r.status, r.body)
		}
	}
	report("UNHEALTHY", `{'api':'ok','healed-node-0.Ready':'False','updated_at':'2026-12-01 02:00:00.1 +0000 UTC m=+0.5'}`)
	after := c.want(200, "GET", "/clusters/healed", "")
	reasons, _ := after.body["health_status_reason"].(map[string]any)
	if after.text("health_status") != "UNHEALTHY" || reasons["api"] != "ok" || reasons["healed-node-0.Ready"] != "False" {
		t.Errorf("the report reads %v %v", after.body["health_status"], reasons)
	}
	if after.text("status") != cluster.text("status") {
		t.Errorf("a health report moved the cluster from %s to %s", cluster.text("status"), after.text("status"))
	}

	// Replace a worker: find its group by address, then a resize to the same
	// size that names the server.
	var name, broken string
	var nodes int
	for _, g := range c.want(200, "GET", "/clusters/healed/nodegroups", "").body["nodegroups"].([]any) {
		full := c.want(200, "GET", "/clusters/healed/nodegroups/"+g.(map[string]any)["uuid"].(string), "")
		if addresses, _ := full.body["node_addresses"].([]any); full.text("role") == "worker" && len(addresses) == 2 {
			name, nodes, broken = full.text("name"), full.number("node_count"), addresses[0].(string)
		}
	}
	if name != "default-worker" {
		t.Fatalf("no worker group shows the addresses of its nodes")
	}
	c.want(202, "POST", "/clusters/healed/actions/resize", fmt.Sprintf(
		`{"node_count": %d, "nodes_to_remove": ["%s"], "nodegroup": "%s"}`, nodes, broken, name))
	c.until("/clusters/healed", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	report("HEALTHY", `{'api':'ok','nodes':'ok'}`)
	if s := c.want(200, "GET", "/clusters/healed", "").text("health_status"); s != "HEALTHY" {
		t.Errorf("the cluster is %s after the healer said HEALTHY", s)
	}
}

// TestHorizon sends what magnum-ui 19 sends through magnumclient at 1.13: every
// scalar as a string, labels of any type.
func TestHorizon(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	c := at(t, carafe.URL, "1.13")
	template := c.want(201, "POST", "/clustertemplates", `{"name": "ui", "coe": "kubernetes", "image_id": "ubuntu", "external_network_id": "public",
		"flavor_id": "m1.small", "master_flavor_id": "m1.small", "public": "False", "registry_enabled": "False", "tls_disabled": "False",
		"docker_volume_size": "5", "floating_ip_enabled": "True", "master_lb_enabled": "True", "server_type": "vm", "labels": {"n": 1, "b": true}}`)
	c.want(202, "POST", "/clusters", `{"discovery_url": "", "create_timeout": "60", "name": "ui", "cluster_template_id": "`+template.text("uuid")+`", "keypair": "k",
		"labels": {"availability_zone": "nova", "auto_scaling_enabled": true, "min_node_count": 1}, "master_lb_enabled": "True", "node_count": "3"}`)
	c.until("/clusters/ui", []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE")

	for path, list := range map[string]string{"/clusters/detail": "clusters", "/clustertemplates/detail": "clustertemplates"} {
		items, _ := c.want(200, "GET", path, "").body[list].([]any)
		for _, i := range items {
			if i := i.(map[string]any); i["uuid"] == nil || i["name"] == nil {
				t.Errorf("%s: an item without uuid or name: %v", path, i)
			}
		}
		if len(items) == 0 {
			t.Errorf("%s: empty", path)
		}
	}
	shown := c.want(200, "GET", "/clusters/ui", "")
	labels, _ := shown.body["labels"].(map[string]any)
	if labels["auto_scaling_enabled"] != "True" || labels["min_node_count"] != "1" {
		t.Errorf("labels are %v: they must be texts", labels)
	}

	body := func(r reply) {
		t.Helper()
		if len(r.body) == 0 {
			t.Error("an answer without a body, which the dashboard turns into a dictionary")
		}
	}
	body(c.want(202, "PATCH", "/clusters/ui", `[{"op": "replace", "path": "/node_count", "value": "2"}]`))
	c.until("/clusters/ui", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	body(c.want(200, "PATCH", "/clustertemplates/ui", `[{"op": "replace", "path": "/name", "value": "ui"}]`))
	other := c.template("ui2", `{"a": "b"}`)
	body(c.want(200, "PATCH", "/clustertemplates/"+other, `[{"op": "replace", "path": "/public", "value": "False"}, {"op": "replace", "path": "/labels", "value": "{'a': 'c', 'd': 'True'}"},
		{"op": "replace", "path": "/docker_volume_size", "value": "7"}, {"op": "add", "path": "/dns_nameserver", "value": "1.1.1.1"}]`))
	body(c.want(202, "POST", "/clusters/ui/actions/resize", `{"node_count": "3", "nodegroup": "default-worker"}`))
	c.until("/clusters/ui", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	body(c.want(202, "PATCH", "/certificates/ui", ""))
	c.until("/clusters/ui", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	body(c.want(202, "PATCH", "/credentials/ui", ""))
	c.until("/clusters/ui", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	stats := c.want(200, "GET", "/stats", "")
	if stats.number("clusters") != 1 || stats.number("nodes") != 4 {
		t.Errorf("stats are %v", stats.body)
	}
}
