package capi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// Plan is what has to be done to bring a cluster about, as far as it can be
// done now.
type Plan struct {
	Name, Namespace string
	// Waves are applied in order; the objects of one in any order.
	Waves [][]Object
	// Mark names machines that must be the first to go, Unmark those that
	// were marked and stay.
	Mark, Unmark []string
	// Scale sizes autoscaled groups once, by name, in the operation scaledBy.
	Scale    map[string]int32
	scaledBy string
	// Delete are objects that should no longer be.
	Delete []Key
	// Rolls names the node groups whose machines this plan replaces.
	Rolls []string
	// Waits says what a later Render will do, once something has become true.
	Waits []string
	// Unchangeable names fields of the infrastructure that were asked to
	// change and cannot.
	Unchangeable []string
}

// Key names one object.
type Key struct {
	Kind schema.GroupVersionKind
	Name string
}

// The waves. Certificates come before the control plane, because kubeadm's
// control plane makes those that it does not find.
const (
	waveNamespace = iota
	waveSecrets
	waveTemplates
	waveCluster
	waveGroups
	waves
)

// Render says what the objects of a cluster are. It is pure: the same input
// gives the same objects under the same names, byte for byte. A group that the
// operation does not concern keeps what it was last rolled with, so neither a
// change elsewhere nor a new release of Carafe replaces its nodes.
func Render(in Input) (Plan, error) {
	w, err := read(in.Cluster, in.Config, in.Resolved)
	if err != nil {
		return Plan{}, err
	}
	r := &render{Input: in, wish: w, plan: Plan{Name: w.name, Namespace: w.namespace, scaledBy: strconv.FormatInt(in.Cluster.Operation.Seq, 10), Waves: make([][]Object, waves)}}
	if r.Observed == nil {
		r.Observed = &Snapshot{}
	}
	r.add(waveNamespace, object(namespaceKind, metav1.ObjectMeta{Name: w.namespace, Labels: map[string]string{
		managedBy: manager, labelProject: cut(w.ProjectID, 63),
	}}, nil))
	if r.ofOneGroup() {
		r.cpVersion = r.Observed.ControlPlane.Spec.Version
		r.cluster()
	} else {
		r.secrets()
		r.infrastructureCluster()
		r.controlPlane()
		r.cluster()
		if err := r.addons(); err != nil {
			return Plan{}, err
		}
	}
	r.workerGroups()
	r.unmark()
	r.autoscaler()
	return r.plan, nil
}

type render struct {
	Input
	*wish
	plan Plan
	// cpVersion is the version that the control plane should have after this plan.
	cpVersion string
}

// ofOneGroup reports whether the operation is about one worker group of a
// cluster that stands: then nothing else is written. Even a write that changes
// nothing costs the controllers' webhooks their time.
func (r *render) ofOneGroup() bool {
	op := r.desired().Operation
	return op.NodeGroupID != nil && *op.NodeGroupID != r.masters.UUID && !r.upgradesAll() &&
		r.Observed.Cluster != nil && r.Observed.ControlPlane != nil
}

// The embedded structs both have a Cluster; the wish's embeds the rows.
func (r *render) desired() driver.Cluster { return r.Input.Cluster }

func (r *render) add(wave int, o Object) { r.plan.Waves[wave] = append(r.plan.Waves[wave], o) }

// meta is the metadata of one of the cluster's objects; g is nil for what
// belongs to the cluster as a whole.
func (r *render) meta(name string, g *group) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Namespace: r.namespace, Labels: map[string]string{
		managedBy:                  manager,
		clusterv1.ClusterNameLabel: r.name,
		labelClusterUUID:           r.UUID,
		labelProject:               cut(r.ProjectID, 63),
	}}
	if g != nil {
		m.Labels[labelNodeGroup] = g.UUID
		m.Labels[labelRole] = cut(slug(g.Role, 63), 63)
		m.Annotations = map[string]string{annotationGroupName: g.Name}
	}
	return m
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// cluster renders the Cluster: what says which operation the objects are of.
func (r *render) cluster() {
	meta := r.meta(r.name, nil)
	d := r.desired()
	meta.Annotations = map[string]string{
		annotationClusterName: d.Name,
		annotationTemplate:    d.ClusterTemplateID,
		annotationGeneration:  strconv.FormatInt(d.Version, 10),
		annotationOperation:   d.Operation.RequestID,
	}
	if data, err := json.Marshal(r.Resolved); err == nil && string(data) != "{}" {
		meta.Annotations[annotationResolved] = string(data)
	}
	if d.Credential != nil {
		meta.Annotations[annotationCredential] = strconv.Itoa(d.Credential.Epoch)
	} else if live := r.Observed.Cluster; live != nil && live.Annotations[annotationCredential] != "" {
		meta.Annotations[annotationCredential] = live.Annotations[annotationCredential]
	}
	if r.truth("delete_volumes") {
		meta.Annotations[annotationVolumes] = "true"
	}
	spec := clusterv1.ClusterSpec{
		ClusterNetwork: clusterv1.ClusterNetwork{
			ServiceDomain: r.text("dns_cluster_domain"),
			Pods:          clusterv1.NetworkRanges{CIDRBlocks: []string{r.podCIDR()}},
			Services:      clusterv1.NetworkRanges{CIDRBlocks: []string{r.text("service_cluster_ip_range")}},
		},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlPlaneKind.Group, Kind: controlPlaneKind.Kind, Name: controlPlaneName(r.name)},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrastructureGroup, Kind: "OpenStackCluster", Name: r.name},
	}
	if live := r.Observed.Cluster; live != nil {
		// The ranges are baked into every node; nothing can move them.
		spec.ClusterNetwork.Pods, spec.ClusterNetwork.Services = live.Spec.ClusterNetwork.Pods, live.Spec.ClusterNetwork.Services
		spec.ClusterNetwork.ServiceDomain = live.Spec.ClusterNetwork.ServiceDomain
	}
	r.add(waveCluster, object(clusterKind, meta, map[string]any{"spec": spec}))
}

