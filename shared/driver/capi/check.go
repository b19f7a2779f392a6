package capi

import (
	"context"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Check refuses what the driver cannot do. It looks at the management cluster
// only where the answer depends on what runs: an upgrade, a resize of the
// control plane, named nodes.
func (d *Driver) Check(ctx context.Context, current *driver.Ref, desired driver.Cluster) error {
	if current == nil {
		return d.checkCreate(desired)
	}
	w, err := d.readLive(desired, &Snapshot{})
	if err != nil {
		return err
	}
	if arguments[magnum.ResizeArguments](&desired.Operation).Rollback {
		return fault.New(fault.Invalid, "Rolling back is not supported: Kubernetes cannot go back to an earlier version.")
	}
	masters := w.masters.NodeCount != mastersOf(current.NodeGroups)
	upgrade := desired.Operation.Kind == magnum.ClusterUpgrade || current.ClusterTemplateID != desired.ClusterTemplateID
	if !upgrade && !masters && len(desired.NodesToRemove) == 0 {
		return d.checkBounds(w, desired)
	}
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return classify(err)
	}
	s, err := d.client.snapshot(ctx, dialect, w.namespace, w.name)
	if err != nil {
		return classify(err)
	}
	if w, err = d.readLive(desired, s); err != nil {
		return err
	}
	if upgrade {
		err = w.checkUpgrade(s, d.addons)
	}
	if err == nil && masters {
		err = checkMasterResize(s)
	}
	if err == nil {
		err = w.checkNodes(s)
	}
	if err == nil {
		err = d.checkBounds(w, desired)
	}
	return err
}

// checkCreate renders the cluster, which refuses all that cannot be rendered.
func (d *Driver) checkCreate(desired driver.Cluster) error {
	in := d.input(desired, nil, V1Beta2)
	in.Cluster.Certificates, in.Cluster.Credential = nil, nil
	if in.Cluster.Operation.Kind == "" {
		in.Cluster.Operation.Kind = magnum.ClusterCreate
	}
	if d.cloud != nil {
		in.Resolved = unlooked(desired)
	}
	_, err := Render(in)
	return err
}

// unknownVersion stands for a version that only an image will tell.
const unknownVersion = "v1.0.0"

// unlooked stands for what OpenStack will be asked: an image may say the
// version of Kubernetes that no label says.
func unlooked(c driver.Cluster) Resolved {
	r := Resolved{Images: map[string]Image{}}
	if !(values{c.Labels, c.Template.Labels}).set("kube_tag") {
		for _, g := range c.NodeGroups {
			if g.IsMaster() {
				r.Images[first(g.ImageID, &c.Template.ImageID)] = Image{KubeVersion: unknownVersion}
			}
		}
	}
	return r
}

// readLive reads a wish about a cluster that exists: its version is the live
// one if no label says another.
func (d *Driver) readLive(c driver.Cluster, s *Snapshot) (*wish, error) {
	resolved := s.resolved()
	if s.ControlPlane == nil || d.cloud != nil {
		resolved = resolved.merge(unlooked(c))
	}
	return read(c, d.config, resolved)
}

func mastersOf(groups []magnum.NodeGroup) int {
	for _, g := range groups {
		if g.IsMaster() {
			return g.NodeCount
		}
	}
	return 0
}

// checkBounds refuses a size that the autoscaler would undo.
func (d *Driver) checkBounds(w *wish, desired driver.Cluster) error {
	if kind := desired.Operation.Kind; kind != magnum.ClusterResize && kind != magnum.ClusterUpdate {
		return nil
	}
	for _, g := range w.workers {
		named := desired.Operation.NodeGroupID
		if !g.autoscaled || named != nil && *named != g.UUID || named == nil && !g.IsDefault {
			continue
		}
		if g.NodeCount < g.min || g.NodeCount > g.max {
			return fault.New(fault.Conflict, "The autoscaler keeps the node group %s between %d and %d nodes: change min_node_count or max_node_count first.", g.Name, g.min, g.max)
		}
	}
	return nil
}

