package api

import "carafe/shared/magnum"

// namePattern holds for clusters and federations (magnum/api/validation.py),
// and for node groups (B55). Unlike Python's, Go's $ takes no final newline (B29).
var namePattern = newPattern(`^[a-zA-Z][a-zA-Z0-9_.-]*$`, `^[a-zA-Z][a-zA-Z0-9_.-]*$`)

func statusNames(of []magnum.Status) []string {
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = string(s)
	}
	return names
}

func healthNames() []string {
	names := make([]string, len(magnum.HealthStatuses))
	for i, s := range magnum.HealthStatuses {
		names[i] = string(s)
	}
	return names
}

// clusterFields are the attributes of a cluster in the order of spec/api.md §4.2.1.
var clusterFields = []Field{
	{Name: "uuid", Type: UUID, Ignored: true, Short: true},
	{Name: "name", Type: String, Min: 1, Max: 242, Pattern: namePattern, Null: NullDefault, Short: true,
		Doc: "Need not be unique; invented if absent."},
	{Name: "cluster_template_id", Type: Text, Mandatory: true, Short: true,
		Doc: "UUID or name of the template; always the UUID in answers."},
	{Name: "keypair", Type: String, Min: 1, Max: 255, Short: true, Doc: "Nova key pair; the template's if absent."},
	{Name: "node_count", Type: Int, Null: NullDefault, Default: 1, Short: true, // B28
		Doc: "Workers. In answers the sum over all worker node groups, in a PATCH the size of the default one."},
	{Name: "master_count", Type: Int, Min: 1, Null: NullDefault, Default: 1, Short: true, // B28
		Doc: "Control plane nodes; an odd number."},
	{Name: "docker_volume_size", Type: Int, Min: 1, Short: true, Doc: "GB; the template's if absent."},
	{Name: "labels", Type: Labels, Short: true, Doc: "The template's if absent or empty."},
	{Name: "master_flavor_id", Type: String, Min: 1, Max: 255, Short: true},
	{Name: "flavor_id", Type: String, Min: 1, Max: 255, Short: true},
	{Name: "create_timeout", Type: Int, Default: 60, Short: true, Doc: "Minutes; 0 and null are no limit."},
	{Name: "links", Type: LinkList, ReadOnly: true, Short: true},
	{Name: "stack_id", Type: Text, ReadOnly: true, Short: true, Until: 12, Doc: "The driver's own name for the cluster."},
	{Name: "cluster_id", Type: Text, ReadOnly: true, Short: true, Since: 13, Doc: "The driver's own name for the cluster."},
	{Name: "status", Type: Enum, Enum: statusNames(magnum.Statuses), Ignored: true, Short: true},
	{Name: "status_reason", Type: Text, Ignored: true},
	{Name: "health_status", Type: Enum, Enum: healthNames(), Ignored: true, Short: true},
	{Name: "health_status_reason", Type: StringMap, Ignored: true},
	{Name: "discovery_url", Type: Text},
	{Name: "api_address", Type: Text, ReadOnly: true},
	{Name: "coe_version", Type: Text, ReadOnly: true},
	{Name: "container_version", Type: Text, ReadOnly: true},
	{Name: "project_id", Type: Text, ReadOnly: true},
	{Name: "user_id", Type: Text, ReadOnly: true},
	{Name: "node_addresses", Type: StringList, ReadOnly: true},
	{Name: "master_addresses", Type: StringList, ReadOnly: true},
	{Name: "faults", Type: StringMap, Ignored: true, Doc: "Reason by node group; only while the cluster's status is a failure."},
	{Name: "fixed_network", Type: String, Min: 1, Max: 255},
	{Name: "fixed_subnet", Type: String, Min: 1, Max: 255},
	{Name: "floating_ip_enabled", Type: Bool},
	{Name: "merge_labels", Type: Bool, Default: false, Null: NullDefault, Short: true, // B53
		Doc: "Lays the labels over the template's. Always false in answers."},
	{Name: "labels_overridden", Type: Labels, Ignored: true, Doc: "The template's values of labels that the cluster changes."},
	{Name: "labels_added", Type: Labels, Ignored: true, Doc: "Labels that only the cluster has."},
	{Name: "labels_skipped", Type: Labels, Ignored: true, Doc: "Labels that only the template has."},
	{Name: "master_lb_enabled", Type: Bool},
	{Name: "created_at", Type: Timestamp, ReadOnly: true},
	{Name: "updated_at", Type: Timestamp, ReadOnly: true},
}

// ClusterCreate is the body of POST /v1/clusters.
var ClusterCreate = newBody("cluster", "Cluster", clusterFields)

// ClusterPatch is the body of PATCH /v1/clusters/{ident}. What may really be
// changed, the handler says: node_count, health_status, health_status_reason.
var ClusterPatch = newPatch(clusterFields, patchRules{
	internal: []string{"/api_address", "/node_addresses", "/master_addresses", "/stack_id", "/cluster_id",
		"/ca_cert_ref", "/magnum_cert_ref", "/etcd_ca_cert_ref", "/front_proxy_ca_cert_ref"},
	mandatory: []string{"/cluster_template_id"},
	// B47: what a removed attribute becomes is said by its Default.
})

// ResizeRequest is the body of POST …/actions/resize.
var ResizeRequest = newBody("cluster_resize_req", "ClusterResizeRequest", []Field{
	{Name: "node_count", Type: Int, Mandatory: true, Null: NullMandatory}, // B72
	{Name: "nodes_to_remove", Type: StringList, Doc: "The driver's ids of the nodes that must go."},
	{Name: "nodegroup", Type: String, Min: 1, Max: 255, Doc: "UUID or name; the default worker group if absent."},
})

// UpgradeRequest is the body of POST …/actions/upgrade.
var UpgradeRequest = newBody("cluster_upgrade_req", "ClusterUpgradeRequest", []Field{
	{Name: "max_batch_size", Type: Int, Min: 1, Null: NullDefault, Default: 1}, // B69
	{Name: "nodegroup", Type: String, Min: 1, Max: 255, Doc: "UUID or name; the default worker group if absent."},
	{Name: "cluster_template", Type: String, Min: 1, Max: 255, Mandatory: true, Null: NullMandatory, // B70
		Doc: "UUID or name."},
})

// ClusterSortKeys are the columns that a list of clusters may be sorted by.
var ClusterSortKeys = []string{
	"id", "uuid", "name", "project_id", "user_id", "cluster_template_id", "keypair", "docker_volume_size", "labels",
	"master_flavor_id", "flavor_id", "stack_id", "api_address", "status", "status_reason", "health_status",
	"health_status_reason", "create_timeout", "discovery_url", "coe_version", "container_version", "ca_cert_ref",
	"magnum_cert_ref", "etcd_ca_cert_ref", "front_proxy_ca_cert_ref", "fixed_network", "fixed_subnet",
	"floating_ip_enabled", "master_lb_enabled", "created_at", "updated_at",
}
