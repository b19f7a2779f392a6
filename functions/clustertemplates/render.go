package clustertemplates

import (
	"context"

	"carafe/shared/api"
	"carafe/shared/magnum"
)

// template is a template in every answer (spec/api.md §4.1.1).
type template struct {
	UUID                string            `json:"uuid"`
	Name                string            `json:"name"`
	COE                 string            `json:"coe"`
	ImageID             string            `json:"image_id"`
	FlavorID            *string           `json:"flavor_id"`
	MasterFlavorID      *string           `json:"master_flavor_id"`
	DNSNameserver       *string           `json:"dns_nameserver"`
	KeypairID           *string           `json:"keypair_id"`
	ExternalNetworkID   *string           `json:"external_network_id"`
	FixedNetwork        *string           `json:"fixed_network"`
	FixedSubnet         *string           `json:"fixed_subnet"`
	NetworkDriver       *string           `json:"network_driver"`
	APIServerPort       *int              `json:"apiserver_port"`
	DockerVolumeSize    *int              `json:"docker_volume_size"`
	ClusterDistro       *string           `json:"cluster_distro"`
	Links               []api.Link        `json:"links"`
	HTTPProxy           *string           `json:"http_proxy"`
	HTTPSProxy          *string           `json:"https_proxy"`
	NoProxy             *string           `json:"no_proxy"`
	VolumeDriver        *string           `json:"volume_driver"`
	RegistryEnabled     bool              `json:"registry_enabled"`
	Labels              map[string]string `json:"labels"`
	TLSDisabled         bool              `json:"tls_disabled"`
	Public              bool              `json:"public"`
	ServerType          string            `json:"server_type"`
	InsecureRegistry    *string           `json:"insecure_registry"`
	DockerStorageDriver *string           `json:"docker_storage_driver"`
	MasterLBEnabled     bool              `json:"master_lb_enabled"`
	FloatingIPEnabled   bool              `json:"floating_ip_enabled"`
	ProjectID           string            `json:"project_id"`
	UserID              string            `json:"user_id"`
	Hidden              bool              `json:"hidden"`
	Tags                *string           `json:"tags"`
	Driver              *string           `json:"driver"`
	CreatedAt           api.Time          `json:"created_at"`
	UpdatedAt           *api.Time         `json:"updated_at"`
}

func templateOf(ctx context.Context, t magnum.ClusterTemplate) template {
	return template{
		UUID: t.UUID, Name: t.Name, COE: t.COE, ImageID: t.ImageID, FlavorID: t.FlavorID, MasterFlavorID: t.MasterFlavorID,
		DNSNameserver: t.DNSNameserver, KeypairID: t.KeypairID, ExternalNetworkID: t.ExternalNetworkID,
		FixedNetwork: t.FixedNetwork, FixedSubnet: t.FixedSubnet, NetworkDriver: t.NetworkDriver,
		APIServerPort: t.APIServerPort, DockerVolumeSize: t.DockerVolumeSize, ClusterDistro: t.ClusterDistro,
		Links: api.Links(ctx, "clustertemplates", t.UUID), HTTPProxy: t.HTTPProxy, HTTPSProxy: t.HTTPSProxy, NoProxy: t.NoProxy,
		VolumeDriver: t.VolumeDriver, RegistryEnabled: t.RegistryEnabled, Labels: t.Labels, TLSDisabled: t.TLSDisabled,
		Public: t.Public, ServerType: t.ServerType, InsecureRegistry: t.InsecureRegistry,
		DockerStorageDriver: t.DockerStorageDriver, MasterLBEnabled: t.MasterLBEnabled,
		FloatingIPEnabled: t.FloatingIPEnabled, ProjectID: t.ProjectID, UserID: t.UserID, Hidden: t.Hidden, Tags: t.Tags,
		Driver: t.Driver, CreatedAt: api.Time(t.CreatedAt), UpdatedAt: api.TimeOf(t.UpdatedAt),
	}
}

// document is a template as JSON-Patch sees it: its stored attributes.
func document(t magnum.ClusterTemplate) api.Document {
	return api.Document{
		"uuid": t.UUID, "name": t.Name, "coe": t.COE, "image_id": t.ImageID, "flavor_id": t.FlavorID,
		"master_flavor_id": t.MasterFlavorID, "dns_nameserver": t.DNSNameserver, "keypair_id": t.KeypairID,
		"external_network_id": t.ExternalNetworkID, "fixed_network": t.FixedNetwork, "fixed_subnet": t.FixedSubnet,
		"network_driver": t.NetworkDriver, "apiserver_port": t.APIServerPort, "docker_volume_size": t.DockerVolumeSize,
		"cluster_distro": t.ClusterDistro, "http_proxy": t.HTTPProxy, "https_proxy": t.HTTPSProxy, "no_proxy": t.NoProxy,
		"volume_driver": t.VolumeDriver, "registry_enabled": t.RegistryEnabled, "labels": t.Labels,
		"tls_disabled": t.TLSDisabled, "public": t.Public, "server_type": t.ServerType,
		"insecure_registry": t.InsecureRegistry, "docker_storage_driver": t.DockerStorageDriver,
		"master_lb_enabled": t.MasterLBEnabled, "floating_ip_enabled": t.FloatingIPEnabled, "project_id": t.ProjectID,
		"user_id": t.UserID, "hidden": t.Hidden, "tags": t.Tags, "driver": t.Driver,
	}
}

// set takes over the attributes that a client may choose.
func set(t *magnum.ClusterTemplate, v api.Values) {
	t.COE, t.ImageID = orEmpty(v.String("coe")), orEmpty(v.String("image_id"))
	t.FlavorID, t.MasterFlavorID = v.String("flavor_id"), v.String("master_flavor_id")
	t.DNSNameserver, t.KeypairID = v.String("dns_nameserver"), v.String("keypair_id")
	t.ExternalNetworkID, t.FixedNetwork = v.String("external_network_id"), v.String("fixed_network")
	t.FixedSubnet, t.NetworkDriver = v.String("fixed_subnet"), v.String("network_driver")
	t.APIServerPort, t.DockerVolumeSize = v.Int("apiserver_port"), v.Int("docker_volume_size")
	t.ClusterDistro, t.Driver = v.String("cluster_distro"), v.String("driver")
	t.HTTPProxy, t.HTTPSProxy, t.NoProxy = v.String("http_proxy"), v.String("https_proxy"), v.String("no_proxy")
	t.VolumeDriver, t.Labels = v.String("volume_driver"), v.Map("labels")
	t.RegistryEnabled, t.TLSDisabled = isTrue(v.Bool("registry_enabled")), isTrue(v.Bool("tls_disabled"))
	t.Public, t.Hidden = isTrue(v.Bool("public")), isTrue(v.Bool("hidden"))
	t.ServerType, t.InsecureRegistry = orEmpty(v.String("server_type")), v.String("insecure_registry")
	t.DockerStorageDriver, t.Tags = v.String("docker_storage_driver"), v.String("tags")
	t.MasterLBEnabled, t.FloatingIPEnabled = isTrue(v.Bool("master_lb_enabled")), isTrue(v.Bool("floating_ip_enabled"))
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func isTrue(b *bool) bool { return b != nil && *b }
