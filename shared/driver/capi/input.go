package capi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Dialect is the version of Cluster API Provider OpenStack's objects.
type Dialect string

// The dialects: v1beta2 from release 0.15 on, v1beta1 before.
const (
	V1Beta1 Dialect = "v1beta1"
	V1Beta2 Dialect = "v1beta2"
)

// Input is all that Render looks at.
type Input struct {
	Cluster  driver.Cluster // Certificates and Credential nil: their secrets are left as they are
	Config   Config
	CACert   []byte    // PEM, for the nodes and the provider
	Resolved Resolved  // names looked up in OpenStack
	Observed *Snapshot // nil: nothing there yet
	Dialect  Dialect
	Addons   *Addons // nil: none
}

// Resolved is what OpenStack says of the names that a user gave. It is kept on
// the Cluster object: a renamed image must not change a running cluster.
type Resolved struct {
	Flavors      map[string]Flavor `json:"flavors,omitempty"`
	Images       map[string]Image  `json:"images,omitempty"`
	Networks     map[string]string `json:"networks,omitempty"` // name or id → id
	Subnets      map[string]string `json:"subnets,omitempty"`
	ServerGroups map[string]string `json:"server_groups,omitempty"` // name → id
	// Upgrade is the operation for which room was looked for, and Crowded whether
	// the project had none for one more server.
	Upgrade string `json:"upgrade,omitempty"`
	Crowded bool   `json:"crowded,omitempty"`
}

// crowded reports whether an upgrade must do without one more server.
func (r Resolved) crowded(op magnum.Operation) bool {
	return r.Crowded && op.Kind == magnum.ClusterUpgrade && r.Upgrade == op.ID
}

// Flavor is what matters of a flavor.
type Flavor struct {
	ID    string `json:"id"`
	VCPUs int    `json:"vcpus"`
	RAM   int    `json:"ram"`  // MiB
	Disk  int    `json:"disk"` // GiB
}

// Image is what matters of an image.
type Image struct {
	ID          string `json:"id"`
	Distro      string `json:"os_distro,omitempty"`
	KubeVersion string `json:"kube_version,omitempty"`
}

// merge takes what r lacks from other.
func (r Resolved) merge(other Resolved) Resolved {
	return Resolved{
		Flavors: union(r.Flavors, other.Flavors), Images: union(r.Images, other.Images),
		Networks: union(r.Networks, other.Networks), Subnets: union(r.Subnets, other.Subnets),
		ServerGroups: union(r.ServerGroups, other.ServerGroups),
		Upgrade:      r.Upgrade, Crowded: r.Crowded,
	}
}

