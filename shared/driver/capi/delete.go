package capi

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
)

// Delete begins the removal: what could make machines first, then the Cluster,
// and nothing else: Cluster API takes the rest down in its own order.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return classify(err)
	}
	namespace, name := namespaceName(d.config.NamespacePrefix, ref.ProjectID), ClusterName(ref.Cluster)
	var live *clusterv1.Cluster
	if err := getInto(ctx, d.client, clusterKind, namespace, name, &live); err != nil {
		return classify(err)
	}
	if live == nil {
		return classify(d.removeLeftovers(ctx, namespace, name, dialect))
	}
	if live.Labels[labelClusterUUID] != ref.UUID {
		return nil // another's: ours is not there
	}
	for _, kind := range append(d.autoscalerKinds(podDeploymentKind), healthCheckKind) {
		if err := d.deleteAll(ctx, kind, namespace, name); err != nil {
			return classify(err)
		}
	}
	return classify(d.client.delete(ctx, clusterKind, namespace, name))
}

// autoscalerKinds are the kinds, if Carafe runs autoscalers at all: else its
// user need not have a right to them.
func (d *Driver) autoscalerKinds(kinds ...kindOf) []kindOf {
	if d.config.AutoscalerImage == "" {
		return nil
	}
	return kinds
}

// deleteAll deletes the driver's objects of a kind that belong to a cluster.
func (d *Driver) deleteAll(ctx context.Context, kind kindOf, namespace, cluster string) error {
	selector := clusterv1.ClusterNameLabel + "=" + cluster + "," + managedBy + "=" + manager
	var names []string
	err := each(ctx, d.client, kind, namespace, selector, false, func(o *metav1.PartialObjectMetadata) { names = append(names, o.Name) })
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := d.client.delete(ctx, kind, namespace, n); err != nil {
			return err
		}
	}
	return nil
}

// removeLeftovers deletes what no controller deletes: the objects that survive
// their Cluster, and those of a creation that never came to one.
func (d *Driver) removeLeftovers(ctx context.Context, namespace, name string, dialect Dialect) error {
	kinds := append(d.autoscalerKinds(podDeploymentKind, roleBindingKind, roleKind, serviceAccountKind),
		healthCheckKind, deploymentKind, controlPlaneKind, resourceSetKind,
		dialect.kind("OpenStackMachineTemplate"), bootstrapKind, dialect.kind("OpenStackCluster"), secretKind)
	for _, kind := range kinds {
		if err := d.deleteAll(ctx, kind, namespace, name); err != nil {
			return err
		}
	}
	var o *infrastructureCluster
	if err := getInto(ctx, d.client, dialect.kind("OpenStackCluster"), namespace, name, &o); err != nil || o == nil {
		return err
	}
	return d.release(ctx, o, dialect)
}

// release takes the driver's finalizer off an OpenStackCluster. It names the
// version that it looked at: the provider has a finalizer there too.
func (d *Driver) release(ctx context.Context, o *infrastructureCluster, dialect Dialect) error {
	if !slices.Contains(o.Finalizers, finalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == finalizer })
	if rest == nil {
		rest = []string{}
	}
	_, err := d.client.merge(ctx, dialect.kind("OpenStackCluster"), o.Namespace, o.Name, manager, map[string]any{
		"metadata": map[string]any{"finalizers": rest, "resourceVersion": o.ResourceVersion},
	})
	if apierrors.IsConflict(err) {
		return nil // it has just been written to: at the next look
	}
	return err
}

