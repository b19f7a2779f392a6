package capi

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// Health is the verdict on a cluster as the management cluster sees it. It
// costs what an observation costs and reaches into no cluster.
func (d *Driver) Health(ctx context.Context, ref driver.Ref) (driver.Health, error) {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return driver.Health{}, classify(err)
	}
	s, err := d.client.snapshot(ctx, dialect, namespaceName(d.config.NamespacePrefix, ref.ProjectID), ClusterName(ref.Cluster))
	if err != nil {
		return driver.Health{}, classify(err)
	}
	return health(ref, s, d.config, d.now()), nil
}

// HealthAll is Health for many clusters, with the calls of ObserveAll.
func (d *Driver) HealthAll(ctx context.Context, refs []driver.Ref) ([]driver.Health, error) {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return nil, classify(err)
	}
	all, err := d.client.snapshots(ctx, dialect, refs)
	if err != nil {
		return nil, classify(err)
	}
	out := make([]driver.Health, len(refs))
	for i, ref := range refs {
		s := all[placeOf(d.config, ref)]
		out[i] = health(ref, s, d.config, d.now())
	}
	return out, nil
}

// health is pure. Its reasons are a flat map, as Magnum's own monitor gives:
// api, one <node>.Ready for each node, and a few of the driver's own.
// Conditions such as RollingOut are no fault: they are false at rest.
func health(ref driver.Ref, s *Snapshot, config Config, now time.Time) driver.Health {
	unknown := func(why string) driver.Health {
		return driver.Health{Status: magnum.UnknownHealth, Reasons: map[string]string{"api": "nok", "infrastructure": why}}
	}
	if s == nil || s.Cluster == nil {
		return unknown("the cluster is not on the management cluster")
	}
	if s.paused() {
		return unknown("the cluster is paused on the management cluster")
	}
	c, cp := s.Cluster, s.ControlPlane
	h := driver.Health{Status: magnum.Healthy, Reasons: map[string]string{"api": "ok", "infrastructure": "ok"}}
	bad := func(key, why string) {
		h.Status, h.Reasons[key] = magnum.Unhealthy, why
	}
	for _, m := range s.Machines {
		node := m.Status.NodeRef.Name
		ready := condition(m.Status.Conditions, m.Generation, clusterv1.MachineNodeReadyCondition)
		if node != "" {
			h.Reasons[node+".Ready"] = "Unknown"
			if ready != nil {
				h.Reasons[node+".Ready"] = string(ready.Status)
			}
		}
		old := now.Sub(m.CreationTimestamp.Time) > startupSeconds*time.Second
		if old && m.DeletionTimestamp.IsZero() && !isTrue(m.Status.Conditions, m.Generation, clusterv1.MachineNodeHealthyCondition) {
			h.Status = magnum.Unhealthy
		}
	}
	a := &assessment{ref: ref, s: s, config: config, now: now, name: ClusterName(ref.Cluster)}
	for _, g := range ref.NodeGroups {
		key := "nodegroup." + g.Name
		if g.IsMaster() {
			if cp != nil {
				h.Reasons[key] = fmt.Sprintf("%d/%d", ptr.Deref(cp.Status.AvailableReplicas, 0), ptr.Deref(cp.Spec.Replicas, 0))
			}
			continue
		}
		if d := s.Deployments[nodesName(a.name, g)]; d != nil {
			h.Reasons[key] = fmt.Sprintf("%d/%d", ptr.Deref(d.Status.AvailableReplicas, 0), ptr.Deref(d.Spec.Replicas, 0))
			// kubeadm joins a node only at the control plane's minor version.
			if v := d.Spec.Template.Spec.Version; minor(v) < minor(lowest(s)) {
				h.Reasons[key] += fmt.Sprintf(", on %s: it gets no new node until it is upgraded to 1.%d", v, minor(lowest(s)))
			}
		}
		if t, text := a.troubles(g, s.machinesOf(g.UUID, false)); t != nil {
			h.Reasons[key] = text
		}
	}
	if cp != nil {
		if isFalse(cp.Status.Conditions, cp.Generation, clusterv1.AvailableCondition) {
			bad("api", "nok")
		}
		if x := condition(cp.Status.Conditions, cp.Generation, "EtcdClusterHealthy"); x != nil {
			h.Reasons["etcd"] = "ok"
			if x.Status == metav1.ConditionFalse {
				bad("etcd", clean(x.Message))
			}
		}
		if x := condition(cp.Status.Conditions, cp.Generation, "ControlPlaneComponentsHealthy"); x != nil && x.Status == metav1.ConditionFalse {
			bad("controlplane", clean(x.Message))
		}
	}
	if t := infrastructureTrouble(s); t != nil {
		h.Reasons["infrastructure"] = t.text
	}
	h.Reasons["credential"] = "ok"
	if credentialRefused(s) {
		bad("credential", "refused by Keystone")
	}
	if text := a.addons(); text != "" && s.initialized() {
		bad("addons", text)
	}
	if !isTrue(c.Status.Conditions, c.Generation, clusterv1.ClusterRemoteConnectionProbeCondition) {
		h.Status, h.Reasons["api"] = magnum.UnknownHealth, "nok"
	}
	return h
}
