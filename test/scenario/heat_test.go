package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/clusters"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/nodegroups"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stackresources"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stacks"

	"carafe/test/instance"
)

// demoProject is whose token noauth takes a request without one to bear.
const demoProject = "0000000000000000000000000000de40"

// startWithStacks runs a Carafe whose stacks function is on.
func startWithStacks(t *testing.T) *instance.Instance {
	t.Helper()
	env := fast()
	env["CARAFE_STACKS"] = "true"
	return instance.Start(t, instance.Config{Env: env})
}

// heat is the real client of the orchestration API.
func heat(url string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{},
		Endpoint: url + "/orchestration/v1/" + demoProject + "/", Type: "orchestration"}
}

// autoscaler makes the calls of the Magnum provider of the cluster-autoscaler
// (kubernetes/autoscaler, cloudprovider/magnum/magnum_manager_impl.go), in its
// order and with its client.
type autoscaler struct {
	t            *testing.T
	magnum, heat *gophercloud.ServiceClient
	cluster      string
	minions      map[string][2]string // by node group: name and id of the stack of its nodes
}

// minionsOf finds the stack of a group's nodes; fetchNodeGroupStackIDs there.
func (a *autoscaler) minionsOf(group string) [2]string {
	a.t.Helper()
	if known, found := a.minions[group]; found {
		return known
	}
	ctx := a.t.Context()
	ng := ok[*nodegroups.NodeGroup](a.t)(nodegroups.Get(ctx, a.magnum, a.cluster, group).Extract())
	top := ok[*stacks.RetrievedStack](a.t)(stacks.Find(ctx, a.heat, ng.StackID).Extract())
	resource := ok[*stackresources.Resource](a.t)(stackresources.Get(ctx, a.heat, top.Name, ng.StackID, "kube_minions").Extract())
	stack := ok[*stacks.RetrievedStack](a.t)(stacks.Find(ctx, a.heat, resource.PhysicalID).Extract())
	a.minions[group] = [2]string{stack.Name, resource.PhysicalID}
	return a.minions[group]
}

// refs is the output refs_map: servers by index.
func (a *autoscaler) refs(group string) map[string]string {
	a.t.Helper()
	m := a.minionsOf(group)
	stack := ok[*stacks.RetrievedStack](a.t)(stacks.Get(a.t.Context(), a.heat, m[0], m[1]).Extract())
	refs := map[string]string{}
	for _, output := range stack.Outputs {
		if output["output_key"] == "refs_map" {
			for index, server := range output["output_value"].(map[string]any) {
				refs[index] = server.(string)
			}
		}
	}
	return refs
}

