package capi

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/fault"
)

// Type is the form of a value.
type Type string

// The forms that values have. Each is checked before a row is written.
const (
	Boolean  Type = "boolean" // true/false, yes/no, on/off, 1/0
	Integer  Type = "integer"
	Size     Type = "size"    // whole GB, 0 for none
	Version  Type = "version" // of Kubernetes, with or without the v
	Choice   Type = "choice"  // one of Values
	CIDR     Type = "cidr"
	CIDRs    Type = "cidrs" // comma-separated
	Address  Type = "address"
	Names    Type = "names"   // comma- or space-separated
	Tag      Type = "tag"     // of a container image
	URL      Type = "url"     // http or https
	Text     Type = "text"    // letters, digits and a few signs, at most 255
	Options  Type = "options" // --name=value, space- or comma-separated
	Existing Type = "name or id"
)

// Mutability says when a value may change.
type Mutability string

// When a value takes effect.
const (
	AtCreate  Mutability = "create"  // for good
	AtUpgrade Mutability = "upgrade" // with the nodes that the upgrade replaces
	Always    Mutability = "always"  // at once, without replacing nodes
)

// Setting is one attribute or label of Magnum's that the driver gives an effect.
type Setting struct {
	Name    string
	Field   bool // an attribute, else a label
	Aliases []string
	Type    Type
	Values  []string // of a Choice
	Default string
	Mutable Mutability
	Effect  string // one clause, for people
}

