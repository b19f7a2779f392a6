package clusters

import (
	"context"

	"carafe/shared/api"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// short is a cluster in a list (spec/api.md §4.2.1). Of stack_id and cluster_id,
// which are the same, each microversion has one.
type short struct {
	UUID              string            `json:"uuid"`
	Name              string            `json:"name"`
	ClusterTemplateID string            `json:"cluster_template_id"`
	Keypair           *string           `json:"keypair"`
	NodeCount         int               `json:"node_count"`
	MasterCount       int               `json:"master_count"`
	DockerVolumeSize  *int              `json:"docker_volume_size"`
	Labels            map[string]string `json:"labels"`
	MasterFlavorID    *string           `json:"master_flavor_id"`
	FlavorID          *string           `json:"flavor_id"`
	CreateTimeout     *int              `json:"create_timeout"`
	Links             []api.Link        `json:"links"`
	StackID           **string          `json:"stack_id,omitempty"`
	ClusterID         **string          `json:"cluster_id,omitempty"`
	Status            *magnum.Status    `json:"status"`
}

type shortEnd struct {
	HealthStatus *magnum.HealthStatus `json:"health_status"`
	MergeLabels  bool                 `json:"merge_labels"` // always false, kept for clients (B53)
}

type listed struct {
	short
	shortEnd
}

// full is a cluster in show and detail.
type full struct {
	short
	StatusReason       *string              `json:"status_reason"`
	HealthStatus       *magnum.HealthStatus `json:"health_status"`
	HealthStatusReason map[string]string    `json:"health_status_reason"`
	DiscoveryURL       *string              `json:"discovery_url"`
	APIAddress         *string              `json:"api_address"`
	COEVersion         *string              `json:"coe_version"`
	ContainerVersion   *string              `json:"container_version"`
	ProjectID          string               `json:"project_id"`
	UserID             string               `json:"user_id"`
	NodeAddresses      []string             `json:"node_addresses"`
	MasterAddresses    []string             `json:"master_addresses"`
	Faults             *map[string]string   `json:"faults,omitempty"`
	FixedNetwork       *string              `json:"fixed_network"`
	FixedSubnet        *string              `json:"fixed_subnet"`
	FloatingIPEnabled  bool                 `json:"floating_ip_enabled"`
	MergeLabels        bool                 `json:"merge_labels"`
	LabelsOverridden   map[string]string    `json:"labels_overridden"`
	LabelsAdded        map[string]string    `json:"labels_added"`
	LabelsSkipped      map[string]string    `json:"labels_skipped"`
	MasterLBEnabled    bool                 `json:"master_lb_enabled"`
	CreatedAt          api.Time             `json:"created_at"`
	UpdatedAt          *api.Time            `json:"updated_at"`
}

func shortOf(ctx context.Context, c *postgres.ClusterRow) short {
	s := short{UUID: c.UUID, Name: c.Name, ClusterTemplateID: c.ClusterTemplateID, Keypair: c.Keypair,
		NodeCount: c.NodeCount, MasterCount: c.MasterCount, DockerVolumeSize: c.DockerVolumeSize, Labels: c.Labels,
		MasterFlavorID: c.MasterFlavorID, FlavorID: c.FlavorID, CreateTimeout: c.CreateTimeout,
		Links: api.Links(ctx, "clusters", c.UUID), Status: &c.Status}
	if api.VersionOf(ctx).AtLeast(13) {
		s.ClusterID = &c.StackID
	} else {
		s.StackID = &c.StackID
	}
	return s
}

func listedOf(ctx context.Context, c *postgres.ClusterRow) listed {
	return listed{shortOf(ctx, c), shortEnd{HealthStatus: health(c)}}
}

func fullOf(ctx context.Context, c *postgres.ClusterRow) full {
	f := full{short: shortOf(ctx, c), StatusReason: c.StatusReason, HealthStatus: health(c),
		HealthStatusReason: c.HealthStatusReason, DiscoveryURL: c.DiscoveryURL, APIAddress: c.APIAddress,
		COEVersion: c.COEVersion, ContainerVersion: c.ContainerVersion, ProjectID: c.ProjectID, UserID: c.UserID,
		NodeAddresses: c.NodeAddresses, MasterAddresses: c.MasterAddresses, FixedNetwork: c.FixedNetwork,
		FixedSubnet: c.FixedSubnet, FloatingIPEnabled: c.FloatingIPEnabled, MasterLBEnabled: c.MasterLBEnabled,
		CreatedAt: api.Time(c.CreatedAt), UpdatedAt: api.TimeOf(c.UpdatedAt)}
	f.LabelsOverridden, f.LabelsAdded, f.LabelsSkipped = magnum.LabelDifferences(c.TemplateLabels, c.Labels)
	if c.Status.Failed() { // in detail too (B52)
		f.Faults = &c.Faults
	}
	return f
}

func health(c *postgres.ClusterRow) *magnum.HealthStatus {
	if c.HealthStatus == "" {
		return nil
	}
	return &c.HealthStatus
}