func (r *render) networkDriver() string {
	if d := first(r.Template.NetworkDriver); d != "" {
		return d
	}
	return byName["network_driver"].Default
}

func (r *render) podCIDR() string { return r.text(r.networkDriver() + "_ipv4pool") }

// level reports whether the control plane is at a version with all its nodes.
func (s *Snapshot) level(version string) bool {
	cp := s.ControlPlane
	if cp == nil || cp.Spec.Version != version || cp.Status.ObservedGeneration != cp.Generation {
		return false
	}
	want := ptr.Deref(cp.Spec.Replicas, 0)
	for _, v := range cp.Status.Versions {
		if v.Version != version {
			return false
		}
	}
	return ptr.Deref(cp.Status.UpToDateReplicas, 0) == want && ptr.Deref(cp.Status.AvailableReplicas, 0) == want &&
		ptr.Deref(cp.Status.Replicas, 0) == want && isTrue(cp.Status.Conditions, cp.Generation, clusterv1.AvailableCondition)
}

// workerGroups renders every worker group that should be, and removes those
// that should not.
func (r *render) workerGroups() {
	op := &r.Input.Cluster.Operation
	moving := 0 // groups of an upgrade that are on their way: one at a time
	for i := range r.workers {
		g := &r.workers[i]
		live := r.Observed.Deployments[g.name]
		if live != nil && !r.concerns(g) {
			continue
		}
		adopt := live == nil || r.upgrades(g)
		version := r.cpVersion
		switch {
		case live == nil && r.Observed.ControlPlane != nil && !r.Observed.level(r.cpVersion):
			// A new group in the middle of an upgrade joins what is there.
			version = r.lowestVersion()
		case live != nil && op.Kind == magnum.ClusterUpgrade && adopt:
			version = r.version
			if !r.Observed.level(r.cpVersion) {
				adopt = false
				r.plan.Waits = append(r.plan.Waits, "the control plane to be on "+r.cpVersion)
			} else if moving > 0 {
				adopt = false
				r.plan.Waits = append(r.plan.Waits, "another node group to be upgraded")
			} else if !deploymentLevel(live, version) || r.rolls(g, live, version) {
				moving++
			}
			if !adopt {
				version = live.Spec.Template.Spec.Version
			}
		case live != nil:
			version = live.Spec.Template.Spec.Version
		}
		r.workerGroup(g, live, version, adopt)
	}
	for i := range r.removed {
		g := &r.removed[i]
		if _, ok := r.Observed.Deployments[g.name]; ok {
			r.plan.Delete = append(r.plan.Delete, Key{healthCheckKind, g.name}, Key{deploymentKind, g.name})
		}
	}
	slices.Sort(r.plan.Waits)
	r.plan.Waits = slices.Compact(r.plan.Waits)
}

func (r *render) lowestVersion() string {
	lowest := r.Observed.ControlPlane.Spec.Version
	for _, v := range r.Observed.ControlPlane.Status.Versions {
		if compareVersions(v.Version, lowest) < 0 {
			lowest = v.Version
		}
	}
	return lowest
}

// deploymentLevel reports whether a group has come to rest at a version.
func deploymentLevel(d *clusterv1.MachineDeployment, version string) bool {
	if d.Status.ObservedGeneration != d.Generation || d.Spec.Template.Spec.Version != version {
		return false
	}
	want := ptr.Deref(d.Spec.Replicas, 0)
	for _, v := range d.Status.Versions {
		if v.Version != version {
			return false
		}
	}
	return ptr.Deref(d.Status.UpToDateReplicas, 0) == want && ptr.Deref(d.Status.AvailableReplicas, 0) == want && ptr.Deref(d.Status.Replicas, 0) == want
}

// compareVersions compares two versions by their numbers.
func compareVersions(a, b string) int {
	x, y := numbers(a), numbers(b)
	return slices.Compare(x, y)
}

func numbers(version string) []int {
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	core, _, _ = strings.Cut(core, "+")
	var out []int
	for _, p := range strings.Split(core, ".") {
		n, _ := strconv.Atoi(p)
		out = append(out, n)
	}
	return out
}