// settings are all that have an effect (spec/capi-driver.md §7).
var settings = []Setting{
	{Name: "flavor_id", Field: true, Type: Existing, Mutable: AtCreate, Effect: "flavor of the nodes of a group"},
	{Name: "master_flavor_id", Field: true, Type: Existing, Mutable: AtCreate, Effect: "flavor of the control plane, at least 2 vCPU and 2 GiB"},
	{Name: "image_id", Field: true, Type: Existing, Mutable: AtUpgrade, Effect: "image of the nodes of a group"},
	{Name: "cluster_distro", Field: true, Type: Text, Mutable: AtUpgrade, Effect: "flatcar boots by Ignition, anything else by cloud-config"},
	{Name: "keypair", Field: true, Type: Text, Mutable: AtCreate, Effect: "SSH key of the nodes"},
	{Name: "external_network_id", Field: true, Type: Existing, Mutable: AtCreate, Effect: "network of floating IPs and of the router"},
	{Name: "fixed_network", Field: true, Type: Existing, Mutable: AtCreate, Effect: "network of the nodes; none: the cluster gets its own"},
	{Name: "fixed_subnet", Field: true, Type: Existing, Mutable: AtCreate, Effect: "subnet of the nodes in fixed_network"},
	{Name: "dns_nameserver", Field: true, Type: Text, Mutable: Always, Effect: "name servers of the cluster's own subnet, comma-separated"},
	{Name: "master_lb_enabled", Field: true, Type: Boolean, Mutable: AtCreate, Effect: "load balancer before the control plane; without it master_count is 1"},
	{Name: "floating_ip_enabled", Field: true, Type: Boolean, Mutable: AtCreate, Effect: "default of master_lb_floating_ip_enabled; nodes never get one"},
	{Name: "master_count", Field: true, Type: Integer, Mutable: Always, Effect: "control plane nodes: 1, 3, 5 or 7"},
	{Name: "node_count", Field: true, Type: Integer, Mutable: Always, Effect: "nodes of a group"},
	{Name: "role", Field: true, Type: Text, Mutable: AtCreate, Effect: "label node-role.kubernetes.io/<role> of the nodes"},
	{Name: "node_labels", Field: true, Type: Text, Mutable: Always, Effect: "labels of the nodes of a group; those of Cluster API's own prefixes replace no node"},
	{Name: "node_taints", Field: true, Type: Text, Mutable: Always, Effect: "taints of the nodes of a group; a change replaces them"},
	{Name: "docker_volume_size", Field: true, Type: Size, Mutable: AtUpgrade, Effect: "GB of a volume for container images and writable layers"},
	{Name: "http_proxy", Field: true, Type: URL, Mutable: AtUpgrade, Effect: "proxy of the container runtime and the kubelet"},
	{Name: "https_proxy", Field: true, Type: URL, Mutable: AtUpgrade, Effect: "proxy of the container runtime and the kubelet"},
	{Name: "no_proxy", Field: true, Type: Text, Mutable: AtUpgrade, Effect: "what is reached without the proxy; the cluster's own ranges are added"},
	{Name: "insecure_registry", Field: true, Type: Text, Mutable: AtUpgrade, Effect: "registry whose certificate is not checked"},
	{Name: "network_driver", Field: true, Type: Choice, Values: []string{"calico", "cilium"}, Default: "calico", Mutable: AtCreate, Effect: "add-on that connects pods"},
	{Name: "volume_driver", Field: true, Type: Choice, Values: []string{"cinder"}, Mutable: AtCreate, Effect: "add-on csi-cinder"},
	{Name: "apiserver_port", Field: true, Type: Integer, Default: "6443", Mutable: AtCreate, Effect: "port of the Kubernetes API"},
	{Name: "tls_disabled", Field: true, Type: Boolean, Default: "false", Mutable: AtCreate, Effect: "true is refused"},
	{Name: "registry_enabled", Field: true, Type: Boolean, Default: "false", Mutable: AtCreate, Effect: "true is refused"},

	{Name: "kube_tag", Type: Version, Mutable: AtUpgrade, Effect: "version of Kubernetes; must be the image's, if the image says one"},
	{Name: "fixed_subnet_cidr", Type: CIDR, Default: "10.0.0.0/24", Mutable: AtCreate, Effect: "range of the cluster's own subnet"},
	{Name: "master_lb_floating_ip_enabled", Type: Boolean, Mutable: AtCreate, Effect: "floating IP before the Kubernetes API"},
	{Name: "api_server_floating_ip", Type: Address, Mutable: AtCreate, Effect: "that floating IP, if it exists already"},
	{Name: "master_lb_allowed_cidrs", Aliases: []string{"api_master_lb_allowed_cidrs"}, Type: CIDRs, Mutable: Always, Effect: "who may reach the Kubernetes API; the management cluster always may"},
	{Name: "api_server_lb_flavor", Type: Text, Mutable: AtCreate, Effect: "flavor of the API's load balancer"},
	{Name: "api_server_lb_availability_zone", Type: Text, Mutable: AtCreate, Effect: "zone of the API's load balancer"},
	{Name: "octavia_provider", Type: Choice, Values: []string{"amphora", "amphorav2", "octavia", "ovn"}, Default: "amphora", Mutable: AtCreate, Effect: "provider of load balancers"},
	{Name: "octavia_lb_algorithm", Type: Choice, Values: []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}, Mutable: Always, Effect: "algorithm of Services' load balancers; ovn has SOURCE_IP_PORT only"},
	{Name: "octavia_lb_healthcheck", Type: Boolean, Default: "true", Mutable: Always, Effect: "health monitors of Services' load balancers"},
	{Name: "availability_zone", Type: Text, Mutable: AtUpgrade, Effect: "zone of the nodes of a group, and of the control plane if the next has none"},
	{Name: "control_plane_availability_zones", Type: Names, Mutable: Always, Effect: "zones of the control plane nodes"},
	{Name: "docker_volume_type", Type: Text, Mutable: AtUpgrade, Effect: "type of that volume"},
	{Name: "etcd_volume_size", Aliases: []string{"etcd_blockdevice_size"}, Type: Size, Default: "0", Mutable: AtUpgrade, Effect: "GB of a disk for etcd; 0: on the root disk"},
	{Name: "etcd_volume_type", Aliases: []string{"etcd_blockdevice_volume_type"}, Type: Text, Mutable: AtUpgrade, Effect: "type of that volume"},
	{Name: "etcd_blockdevice_type", Type: Choice, Values: []string{"volume", "local"}, Default: "volume", Mutable: AtUpgrade, Effect: "etcd's disk is a volume, or the hypervisor's"},
	{Name: "etcd_blockdevice_volume_az", Type: Text, Mutable: AtUpgrade, Effect: "zone of etcd's volume; none: the machine's"},
	{Name: "boot_volume_size", Type: Size, Default: "0", Mutable: AtUpgrade, Effect: "GB of a volume to boot from; 0: the flavor's disk"},
	{Name: "boot_volume_type", Type: Text, Mutable: AtUpgrade, Effect: "type of that volume"},
	{Name: "boot_volume_availability_zone", Type: Text, Mutable: AtUpgrade, Effect: "zone of that volume; none: the machine's"},
	{Name: "extra_network_names", Type: Names, Mutable: AtUpgrade, Effect: "further networks that the nodes are on"},
	{Name: "auto_scaling_enabled", Type: Boolean, Default: "false", Mutable: Always, Effect: "the autoscaler sets node_count of the groups"},
	{Name: "min_node_count", Type: Integer, Mutable: Always, Effect: "the autoscaler's lower bound, if the group has none"},
	{Name: "max_node_count", Type: Integer, Mutable: Always, Effect: "the autoscaler's upper bound, if the group has none"},
	{Name: "auto_healing_enabled", Type: Boolean, Default: "true", Mutable: Always, Effect: "nodes that stay unready are replaced"},
	{Name: "server_group_policies", Type: Choice, Values: []string{"soft-anti-affinity", "anti-affinity", "soft-affinity", "affinity"}, Default: "soft-anti-affinity", Mutable: AtCreate, Effect: "policy of a group's server group"},
	{Name: "different_failure_domain", Type: Boolean, Default: "false", Mutable: AtUpgrade, Effect: "scheduler hint of that name"},
	{Name: "keystone_auth_enabled", Type: Boolean, Mutable: AtUpgrade, Effect: "users sign in with Keystone tokens; default: if the add-on keystone-auth is there"},
	{Name: "calico_tag", Type: Tag, Mutable: Always, Effect: "image tag of the add-on calico"},
	{Name: "calico_ipv4pool", Type: CIDR, Default: "10.100.0.0/16", Mutable: AtCreate, Effect: "range of pods, with calico"},
	{Name: "cilium_tag", Type: Tag, Mutable: Always, Effect: "image tag of the add-on cilium"},
	{Name: "cilium_ipv4pool", Type: CIDR, Default: "10.100.0.0/16", Mutable: AtCreate, Effect: "range of pods, with cilium"},
	{Name: "service_cluster_ip_range", Type: CIDR, Default: "10.254.0.0/16", Mutable: AtCreate, Effect: "range of Services"},
	{Name: "dns_cluster_domain", Type: Text, Default: "cluster.local", Mutable: AtCreate, Effect: "domain of Services"},
	{Name: "cloud_provider_tag", Type: Tag, Mutable: Always, Effect: "image tag of the add-on ccm"},
	{Name: "cinder_csi_enabled", Type: Boolean, Default: "true", Mutable: AtCreate, Effect: "add-on csi-cinder"},
	{Name: "cinder_csi_plugin_tag", Type: Tag, Mutable: Always, Effect: "image tag of the add-on csi-cinder"},
	{Name: "manila_csi_enabled", Type: Boolean, Default: "false", Mutable: AtCreate, Effect: "add-on csi-manila"},
	{Name: "manila_csi_plugin_tag", Type: Tag, Mutable: Always, Effect: "image tag of the add-on csi-manila"},
	{Name: "manila_csi_share_network_id", Type: Existing, Mutable: AtCreate, Effect: "share network of the add-on csi-manila"},
	{Name: "csi_cinder_availability_zone", Type: Text, Default: "nova", Mutable: AtCreate, Effect: "zone of the StorageClasses"},
	{Name: "csi_cinder_reclaim_policy", Type: Choice, Values: []string{"Delete", "Retain"}, Default: "Delete", Mutable: AtCreate, Effect: "reclaim policy of the StorageClasses"},
	{Name: "csi_cinder_volume_binding_mode", Type: Choice, Values: []string{"Immediate", "WaitForFirstConsumer"}, Default: "WaitForFirstConsumer", Mutable: AtCreate, Effect: "binding mode of the StorageClasses"},
	{Name: "csi_cinder_fstype", Type: Choice, Values: []string{"ext4", "xfs"}, Default: "ext4", Mutable: AtCreate, Effect: "file system of volumes"},
	{Name: "csi_cinder_allow_volume_expansion", Type: Boolean, Default: "true", Mutable: AtCreate, Effect: "volumes may grow"},
	{Name: "container_infra_prefix", Type: Text, Mutable: AtUpgrade, Effect: "registry and path that all images come from"},
	{Name: "api_server_cert_sans", Type: Names, Mutable: AtUpgrade, Effect: "further names in the API's certificate"},
	{Name: "api_server_tls_cipher_suites", Type: Names, Mutable: AtUpgrade, Effect: "cipher suites of the API server"},
	{Name: "kubelet_tls_cipher_suites", Type: Names, Mutable: AtUpgrade, Effect: "cipher suites of the kubelets"},
	{Name: "admission_control_list", Type: Names, Mutable: AtUpgrade, Effect: "admission plug-ins beside NodeRestriction"},
	{Name: "oidc_issuer_url", Type: URL, Mutable: AtUpgrade, Effect: "OpenID issuer that the API trusts"},
	{Name: "oidc_client_id", Type: Text, Mutable: AtUpgrade, Effect: "OpenID client"},
	{Name: "oidc_username_claim", Type: Text, Mutable: AtUpgrade, Effect: "claim that names the user"},
	{Name: "oidc_username_prefix", Type: Text, Mutable: AtUpgrade, Effect: "prefix of such users"},
	{Name: "oidc_groups_claim", Type: Text, Mutable: AtUpgrade, Effect: "claim that names the groups"},
	{Name: "oidc_groups_prefix", Type: Text, Mutable: AtUpgrade, Effect: "prefix of such groups"},
	{Name: "audit_log_enabled", Type: Boolean, Default: "false", Mutable: AtUpgrade, Effect: "the API server keeps an audit log"},
	{Name: "audit_log_max_age", Aliases: []string{"audit_log_maxage"}, Type: Integer, Default: "30", Mutable: AtUpgrade, Effect: "days that it is kept"},
	{Name: "audit_log_max_backup", Aliases: []string{"audit_log_maxbackup"}, Type: Integer, Default: "10", Mutable: AtUpgrade, Effect: "files that are kept"},
	{Name: "audit_log_max_size", Aliases: []string{"audit_log_maxsize"}, Type: Integer, Default: "100", Mutable: AtUpgrade, Effect: "MB of one file"},
	{Name: "monitoring_enabled", Type: Boolean, Default: "false", Mutable: AtCreate, Effect: "add-on monitoring"},
	{Name: "kube_dashboard_enabled", Type: Boolean, Default: "false", Mutable: AtCreate, Effect: "add-on dashboard"},
	{Name: "metrics_server_enabled", Type: Boolean, Mutable: AtCreate, Effect: "add-on metrics-server; default: if it is there"},
	{Name: "kubelet_options", Type: Options, Mutable: AtUpgrade, Effect: "further flags of the kubelets"},
	{Name: "delete_volumes", Type: Boolean, Default: "false", Mutable: Always, Effect: "volumes go with the cluster, where the operator allows it"},
}

