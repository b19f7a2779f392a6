package capi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// inputs are what the golden files are of: together they give every row of
// the table of fields and labels a value.
var inputs = []struct {
	name   string
	covers []string // attributes that are no label
	labels map[string]string
	change func(*Input)
}{
	{name: "smallest", covers: []string{"flavor_id", "master_flavor_id", "image_id", "master_count", "node_count", "external_network_id", "master_lb_enabled", "tls_disabled", "registry_enabled"}},
	{name: "smallest-v1beta1", change: func(in *Input) { in.Dialect = V1Beta1 }},
	{name: "three-masters", change: masters(3)},
	{name: "three-masters-v1beta1", change: both(masters(3), oldDialect)},
	{name: "no-load-balancer", change: func(in *Input) { in.Cluster.MasterLBEnabled = false }},
	{name: "no-floating-ip", covers: []string{"floating_ip_enabled"}, change: func(in *Input) { in.Cluster.FloatingIPEnabled = false }},
	{name: "floating-ip-of-the-api", labels: map[string]string{"master_lb_floating_ip_enabled": "yes"}, change: func(in *Input) { in.Cluster.FloatingIPEnabled = false }},
	{name: "floating-ip-given", labels: map[string]string{"api_server_floating_ip": "203.0.113.7"}},
	{name: "floating-ip-given-v1beta1", labels: map[string]string{"api_server_floating_ip": "203.0.113.7"}, change: oldDialect},
	{name: "allowed-cidrs", labels: map[string]string{"master_lb_allowed_cidrs": "192.0.2.0/24,198.51.100.0/24"}},
	{name: "allowed-cidrs-alias-v1beta1", labels: map[string]string{"api_master_lb_allowed_cidrs": "192.0.2.0/24"}, change: oldDialect},
	{name: "load-balancer-flavor", labels: map[string]string{"api_server_lb_flavor": "large", "api_server_lb_availability_zone": "lb-az1"}},
	{name: "ovn", labels: map[string]string{"octavia_provider": "ovn", "octavia_lb_algorithm": "SOURCE_IP_PORT"}},
	{name: "ovn-v1beta1", labels: map[string]string{"octavia_provider": "ovn"}, change: oldDialect},
	{name: "services-load-balancers", labels: map[string]string{"octavia_lb_algorithm": "LEAST_CONNECTIONS", "octavia_lb_healthcheck": "false"}, change: withCredential},
	{name: "network-given", covers: []string{"fixed_network", "fixed_subnet"}, change: func(in *Input) {
		in.Cluster.FixedNetwork, in.Cluster.FixedSubnet = new("net-a"), new("5a0c8e7e-6a43-4b4c-8f58-f4f2e0e5f4bb")
		in.Resolved.Networks = map[string]string{"net-a": "0b1f2a52-9d5f-44c8-a0f0-5a44f13a4e2f"}
	}},
	{name: "network-managed", covers: []string{"dns_nameserver"}, labels: map[string]string{"fixed_subnet_cidr": "10.7.0.0/22"}, change: func(in *Input) {
		in.Cluster.Template.DNSNameserver = new("9.9.9.9,149.112.112.112")
	}},
	{name: "zones", labels: map[string]string{"availability_zone": "az2"}},
	{name: "zones-of-the-control-plane", labels: map[string]string{"control_plane_availability_zones": "az1,az2,az3", "availability_zone": "az2"}, change: masters(3)},
	{name: "docker-volume", covers: []string{"docker_volume_size"}, labels: map[string]string{"docker_volume_type": "ssd"}, change: func(in *Input) { in.Cluster.DockerVolumeSize = new(50) }},
	{name: "etcd-volume", labels: map[string]string{"etcd_volume_size": "20", "etcd_volume_type": "nvme", "etcd_blockdevice_volume_az": "az1"}},
	{name: "etcd-local-alias", labels: map[string]string{"etcd_blockdevice_size": "10", "etcd_blockdevice_type": "local"}},
	{name: "boot-volume", labels: map[string]string{"boot_volume_size": "80", "boot_volume_type": "ssd", "boot_volume_availability_zone": "az3"}},
	{name: "boot-volume-v1beta1", labels: map[string]string{"boot_volume_size": "80", "etcd_volume_size": "20"}, change: oldDialect},
	{name: "extra-networks", labels: map[string]string{"extra_network_names": "storage backup"}},
	{name: "autoscaled", labels: map[string]string{"auto_scaling_enabled": "true", "min_node_count": "1", "max_node_count": "5"}, change: func(in *Input) {
		in.Resolved.Flavors = map[string]Flavor{"m1.large": {ID: "3", VCPUs: 4, RAM: 8192, Disk: 80}}
	}},
	{name: "autoscaled-by-the-group", labels: map[string]string{"auto_scaling_enabled": "on"}, change: func(in *Input) {
		g := &in.Cluster.NodeGroups[1]
		g.MinNodeCount, g.MaxNodeCount, g.NodeTaints = 0, new(3), []map[string]string{{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}}
	}},
	{name: "no-healing", labels: map[string]string{"auto_healing_enabled": "false"}, change: masters(3)},
	{name: "placement", labels: map[string]string{"server_group_policies": "anti-affinity", "different_failure_domain": "true"}, change: func(in *Input) {
		in.Resolved.ServerGroups = map[string]string{}
		for i, g := range in.Cluster.NodeGroups {
			in.Resolved.ServerGroups[nodesName(ClusterName(in.Cluster.Cluster), g)] = fmt.Sprintf("8c1e2a52-9d5f-44c8-a0f0-5a44f13a4e0%d", i)
		}
	}},
	{name: "keystone-auth", labels: map[string]string{"keystone_auth_enabled": "true"}, change: both(withAddons, withCredential)},
	{name: "calico", covers: []string{"network_driver"}, labels: map[string]string{"calico_tag": "v3.31.2", "calico_ipv4pool": "10.64.0.0/12", "cloud_provider_tag": "v1.35.9", "keystone_auth_enabled": "false"}, change: both(withAddons, withCredential)},
	{name: "cilium", labels: map[string]string{"cilium_tag": "v1.18.4", "cilium_ipv4pool": "10.48.0.0/12"}, change: both(withAddons, func(in *Input) { in.Cluster.Template.NetworkDriver = new("cilium") })},
	{name: "services", labels: map[string]string{"service_cluster_ip_range": "10.250.0.0/16", "dns_cluster_domain": "k8s.example.org"}},
	{name: "csi-cinder", covers: []string{"volume_driver"}, labels: map[string]string{
		"cinder_csi_enabled": "true", "cinder_csi_plugin_tag": "v1.35.1", "csi_cinder_availability_zone": "az1", "csi_cinder_reclaim_policy": "Retain",
		"csi_cinder_volume_binding_mode": "Immediate", "csi_cinder_fstype": "xfs", "csi_cinder_allow_volume_expansion": "no", "delete_volumes": "true",
	}, change: both(withAddons, func(in *Input) {
		in.Cluster.Template.VolumeDriver = new("cinder")
		in.Config.VolumeTypes = []string{"ssd", "Archive HDD"}
	})},
	{name: "csi-manila", labels: map[string]string{"manila_csi_enabled": "true", "manila_csi_plugin_tag": "v1.35.1", "manila_csi_share_network_id": "c2e3c7b6-4a0c-4f3c-9f4c-6c2f0e7d9a10", "cinder_csi_enabled": "false"}, change: withAddons},
	{name: "image-prefix", labels: map[string]string{"container_infra_prefix": "mirror.example.org/k8s"}, change: both(withAddons, withCredential)},
	{name: "insecure-registry", covers: []string{"insecure_registry"}, change: func(in *Input) { in.Cluster.Template.InsecureRegistry = new("mirror.example.org:5000") }},
	{name: "proxy", covers: []string{"http_proxy", "https_proxy", "no_proxy"}, change: func(in *Input) {
		in.Cluster.Template.HTTPProxy, in.Cluster.Template.HTTPSProxy = new("http://proxy.example.org:3128"), new("http://user:p%40ss@proxy.example.org:3128")
		in.Cluster.Template.NoProxy = new("example.org,192.0.2.0/24")
	}},
	{name: "certificates-and-ciphers", labels: map[string]string{
		"api_server_cert_sans": "api.example.org,192.0.2.9", "api_server_tls_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256",
		"kubelet_tls_cipher_suites": "TLS_AES_128_GCM_SHA256", "admission_control_list": "AlwaysPullImages,PodNodeSelector",
	}},
	{name: "oidc", labels: map[string]string{
		"oidc_issuer_url": "https://id.example.org/realms/k8s", "oidc_client_id": "kubernetes", "oidc_username_claim": "email", "oidc_username_prefix": "oidc:",
		"oidc_groups_claim": "groups", "oidc_groups_prefix": "oidc:",
	}},
	{name: "audit", labels: map[string]string{"audit_log_enabled": "true", "audit_log_maxage": "7", "audit_log_max_backup": "3", "audit_log_max_size": "50"}},
	{name: "extras", labels: map[string]string{"monitoring_enabled": "true", "kube_dashboard_enabled": "true", "metrics_server_enabled": "true"}, change: both(withAddons, withCredential)},
	{name: "nodes", covers: []string{"role", "node_labels", "node_taints"}, labels: map[string]string{"kubelet_options": "--max-pods=200,--image-gc-high-threshold=70"}, change: func(in *Input) {
		g := &in.Cluster.NodeGroups[1]
		g.Role, g.Name = "gpu", "GPU nodes"
		g.NodeLabels = map[string]string{"example.org/gpu": "a100", "node-role.kubernetes.io/gpu": "", "node.cluster.x-k8s.io/pool": "gpu"}
		g.NodeTaints = []map[string]string{{"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"}}
	}},
	{name: "flatcar", covers: []string{"cluster_distro"}, change: both(masters(3), func(in *Input) { in.Cluster.Template.ClusterDistro = new("flatcar") })},
	{name: "resolved", covers: []string{"keypair", "apiserver_port"}, change: func(in *Input) {
		in.Cluster.Keypair, in.Cluster.Template.APIServerPort = new("ops"), new(443)
		in.Resolved = Resolved{
			Flavors:  map[string]Flavor{"m1.large": {ID: "3", VCPUs: 4, RAM: 8192, Disk: 80}, "m1.medium": {ID: "2", VCPUs: 2, RAM: 4096, Disk: 40}},
			Images:   map[string]Image{"ubuntu-kube": {ID: "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", Distro: "ubuntu", KubeVersion: "v1.35.1"}},
			Networks: map[string]string{"public": "14c15d33-175c-424e-88ba-361a875e0c5c"},
		}
		in.Cluster.Template.ImageID, in.Cluster.Template.ExternalNetworkID = "ubuntu-kube", new("public")
		in.Cluster.Template.Labels = nil
	}},
	{name: "secrets", change: both(withCredential, func(in *Input) { in.Cluster.Certificates = someCertificates() })},
	{name: "labels-of-others", labels: map[string]string{"heat_container_agent_tag": "wallaby-stable-1", "selinux_mode": "permissive", "capi_helm_chart_version": "0.10.1"}},
}

