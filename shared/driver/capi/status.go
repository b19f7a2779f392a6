package capi

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// assess turns a snapshot into what the rows should say. It is pure. applied
// reports whether the management cluster has all of the current operation;
// later is what a further step waits for.
func assess(ref driver.Ref, s *Snapshot, config Config, applied bool, later []string, now time.Time) driver.Observation {
	a := &assessment{ref: ref, s: s, config: config, now: now, name: ClusterName(ref.Cluster)}
	o := driver.Observation{StackID: a.name, NodeGroups: map[string]driver.NodeGroupObservation{}}
	if s == nil || s.Cluster == nil {
		o.Progress, o.Reason = driver.InProgress, "Nothing of the cluster is on the management cluster yet."
		if ref.Operation == nil {
			o.Progress = driver.Gone
		}
		return o
	}
	o.APIAddress = endpoint(s.Cluster.Spec.ControlPlaneEndpoint)
	o.COEVersion = lowest(s)
	o.ContainerVersion = runtimeVersion(s)
	if s.paused() {
		o.Progress, o.Reason = driver.InProgress, "The cluster is paused on the management cluster."
		return o
	}
	written := applied && len(later) == 0
	done := written
	for _, g := range ref.NodeGroups {
		n := a.group(g)
		if n.Progress == driver.Complete && !written && ref.Operation != nil && ref.Operation.NodeGroupID != nil && *ref.Operation.NodeGroupID == g.UUID {
			// What the operation asks for has not all been written yet.
			n.Progress = driver.InProgress
		}
		o.NodeGroups[g.UUID] = n
		switch n.Progress {
		case driver.Failed:
			o.Progress, o.ErrorCode = driver.Failed, string(a.code)
		case driver.InProgress:
			done = false
		}
	}
	o.Reason = a.reason(later)
	if o.ErrorCode == "" {
		o.ErrorCode = string(a.code)
	}
	if o.Progress == driver.Failed {
		return o
	}
	if a.permanent() {
		o.Progress = driver.Failed
		return o
	}
	if done && a.available() {
		return driver.Observation{
			Progress: driver.Complete, APIAddress: o.APIAddress, COEVersion: o.COEVersion, ContainerVersion: o.ContainerVersion,
			StackID: o.StackID, NodeGroups: o.NodeGroups,
		}
	}
	if names := without(ref.Labels); len(names) > 0 && ref.Operation != nil && ref.Operation.Kind == magnum.ClusterCreate {
		o.Reason += " Labels without an effect here: " + strings.Join(names, ", ") + "."
	}
	if still := stuck(ref, s, config, now); still > 0 {
		o.Reason += fmt.Sprintf(" No progress for %d min.", int(still.Minutes()))
	}
	return o
}

// stuck is how long nothing has moved of a cluster that an operation is to change;
// 0: not for long.
func stuck(ref driver.Ref, s *Snapshot, config Config, now time.Time) time.Duration {
	last := s.lastMove()
	if still := now.Sub(last); ref.Operation != nil && !last.IsZero() && still > config.StuckAfter {
		return still
	}
	return 0
}

type assessment struct {
	ref    driver.Ref
	s      *Snapshot
	config Config
	now    time.Time
	name   string
	code   fault.Reason
}