// unused are labels of Magnum's other drivers: kept, without an effect here.
var unused = []string{
	"heat_container_agent_tag", "selinux_mode", "use_podman", "ostree_remote", "ostree_commit",
	"flannel_tag", "flannel_cni_tag", "flannel_network_cidr", "flannel_network_subnetlen", "flannel_backend",
	"containerd_version", "containerd_tarball_url", "containerd_tarball_sha256", "capi_helm_chart_version",
	"etcd_tag", "coredns_tag", "kube_version", "cgroup_driver", "hyperkube_prefix", "docker_storage_driver",
	"cert_manager_api", "ingress_controller", "influx_grafana_dashboard_enabled", "prometheus_monitoring",
	"auto_healing_controller", "magnum_auto_healer_tag", "autoscaler_tag", "k8s_keystone_auth_tag", "cloud_provider_enabled",
}

// Labels are all attributes and labels that the driver knows, in the order in
// which they are shown.
func Labels() []Setting { return slices.Clone(settings) }

var byName = func() map[string]*Setting {
	m := map[string]*Setting{}
	for i := range settings {
		s := &settings[i]
		m[s.Name] = s
		for _, a := range s.Aliases {
			m[a] = s
		}
	}
	return m
}()

// Check refuses a value that is not of the setting's form.
func (s Setting) Check(value string) error {
	if err := s.Type.check(value, s.Values); err != nil {
		kind := "label"
		if s.Field {
			kind = "attribute"
		}
		return fault.New(fault.Invalid, "The %s %s cannot be %q: %v.", kind, s.Name, value, err)
	}
	return nil
}