const goldenUUID = "6b7f5c2e-8f0e-4a57-9a59-0c9d6c1f2a3b"

func smallest() Input {
	return Input{
		Dialect: V1Beta2,
		Config:  Config{NamespacePrefix: "magnum", ManagementCIDRs: []string{"10.255.0.0/24"}, FaultAfter: 2 * time.Minute, StuckAfter: 10 * time.Minute, DeleteVolumes: "never", CallTimeout: 15 * time.Second},
		Cluster: driver.Cluster{
			Cluster: magnum.Cluster{
				UUID: goldenUUID, ProjectID: "9f2c0e6d3b1a4c5d8e7f6a5b4c3d2e1f", Name: "prod", ClusterTemplateID: "0e6f4ac4-5c52-4a6f-8f6a-3f1f0b7b6a11",
				MasterLBEnabled: true, FloatingIPEnabled: true, Status: magnum.CreateInProgress,
			},
			Template: magnum.ClusterTemplate{
				UUID: "0e6f4ac4-5c52-4a6f-8f6a-3f1f0b7b6a11", COE: "kubernetes", ImageID: "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01",
				FlavorID: new("m1.large"), MasterFlavorID: new("m1.medium"), ExternalNetworkID: new("14c15d33-175c-424e-88ba-361a875e0c5c"),
				Labels: map[string]string{"kube_tag": "v1.35.1"},
			},
			NodeGroups: []magnum.NodeGroup{
				{ID: 1, UUID: "a3f0d7f4-1b0c-4c89-bb5e-6b7a3c0b0001", Name: "default-master", Role: "master", NodeCount: 1, IsDefault: true, Status: magnum.CreateInProgress},
				{ID: 2, UUID: "a3f0d7f4-1b0c-4c89-bb5e-6b7a3c0b0002", Name: "default-worker", Role: "worker", NodeCount: 2, IsDefault: true, Status: magnum.CreateInProgress},
			},
			Operation: magnum.Operation{Seq: 7, Kind: magnum.ClusterCreate, RequestID: "req-11111111-2222-4333-8444-555555555555"},
		},
	}
}

