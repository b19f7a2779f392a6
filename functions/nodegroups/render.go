package nodegroups

import (
	"context"

	"carafe/shared/api"
	"carafe/shared/magnum"
)

// listed is a group in a list, with its real bounds (B54).
type listed struct {
	UUID         string        `json:"uuid"`
	Name         string        `json:"name"`
	FlavorID     *string       `json:"flavor_id"`
	ImageID      *string       `json:"image_id"`
	NodeCount    int           `json:"node_count"`
	Role         string        `json:"role"`
	MinNodeCount int           `json:"min_node_count"`
	MaxNodeCount *int          `json:"max_node_count"`
	IsDefault    bool          `json:"is_default"`
	StackID      *string       `json:"stack_id"`
	Status       magnum.Status `json:"status"`
	MergeLabels  bool          `json:"merge_labels"` // always false, kept for clients (B53)
}

func listedOf(n magnum.NodeGroup) listed {
	return listed{UUID: n.UUID, Name: n.Name, FlavorID: n.FlavorID, ImageID: n.ImageID, NodeCount: n.NodeCount, Role: n.Role,
		MinNodeCount: n.MinNodeCount, MaxNodeCount: n.MaxNodeCount, IsDefault: n.IsDefault, StackID: n.StackID, Status: n.Status}
}

// full is a group in every other answer (spec/api.md §4.3.1). node_labels and
// node_taints belong to 1.14 (B56).
type full struct {
	ID               int64                `json:"id"`
	UUID             string               `json:"uuid"`
	Name             string               `json:"name"`
	ClusterID        string               `json:"cluster_id"`
	ProjectID        string               `json:"project_id"`
	DockerVolumeSize *int                 `json:"docker_volume_size"`
	Labels           map[string]string    `json:"labels"`
	Links            []api.Link           `json:"links"`
	FlavorID         *string              `json:"flavor_id"`
	ImageID          *string              `json:"image_id"`
	NodeAddresses    []string             `json:"node_addresses"`
	NodeCount        int                  `json:"node_count"`
	Role             string               `json:"role"`
	MinNodeCount     int                  `json:"min_node_count"`
	MaxNodeCount     *int                 `json:"max_node_count"`
	IsDefault        bool                 `json:"is_default"`
	StackID          *string              `json:"stack_id"`
	Status           magnum.Status        `json:"status"`
	StatusReason     *string              `json:"status_reason"`
	Version          *string              `json:"version"`
	MergeLabels      bool                 `json:"merge_labels"`
	LabelsOverridden map[string]string    `json:"labels_overridden"`
	LabelsAdded      map[string]string    `json:"labels_added"`
	LabelsSkipped    map[string]string    `json:"labels_skipped"`
	NodeLabels       *map[string]string   `json:"node_labels,omitempty"`
	NodeTaints       *[]map[string]string `json:"node_taints,omitempty"`
	CreatedAt        api.Time             `json:"created_at"`
	UpdatedAt        *api.Time            `json:"updated_at"`
}

func fullOf(ctx context.Context, n magnum.NodeGroup, clusterLabels map[string]string) full {
	f := full{ID: n.ID, UUID: n.UUID, Name: n.Name, ClusterID: n.ClusterID, ProjectID: n.ProjectID,
		DockerVolumeSize: n.DockerVolumeSize, Labels: n.Labels, Links: api.Links(ctx, "clusters/"+n.ClusterID+"/nodegroups", n.UUID),
		FlavorID: n.FlavorID, ImageID: n.ImageID, NodeAddresses: n.NodeAddresses, NodeCount: n.NodeCount, Role: n.Role,
		MinNodeCount: n.MinNodeCount, MaxNodeCount: n.MaxNodeCount, IsDefault: n.IsDefault, StackID: n.StackID,
		Status: n.Status, StatusReason: n.StatusReason, Version: n.Release,
		CreatedAt: api.Time(n.CreatedAt), UpdatedAt: api.TimeOf(n.UpdatedAt)}
	f.LabelsOverridden, f.LabelsAdded, f.LabelsSkipped = magnum.LabelDifferences(clusterLabels, n.Labels)
	if f.NodeAddresses == nil {
		f.NodeAddresses = []string{}
	}
	if api.VersionOf(ctx).AtLeast(14) {
		if n.NodeLabels == nil {
			n.NodeLabels = map[string]string{}
		}
		if n.NodeTaints == nil {
			n.NodeTaints = []map[string]string{}
		}
		f.NodeLabels, f.NodeTaints = &n.NodeLabels, &n.NodeTaints
	}
	return f
}