func union[V any](a, b map[string]V) map[string]V {
	out := map[string]V{}
	for k, v := range b {
		out[k] = v
	}
	for k, v := range a {
		out[k] = v
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// group is one node group with all that applies to it.
type group struct {
	magnum.NodeGroup
	values
	name       string // of its KubeadmControlPlane or MachineDeployment
	image      string
	flavor     string
	autoscaled bool
	min, max   int
}

// wish is a desired cluster, read: every value is of its form.
type wish struct {
	driver.Cluster
	values
	name, namespace string
	masters         group
	workers         []group // those that should be, in row order
	removed         []group // those that should go
	version         string  // of Kubernetes, with its v
}

// read checks every field and label of a desired cluster; what the driver
// cannot do is a fault that a user can act on.
func read(c driver.Cluster, config Config, resolved Resolved) (*wish, error) {
	w := &wish{Cluster: c, name: ClusterName(c.Cluster), namespace: namespaceName(config.NamespacePrefix, c.ProjectID)}
	w.values = values{c.Labels, c.Template.Labels, config.DefaultLabels}
	if err := w.values.check(); err != nil {
		return nil, err
	}
	if err := checkTemplate(c.Template); err != nil {
		return nil, err
	}
	groups := slices.Clone(c.NodeGroups)
	slices.SortStableFunc(groups, func(a, b magnum.NodeGroup) int { return cmp.Compare(a.ID, b.ID) })
	masters := 0
	for _, n := range groups {
		g, err := w.group(n, config)
		if err != nil {
			return nil, err
		}
		switch {
		case g.IsMaster() && n.Status == magnum.DeleteInProgress:
			return nil, fault.New(fault.Invalid, "The control plane cannot be deleted from a cluster.")
		case g.IsMaster():
			masters++
			w.masters = g
		case n.Status == magnum.DeleteInProgress:
			w.removed = append(w.removed, g)
		default:
			w.workers = append(w.workers, g)
		}
	}
	if masters != 1 {
		return nil, fault.New(fault.Invalid, "A cluster has one node group with the role master; this one has %d.", masters)
	}
	if err := w.checkMasters(resolved); err != nil {
		return nil, err
	}
	return w, w.pickVersion(resolved)
}

func checkTemplate(t magnum.ClusterTemplate) error {
	if t.TLSDisabled {
		return fault.New(fault.Invalid, "tls_disabled is not supported: a cluster of this driver always speaks TLS.")
	}
	if t.RegistryEnabled {
		return fault.New(fault.Invalid, "registry_enabled is not supported by this driver.")
	}
	for name, value := range map[string]*string{
		"cluster_distro": t.ClusterDistro, "dns_nameserver": t.DNSNameserver, "http_proxy": t.HTTPProxy,
		"https_proxy": t.HTTPSProxy, "no_proxy": t.NoProxy, "insecure_registry": t.InsecureRegistry,
		"network_driver": t.NetworkDriver, "volume_driver": t.VolumeDriver,
	} {
		if value == nil || *value == "" {
			continue
		}
		if err := byName[name].Check(*value); err != nil {
			return err
		}
	}
	return nil
}

func (w *wish) group(n magnum.NodeGroup, config Config) (group, error) {
	g := group{NodeGroup: n, name: nodesName(w.name, n)}
	g.values = values{n.Labels, w.Labels, w.Template.Labels, config.DefaultLabels}
	if err := g.values.check(); err != nil {
		return g, err
	}
	g.image = first(n.ImageID, &w.Template.ImageID)
	g.flavor = first(n.FlavorID, w.FlavorID, w.Template.FlavorID)
	if n.IsMaster() {
		g.flavor = first(n.FlavorID, w.MasterFlavorID, w.Template.MasterFlavorID, w.Template.FlavorID)
	}
	if g.image == "" || g.flavor == "" {
		return g, fault.New(fault.Invalid, "The node group %s has no image or no flavor.", n.Name)
	}
	for key, value := range n.NodeLabels {
		if !labelKey(key) || !labelValue(value) {
			return g, fault.New(fault.Invalid, "The node label %s=%s of node group %s is not one that Kubernetes allows.", key, value, n.Name)
		}
	}
	for _, t := range n.NodeTaints {
		if !labelKey(t["key"]) || !labelValue(t["value"]) || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, t["effect"]) {
			return g, fault.New(fault.Invalid, "The taint %s=%s:%s of node group %s is not one that Kubernetes allows.", t["key"], t["value"], t["effect"], n.Name)
		}
	}
	if n.IsMaster() || !g.truth("auto_scaling_enabled") {
		return g, nil
	}
	g.min, g.max = n.MinNodeCount, 0
	if n.MaxNodeCount != nil {
		g.max = *n.MaxNodeCount
	}
	if g.max == 0 {
		g.max = g.number("max_node_count")
	}
	if g.min == 0 && n.IsDefault && g.set("min_node_count") {
		g.min = g.number("min_node_count")
	}
	// Without an upper bound there is nothing that the autoscaler may do.
	g.autoscaled = g.max > 0
	if g.autoscaled && g.min > g.max {
		return g, fault.New(fault.Invalid, "The node group %s cannot have at least %d and at most %d nodes.", n.Name, g.min, g.max)
	}
	return g, nil
}

func (w *wish) checkMasters(resolved Resolved) error {
	n := w.masters.NodeCount
	if n < 1 || n > 7 || n%2 == 0 {
		return fault.New(fault.Invalid, "A control plane has 1, 3, 5 or 7 nodes, not %d: etcd needs an odd number.", n)
	}
	if n > 1 && !w.MasterLBEnabled {
		return fault.New(fault.Invalid, "A control plane of %d nodes needs master_lb_enabled: without a load balancer it has one node.", n)
	}
	if w.text("octavia_provider") == "ovn" && w.set("octavia_lb_algorithm") && w.text("octavia_lb_algorithm") != "SOURCE_IP_PORT" {
		return fault.New(fault.Invalid, "octavia_provider ovn knows octavia_lb_algorithm SOURCE_IP_PORT only.")
	}
	if f, ok := resolved.Flavors[w.masters.flavor]; ok && (f.VCPUs < 2 || f.RAM < 2048) {
		return fault.New(fault.Invalid, "The flavor %s is too small for a control plane: it has %d vCPU and %d MiB, 2 and 2048 are needed.", w.masters.flavor, f.VCPUs, f.RAM).WithReason(fault.ReasonConfiguration)
	}
	return nil
}

// pickVersion takes the label kube_tag, else what the image says.
func (w *wish) pickVersion(resolved Resolved) error {
	version := w.masters.text("kube_tag")
	image := resolved.Images[w.masters.image].KubeVersion
	if version == "" {
		version = image
	}
	if version == "" {
		return fault.New(fault.Invalid, "Which version of Kubernetes? Set the label kube_tag, such as v1.35.2, or the property kube_version on the image.")
	}
	version = "v" + strings.TrimPrefix(version, "v")
	if image != "" && "v"+strings.TrimPrefix(image, "v") != version {
		return fault.New(fault.Invalid, "The label kube_tag asks for %s, but the image %s holds Kubernetes %s.", version, w.masters.image, image).WithReason(fault.ReasonConfiguration)
	}
	if !versionForm.MatchString(version) {
		return fault.New(fault.Invalid, "The image's kube_version %s is not a full version such as v1.35.2.", image)
	}
	w.version = version
	return nil
}

// minor is the minor version of "v1.35.2": 35; -1 if there is none.
func minor(version string) int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return -1
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return -1
	}
	return n
}