func masters(n int) func(*Input) {
	return func(in *Input) { in.Cluster.NodeGroups[0].NodeCount = n }
}

func oldDialect(in *Input) { in.Dialect = V1Beta1 }

func withCredential(in *Input) {
	in.Config.AuthURL, in.Config.Region, in.Config.Interface = "https://keystone.example.org/v3", "RegionOne", "public"
	in.Cluster.Credential = &driver.Credential{Epoch: 1, ID: "f1d2", Secret: "s3cret"}
	in.CACert = []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
}

func withAddons(in *Input) {
	a, err := LoadAddons("testdata/addons")
	if err != nil {
		panic(err)
	}
	in.Addons = a
}

func both(f ...func(*Input)) func(*Input) {
	return func(in *Input) {
		for _, g := range f {
			g(in)
		}
	}
}

func someCertificates() *driver.Certificates {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	pair := driver.KeyPair{Certificate: []byte("certificate"), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
	return &driver.Certificates{Epoch: 1, Kubernetes: pair, Etcd: pair, FrontProxy: pair, Client: pair}
}

// inputOf is the input of one case.
func inputOf(t *testing.T, i int) Input {
	t.Helper()
	in := smallest()
	in.Cluster.Labels = inputs[i].labels
	if inputs[i].change != nil {
		inputs[i].change(&in)
	}
	return in
}