// endpoint is the address of an API, IPv6 in brackets; empty while unknown.
func endpoint(e clusterv1.APIEndpoint) string {
	if e.Host == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// lowest is the lowest version of Kubernetes among the control plane's nodes,
// so it moves when the last of them has.
func lowest(s *Snapshot) string {
	if s.ControlPlane == nil {
		return ""
	}
	//lint:ignore SA1019 before Cluster API 1.14 there are no versions
	v := s.ControlPlane.Status.Version
	for _, x := range s.ControlPlane.Status.Versions {
		if v == "" || compareVersions(x.Version, v) < 0 {
			v = x.Version
		}
	}
	return v
}

func runtimeVersion(s *Snapshot) string {
	v := ""
	for _, m := range s.Machines {
		if m.Status.NodeInfo == nil {
			continue
		}
		_, n, _ := strings.Cut(m.Status.NodeInfo.ContainerRuntimeVersion, "://")
		if n != "" && (v == "" || compareVersions(n, v) < 0) {
			v = n
		}
	}
	return v
}

// available reports whether the cluster as a whole is there: its own verdict,
// and that of the add-ons.
func (a *assessment) available() bool {
	c := a.s.Cluster
	if !isTrue(c.Status.Conditions, c.Generation, clusterv1.AvailableCondition) {
		return false
	}
	set := a.s.ResourceSet
	return set == nil || set.Status.ObservedGeneration == set.Generation && isTrue(set.Status.Conditions, set.Generation, "ResourcesApplied")
}

// permanent reports whether the infrastructure has a fault that stays.
func (a *assessment) permanent() bool {
	t := infrastructureTrouble(a.s)
	return a.ref.Operation != nil && t != nil && t.permanent && a.now.Sub(t.since) >= a.config.FaultAfter
}

// group assesses one node group. A group that an operation does not touch is
// as complete as it was: its machines' health is another matter.
func (a *assessment) group(g magnum.NodeGroup) driver.NodeGroupObservation {
	name := nodesName(a.name, g)
	machines := a.s.machinesOf(g.UUID, g.IsMaster())
	o := driver.NodeGroupObservation{StackID: name, NodeAddresses: addresses(machines)}
	for _, m := range machines {
		if isTrue(m.Status.Conditions, m.Generation, clusterv1.AvailableCondition) {
			o.ReadyNodes++
		}
	}
	if g.IsMaster() {
		a.masters(g, &o)
	} else {
		a.workers(g, a.s.Deployments[name], machines, &o)
	}
	if o.Progress != driver.InProgress || a.ref.Operation == nil {
		return o
	}
	if t, text := a.troubles(g, machines); t != nil {
		a.code, o.Reason = t.code, text
		if t.permanent && a.now.Sub(t.since) >= a.config.FaultAfter {
			o.Progress = driver.Failed
		}
	}
	return o
}

func (a *assessment) masters(g magnum.NodeGroup, o *driver.NodeGroupObservation) {
	cp := a.s.ControlPlane
	if cp == nil {
		o.Reason = "The control plane is not on the management cluster yet."
		return
	}
	want := ptr.Deref(cp.Spec.Replicas, 0)
	if int(want) == g.NodeCount && a.s.level(cp.Spec.Version) && atRest(cp.Status.Conditions, cp.Generation) {
		o.Progress = driver.Complete
		return
	}
	ready := ptr.Deref(cp.Status.AvailableReplicas, 0)
	o.Reason = fmt.Sprintf("Control plane: %d of %d ready.", ready, g.NodeCount)
	if n := countAt(cp.Status.Versions, cp.Spec.Version); len(cp.Status.Versions) > 1 {
		o.Reason = fmt.Sprintf("Control plane: %d of %d on %s.", n, g.NodeCount, cp.Spec.Version)
	}
	if c := condition(cp.Status.Conditions, cp.Generation, "EtcdClusterHealthy"); c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
		o.Reason = strings.TrimSuffix(o.Reason, ".") + "; etcd: " + clean(c.Message) + "."
	}
}

func countAt(versions []clusterv1.StatusVersion, version string) int32 {
	for _, v := range versions {
		if v.Version == version {
			return v.Replicas
		}
	}
	return 0
}

func (a *assessment) workers(g magnum.NodeGroup, d *clusterv1.MachineDeployment, machines []*clusterv1.Machine, o *driver.NodeGroupObservation) {
	if g.Status == magnum.DeleteInProgress {
		if d == nil && len(machines) == 0 {
			o.Progress = driver.Gone
			return
		}
		o.Reason = fmt.Sprintf("Nodegroup %s: %d nodes are being deleted.", g.Name, len(machines))
		return
	}
	if d == nil {
		o.Reason = fmt.Sprintf("Nodegroup %s is not on the management cluster yet.", g.Name)
		return
	}
	want := int(ptr.Deref(d.Spec.Replicas, 0))
	sized := want == g.NodeCount
	if _, ok := d.Annotations[clusterv1.AutoscalerMinSizeAnnotation]; ok {
		sized, o.NodeCount = true, &want
	}
	if sized && deploymentLevel(d, d.Spec.Template.Spec.Version) && atRest(d.Status.Conditions, d.Generation) &&
		isTrue(d.Status.Conditions, d.Generation, clusterv1.AvailableCondition) {
		o.Progress = driver.Complete
		return
	}
	if want > g.NodeCount || !sized {
		want = g.NodeCount
	}
	o.Reason = fmt.Sprintf("Nodegroup %s: %d of %d available.", g.Name, ptr.Deref(d.Status.AvailableReplicas, 0), want)
	if isTrue(d.Status.Conditions, d.Generation, clusterv1.RollingOutCondition) {
		o.Reason = fmt.Sprintf("Nodegroup %s: %d of %d replaced.", g.Name, ptr.Deref(d.Status.UpToDateReplicas, 0), want)
	}
}

// atRest reports whether nothing moves. These conditions are bad when true;
// unknown is not rest.
func atRest(conditions []metav1.Condition, generation int64) bool {
	for _, name := range []string{clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition} {
		if !isFalse(conditions, generation, name) {
			return false
		}
	}
	return true
}

