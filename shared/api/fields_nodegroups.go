package api

import "carafe/shared/magnum"

// nodeGroupFields are the attributes of a node group in the order of
// spec/api.md §4.3.1.
var nodeGroupFields = []Field{
	{Name: "id", Type: Int, Min: 1, Ignored: true}, // B58
	{Name: "uuid", Type: UUID, Ignored: true, Short: true},
	{Name: "name", Type: String, Min: 1, Max: 255, Pattern: namePattern, Mandatory: true, Null: NullMandatory, Short: true, // B55, B57
		Doc: "Unique in its cluster."},
	{Name: "cluster_id", Type: UUID, Ignored: true},
	{Name: "project_id", Type: Text, ReadOnly: true},
	{Name: "docker_volume_size", Type: Int, Min: 1, Doc: "GB; the cluster's if absent."},
	{Name: "labels", Type: Labels, Doc: "The cluster's if absent."},
	{Name: "links", Type: LinkList, ReadOnly: true},
	{Name: "flavor_id", Type: String, Min: 1, Max: 255, Short: true},
	{Name: "image_id", Type: String, Min: 1, Max: 255, Short: true},
	{Name: "node_addresses", Type: StringList, ReadOnly: true},
	{Name: "node_count", Type: Int, Default: 1, Null: NullDefault, Short: true},                       // B57
	{Name: "role", Type: String, Min: 1, Max: 255, Default: "worker", Null: NullDefault, Short: true}, // B57
	{Name: "min_node_count", Type: Int, Default: 0, Null: NullDefault, Short: true},                   // B57
	{Name: "max_node_count", Type: Int, Short: true, Doc: "null and 0 are no limit."},
	{Name: "is_default", Type: Bool, Ignored: true, Short: true}, // B58
	{Name: "stack_id", Type: Text, ReadOnly: true, Short: true},
	{Name: "status", Type: Enum, Enum: statusNames(magnum.Statuses), Ignored: true, Short: true}, // B58
	{Name: "status_reason", Type: Text, Ignored: true},                                           // B58
	{Name: "version", Type: Text, Ignored: true},                                                 // B58
	{Name: "merge_labels", Type: Bool, Default: false, Null: NullDefault, Short: true, // B53
		Doc: "Lays the labels over the cluster's. Always false in answers."},
	{Name: "labels_overridden", Type: Labels, Ignored: true},
	{Name: "labels_added", Type: Labels, Ignored: true},
	{Name: "labels_skipped", Type: Labels, Ignored: true},
	{Name: "node_labels", Type: StringMap, Since: 14, Doc: "Kubernetes labels of the nodes."},      // B56
	{Name: "node_taints", Type: MapList, Since: 14, Doc: "Kubernetes taints: key, value, effect."}, // B56
	{Name: "created_at", Type: Timestamp, ReadOnly: true},
	{Name: "updated_at", Type: Timestamp, ReadOnly: true},
}

// NodeGroupCreate is the body of POST …/nodegroups.
var NodeGroupCreate = newBody("nodegroup", "NodeGroup", nodeGroupFields)

// NodeGroupPatch is the body of PATCH …/nodegroups/{ident}.
var NodeGroupPatch = newPatch(nodeGroupFields, patchRules{
	internal: []string{"/name", "/cluster_id", "/project_id", "/docker_volume_size", "/labels", "/flavor_id",
		"/image_id", "/node_addresses", "/node_count", "/role", "/is_default", "/stack_id", "/status",
		"/status_reason", "/version"},
})

// NodeGroupSortKeys are the columns that a list of node groups may be sorted by.
var NodeGroupSortKeys = sortKeys(nodeGroupFields, "links", "merge_labels", "labels_overridden", "labels_added", "labels_skipped")