// observeDeletion watches a removal and sweeps what Cluster API does not know
// of, after the machines have gone and before the network does.
func (d *Driver) observeDeletion(ctx context.Context, ref driver.Ref, s *Snapshot, dialect Dialect) (driver.Observation, error) {
	namespace, name := namespaceName(d.config.NamespacePrefix, ref.ProjectID), ClusterName(ref.Cluster)
	o := driver.Observation{StackID: name, NodeGroups: map[string]driver.NodeGroupObservation{}}
	ours := s.Cluster != nil && s.Cluster.Labels[labelClusterUUID] == ref.UUID
	if !ours && len(s.Machines) == 0 && s.Infrastructure == nil || s.Cluster != nil && !ours {
		if s.Cluster == nil {
			if err := d.removeLeftovers(ctx, namespace, name, dialect); err != nil {
				return o, err
			}
		}
		o.Progress = driver.Gone
		return o, nil
	}
	if s.Cluster == nil && s.Infrastructure != nil && len(s.Machines) == 0 {
		o.Reason = "The network is being deleted."
		return o, d.removeLeftovers(ctx, namespace, name, dialect)
	}
	if ours && s.Cluster.DeletionTimestamp.IsZero() {
		o.Reason = "The removal has not begun yet."
		return o, nil
	}
	for _, g := range ref.NodeGroups {
		machines := s.machinesOf(g.UUID, g.IsMaster())
		n := driver.NodeGroupObservation{Reason: fmt.Sprintf("%d nodes are being deleted.", len(machines)), NodeAddresses: addresses(machines)}
		if len(machines) == 0 {
			n.Progress = driver.Gone
		}
		o.NodeGroups[g.UUID] = n
	}
	a := &assessment{ref: ref, s: s, config: d.config, now: d.now(), name: name}
	infrastructure := s.Infrastructure
	switch {
	case s.paused():
		o.Reason = "The cluster is paused on the management cluster."
	case credentialRefused(s):
		o.Reason = a.reason(nil)
	case len(s.Machines) > 0:
		o.Reason = fmt.Sprintf("%d nodes are being deleted.", len(s.Machines))
	case infrastructure != nil && !infrastructure.DeletionTimestamp.IsZero() && slices.Contains(infrastructure.Finalizers, finalizer):
		left, err := d.sweep(ctx, namespace, name)
		if err != nil {
			return o, err
		}
		if left > 0 {
			o.Reason = fmt.Sprintf("%d load balancers, or what belongs to them, are being deleted.", left)
			return o, nil
		}
		o.Reason = "The network is being deleted."
		return o, d.release(ctx, infrastructure, dialect)
	default:
		o.Reason = "The network is being deleted."
		if t := infrastructureTrouble(s); t != nil {
			a.code, o.Reason = t.code, t.text+"."
		}
	}
	o.ErrorCode = string(a.code)
	return o, nil
}

// sweep deletes what the cloud controller and the CSI driver made, with the
// cluster's own credential. It gives what is left; without a credential there
// is nothing that it could do.
func (d *Driver) sweep(ctx context.Context, namespace, name string) (int, error) {
	if d.cloud == nil {
		return 0, nil
	}
	c, err := d.cloudOf(ctx, namespace, name)
	if err != nil || c == nil {
		return 0, err
	}
	volumes := d.config.DeleteVolumes == "label" && d.wantsVolumesGone(ctx, namespace, name)
	return c.Sweep(ctx, name, volumes)
}

// wantsVolumesGone reads the wish off the Cluster: an observation has no labels.
func (d *Driver) wantsVolumesGone(ctx context.Context, namespace, name string) bool {
	var live *clusterv1.Cluster
	if err := getInto(ctx, d.client, clusterKind, namespace, name, &live); err != nil || live == nil {
		return false // rather keep a volume than lose one
	}
	return live.Annotations[annotationVolumes] == "true"
}

// cloudOf opens OpenStack with the credential that the cluster's objects hold.
func (d *Driver) cloudOf(ctx context.Context, namespace, name string) (openStack, error) {
	var s corev1.Secret
	found, err := d.client.get(ctx, secretKind, namespace, cloudConfigName(name), &s)
	if err != nil || !found {
		return nil, err
	}
	c, err := credentialOf(s.Data["clouds.yaml"])
	if err != nil || c == nil {
		return nil, err
	}
	return d.cloud(ctx, *c)
}