// addresses are those of machines that have become nodes, sorted.
func addresses(machines []*clusterv1.Machine) []string {
	out := []string{}
	for _, m := range machines {
		if m.Status.NodeRef.Name == "" || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if a := address(m); a != "" {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// troubles sums up what is wrong with a group's machines: the most frequent
// message, with counts before names and three names at most.
func (a *assessment) troubles(g magnum.NodeGroup, machines []*clusterv1.Machine) (*trouble, string) {
	found := map[string][]string{}
	first := map[string]*trouble{}
	for _, m := range machines {
		t := machineTrouble(a.s, m, a.now)
		if t == nil {
			continue
		}
		found[t.text] = append(found[t.text], m.Name)
		if old := first[t.text]; old == nil || t.since.Before(old.since) {
			first[t.text] = t
		}
	}
	if len(found) == 0 {
		return nil, ""
	}
	texts := slices.SortedFunc(maps.Keys(found), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(found[y]), len(found[x])), cmp.Compare(x, y))
	})
	text := texts[0]
	names := found[text]
	slices.Sort(names)
	what := "machines of " + g.Name
	if g.IsMaster() {
		what = "control plane machines"
	}
	list := strings.Join(names[:min(3, len(names))], ", ")
	if len(names) > 3 {
		list += ", …"
	}
	return first[text], fmt.Sprintf("%d of %d %s cannot be made: %s (%s).", len(names), max(g.NodeCount, len(names)), what, text, list)
}

// reason is the one sentence: what is wrong, else what is waited for.
func (a *assessment) reason(later []string) string {
	text := a.sentence(later)
	return strings.ToValidUTF8(cut(text, 1000), "")
}

func (a *assessment) sentence(later []string) string {
	if credentialRefused(a.s) {
		a.code = fault.ReasonCredential
		return fmt.Sprintf("Keystone refuses this cluster's application credential: rotate it with PATCH /v1/credentials/%s.", a.ref.UUID)
	}
	if t := infrastructureTrouble(a.s); t != nil {
		a.code = t.code
		return t.text + "."
	}
	c := a.s.Cluster
	if a.s.initialized() && isFalse(c.Status.Conditions, c.Generation, clusterv1.ClusterRemoteConnectionProbeCondition) {
		a.code = fault.ReasonDependency
		return fmt.Sprintf("The management cluster cannot reach %s: check master_lb_allowed_cidrs and the routes.", endpoint(c.Spec.ControlPlaneEndpoint))
	}
	// Faults of machines first, then what is on its way.
	groups := slices.Clone(a.ref.NodeGroups)
	slices.SortStableFunc(groups, func(x, y magnum.NodeGroup) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.ID, y.ID))
	})
	for _, g := range groups {
		if t, text := a.troubles(g, a.s.machinesOf(g.UUID, g.IsMaster())); t != nil {
			a.code = t.code
			return text
		}
	}
	if text := a.upgrading(later); text != "" {
		return text
	}
	for _, g := range groups {
		if o := a.group(g); o.Progress == driver.InProgress && o.Reason != "" {
			return o.Reason
		}
	}
	if text := a.addons(); text != "" {
		return text
	}
	if len(later) > 0 {
		return "Waiting for " + strings.Join(later, ", ") + "."
	}
	if c := condition(c.Status.Conditions, c.Generation, clusterv1.AvailableCondition); c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
		return "The cluster is not available yet: " + clean(c.Message) + "."
	}
	return "Waiting for the management cluster to see the change."
}

func rank(g magnum.NodeGroup) int {
	if g.IsMaster() {
		return 0
	}
	return 1
}

// upgrading tells the phase of an upgrade.
func (a *assessment) upgrading(later []string) string {
	op, cp := a.ref.Operation, a.s.ControlPlane
	if op == nil || op.Kind != magnum.ClusterUpgrade || cp == nil {
		return ""
	}
	target := cp.Spec.Version
	note := ""
	if a.s.resolved().crowded(*op) {
		note = " The project's quota has no room for one more server: nodes go before others come."
	}
	left := 0
	for _, d := range a.s.Deployments {
		if !deploymentLevel(d, target) {
			left++
		}
	}
	switch {
	case !a.s.level(target):
		return fmt.Sprintf("Upgrading: control plane %d of %d on %s, then %d nodegroups.", countAt(cp.Status.Versions, target), ptr.Deref(cp.Spec.Replicas, 0), target, len(a.s.Deployments)) + note
	case left > 0 && len(later) > 0:
		return fmt.Sprintf("Upgrading: control plane on %s, %d of %d nodegroups still to go.", target, left, len(a.s.Deployments)) + note
	}
	return ""
}

// addons names the add-ons that could not be applied.
func (a *assessment) addons() string {
	set := a.s.ResourceSet
	if set == nil || isTrue(set.Status.Conditions, set.Generation, "ResourcesApplied") {
		return ""
	}
	var failed []string
	if a.s.Binding != nil {
		for _, b := range a.s.Binding.Spec.Bindings {
			if b.ClusterResourceSetName != set.Name {
				continue
			}
			for _, r := range b.Resources {
				if !ptr.Deref(r.Applied, false) {
					failed = append(failed, strings.TrimPrefix(r.Name, a.name+"-addon-"))
				}
			}
		}
	}
	if len(failed) == 0 || !a.s.initialized() {
		return "The add-ons are not applied yet."
	}
	slices.Sort(failed)
	a.code = fault.ReasonDependency
	return "Add-on " + strings.Join(failed[:min(3, len(failed))], ", ") + " could not be applied."
}