var (
	versionForm = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	tagForm     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	textForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ,._:/@*+-]{0,254}$`)
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:-]{0,252}$`)
	optionForm  = regexp.MustCompile(`^--[a-z][a-z0-9-]*=[A-Za-z0-9._:/%<>=+-]{1,200}$`)
	uuidForm    = regexp.MustCompile(`^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$`)
)

func (t Type) check(value string, values []string) error {
	ok := true
	want := ""
	switch t {
	case Boolean:
		_, ok = parseBool(value)
		want = "it is true or false"
	case Integer, Size:
		n, err := strconv.Atoi(value)
		ok, want = err == nil && n >= 0 && n <= 1<<20, "it is a whole number, 0 or more"
	case Version:
		ok, want = versionForm.MatchString(value), "it is a full version such as v1.35.2"
	case Choice:
		ok, want = slices.Contains(values, value), "it is one of "+strings.Join(values, ", ")
	case CIDR:
		_, err := netip.ParsePrefix(value)
		ok, want = err == nil, "it is a range such as 10.0.0.0/24"
	case CIDRs:
		for _, part := range split(value) {
			if _, err := netip.ParsePrefix(part); err != nil {
				ok = false
			}
		}
		want = "it is ranges such as 192.0.2.0/24, with commas between them"
	case Address:
		_, err := netip.ParseAddr(value)
		ok, want = err == nil, "it is an IP address"
	case Names:
		for _, part := range split(value) {
			ok = ok && nameForm.MatchString(part)
		}
		want = "it is names with commas or spaces between them"
	case Tag:
		ok, want = tagForm.MatchString(value), "it is the tag of an image"
	case URL:
		u, err := url.Parse(value)
		ok = err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !strings.ContainsAny(value, " \t\r\n\"'\\`$")
		want = "it is an address such as http://proxy.example.org:3128"
	case Options:
		for _, part := range split(value) {
			ok = ok && optionForm.MatchString(part) && !denied(part)
		}
		want = "it is flags such as --max-pods=200, none of those that the driver sets itself"
	default:
		ok, want = textForm.MatchString(value), "it has letters, digits and , . _ : / @ * + - only, at most 255"
	}
	if !ok {
		return fmt.Errorf("%s", want)
	}
	return nil
}

