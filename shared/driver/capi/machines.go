package capi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/magnum"
)

// Seconds that a node may take to be drained, to give up its volumes and to
// be deleted, before it goes all the same.
const removalSeconds = 300

// template names an object by the hash of its spec: the same content has the
// same name, so nothing is replaced without a reason.
func (r *render) template(kind schema.GroupVersionKind, g *group, spec map[string]any) Object {
	sum := contentHash(spec)
	meta := r.meta(g.name+"-"+sum[:8], g)
	meta.Annotations[annotationSpecHash] = sum
	return object(kind, meta, map[string]any{"spec": spec})
}

func ref(kind schema.GroupVersionKind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}
}

// controlPlane renders the KubeadmControlPlane. Outside of a create or an
// upgrade its nodes are not touched: version, template and kubeadm's
// configuration stay what they are.
func (r *render) controlPlane() {
	g := &r.masters
	op := r.desired().Operation
	live := r.Observed.ControlPlane
	meta := r.meta(g.name, g)
	spec := controlplanev1.KubeadmControlPlaneSpec{
		Replicas: ptr.To(int32(g.NodeCount)),
		Version:  r.version,
		MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
			ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{
				"node-role.kubernetes.io/master": "", managedBy: manager, labelRole: magnum.RoleMaster, labelNodeGroup: g.UUID,
			}},
			Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
				Deletion: controlplanev1.KubeadmControlPlaneMachineTemplateDeletionSpec{
					NodeDrainTimeoutSeconds: ptr.To[int32](removalSeconds), NodeVolumeDetachTimeoutSeconds: ptr.To[int32](removalSeconds), NodeDeletionTimeoutSeconds: ptr.To[int32](removalSeconds),
				},
			},
		},
		Rollout: controlplanev1.KubeadmControlPlaneRolloutSpec{
			Before: controlplanev1.KubeadmControlPlaneRolloutBeforeSpec{CertificatesExpiryDays: 30},
			Strategy: controlplanev1.KubeadmControlPlaneRolloutStrategy{
				Type:          controlplanev1.RollingUpdateStrategyType,
				RollingUpdate: controlplanev1.KubeadmControlPlaneRolloutStrategyRollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(1))},
			},
		},
		Remediation: controlplanev1.KubeadmControlPlaneRemediationSpec{
			MaxRetry: ptr.To[int32](3), RetryPeriodSeconds: ptr.To[int32](1200), MinHealthyPeriodSeconds: ptr.To[int32](3600),
		},
	}
	if live == nil || op.Kind == magnum.ClusterCreate || op.Kind == magnum.ClusterUpgrade && r.upgrades(g) {
		t := r.machineTemplate(g)
		r.add(waveTemplates, t)
		spec.MachineTemplate.Spec.InfrastructureRef = ref(t.GroupVersionKind(), t.GetName())
		spec.KubeadmConfigSpec = r.controlPlaneConfig(g)
		if live != nil && (live.Spec.Version != spec.Version || live.Spec.MachineTemplate.Spec.InfrastructureRef.Name != t.GetName()) {
			r.plan.Rolls = append(r.plan.Rolls, g.Name)
		}
	} else {
		spec.Version = live.Spec.Version
		spec.MachineTemplate.Spec.InfrastructureRef = live.Spec.MachineTemplate.Spec.InfrastructureRef
		spec.KubeadmConfigSpec = live.Spec.KubeadmConfigSpec
	}
	if r.Resolved.crowded(op) && g.NodeCount > 2 {
		spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
	}
	if live != nil && !live.Spec.Rollout.After.IsZero() {
		spec.Rollout.After = live.Spec.Rollout.After
	}
	r.cpVersion = spec.Version
	r.add(waveCluster, object(controlPlaneKind, meta, map[string]any{"spec": spec}))

	// A health check of fewer than three cannot replace one without losing etcd.
	check := Key{healthCheckKind, g.name}
	if !r.truth("auto_healing_enabled") || g.NodeCount < 3 {
		if live != nil {
			r.plan.Delete = append(r.plan.Delete, check)
		}
		return
	}
	r.healthCheck(g, map[string]string{clusterv1.ClusterNameLabel: r.name, clusterv1.MachineControlPlaneLabel: ""}, intstr.FromInt32(1))
}