// nodes are the instances of a group with their states; getNodes there.
func (a *autoscaler) nodes(group string) map[string]string {
	a.t.Helper()
	m := a.minionsOf(group)
	pages, err := stackresources.List(a.heat, m[0], m[1], nil).AllPages(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	resources := ok[[]stackresources.Resource](a.t)(stackresources.ExtractResources(pages))
	refs, nodes := a.refs(group), map[string]string{}
	for _, minion := range resources {
		id, state := "fake:///"+group+"/"+minion.Name, ""
		server, found := refs[minion.Name]
		switch minion.Status {
		case "CREATE_IN_PROGRESS", "INIT_COMPLETE":
			state = "creating"
		case "CREATE_COMPLETE", "UPDATE_COMPLETE":
			state = "running"
			if found && server != "kube-minion" {
				id = "openstack:///" + server
			}
		case "CREATE_FAILED", "UPDATE_FAILED":
			state = "failed: " + minion.StatusReason
		default:
			a.t.Errorf("a node in state %s", minion.Status)
		}
		nodes[id] = state
	}
	return nodes
}

// groupOf finds the node group of a Kubernetes node; nodeGroupForNode there.
func (a *autoscaler) groupOf(providerID string) string {
	a.t.Helper()
	pages, err := nodegroups.List(a.magnum, a.cluster, nodegroups.ListOpts{}).AllPages(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, g := range ok[[]nodegroups.NodeGroup](a.t)(nodegroups.ExtractNodeGroups(pages)) {
		if g.Role == "master" {
			continue
		}
		for _, server := range a.refs(g.UUID) {
			if uuid.Validate(server) == nil && "openstack:///"+server == providerID {
				return g.UUID
			}
		}
	}
	return ""
}

// resize is deleteNodes there, or updateNodeCount without nodes.
func (a *autoscaler) resize(group string, count int, remove ...string) error {
	a.t.Helper()
	_, err := clusters.Resize(a.t.Context(), a.magnum, a.cluster, clusters.ResizeOpts{NodeCount: &count, NodesToRemove: remove, NodeGroup: group}).Extract()
	return err
}

// kubernetesNode is what both programs read of a node of the cluster.
type kubernetesNode struct {
	Metadata struct{ Name string }
	Spec     struct{ ProviderID string }
	Status   struct {
		Addresses []struct{ Type, Address string }
		NodeInfo  struct{ SystemUUID, MachineID string }
	}
}

// kubernetesNodes lists the nodes of a cluster through its kubeconfig's way in.
func kubernetesNodes(t *testing.T, carafe *instance.Instance, c caller, cluster string) []kubernetesNode {
	t.Helper()
	csr, key := request(t, "admin", "system:masters")
	id := c.want(200, "GET", "/clusters/"+cluster, "")
	ca := c.want(200, "GET", "/certificates/"+id.text("uuid"), "").text("pem")
	body, err := json.Marshal(map[string]string{"cluster_uuid": id.text("uuid"), "csr": csr})
	if err != nil {
		t.Fatal(err)
	}
	signed := c.want(201, "POST", "/certificates", string(body)).text("pem")
	pair, err := tls.X509KeyPair([]byte(signed), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
	resp, err := client.Get(id.text("api_address") + "/api/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Items []kubernetesNode }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || resp.StatusCode != 200 {
		t.Fatalf("nodes: %d %v", resp.StatusCode, err)
	}
	return list.Items
}

func TestAutoscalerFindsNodesThroughHeat(t *testing.T) {
	t.Parallel()
	carafe := startWithStacks(t)
	c := latest(t, carafe.URL)
	template := c.template("scaled", `{"kube_tag": "v1.34.1"}`)
	c.want(202, "POST", "/clusters", `{"name": "scaled", "cluster_template_id": "`+template+`", "node_count": 2}`)
	c.until("/clusters/scaled", nil, "CREATE_COMPLETE")
	for _, group := range []string{"small", "large"} {
		c.want(202, "POST", "/clusters/scaled/nodegroups", `{"name": "`+group+`", "node_count": 2, "min_node_count": 0, "max_node_count": 9}`)
		c.until("/clusters/scaled", nil, "UPDATE_COMPLETE", "CREATE_COMPLETE")
	}
	a := &autoscaler{t: t, magnum: infra(carafe.URL, "latest"), heat: heat(carafe.URL), cluster: "scaled", minions: map[string][2]string{}}
	group := func(name string) string {
		return c.want(200, "GET", "/clusters/scaled/nodegroups/"+name, "").text("uuid")
	}
	small, large, workers := group("small"), group("large"), group("default-worker")
	settled := func() { t.Helper(); c.until("/clusters/scaled", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE") }

	// Every node of the cluster is found in its group, and in no other.
	masters, of := 0, map[string]int{}
	for _, n := range kubernetesNodes(t, carafe, c, "scaled") {
		if n.Spec.ProviderID != "openstack:///"+n.Status.NodeInfo.SystemUUID {
			t.Errorf("node %s: providerID %s, systemUUID %s", n.Metadata.Name, n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID)
		}
		g := a.groupOf(n.Spec.ProviderID)
		if g == "" {
			masters++
		}
		of[g]++
	}
	if masters != 1 || of[small] != 2 || of[large] != 2 || of[workers] != 2 {
		t.Fatalf("nodes by group: %v", of)
	}

	// Scale up: the nodes show as soon as they are wanted, and then run.
	if err := a.resize(small, 4); err != nil {
		t.Fatal(err)
	}
	settled()
	before := a.refs(small)
	if len(before) != 4 || len(a.nodes(small)) != 4 {
		t.Fatalf("after the scale up: %v", before)
	}
	for id, state := range a.nodes(small) {
		if state != "running" || !strings.HasPrefix(id, "openstack:///") {
			t.Errorf("%s is %s", id, state)
		}
	}

	// Scale down by systemUUID, two of four: those go, the others stay.
	if err := a.resize(small, 2, before["0"], strings.ToUpper(before["2"])); err != nil {
		t.Fatal(err)
	}
	settled()
	if diff := cmp.Diff(map[string]string{"1": before["1"], "3": before["3"]}, a.refs(small)); diff != "" {
		t.Errorf("after the scale down:\n%s", diff)
	}
	left := []string{}
	for _, n := range kubernetesNodes(t, carafe, c, "scaled") {
		if slices.Contains(slices.Collect(maps.Values(before)), n.Status.NodeInfo.SystemUUID) {
			left = append(left, n.Status.NodeInfo.SystemUUID)
		}
	}
	slices.Sort(left)
	if want := slices.Sorted(slices.Values([]string{before["1"], before["3"]})); !slices.Equal(left, want) {
		t.Errorf("the cluster has %v of the group, want %v", left, want)
	}

	// What is not in the group cannot go, and nobody goes in its place.
	for _, stranger := range []string{before["0"], slices.Collect(maps.Values(a.refs(large)))[0], uuid.NewString(), "77"} {
		if err := a.resize(small, 1, stranger); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
			t.Errorf("removal of %s: %v", stranger, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"1": before["1"], "3": before["3"]}, a.refs(small)); diff != "" {
		t.Errorf("after refusals:\n%s", diff)
	}

	// Two groups at the same time.
	if err := a.resize(small, 3); err != nil {
		t.Fatal(err)
	}
	if err := a.resize(large, 5); err != nil {
		t.Fatal(err)
	}
	settled()
	if s, l := a.refs(small), a.refs(large); len(s) != 3 || len(l) != 5 || s["1"] != before["1"] {
		t.Errorf("after concurrent scale ups: %v, %v", s, l)
	}
}

// A node that does not come up is named by its index, and dropped first.
func TestAutoscalerDropsANodeThatNeverCame(t *testing.T) {
	t.Parallel()
	carafe := startWithStacks(t)
	c := latest(t, carafe.URL)
	template := c.template("stuck", `{"kube_tag": "v1.34.1"}`)
	c.want(202, "POST", "/clusters", `{"name": "stuck", "cluster_template_id": "`+template+`", "node_count": 1, "labels": {"test_fail": "resize"}}`)
	c.until("/clusters/stuck", nil, "CREATE_COMPLETE")
	a := &autoscaler{t: t, magnum: infra(carafe.URL, "latest"), heat: heat(carafe.URL), cluster: "stuck", minions: map[string][2]string{}}
	worker := c.want(200, "GET", "/clusters/stuck/nodegroups/default-worker", "").text("uuid")
	running := a.refs(worker)["0"]
	if err := a.resize(worker, 2); err != nil {
		t.Fatal(err)
	}
	c.until("/clusters/stuck", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_FAILED")
	want := map[string]string{"openstack:///" + running: "running", "fake:///" + worker + "/1": "failed: simulated driver: resize was told to fail"}
	if diff := cmp.Diff(want, a.nodes(worker)); diff != "" {
		t.Errorf("after the failure:\n%s", diff)
	}
	if err := a.resize(worker, 1, "1"); err != nil {
		t.Errorf("the node that never came cannot be named: %v", err)
	}
	c.until("/clusters/stuck", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_FAILED") // the label is still there
	if refs := a.refs(worker); refs["0"] != running || len(refs) != 1 {
		t.Errorf("at the end: %v", refs)
	}
}

func TestAutoHealerFindsStacksThroughHeat(t *testing.T) {
	t.Parallel()
	carafe := startWithStacks(t)
	c := latest(t, carafe.URL)
	template := c.template("healed", `{"kube_tag": "v1.34.1", "auto_healing_enabled": "true", "auto_healing_controller": "magnum-auto-healer"}`)
	c.want(202, "POST", "/clusters", `{"name": "healed", "cluster_template_id": "`+template+`", "node_count": 2}`)
	c.until("/clusters/healed", nil, "CREATE_COMPLETE")
	magnum, orchestration, ctx := infra(carafe.URL, "latest"), heat(carafe.URL), t.Context()

	// Enabled (pkg/autohealing/cloudprovider/openstack/provider.go): the stack of
	// the cluster must not be at work.
	cluster := ok[*clusters.Cluster](t)(clusters.Get(ctx, magnum, "healed").Extract())
	found := ok[*stacks.RetrievedStack](t)(stacks.Find(ctx, orchestration, cluster.StackID).Extract())
	stack := ok[*stacks.RetrievedStack](t)(stacks.Get(ctx, orchestration, found.Name, cluster.StackID).Extract())
	if stack.Status != cluster.Status || stack.ID != cluster.StackID {
		t.Errorf("the stack is %s, the cluster %s", stack.Status, cluster.Status)
	}

	// getAllStackResourceMapping: all servers, two levels down, with their stacks.
	pages, err := stackresources.List(orchestration, found.Name, cluster.StackID, stackresources.ListOpts{Depth: 2}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]string{}
	for _, r := range ok[[]stackresources.Resource](t)(stackresources.ExtractResources(pages)) {
		if r.Type != "OS::Nova::Server" {
			continue
		}
		for _, link := range r.Links {
			if parts := strings.Split(link.Href, "/"); link.Rel != "self" && len(parts) > 2 {
				name, id := parts[len(parts)-2], parts[len(parts)-1]
				servers[r.PhysicalID] = id
				if s := ok[*stacks.RetrievedStack](t)(stacks.Get(ctx, orchestration, name, id).Extract()); s.Name != name {
					t.Errorf("the stack of server %s is called %s, its link says %s", r.PhysicalID, s.Name, name)
				}
			}
		}
	}
	nodes := kubernetesNodes(t, carafe, c, "healed")
	if len(servers) != 3 || len(nodes) != 3 {
		t.Fatalf("%d servers, %d nodes", len(servers), len(nodes))
	}

	// Repair of a worker: its machineID is its server; its group has its address;
	// the resize keeps the size. The node is replaced, its neighbour stays.
	broken, neighbour := nodes[1], nodes[2]
	server := uuid.MustParse(broken.Status.NodeInfo.MachineID).String()
	if servers[server] == "" {
		t.Errorf("the server %s is in no stack", server)
	}
	group := c.want(200, "GET", "/clusters/healed/nodegroups/default-worker", "")
	addresses, _ := group.body["node_addresses"].([]any)
	if !slices.ContainsFunc(broken.Status.Addresses, func(x struct{ Type, Address string }) bool { return slices.Contains(addresses, any(x.Address)) }) {
		t.Errorf("the addresses %v are not among those of the group, %v", broken.Status.Addresses, addresses)
	}
	count := group.number("node_count")
	ok[string](t)(clusters.Resize(ctx, magnum, "healed", clusters.ResizeOpts{NodeGroup: "default-worker", NodeCount: &count, NodesToRemove: []string{server}}).Extract())
	c.until("/clusters/healed", []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	names := []string{}
	for _, n := range kubernetesNodes(t, carafe, c, "healed") {
		names = append(names, n.Metadata.Name)
	}
	if len(names) != 3 || slices.Contains(names, broken.Metadata.Name) || !slices.Contains(names, neighbour.Metadata.Name) {
		t.Errorf("after the repair of %s: %v", broken.Metadata.Name, names)
	}

	// Masters are not Heat's to rebuild here, and the answer says so.
	err = stackresources.MarkUnhealthy(ctx, orchestration, found.Name, cluster.StackID, server, stackresources.MarkUnhealthyOpts{MarkUnhealthy: true}).ExtractErr()
	if !gophercloud.ResponseCodeIs(err, http.StatusMethodNotAllowed) {
		t.Errorf("mark unhealthy: %v", err)
	}
	err = stacks.UpdatePatch(ctx, orchestration, found.Name, cluster.StackID, stacks.UpdateOpts{}).ExtractErr()
	if !gophercloud.ResponseCodeIs(err, http.StatusMethodNotAllowed) {
		t.Errorf("stack update: %v", err)
	}
}