// checkUpgrade refuses a step that Kubernetes does not allow, before anything
// is written (spec/capi-driver.md §12.2).
func (w *wish) checkUpgrade(s *Snapshot, addons *Addons) error {
	cp := s.ControlPlane
	if cp == nil {
		return fault.New(fault.Conflict, "The cluster has no control plane yet.")
	}
	lowest := (&render{Input: Input{Observed: s}}).lowestVersion()
	target := w.version
	switch {
	case target == unknownVersion:
		// The image says it, and is asked when the upgrade begins.
		target = lowest
	case compareVersions(target, lowest) < 0:
		return fault.New(fault.Invalid, "Kubernetes cannot go back from %s to %s.", lowest, target)
	case minor(target) > minor(lowest)+1:
		return fault.New(fault.Invalid, "Kubernetes moves one minor version at a time: from %s to 1.%d first, not to %s.", lowest, minor(lowest)+1, target)
	}
	workersOnly := false
	for _, g := range w.workers {
		if op := w.Operation; op.NodeGroupID != nil && *op.NodeGroupID == g.UUID && !w.upgradesAll() {
			workersOnly = true
			if compareVersions(target, lowest) > 0 {
				return fault.New(fault.Conflict, "The node group %s cannot be on %s before the control plane, which is on %s.", g.Name, target, lowest)
			}
			continue
		}
		if live := s.Deployments[g.name]; live != nil && minor(target)-minor(live.Spec.Template.Spec.Version) > 3 {
			return fault.New(fault.Conflict, "The node group %s is on %s, too old for a control plane on %s: upgrade it first.", g.Name, live.Spec.Template.Spec.Version, target)
		}
	}
	if isTrue(cp.Status.Conditions, cp.Generation, clusterv1.RollingOutCondition) {
		return fault.New(fault.Conflict, "The control plane's nodes are being replaced: wait until that is done.")
	}
	if !workersOnly && !isTrue(cp.Status.Conditions, cp.Generation, clusterv1.AvailableCondition) {
		return fault.New(fault.Conflict, "The control plane is not available: it must be before an upgrade.")
	}
	return addons.supports(target, "ccm", networkDriverOf(w.Template))
}

func networkDriverOf(t magnum.ClusterTemplate) string {
	return (&render{wish: &wish{Cluster: driver.Cluster{Template: t}}}).networkDriver()
}

// checkMasterResize lets etcd gain or lose members only while it is sound.
func checkMasterResize(s *Snapshot) error {
	cp := s.ControlPlane
	if cp == nil {
		return fault.New(fault.Conflict, "The cluster has no control plane yet.")
	}
	if isTrue(cp.Status.Conditions, cp.Generation, clusterv1.RollingOutCondition) {
		return fault.New(fault.Conflict, "The control plane's nodes are being replaced: wait until that is done.")
	}
	if !isTrue(cp.Status.Conditions, cp.Generation, "EtcdClusterHealthy") {
		return fault.New(fault.Conflict, "etcd is not healthy: it must be before the control plane is resized.")
	}
	return nil
}

// checkNodes refuses names that are not in their group, and more of them than
// the resize takes away.
func (w *wish) checkNodes(s *Snapshot) error {
	groups := append(slices.Clone(w.workers), w.masters)
	for _, g := range groups {
		nodes := w.nodesToRemove(g)
		if len(nodes) == 0 {
			continue
		}
		if g.IsMaster() {
			return fault.New(fault.Invalid, "Nodes of the control plane cannot be named: etcd decides who goes.")
		}
		// One that goes already cannot go again: another would in its place.
		machines := slices.DeleteFunc(s.machinesOf(g.UUID, false), func(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
		for _, n := range nodes {
			if len(matching(machines, g.name, []string{n})) == 0 {
				return fault.New(fault.Invalid, "The node %s is not in the node group %s.", n, g.Name)
			}
		}
		marked := matching(machines, g.name, nodes)
		if len(marked) < len(nodes) {
			return fault.New(fault.Invalid, "nodes_to_remove names a node of %s twice: %s.", g.Name, strings.Join(nodes, ", "))
		}
		previous := len(machines)
		if live := s.Deployments[g.name]; live != nil {
			previous = int(ptr.Deref(live.Spec.Replicas, int32(previous)))
		}
		if g.NodeCount < previous && len(nodes) > previous-g.NodeCount {
			return fault.New(fault.Invalid, "nodes_to_remove names %d nodes, but %s loses %d.", len(nodes), g.Name, previous-g.NodeCount)
		}
	}
	return nil
}
