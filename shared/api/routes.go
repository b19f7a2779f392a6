package api

import (
	"net/http"

	"carafe/shared/magnum"
)

// Route is one operation of the API. Routes is the whole surface on one
// screen; routing, 404, 405, 406, query parameters and the OpenAPI document
// follow from it.
type Route struct {
	Operation string // the key of its handler; also what T5 calls it
	Function  string // the folder under functions/ that serves it
	Method    string
	Path      string // behind /v1; names of parameters are Magnum's argument names
	// Also is a longer path of the same operation. Its last segment is the
	// query parameter of that name.
	Also string
	// Min and Max are the minor versions that have the route; 0 is no limit.
	Min, Max int
	// Rules are the policy rules that the handler asks, in order.
	Rules []string
	Query []Param
	// SortKeys are those of a list; the handler gives the same to ParsePage.
	SortKeys []string
	Body     *Body
	Patch    *PatchBody
	// Idempotent operations take an Idempotency-Key.
	Idempotent bool
	// Status is that of success; Answer names the schema of its body.
	Status  int
	Answer  string
	Summary string
}

// Param is a query parameter.
type Param struct {
	Name      string
	Type      Type // Text, Int, Bool, UUID, Enum, Timestamp
	Enum      []string
	Since     int // minor version; 0 is all
	Mandatory bool
	Min       int // characters of a Text
	Doc       string
}

var (
	pageParams = []Param{
		{Name: "marker", Type: UUID, Doc: "The last object of the page before."},
		{Name: "limit", Type: Int, Doc: "Objects in a page."},
		{Name: "sort_key", Type: Text, Doc: "A column; id if absent."},
		{Name: "sort_dir", Type: Text, Doc: "asc or desc."},
	}
	clusterFilters = []Param{
		{Name: "status", Type: Enum, Enum: statusNames(magnum.Statuses)},
		{Name: "name", Type: Text, Min: 1},
		{Name: "cluster_template_id", Type: UUID, Doc: "UUID of the template."},
		{Name: "health_status", Type: Enum, Enum: healthNames()},
		{Name: "changed-since", Type: Timestamp, Doc: "Only what was made or changed at or after this time (ISO 8601)."},
	}
	dryRun   = Param{Name: "dry_run", Type: Bool, Doc: "Check everything, store nothing, answer what would be applied."}
	rollback = Param{Name: "rollback", Type: Bool, Since: 3, Doc: "Go back if the update fails."}
)

func params(groups ...[]Param) (all []Param) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// Special paths: they are not behind /v1.
const (
	rootPath   = "/"
	v1Path     = "/v1"
	healthPath = "/healthcheck"
)

