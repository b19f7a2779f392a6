package scenario

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/certificates"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/clusters"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/clustertemplates"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/nodegroups"
	"github.com/gophercloud/gophercloud/v2/openstack/containerinfra/v1/quotas"
)

// infra is the real client at a microversion; empty sends none.
func infra(url, version string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{}, Endpoint: url + "/v1/", Type: "container-infra", Microversion: version,
	}
}

func ok[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// await polls as Terraform does: at once, then again, with a closed list of
// statuses that may come before.
func await(t *testing.T, status func() (string, error), pending []string, target string) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		s, err := status()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			s = "gone"
		} else if err != nil {
			t.Fatal(err)
		}
		if s == target {
			return
		}
		known := pending == nil && !strings.HasSuffix(s, "_FAILED")
		for _, p := range pending {
			known = known || p == s
		}
		if !known {
			t.Fatalf("%s on the way to %s", s, target)
		}
	}
	t.Fatalf("not %s in time", target)
}

func clusterStatus(t *testing.T, c *gophercloud.ServiceClient, id string) func() (string, error) {
	return func() (string, error) {
		r, err := clusters.Get(t.Context(), c, id).Extract()
		if err != nil {
			return "", err
		}
		return r.Status, nil
	}
}

func groupStatus(t *testing.T, c *gophercloud.ServiceClient, cluster, id string) func() (string, error) {
	return func() (string, error) {
		r, err := nodegroups.Get(t.Context(), c, cluster, id).Extract()
		if err != nil {
			return "", err
		}
		return r.Status, nil
	}
}

