package capi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Snapshot is what the management cluster shows of one cluster.
type Snapshot struct {
	Cluster        *clusterv1.Cluster
	ControlPlane   *controlplanev1.KubeadmControlPlane
	Infrastructure *infrastructureCluster
	Deployments    map[string]*clusterv1.MachineDeployment // by name
	Machines       []*clusterv1.Machine
	Servers        map[string]*infrastructureMachine // by name
	ResourceSet    *addonsv1.ClusterResourceSet
	Binding        *addonsv1.ClusterResourceSetBinding
	Autoscaler     *metav1.PartialObjectMetadata // its Deployment, where Carafe runs one
}

// infrastructureCluster is what the driver reads of an OpenStackCluster.
type infrastructureCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any       `json:"spec"`
	Status            infrastructureStatus `json:"status"`
}

// infrastructureMachine is what the driver reads of an OpenStackMachine.
type infrastructureMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            infrastructureStatus `json:"status"`
}

// infrastructureStatus has the fields that both dialects share; in v1beta1 a
// condition has no observedGeneration, and its reason may be empty.
type infrastructureStatus struct {
	Conditions    []metav1.Condition `json:"conditions"`
	InstanceID    string             `json:"instanceID"`
	InstanceState string             `json:"instanceState"`
}

// condition is a condition if it speaks of the object as it is now: an older
// one says nothing (spec/capi-driver.md §9.1, rule zero).
func condition(conditions []metav1.Condition, generation int64, name string) *metav1.Condition {
	for i := range conditions {
		c := &conditions[i]
		if c.Type == name && (c.ObservedGeneration == 0 || c.ObservedGeneration == generation) {
			return c
		}
	}
	return nil
}

func isTrue(conditions []metav1.Condition, generation int64, name string) bool {
	c := condition(conditions, generation, name)
	return c != nil && c.Status == metav1.ConditionTrue
}

func isFalse(conditions []metav1.Condition, generation int64, name string) bool {
	c := condition(conditions, generation, name)
	return c != nil && c.Status == metav1.ConditionFalse
}

// paused reports whether someone holds the cluster on the management cluster.
func (s *Snapshot) paused() bool {
	return s != nil && s.Cluster != nil && s.Cluster.Spec.Paused != nil && *s.Cluster.Spec.Paused
}

// dying reports whether the cluster's removal has begun.
func (s *Snapshot) dying() bool {
	return s != nil && s.Cluster != nil && !s.Cluster.DeletionTimestamp.IsZero()
}

// initialized reports whether the control plane has answered once.
func (s *Snapshot) initialized() bool {
	return s != nil && s.Cluster != nil && isTrue(s.Cluster.Status.Conditions, s.Cluster.Generation, clusterv1.ClusterControlPlaneInitializedCondition)
}

// machinesOf are the machines of one worker group, or of the control plane.
func (s *Snapshot) machinesOf(uuid string, master bool) []*clusterv1.Machine {
	var out []*clusterv1.Machine
	for _, m := range s.Machines {
		_, cp := m.Labels[clusterv1.MachineControlPlaneLabel]
		if master && cp || !master && m.Labels[labelNodeGroup] == uuid {
			out = append(out, m)
		}
	}
	return out
}

// appliedAt is when Cluster API last wrote a secret of add-ons into the cluster.
func (s *Snapshot) appliedAt(secret string) time.Time {
	if s.Binding == nil {
		return time.Time{}
	}
	for _, b := range s.Binding.Spec.Bindings {
		for _, r := range b.Resources {
			if r.Name == secret && ptr.Deref(r.Applied, false) {
				return r.LastAppliedTime.Time
			}
		}
	}
	return time.Time{}
}

// lastMove is the latest time at which a condition changed or a machine came.
func (s *Snapshot) lastMove() time.Time {
	var last time.Time
	see := func(t metav1.Time) {
		if t.Time.After(last) {
			last = t.Time
		}
	}
	all := func(conditions []metav1.Condition) {
		for _, c := range conditions {
			see(c.LastTransitionTime)
		}
	}
	if s.Cluster != nil {
		see(s.Cluster.CreationTimestamp)
		all(s.Cluster.Status.Conditions)
	}
	if s.ControlPlane != nil {
		all(s.ControlPlane.Status.Conditions)
	}
	if s.Infrastructure != nil {
		all(s.Infrastructure.Status.Conditions)
	}
	for _, d := range s.Deployments {
		see(d.CreationTimestamp)
		all(d.Status.Conditions)
	}
	for _, m := range s.Machines {
		see(m.CreationTimestamp)
		if !m.DeletionTimestamp.IsZero() {
			see(*m.DeletionTimestamp)
		}
		all(m.Status.Conditions)
	}
	return last
}