// deniedOptions belong to kubeadm or the driver.
var deniedOptions = []string{"kubeconfig", "bootstrap-kubeconfig", "config", "config-dir", "node-ip", "hostname-override", "cloud-provider", "cloud-config", "root-dir", "cert-dir", "provider-id", "register-with-taints", "node-labels"}

func denied(option string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(option, "--"), "=")
	return slices.Contains(deniedOptions, name)
}

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// split cuts a list at commas and spaces.
func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// values looks labels up, first layer first: node group, cluster, template,
// operator.
type values []map[string]string

// check refuses the first wrong value, by name.
func (v values) check() error {
	for _, s := range settings {
		if s.Field {
			continue
		}
		if value := v.text(s.Name); value != "" && value != s.Default {
			if err := s.Check(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// set reports whether anyone gave a value.
func (v values) set(name string) bool { return v.given(name) != "" }

func (v values) given(name string) string {
	s := byName[name]
	for _, layer := range v {
		if value := strings.TrimSpace(layer[name]); value != "" {
			return value
		}
		for _, a := range s.Aliases {
			if value := strings.TrimSpace(layer[a]); value != "" {
				return value
			}
		}
	}
	return ""
}

func (v values) text(name string) string {
	if value := v.given(name); value != "" {
		return value
	}
	return byName[name].Default
}

// truth is the value of a Boolean that check has let through.
func (v values) truth(name string) bool {
	b, _ := parseBool(v.text(name))
	return b
}

// number is the value of an Integer or Size that check has let through.
func (v values) number(name string) int {
	n, _ := strconv.Atoi(v.text(name))
	return n
}

func (v values) list(name string) []string { return split(v.text(name)) }

// without gives the labels that have no effect here, for the one line that
// says so.
func without(labels map[string]string) []string {
	var out []string
	for _, name := range unused {
		if _, ok := labels[name]; ok {
			out = append(out, name)
		}
	}
	return out
}