// TestTerraform does what terraform-provider-openstack does to a cluster from
// creation to its end, with gophercloud, at the microversions that it sets.
func TestTerraform(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	ctx := t.Context()
	c := infra(carafe.URL, "")
	on := true
	template := ok[*clustertemplates.ClusterTemplate](t)(clustertemplates.Create(ctx, c, clustertemplates.CreateOpts{
		Name: "tf", COE: "kubernetes", ImageID: "ubuntu", ExternalNetworkID: "public", FlavorID: "m1.small", MasterFlavorID: "m1.small",
		KeyPairID: "key", FloatingIPEnabled: &on, Labels: map[string]string{"kube_tag": "v1.34.1", "other": "1"},
	}).Extract())

	// The template's update: booleans as strings, labels as one string.
	ok[*clustertemplates.ClusterTemplate](t)(clustertemplates.Update(ctx, c, template.UUID, []clustertemplates.UpdateOptsBuilder{
		clustertemplates.UpdateOpts{Op: clustertemplates.ReplaceOp, Path: "/master_lb_enabled", Value: "true"},
		clustertemplates.UpdateOpts{Op: clustertemplates.ReplaceOp, Path: "/labels", Value: "{'kube_tag':'v1.34.1','other':'2'}"},
		clustertemplates.UpdateOpts{Op: clustertemplates.RemoveOp, Path: "/keypair_id"},
	}).Extract())
	template = ok[*clustertemplates.ClusterTemplate](t)(clustertemplates.Get(ctx, c, template.UUID).Extract())
	if !template.MasterLBEnabled || template.Labels["other"] != "2" || template.KeyPairID != "" {
		t.Errorf("the template reads %+v", template)
	}

	// Create, and poll at once.
	merge, master, nodes, minutes := true, 1, 2, 60
	id := ok[string](t)(clusters.Create(ctx, c, clusters.CreateOpts{
		Name: "tf", ClusterTemplateID: template.UUID, MasterCount: &master, NodeCount: &nodes, CreateTimeout: &minutes,
		FloatingIPEnabled: &on, MergeLabels: &merge, Labels: map[string]string{"other": "3", "new": "4"},
	}).Extract())
	await(t, clusterStatus(t, c, id), []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE")
	cluster := ok[*clusters.Cluster](t)(clusters.Get(ctx, c, id).Extract())
	// What was sent comes back, or the plan shows a change.
	if cluster.Name != "tf" || cluster.FlavorID != "m1.small" || cluster.NodeCount != 2 || cluster.ClusterTemplateID != template.UUID || cluster.StackID == "" {
		t.Errorf("the cluster reads %+v", cluster)
	}
	rebuilt := map[string]string{}
	for _, part := range []map[string]string{cluster.LabelsAdded, cluster.LabelsSkipped} {
		for k, v := range part {
			rebuilt[k] = v
		}
	}
	for k := range cluster.LabelsOverridden {
		rebuilt[k] = cluster.Labels[k]
	}
	if rebuilt["new"] != "4" || rebuilt["other"] != "3" || len(rebuilt) != 2 {
		t.Errorf("labels rebuilt from the differences are %v", rebuilt)
	}

	// Read: node groups at 1.9, and a certificate with the same client.
	groups := infra(carafe.URL, "1.9")
	pages := ok[[]nodegroups.NodeGroup](t)(func() ([]nodegroups.NodeGroup, error) {
		p, err := nodegroups.List(groups, id, nodegroups.ListOpts{}).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		return nodegroups.ExtractNodeGroups(p)
	}())
	for _, g := range pages {
		if g.IsDefault && g.Role != "master" && g.NodeCount != 2 {
			t.Errorf("the default group has %d nodes", g.NodeCount)
		}
	}
	if len(pages) != 2 {
		t.Errorf("%d node groups", len(pages))
	}
	if ca := ok[*certificates.Certificate](t)(certificates.Get(ctx, groups, id).Extract()); !strings.Contains(ca.PEM, "BEGIN CERTIFICATE") {
		t.Errorf("the CA is %q", ca.PEM)
	}
	csr, _ := request(t, "admin", "system:masters")
	signed := ok[*certificates.Certificate](t)(certificates.Create(ctx, groups, certificates.CreateOpts{ClusterUUID: id, CSR: csr}).Extract())
	if !strings.Contains(signed.PEM, "BEGIN CERTIFICATE") {
		t.Errorf("the certificate is %q", signed.PEM)
	}

	// node_count by PATCH; then a new template at 1.8; any status may come before.
	ok[string](t)(clusters.Update(ctx, c, id, []clusters.UpdateOptsBuilder{clusters.UpdateOpts{Op: clusters.ReplaceOp, Path: "/node_count", Value: 3}}).Extract())
	await(t, clusterStatus(t, c, id), nil, "UPDATE_COMPLETE")
	// The same again changes nothing, and still ends in UPDATE_COMPLETE.
	ok[string](t)(clusters.Update(ctx, c, id, []clusters.UpdateOptsBuilder{clusters.UpdateOpts{Op: clusters.ReplaceOp, Path: "/node_count", Value: 3}}).Extract())
	await(t, clusterStatus(t, c, id), nil, "UPDATE_COMPLETE")
	next := ok[*clustertemplates.ClusterTemplate](t)(clustertemplates.Create(ctx, c, clustertemplates.CreateOpts{
		Name: "tf-next", COE: "kubernetes", ImageID: "ubuntu", ExternalNetworkID: "public", FlavorID: "m1.small", MasterFlavorID: "m1.small",
		Labels: map[string]string{"kube_tag": "v1.35.0"},
	}).Extract())
	one := 1
	ok[string](t)(clusters.Upgrade(ctx, infra(carafe.URL, "1.8"), id, clusters.UpgradeOpts{ClusterTemplate: next.UUID, MaxBatchSize: &one}).Extract())
	await(t, clusterStatus(t, c, id), nil, "UPDATE_COMPLETE")

	// A node group of its own resource.
	zero, most := 0, 4
	group := ok[*nodegroups.NodeGroup](t)(nodegroups.Create(ctx, infra(carafe.URL, "1.10"), id, nodegroups.CreateOpts{Name: "tf", NodeCount: &zero, MinNodeCount: 0, MaxNodeCount: &most, Role: "worker"}).Extract()).UUID
	await(t, groupStatus(t, groups, id, group), []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE")
	await(t, clusterStatus(t, c, id), nil, "UPDATE_COMPLETE")
	ok[*nodegroups.NodeGroup](t)(nodegroups.Update(ctx, groups, id, group, []nodegroups.UpdateOptsBuilder{
		nodegroups.UpdateOpts{Op: nodegroups.ReplaceOp, Path: "/max_node_count", Value: 3},
	}).Extract())
	nodes = 2
	ok[string](t)(clusters.Resize(ctx, groups, id, clusters.ResizeOpts{NodeCount: &nodes, NodeGroup: group}).Extract())
	await(t, groupStatus(t, groups, id, group), []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	if err := nodegroups.Delete(ctx, groups, id, group).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	await(t, groupStatus(t, groups, id, group), []string{"DELETE_IN_PROGRESS"}, "gone")

	if err := clusters.Delete(ctx, c, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	await(t, clusterStatus(t, c, id), nil, "gone")
	for _, id := range []string{template.UUID, next.UUID} {
		if err := clustertemplates.Delete(ctx, c, id).ExtractErr(); err != nil {
			t.Error(err)
		}
	}
}

// TestGophercloud calls what is left of the module's package.
func TestGophercloud(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	ctx := t.Context()
	c := infra(carafe.URL, "latest")
	for _, name := range []string{"gc-a", "gc-b", "gc-c"} {
		ok[*clustertemplates.ClusterTemplate](t)(clustertemplates.Create(ctx, c, clustertemplates.CreateOpts{Name: name, COE: "kubernetes", ImageID: "ubuntu", ExternalNetworkID: "public"}).Extract())
		// A name that is not set is sent as "".
		id := ok[string](t)(clusters.Create(ctx, c, clusters.CreateOpts{Name: name, ClusterTemplateID: name}).Extract())
		await(t, clusterStatus(t, c, id), []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE")
	}
	pages, err := clusters.List(c, clusters.ListOpts{Limit: 1, SortKey: "name", SortDir: "desc"}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := ok[[]clusters.Cluster](t)(clusters.ExtractClusters(pages))
	if len(all) != 3 || all[0].Name != "gc-c" || all[2].Name != "gc-a" {
		t.Errorf("page by page there are %d clusters: %+v", len(all), all)
	}
	pages, err = clusters.ListDetail(c, clusters.ListOpts{}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if all = ok[[]clusters.Cluster](t)(clusters.ExtractClusters(pages)); len(all) != 3 || all[0].APIAddress == "" || all[0].CreatedAt.IsZero() {
		t.Errorf("the detailed list is %+v", all)
	}
	pages, err = clustertemplates.List(c, clustertemplates.ListOpts{Limit: 2}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if l := ok[[]clustertemplates.ClusterTemplate](t)(clustertemplates.ExtractClusterTemplates(pages)); len(l) != 3 {
		t.Errorf("%d templates", len(l))
	}
	// The answer to a rotation is decoded: it has a body.
	if err := certificates.Update(ctx, c, "gc-a").ExtractErr(); err != nil {
		t.Errorf("rotation: %v", err)
	}
	await(t, clusterStatus(t, c, "gc-a"), []string{"UPDATE_IN_PROGRESS"}, "UPDATE_COMPLETE")
	q := ok[*quotas.Quotas](t)(quotas.Create(ctx, admin(c), quotas.CreateOpts{ProjectID: "somebody", Resource: "Cluster", HardLimit: 7}).Extract())
	if q.HardLimit != 7 || q.ID == "" || q.CreatedAt.IsZero() {
		t.Errorf("the quota reads %+v", q)
	}
	err = clusters.Delete(ctx, c, "nobody").ExtractErr()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) || !strings.Contains(err.Error(), "Cluster nobody could not be found") {
		t.Errorf("deleting nothing: %v", err)
	}
	for _, name := range []string{"gc-a", "gc-b", "gc-c"} {
		if err := clusters.Delete(ctx, c, name).ExtractErr(); err != nil {
			t.Error(err)
		}
	}
}

// admin is the client of an admin, where identity comes from headers.
func admin(c *gophercloud.ServiceClient) *gophercloud.ServiceClient {
	a := *c
	a.MoreHeaders = map[string]string{"X-Roles": "admin,member,reader"}
	return &a
}
