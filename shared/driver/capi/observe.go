package capi

import (
	"context"
	"encoding/json"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
)

// snapshot reads one cluster, past the server's cache.
func (c *client) snapshot(ctx context.Context, dialect Dialect, namespace, name string) (*Snapshot, error) {
	s := newSnapshot()
	selector := clusterv1.ClusterNameLabel + "=" + name
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	g.Go(func() error { return getInto(ctx, c, clusterKind, namespace, name, &s.Cluster) })
	g.Go(func() error {
		return getInto(ctx, c, controlPlaneKind, namespace, controlPlaneName(name), &s.ControlPlane)
	})
	g.Go(func() error {
		return getInto(ctx, c, dialect.kind("OpenStackCluster"), namespace, name, &s.Infrastructure)
	})
	g.Go(func() error { return getInto(ctx, c, resourceSetKind, namespace, name, &s.ResourceSet) })
	g.Go(func() error { return getInto(ctx, c, bindingKind, namespace, name, &s.Binding) })
	g.Go(func() error {
		return each(ctx, c, deploymentKind, namespace, selector, false, func(d *clusterv1.MachineDeployment) { s.Deployments[d.Name] = d })
	})
	g.Go(func() error {
		return each(ctx, c, machineKind, namespace, selector, false, func(m *clusterv1.Machine) { s.Machines = append(s.Machines, m) })
	})
	g.Go(func() error {
		return each(ctx, c, dialect.kind("OpenStackMachine"), namespace, selector, false, func(m *infrastructureMachine) { s.Servers[m.Name] = m })
	})
	if c.config.AutoscalerImage != "" {
		g.Go(func() error {
			return getInto(ctx, c, podDeploymentKind, namespace, autoscalerName(name), &s.Autoscaler)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return s, nil
}

func newSnapshot() *Snapshot {
	return &Snapshot{Deployments: map[string]*clusterv1.MachineDeployment{}, Servers: map[string]*infrastructureMachine{}}
}

func getInto[T any](ctx context.Context, c *client, kind schema.GroupVersionKind, namespace, name string, out **T) error {
	v := new(T)
	found, err := c.get(ctx, kind, namespace, name, v)
	if found && err == nil {
		*out = v
	}
	return err
}

type place struct{ namespace, name string }

func placeOf(config Config, ref driver.Ref) place {
	return place{namespaceName(config.NamespacePrefix, ref.ProjectID), ClusterName(ref.Cluster)}
}

// snapshots reads the clusters of refs: eight LISTs, however many there are,
// of which only what a status is made from is kept.
func (c *client) snapshots(ctx context.Context, dialect Dialect, refs []driver.Ref) (map[place]*Snapshot, error) {
	wanted := make(map[place]bool, len(refs)) // whether an operation runs
	for _, ref := range refs {
		wanted[placeOf(c.config, ref)] = ref.Operation != nil
	}
	var mu sync.Mutex
	all := map[place]*Snapshot{}
	in := func(m *metav1.ObjectMeta, add func(*Snapshot)) {
		p := place{m.Namespace, m.Labels[clusterv1.ClusterNameLabel]}
		if _, ok := wanted[p]; !ok {
			return
		}
		m.ManagedFields = nil
		mu.Lock()
		defer mu.Unlock()
		s := all[p]
		if s == nil {
			s = newSnapshot()
			all[p] = s
		}
		add(s)
	}
	ours := managedBy + "=" + manager
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	g.Go(func() error {
		return each(ctx, c, clusterKind, "", ours, true, func(o *clusterv1.Cluster) { in(&o.ObjectMeta, func(s *Snapshot) { s.Cluster = o }) })
	})
	g.Go(func() error {
		return each(ctx, c, controlPlaneKind, "", ours, true, func(o *controlplanev1.KubeadmControlPlane) {
			if !wanted[place{o.Namespace, o.Labels[clusterv1.ClusterNameLabel]}] {
				// The largest part, which only an operation compares.
				o.Spec.KubeadmConfigSpec = bootstrapv1.KubeadmConfigSpec{}
			}
			o.Status.Deprecated = nil
			in(&o.ObjectMeta, func(s *Snapshot) { s.ControlPlane = o })
		})
	})
	g.Go(func() error {
		return each(ctx, c, dialect.kind("OpenStackCluster"), "", ours, true, func(o *infrastructureCluster) {
			in(&o.ObjectMeta, func(s *Snapshot) { s.Infrastructure = o })
		})
	})
	g.Go(func() error {
		return each(ctx, c, deploymentKind, "", ours, true, func(o *clusterv1.MachineDeployment) {
			in(&o.ObjectMeta, func(s *Snapshot) { s.Deployments[o.Name] = o })
		})
	})
	g.Go(func() error {
		return each(ctx, c, machineKind, "", ours, true, func(o *clusterv1.Machine) {
			o.Status.Deprecated = nil
			if info := o.Status.NodeInfo; info != nil {
				o.Status.NodeInfo = &corev1.NodeSystemInfo{ContainerRuntimeVersion: info.ContainerRuntimeVersion}
			}
			in(&o.ObjectMeta, func(s *Snapshot) { s.Machines = append(s.Machines, o) })
		})
	})
	g.Go(func() error {
		return each(ctx, c, dialect.kind("OpenStackMachine"), "", ours, true, func(o *infrastructureMachine) {
			in(&o.ObjectMeta, func(s *Snapshot) { s.Servers[o.Name] = o })
		})
	})
	g.Go(func() error {
		return each(ctx, c, resourceSetKind, "", ours, true, func(o *addonsv1.ClusterResourceSet) {
			in(&o.ObjectMeta, func(s *Snapshot) { s.ResourceSet = o })
		})
	})
	if c.config.AutoscalerImage != "" {
		g.Go(func() error {
			return each(ctx, c, podDeploymentKind, "", ours, true, func(o *metav1.PartialObjectMetadata) {
				in(&o.ObjectMeta, func(s *Snapshot) { s.Autoscaler = o })
			})
		})
	}
	// A binding is Cluster API's own and bears the cluster's name, no label of ours.
	bindings := map[place]*addonsv1.ClusterResourceSetBinding{}
	g.Go(func() error {
		return each(ctx, c, bindingKind, "", "", true, func(o *addonsv1.ClusterResourceSetBinding) {
			if _, ok := wanted[place{o.Namespace, o.Name}]; !ok {
				return
			}
			o.ManagedFields = nil
			bindings[place{o.Namespace, o.Name}] = o
		})
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for p, s := range all {
		s.Binding = bindings[p]
	}
	return all, nil
}

// resolved is what was looked up in OpenStack when the cluster was made.
func (s *Snapshot) resolved() Resolved {
	var r Resolved
	if s != nil && s.Cluster != nil {
		_ = json.Unmarshal([]byte(s.Cluster.Annotations[annotationResolved]), &r) // none: nothing was
	}
	return r
}