// workerGroup renders a MachineDeployment with its templates. Without adopt
// it keeps those it has.
func (r *render) workerGroup(g *group, live *clusterv1.MachineDeployment, version string, adopt bool) {
	own := map[string]string{clusterv1.ClusterNameLabel: r.name, labelNodeGroup: g.UUID}
	meta := r.meta(g.name, g)
	spec := clusterv1.MachineDeploymentSpec{
		ClusterName: r.name,
		Selector:    metav1.LabelSelector{MatchLabels: own},
		Rollout:     clusterv1.MachineDeploymentRolloutSpec{Strategy: r.strategy(g, live)},
		Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: clusterv1.OldestMachineSetDeletionOrder},
		Remediation: clusterv1.MachineDeploymentRemediationSpec{MaxInFlight: ptr.To(intstr.FromInt32(1))},
		Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{Labels: r.machineLabels(g, own)},
			Spec: clusterv1.MachineSpec{
				ClusterName: r.name, Version: version,
				Deletion: clusterv1.MachineDeletionSpec{
					NodeDrainTimeoutSeconds: ptr.To[int32](removalSeconds), NodeVolumeDetachTimeoutSeconds: ptr.To[int32](removalSeconds), NodeDeletionTimeoutSeconds: ptr.To[int32](removalSeconds),
				},
			},
		},
	}
	if zones := split(g.text("availability_zone")); len(zones) > 0 {
		spec.Template.Spec.FailureDomain = zones[0]
	}
	if adopt {
		machine, bootstrap := r.machineTemplate(g), r.template(bootstrapKind, g, r.workerConfig(g))
		r.add(waveTemplates, machine)
		r.add(waveTemplates, bootstrap)
		spec.Template.Spec.InfrastructureRef = ref(machine.GroupVersionKind(), machine.GetName())
		spec.Template.Spec.Bootstrap.ConfigRef = ref(bootstrapKind, bootstrap.GetName())
		if r.rolls(g, live, version) {
			r.plan.Rolls = append(r.plan.Rolls, g.Name)
		}
	} else {
		spec.Template.Spec.InfrastructureRef = live.Spec.Template.Spec.InfrastructureRef
		spec.Template.Spec.Bootstrap.ConfigRef = live.Spec.Template.Spec.Bootstrap.ConfigRef
		spec.Template.Spec.FailureDomain = live.Spec.Template.Spec.FailureDomain
	}
	spec.Replicas = r.replicas(g, live)
	if g.autoscaled {
		maps.Copy(meta.Annotations, r.bounds(g))
	}
	r.add(waveGroups, object(deploymentKind, meta, map[string]any{"spec": spec}))
	if g.truth("auto_healing_enabled") {
		r.healthCheck(g, own, intstr.FromString("40%"))
	} else if live != nil {
		r.plan.Delete = append(r.plan.Delete, Key{healthCheckKind, g.name})
	}
}

// rolls reports whether applying the group as rendered replaces its machines.
func (r *render) rolls(g *group, live *clusterv1.MachineDeployment, version string) bool {
	if live == nil {
		return false
	}
	s := live.Spec.Template.Spec
	return s.Version != version ||
		s.InfrastructureRef.Name != r.machineTemplate(g).GetName() ||
		s.Bootstrap.ConfigRef.Name != r.template(bootstrapKind, g, r.workerConfig(g)).GetName()
}

// strategy replaces max_batch_size nodes at a time, each by one made before, if
// the project has room for it.
func (r *render) strategy(g *group, live *clusterv1.MachineDeployment) clusterv1.MachineDeploymentRolloutStrategy {
	op := r.desired().Operation
	batch := int32(1)
	if n := arguments[magnum.UpgradeArguments](&op).MaxBatchSize; op.Kind == magnum.ClusterUpgrade && n > 0 {
		batch = int32(n)
	} else if live != nil {
		if s := live.Spec.Rollout.Strategy.RollingUpdate.MaxSurge; s != nil && s.IntVal > 0 {
			batch = s.IntVal
		}
	}
	surge, unavailable := batch, int32(0)
	if r.Resolved.crowded(op) && g.NodeCount > 1 {
		surge, unavailable = 0, batch // first they go, then others come
	}
	return clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
			MaxSurge: ptr.To(intstr.FromInt32(surge)), MaxUnavailable: ptr.To(intstr.FromInt32(unavailable)),
		},
	}
}

// machineLabels are on the machines; those with Cluster API's own prefixes
// reach the nodes, and a change of them replaces no node.
func (r *render) machineLabels(g *group, own map[string]string) map[string]string {
	labels := maps.Clone(own)
	labels[managedBy] = manager // machines are listed by it
	labels["node-role.kubernetes.io/"+slug(g.Role, 63)] = ""
	if labelValue(g.Name) {
		labels["node.cluster.x-k8s.io/nodegroup"] = g.Name
	}
	for k, v := range g.NodeLabels {
		if synced(k) {
			labels[k] = v
		}
	}
	return labels
}

// synced reports whether Cluster API carries a machine's label to its node.
func synced(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "node-role.kubernetes.io" || domain == "node.cluster.x-k8s.io" ||
		domain == "node-restriction.kubernetes.io" || strings.HasSuffix(domain, ".node-restriction.kubernetes.io") || strings.HasSuffix(domain, ".node.cluster.x-k8s.io"))
}