// minorName is the minor version as a folder is called: 1.35.
func minorName(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// nodesToRemove are the nodes that the operation names for a group.
func (w *wish) nodesToRemove(g group) []string {
	return w.NodesToRemove[g.UUID]
}

// upgrades reports whether the operation moves the group to what the template
// and the rows say now. An upgrade of the default workers is one of the whole
// cluster: Magnum names them when the user names no group.
func (w *wish) upgrades(g *group) bool {
	op := w.Operation
	switch op.Kind {
	case magnum.ClusterCreate:
		return true
	case magnum.NodeGroupUpdate, magnum.NodeGroupCreate:
		return op.NodeGroupID == nil || *op.NodeGroupID == g.UUID
	case magnum.ClusterUpgrade:
		return op.NodeGroupID == nil || *op.NodeGroupID == g.UUID || w.upgradesAll()
	}
	return false
}

// upgradesAll reports whether an upgrade is of the whole cluster.
func (w *wish) upgradesAll() bool {
	op := w.Operation
	if op.Kind != magnum.ClusterUpgrade {
		return false
	}
	return op.NodeGroupID == nil || slices.ContainsFunc(w.workers, func(g group) bool { return g.IsDefault && g.UUID == *op.NodeGroupID })
}

// arguments are the operation's, if it has any of that form.
func arguments[T any](op *magnum.Operation) T {
	var a T
	if op != nil && len(op.Arguments) > 0 {
		_ = json.Unmarshal(op.Arguments, &a) // of another form: as if there were none
	}
	return a
}

func first(values ...*string) string {
	for _, v := range values {
		if v != nil && *v != "" {
			return *v
		}
	}
	return ""
}