// Routes are all operations (spec/api.md part 4), and Carafe's own: the
// operations and events of a cluster, and the description of the API.
var Routes = []Route{
	{Operation: "version_list", Function: "discovery", Method: http.MethodGet, Path: rootPath, Status: 200, Answer: "VersionList", Summary: "List the versions of the API"},
	{Operation: "version_show", Function: "discovery", Method: http.MethodGet, Path: v1Path, Status: 200, Answer: "V1", Summary: "List the resources of v1"},
	{Operation: "openapi_show", Function: "discovery", Method: http.MethodGet, Path: "/openapi.json", Status: 200, Answer: "Any", Summary: "Describe the API"},

	{Operation: "clustertemplate_list", Function: "clustertemplates", Method: http.MethodGet, Path: "/clustertemplates", Rules: []string{"clustertemplate:get_all", "clustertemplate:get_all_all_projects"}, Query: pageParams, SortKeys: ClusterTemplateSortKeys, Status: 200, Answer: "ClusterTemplateList", Summary: "List cluster templates"},
	{Operation: "clustertemplate_detail", Function: "clustertemplates", Method: http.MethodGet, Path: "/clustertemplates/detail", Rules: []string{"clustertemplate:detail", "clustertemplate:detail_all_projects"}, Query: pageParams, SortKeys: ClusterTemplateSortKeys, Status: 200, Answer: "ClusterTemplateList", Summary: "List cluster templates with all attributes"},
	{Operation: "clustertemplate_show", Function: "clustertemplates", Method: http.MethodGet, Path: "/clustertemplates/{cluster_template_ident}", Rules: []string{"clustertemplate:get_one_all_projects", "clustertemplate:get"}, Status: 200, Answer: "ClusterTemplate", Summary: "Show a cluster template"},
	{Operation: "clustertemplate_create", Function: "clustertemplates", Method: http.MethodPost, Path: "/clustertemplates", Rules: []string{"clustertemplate:create", "clustertemplate:publish"}, Body: ClusterTemplateCreate, Status: 201, Answer: "ClusterTemplate", Summary: "Create a cluster template"},
	{Operation: "clustertemplate_update", Function: "clustertemplates", Method: http.MethodPatch, Path: "/clustertemplates/{cluster_template_ident}", Rules: []string{"clustertemplate:update_all_projects", "clustertemplate:update", "clustertemplate:publish"}, Patch: ClusterTemplatePatch, Status: 200, Answer: "ClusterTemplate", Summary: "Update a cluster template"},
	{Operation: "clustertemplate_delete", Function: "clustertemplates", Method: http.MethodDelete, Path: "/clustertemplates/{cluster_template_ident}", Rules: []string{"clustertemplate:delete_all_projects", "clustertemplate:delete"}, Status: 204, Summary: "Delete a cluster template"},

	{Operation: "cluster_list", Function: "clusters", Method: http.MethodGet, Path: "/clusters", Rules: []string{"cluster:get_all", "cluster:get_all_all_projects"}, Query: params(pageParams, clusterFilters), SortKeys: ClusterSortKeys, Status: 200, Answer: "ClusterList", Summary: "List clusters"},
	{Operation: "cluster_detail", Function: "clusters", Method: http.MethodGet, Path: "/clusters/detail", Rules: []string{"cluster:detail", "cluster:detail_all_projects"}, Query: params(pageParams, clusterFilters), SortKeys: ClusterSortKeys, Status: 200, Answer: "ClusterDetailList", Summary: "List clusters with all attributes"},
	{Operation: "cluster_show", Function: "clusters", Method: http.MethodGet, Path: "/clusters/{cluster_ident}", Rules: []string{"cluster:get_one_all_projects", "cluster:get"}, Status: 200, Answer: "Cluster", Summary: "Show a cluster"},
	{Operation: "cluster_create", Function: "clusters", Method: http.MethodPost, Path: "/clusters", Rules: []string{"cluster:create"}, Query: []Param{dryRun}, Body: ClusterCreate, Idempotent: true, Status: 202, Answer: "Accepted", Summary: "Create a cluster"},
	{Operation: "cluster_update", Function: "clusters", Method: http.MethodPatch, Path: "/clusters/{cluster_ident}", Also: "/clusters/{cluster_ident}/{rollback}", Rules: []string{"cluster:update_all_projects", "cluster:update", "cluster:update_health_status"}, Query: []Param{rollback, dryRun}, Patch: ClusterPatch, Idempotent: true, Status: 202, Answer: "Accepted", Summary: "Change the number of nodes or report health"},
	{Operation: "cluster_delete", Function: "clusters", Method: http.MethodDelete, Path: "/clusters/{cluster_ident}", Rules: []string{"cluster:delete_all_projects", "cluster:delete"}, Status: 204, Summary: "Delete a cluster"},
	{Operation: "cluster_operations", Function: "clusters", Method: http.MethodGet, Path: "/clusters/{cluster_ident}/operations", Rules: []string{"cluster:get_one_all_projects", "cluster:get"}, Query: pageParams[:2], Status: 200, Answer: "OperationList", Summary: "List what was done to a cluster, newest first"},
	{Operation: "cluster_events", Function: "clusters", Method: http.MethodGet, Path: "/clusters/{cluster_ident}/events", Rules: []string{"cluster:get_one_all_projects", "cluster:get"}, Query: pageParams[:2], Status: 200, Answer: "EventList", Summary: "List the events of a cluster, newest first"},

	{Operation: "cluster_resize", Function: "actions", Method: http.MethodPost, Path: "/clusters/{cluster_ident}/actions/resize", Min: 7, Rules: []string{"cluster:resize_all_projects", "cluster:resize"}, Body: ResizeRequest, Status: 202, Answer: "Accepted", Summary: "Set the size of a node group"},
	{Operation: "cluster_upgrade", Function: "actions", Method: http.MethodPost, Path: "/clusters/{cluster_ident}/actions/upgrade", Min: 7, Rules: []string{"cluster:upgrade_all_projects", "cluster:upgrade"}, Body: UpgradeRequest, Status: 202, Answer: "Accepted", Summary: "Move a cluster to another template; always refused at 1.7"},

	{Operation: "nodegroup_list", Function: "nodegroups", Method: http.MethodGet, Path: "/clusters/{cluster_id}/nodegroups", Min: 9, Rules: []string{"nodegroup:get_all", "nodegroup:get_all_all_projects"}, Query: params(pageParams, []Param{{Name: "role", Type: Text}}), SortKeys: NodeGroupSortKeys, Status: 200, Answer: "NodeGroupList", Summary: "List the node groups of a cluster"},
	{Operation: "nodegroup_show", Function: "nodegroups", Method: http.MethodGet, Path: "/clusters/{cluster_id}/nodegroups/{nodegroup_id}", Min: 9, Rules: []string{"nodegroup:get", "nodegroup:get_one_all_projects"}, Status: 200, Answer: "NodeGroup", Summary: "Show a node group"},
	{Operation: "nodegroup_create", Function: "nodegroups", Method: http.MethodPost, Path: "/clusters/{cluster_id}/nodegroups", Min: 9, Rules: []string{"nodegroup:create", "nodegroup:create_all_projects"}, Query: []Param{dryRun}, Body: NodeGroupCreate, Idempotent: true, Status: 202, Answer: "NodeGroup", Summary: "Create a node group"},
	{Operation: "nodegroup_update", Function: "nodegroups", Method: http.MethodPatch, Path: "/clusters/{cluster_id}/nodegroups/{nodegroup_id}", Min: 9, Rules: []string{"nodegroup:update", "nodegroup:update_all_projects"}, Query: []Param{dryRun}, Patch: NodeGroupPatch, Status: 202, Answer: "NodeGroup", Summary: "Update the limits, labels or taints of a node group"},
	{Operation: "nodegroup_delete", Function: "nodegroups", Method: http.MethodDelete, Path: "/clusters/{cluster_id}/nodegroups/{nodegroup_id}", Min: 9, Rules: []string{"nodegroup:delete", "nodegroup:delete_all_projects"}, Status: 204, Summary: "Delete a node group"},

	{Operation: "certificate_show", Function: "certificates", Method: http.MethodGet, Path: "/certificates/{cluster_ident}", Also: "/certificates/{cluster_ident}/{ca_cert_type}", Rules: []string{"certificate:get_one_all_projects", "certificate:get"}, Query: []Param{{Name: "ca_cert_type", Type: Text, Doc: "kubernetes, kubelet, etcd or front-proxy."}}, Status: 200, Answer: "Certificate", Summary: "Show a certificate authority of a cluster"},
	{Operation: "certificate_create", Function: "certificates", Method: http.MethodPost, Path: "/certificates", Rules: []string{"certificate:create_all_projects", "certificate:create"}, Body: CertificateCreate, Status: 201, Answer: "Certificate", Summary: "Sign a certificate"},
	{Operation: "certificate_rotate", Function: "certificates", Method: http.MethodPatch, Path: "/certificates/{cluster_ident}", Rules: []string{"certificate:rotate_ca_all_projects", "certificate:rotate_ca"}, Query: []Param{{Name: "leaf", Type: Bool, Doc: "Keep the authorities, and renew what they have signed for the control plane."}}, Status: 202, Answer: "Accepted", Summary: "Rotate the certificate authorities of a cluster, or renew its certificates"},

	{Operation: "credential_rotate", Function: "credentials", Method: http.MethodPatch, Path: "/credentials/{cluster_ident}", Min: 12, Rules: []string{"credential:rotate_all_projects", "credential:rotate"}, Status: 202, Answer: "Accepted", Summary: "Rotate the credential of a cluster"},

	{Operation: "quota_list", Function: "quotas", Method: http.MethodGet, Path: "/quotas", Rules: []string{"quota:get_all"}, Query: params([]Param{{Name: "marker", Type: Int, Doc: "The id of the last quota of the page before."}}, pageParams[1:], []Param{{Name: "all_tenants", Type: Bool}}), SortKeys: QuotaSortKeys, Status: 200, Answer: "QuotaList", Summary: "List quotas"},
	{Operation: "quota_show", Function: "quotas", Method: http.MethodGet, Path: "/quotas/{project_id}/{resource}", Rules: []string{"quota:get"}, Status: 200, Answer: "Quota", Summary: "Show a quota"},
	{Operation: "quota_create", Function: "quotas", Method: http.MethodPost, Path: "/quotas", Rules: []string{"quota:create"}, Body: QuotaCreate, Status: 201, Answer: "Quota", Summary: "Create a quota"},
	{Operation: "quota_update", Function: "quotas", Method: http.MethodPatch, Path: "/quotas/{project_id}/{resource}", Rules: []string{"quota:update"}, Body: QuotaUpdate, Status: 202, Answer: "Quota", Summary: "Update a quota"},
	{Operation: "quota_delete", Function: "quotas", Method: http.MethodDelete, Path: "/quotas/{project_id}/{resource}", Rules: []string{"quota:delete"}, Status: 204, Summary: "Delete a quota"},
	{Operation: "quota_delete_named", Function: "quotas", Method: http.MethodDelete, Path: "/quotas", Rules: []string{"quota:delete"}, Query: []Param{{Name: "project_id", Type: Text, Mandatory: true}, {Name: "resource", Type: Text, Mandatory: true}}, Status: 204, Summary: "Delete the quota that the query, or a JSON body, names"},

	{Operation: "stats_show", Function: "stats", Method: http.MethodGet, Path: "/stats", Rules: []string{"stats:get_all"}, Query: []Param{{Name: "project_id", Type: Text}, {Name: "type", Type: Text, Doc: "cluster"}}, Status: 200, Answer: "Stats", Summary: "Count clusters and nodes"},

	{Operation: "service_list", Function: "services", Method: http.MethodGet, Path: "/mservices", Rules: []string{"magnum-service:get_all"}, Status: 200, Answer: "ServiceList", Summary: "List the parts of the service and whether they are alive"},

	{Operation: "federation_list", Function: "federations", Method: http.MethodGet, Path: "/federations", Rules: []string{"federation:get_all"}, Query: pageParams, SortKeys: FederationSortKeys, Status: 200, Answer: "FederationList", Summary: "List federations"},
	{Operation: "federation_detail", Function: "federations", Method: http.MethodGet, Path: "/federations/detail", Rules: []string{"federation:detail"}, Query: pageParams, SortKeys: FederationSortKeys, Status: 200, Answer: "FederationDetailList", Summary: "List federations with all attributes"},
	{Operation: "federation_show", Function: "federations", Method: http.MethodGet, Path: "/federations/{federation_ident}", Rules: []string{"federation:get"}, Status: 200, Answer: "Federation", Summary: "Show a federation"},
	{Operation: "federation_create", Function: "federations", Method: http.MethodPost, Path: "/federations", Rules: []string{"federation:create"}, Body: FederationCreate, Status: 202, Answer: "Accepted", Summary: "Create a federation"},
	{Operation: "federation_update", Function: "federations", Method: http.MethodPatch, Path: "/federations/{federation_ident}", Rules: []string{"federation:update"}, Query: []Param{{Name: "rollback", Type: Bool}}, Patch: FederationPatch, Status: 202, Answer: "Accepted", Summary: "Update a federation"},
	{Operation: "federation_delete", Function: "federations", Method: http.MethodDelete, Path: "/federations/{federation_ident}", Rules: []string{"federation:delete"}, Status: 204, Summary: "Delete a federation"},
}

// closedPaths exist, but nothing is allowed there: Magnum answers 405 and not
// 404 (recorded).
var closedPaths = map[string]string{ // path: function
	"/clusters/{cluster_ident}/actions":          "actions",
	"/clusters/{cluster_ident}/actions/{action}": "actions",
	"/stats/{ident}":                             "stats",
	"/mservices/{ident}":                         "services",
}

// noAllow is the function whose 405 names no method: Magnum's controller of
// the actions has no REST methods of its own, and so its Allow is empty.
const noAllow = "actions"

// serves reports whether the route exists in a version.
func (r *Route) serves(v Version) bool {
	return v.Minor >= r.Min && (r.Max == 0 || v.Minor <= r.Max)
}