// replicas is the number of nodes to ask for now; nil: the autoscaler asks.
func (r *render) replicas(g *group, live *clusterv1.MachineDeployment) *int32 {
	if g.autoscaled {
		r.scale(g, live)
		return nil
	}
	want := int32(g.NodeCount)
	nodes := r.nodesToRemove(*g)
	if len(nodes) == 0 || live == nil {
		return &want
	}
	marked := matching(r.Observed.machinesOf(g.UUID, false), g.name, nodes)
	for _, m := range marked {
		r.plan.Mark = append(r.plan.Mark, m.Name)
	}
	previous := int32(arguments[magnum.ResizeArguments](ptr.To(r.desired().Operation)).PreviousNodeCount)
	if want >= previous && len(marked) > 0 {
		// These nodes are to be replaced: first they go, then others come.
		r.plan.Waits = append(r.plan.Waits, fmt.Sprintf("the named nodes of %s to be gone", g.Name))
		return ptr.To(max(previous-int32(len(nodes)), 0))
	}
	return &want
}

// scale sizes an autoscaled group once in an operation that asks for a size;
// from then on the autoscaler does.
func (r *render) scale(g *group, live *clusterv1.MachineDeployment) {
	op := r.desired().Operation
	switch op.Kind {
	case magnum.ClusterCreate, magnum.NodeGroupCreate, magnum.ClusterResize, magnum.ClusterUpdate:
	default:
		return
	}
	if !r.concerns(g) {
		return
	}
	if live != nil && live.Annotations[annotationScaled] == strconv.FormatInt(op.Seq, 10) {
		return
	}
	if r.plan.Scale == nil {
		r.plan.Scale = map[string]int32{}
	}
	r.plan.Scale[g.name] = int32(min(max(g.NodeCount, g.min), g.max))
}

// concerns reports whether the operation is about the group: several may run,
// each for a group of its own.
func (r *render) concerns(g *group) bool {
	op := r.desired().Operation
	return op.NodeGroupID == nil || *op.NodeGroupID == g.UUID || r.upgrades(g)
}

// unmark lets machines stay that an earlier operation had marked.
func (r *render) unmark() {
	for _, m := range r.Observed.Machines {
		if op := r.desired().Operation; op.NodeGroupID != nil && *op.NodeGroupID != m.Labels[labelNodeGroup] {
			continue
		}
		if m.Annotations[deleteMark] == manager && m.DeletionTimestamp.IsZero() && !slices.Contains(r.plan.Mark, m.Name) {
			r.plan.Unmark = append(r.plan.Unmark, m.Name)
		}
	}
	slices.Sort(r.plan.Mark)
	slices.Sort(r.plan.Unmark)
}

// bounds are the autoscaler's annotations; the capacity lets it start from none.
func (r *render) bounds(g *group) map[string]string {
	a := map[string]string{
		clusterv1.AutoscalerMinSizeAnnotation: strconv.Itoa(g.min),
		clusterv1.AutoscalerMaxSizeAnnotation: strconv.Itoa(g.max),
	}
	const capacity = "capacity.cluster-autoscaler.kubernetes.io/"
	if f, ok := r.Resolved.Flavors[g.flavor]; ok {
		a[capacity+"cpu"] = strconv.Itoa(f.VCPUs)
		a[capacity+"memory"] = strconv.Itoa(f.RAM) + "Mi"
		disk := f.Disk
		if n := g.number("boot_volume_size"); n > 0 {
			disk = n
		}
		a[capacity+"ephemeral-disk"] = strconv.Itoa(disk) + "Gi"
	}
	if labels := pairs(r.nodeLabels(g)); labels != "" {
		a[capacity+"labels"] = labels
	}
	if taints := taintList(g.NodeTaints); taints != "" {
		a[capacity+"taints"] = taints
	}
	return a
}

// nodeLabels are all labels that a node of the group has from us.
func (r *render) nodeLabels(g *group) map[string]string {
	labels := maps.Clone(g.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["node-role.kubernetes.io/"+slug(g.Role, 63)] = ""
	if labelValue(g.Name) {
		labels["node.cluster.x-k8s.io/nodegroup"] = g.Name
	}
	return labels
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

func taintList(taints []map[string]string) string {
	var out []string
	for _, t := range taints {
		out = append(out, t["key"]+"="+t["value"]+":"+t["effect"])
	}
	return strings.Join(out, ",")
}

func (r *render) healthCheck(g *group, selector map[string]string, few intstr.IntOrString) {
	spec := clusterv1.MachineHealthCheckSpec{
		ClusterName: r.name,
		Selector:    metav1.LabelSelector{MatchLabels: selector},
		Checks: clusterv1.MachineHealthCheckChecks{
			NodeStartupTimeoutSeconds: ptr.To[int32](startupSeconds),
			UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](300)},
				{Type: "Ready", Status: "False", TimeoutSeconds: ptr.To[int32](300)},
			},
		},
		Remediation: clusterv1.MachineHealthCheckRemediation{TriggerIf: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &few}},
	}
	r.add(waveGroups, object(healthCheckKind, r.meta(g.name, g), map[string]any{"spec": spec}))
}

// startupSeconds is how long a machine may take to become a node.
const startupSeconds = 1200

func (r *render) workerConfig(g *group) map[string]any {
	spec := r.nodeConfig(g)
	spec.JoinConfiguration = bootstrapv1.JoinConfiguration{NodeRegistration: r.registration(g)}
	return map[string]any{"template": map[string]any{"spec": spec}}
}
