package magnum

// What each kind of operation keeps in Operation.Arguments, as JSON.

// ResizeArguments belong to cluster.resize and to cluster.update of node_count
// (PB-21: a PATCH of node_count is a resize of the default worker group).
type ResizeArguments struct {
	NodeCount         int      `json:"node_count"`
	PreviousNodeCount int      `json:"previous_node_count"`
	NodesToRemove     []string `json:"nodes_to_remove,omitempty"`
	Rollback          bool     `json:"rollback,omitempty"`
}

// UpgradeArguments belong to cluster.upgrade.
type UpgradeArguments struct {
	ClusterTemplateID         string `json:"cluster_template_id"`
	PreviousClusterTemplateID string `json:"previous_cluster_template_id"`
	MaxBatchSize              int    `json:"max_batch_size"`
	// Previous is what the rows had that the upgrade moved; nil: it moved none.
	Previous *UpgradePrevious `json:"previous,omitempty"`
}

// UpgradePrevious are labels and, by uuid, node groups as they were before an upgrade.
type UpgradePrevious struct {
	Labels     map[string]string            `json:"labels"`
	NodeGroups map[string]NodeGroupTemplate `json:"nodegroups"`
}

// NodeGroupTemplate is what a node group has of its template.
type NodeGroupTemplate struct {
	ImageID *string           `json:"image_id"`
	Labels  map[string]string `json:"labels"`
}

// NodeGroupUpdateArguments belong to nodegroup.update.
type NodeGroupUpdateArguments struct {
	Previous NodeGroupSettings `json:"previous"`
}

// NodeGroupSettings are the attributes of a node group that a PATCH may change.
type NodeGroupSettings struct {
	MinNodeCount int                 `json:"min_node_count"`
	MaxNodeCount *int                `json:"max_node_count"`
	NodeLabels   map[string]string   `json:"node_labels"`
	NodeTaints   []map[string]string `json:"node_taints"`
}

// RotateArguments belong to ca.rotate and credential.rotate: the epoch that the
// operation brings in, 0 if it stays.
type RotateArguments struct {
	Epoch int `json:"epoch"`
	// Leaf renews what the authorities in force have signed for the control plane.
	Leaf bool `json:"leaf,omitempty"`
}

// DeleteArguments belong to cluster.delete.
type DeleteArguments struct {
	// Force removes the records although the driver could not delete the
	// cluster: for an admin whose cloud is gone.
	Force bool `json:"force,omitempty"`
}
