package capi

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// settled is a cluster that has come to rest, with its rows.
func settled(t *testing.T) (driver.Ref, *Snapshot) {
	t.Helper()
	in := groupInput(t)
	in.Cluster.NodeGroups[0].NodeCount = 3
	p, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	s := live(t, p)
	s.Cluster.Status.Conditions = append(resting(1),
		conditionOf("ControlPlaneInitialized", metav1.ConditionTrue, 1, "Initialized", ""),
		conditionOf("RemoteConnectionProbe", metav1.ConditionTrue, 1, "ProbeSucceeded", ""))
	s.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 6443}
	s.ControlPlane.Status.Conditions = append(s.ControlPlane.Status.Conditions, conditionOf("EtcdClusterHealthy", metav1.ConditionTrue, 1, "Healthy", ""))
	s.ResourceSet.Status.ObservedGeneration = 1
	s.ResourceSet.Status.Conditions = []metav1.Condition{conditionOf("ResourcesApplied", metav1.ConditionTrue, 1, "Applied", "")}
	op := in.Cluster.Operation
	ref := driver.Ref{Cluster: in.Cluster.Cluster, Template: in.Cluster.Template, NodeGroups: in.Cluster.NodeGroups, Operation: &op}
	for _, g := range ref.NodeGroups {
		for i := range g.NodeCount {
			s.Machines = append(s.Machines, machine(s, g, i))
		}
	}
	return ref, s
}

func machine(s *Snapshot, g magnum.NodeGroup, i int) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: nodesName(s.Cluster.Name, g) + "-" + string(rune('a'+i)), Generation: 1, CreationTimestamp: metav1.NewTime(testTime), Labels: map[string]string{labelNodeGroup: g.UUID},
	}}
	if g.IsMaster() {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	m.Spec.InfrastructureRef.Name = m.Name
	m.Status.NodeRef.Name = m.Name
	m.Status.NodeInfo = &corev1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.1.4"}
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0." + string(rune('1'+i))}}
	for _, name := range []string{"Available", "Ready", "InfrastructureReady", "NodeHealthy", "NodeReady"} {
		m.Status.Conditions = append(m.Status.Conditions, conditionOf(name, metav1.ConditionTrue, 1, "Yes", ""))
	}
	return m
}

func setCondition(list *[]metav1.Condition, c metav1.Condition) {
	for i := range *list {
		if (*list)[i].Type == c.Type {
			(*list)[i] = c
			return
		}
	}
	*list = append(*list, c)
}

func TestAssess(t *testing.T) {
	quota := "Expected HTTP response code [201 202] when accessing [POST https://nova/servers], but got 403 instead: {\"forbidden\": {\"code\": 403, \"message\": \"Quota exceeded for cores\"}}"
	flavor := strings.Replace(strings.Replace(quota, "403 instead", "400 instead", 1), "Quota exceeded for cores", "Flavor too small", 1)
	worker := func(s *Snapshot) *clusterv1.Machine { return s.Machines[len(s.Machines)-1] }
	deployment := func(s *Snapshot) *clusterv1.MachineDeployment {
		for name, d := range s.Deployments {
			if strings.Contains(name, "extra-c") {
				return d
			}
		}
		t.Fatal("no deployment")
		return nil
	}
	sick := func(message string, age time.Duration) func(*Snapshot) {
		return func(s *Snapshot) {
			n := int32(1)
			deployment(s).Status.AvailableReplicas = &n
			c := conditionOf("InfrastructureReady", metav1.ConditionFalse, 1, "InstanceCreateFailed", message)
			c.LastTransitionTime = metav1.NewTime(testTime.Add(-age))
			setCondition(&worker(s).Status.Conditions, c)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		ref    func(*driver.Ref)
		later  []string
		unsaid bool // not all is written
		want   driver.Progress
		reason string
		code   fault.Reason
	}{
		{name: "at rest", want: driver.Complete},
		{name: "labels of other drivers", unsaid: true, ref: func(r *driver.Ref) { r.Labels = map[string]string{"selinux_mode": "permissive"} },
			want: driver.InProgress, reason: "Labels without an effect here: selinux_mode."},
		{name: "not all written", unsaid: true, want: driver.InProgress, reason: "Waiting for the management cluster to see the change."},
		{name: "a step is left", later: []string{"the named nodes of x to be gone"}, want: driver.InProgress, reason: "Waiting for the named nodes of x to be gone."},
		{name: "not seen yet", change: func(s *Snapshot) { deployment(s).Generation = 2 }, want: driver.InProgress, reason: "Nodegroup extra-c: 2 of 2 available."},
		{name: "conditions of an older generation", change: func(s *Snapshot) { s.Cluster.Generation = 2 }, want: driver.InProgress},
		{name: "available, but a rollout cannot go on", change: func(s *Snapshot) {
			d := deployment(s)
			n := int32(0)
			d.Status.UpToDateReplicas = &n
			setCondition(&d.Status.Conditions, conditionOf("RollingOut", metav1.ConditionTrue, 1, "RollingOut", ""))
		}, want: driver.InProgress, reason: "Nodegroup extra-c: 0 of 2 replaced."},
		{name: "unknown is not rest", change: func(s *Snapshot) {
			setCondition(&s.ControlPlane.Status.Conditions, conditionOf("ScalingUp", metav1.ConditionUnknown, 1, "Unknown", ""))
		}, want: driver.InProgress, reason: "Control plane: 3 of 3 ready."},
		{name: "etcd", change: func(s *Snapshot) {
			n := int32(2)
			s.ControlPlane.Status.AvailableReplicas = &n
			setCondition(&s.ControlPlane.Status.Conditions, conditionOf("EtcdClusterHealthy", metav1.ConditionFalse, 1, "NotHealthy", "* Machine a-b-c:\n  * Etcd member status is unhealthy"))
		}, want: driver.InProgress, reason: "Control plane: 2 of 3 ready; etcd: Etcd member status is unhealthy."},
		{name: "quota", change: sick(quota, time.Hour), want: driver.InProgress, reason: "1 of 2 machines of extra-c cannot be made: Quota exceeded for cores (", code: fault.ReasonQuota},
		{name: "a flavor that is wrong, since a moment", change: sick(flavor, time.Second), want: driver.InProgress, reason: "Flavor too small", code: fault.ReasonConfiguration},
		{name: "a flavor that is wrong, for good", change: sick(flavor, time.Hour), want: driver.Failed, reason: "Flavor too small", code: fault.ReasonConfiguration},
		{name: "the credential comes first", change: func(s *Snapshot) {
			sick(quota, time.Hour)(s)
			s.Infrastructure.Status.Conditions = []metav1.Condition{conditionOf("OpenStackAuthenticationSucceeded", metav1.ConditionFalse, 1, "OpenStackAuthenticationFailed", "")}
		}, want: driver.InProgress, reason: "Keystone refuses this cluster's application credential: rotate it with PATCH /v1/credentials/" + goldenUUID + ".", code: fault.ReasonCredential},
		{name: "the network", change: func(s *Snapshot) {
			s.Infrastructure.Status.Conditions = []metav1.Condition{conditionOf("RouterReady", metav1.ConditionFalse, 1, "RouterReconcileFailed", strings.Replace(quota, "cores", "routers", 1))}
			setCondition(&s.Cluster.Status.Conditions, conditionOf("Available", metav1.ConditionFalse, 1, "No", ""))
		}, want: driver.InProgress, reason: "Router: Quota exceeded for routers.", code: fault.ReasonQuota},
		{name: "the API cannot be reached", change: func(s *Snapshot) {
			setCondition(&s.Cluster.Status.Conditions, conditionOf("RemoteConnectionProbe", metav1.ConditionFalse, 1, "ProbeFailed", ""))
			setCondition(&s.Cluster.Status.Conditions, conditionOf("Available", metav1.ConditionFalse, 1, "No", ""))
		}, want: driver.InProgress, reason: "The management cluster cannot reach https://[2001:db8::1]:6443: check master_lb_allowed_cidrs and the routes.", code: fault.ReasonDependency},
		{name: "an add-on", change: func(s *Snapshot) {
			setCondition(&s.ResourceSet.Status.Conditions, conditionOf("ResourcesApplied", metav1.ConditionFalse, 1, "NotApplied", "Failed"))
			no := false
			s.Binding = &addonsv1.ClusterResourceSetBinding{}
			s.Binding.Spec.Bindings = []addonsv1.ResourceSetBinding{{ClusterResourceSetName: s.ResourceSet.Name, Resources: []addonsv1.ResourceBinding{
				{ResourceRef: addonsv1.ResourceRef{Kind: "Secret", Name: s.Cluster.Name + "-addon-calico"}, Applied: &no},
			}}}
		}, want: driver.InProgress, reason: "Add-on calico could not be applied.", code: fault.ReasonDependency},
		{name: "paused", change: func(s *Snapshot) { yes := true; s.Cluster.Spec.Paused = &yes }, want: driver.InProgress, reason: "The cluster is paused on the management cluster."},
		{name: "stuck", change: func(s *Snapshot) {
			n := int32(1)
			deployment(s).Status.AvailableReplicas = &n
			old := func(list []metav1.Condition) {
				for i := range list {
					list[i].LastTransitionTime = metav1.NewTime(testTime.Add(-20 * time.Minute))
				}
			}
			old(s.Cluster.Status.Conditions)
			old(s.ControlPlane.Status.Conditions)
			for _, d := range s.Deployments {
				old(d.Status.Conditions)
			}
			for _, m := range s.Machines {
				m.CreationTimestamp = metav1.NewTime(testTime.Add(-20 * time.Minute))
				old(m.Status.Conditions)
			}
		}, want: driver.InProgress, reason: "Nodegroup extra-c: 1 of 2 available. No progress for 20 min."},
		{name: "a node that never joined", change: func(s *Snapshot) {
			m := worker(s)
			m.Status.NodeRef.Name = ""
			c := conditionOf("InfrastructureReady", metav1.ConditionTrue, 1, "Yes", "")
			c.LastTransitionTime = metav1.NewTime(testTime.Add(-30 * time.Minute))
			setCondition(&m.Status.Conditions, c)
			n := int32(1)
			deployment(s).Status.AvailableReplicas = &n
		}, want: driver.InProgress, reason: "no node joined within 20 min", code: fault.ReasonConfiguration},
		{name: "nothing there, in an operation", change: func(s *Snapshot) { s.Cluster = nil }, want: driver.InProgress, reason: "Nothing of the cluster is on the management cluster yet."},
		{name: "nothing there", change: func(s *Snapshot) { s.Cluster = nil }, ref: func(r *driver.Ref) { r.Operation = nil }, want: driver.Gone},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, s := settled(t)
			if c.change != nil {
				c.change(s)
			}
			if c.ref != nil {
				c.ref(&ref)
			}
			o := assess(ref, s, smallest().Config, !c.unsaid, c.later, testTime)
			if o.Progress != c.want {
				t.Errorf("progress %d, want %d: %s", o.Progress, c.want, o.Reason)
			}
			if !strings.Contains(o.Reason, c.reason) || c.want == driver.Complete && o.Reason != "" {
				t.Errorf("reason %q, want %q", o.Reason, c.reason)
			}
			if o.ErrorCode != string(c.code) {
				t.Errorf("code %q, want %q", o.ErrorCode, c.code)
			}
			if c.want == driver.Complete && (o.APIAddress != "https://[2001:db8::1]:6443" || o.COEVersion != "v1.35.1" || o.ContainerVersion != "2.1.4") {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		want   magnum.HealthStatus
		key    string
		value  string
	}{
		{name: "at rest, though conditions such as RollingOut are false", want: magnum.Healthy, key: "api", value: "ok"},
		{name: "a node", change: func(s *Snapshot) {
			m := s.Machines[4]
			m.CreationTimestamp = metav1.NewTime(testTime.Add(-time.Hour))
			setCondition(&m.Status.Conditions, conditionOf("NodeReady", metav1.ConditionFalse, 1, "No", ""))
			setCondition(&m.Status.Conditions, conditionOf("NodeHealthy", metav1.ConditionFalse, 1, "No", ""))
			m.Status.NodeRef.Name = "sick"
		}, want: magnum.Unhealthy, key: "sick.Ready", value: "False"},
		{name: "a young node", change: func(s *Snapshot) {
			setCondition(&s.Machines[4].Status.Conditions, conditionOf("NodeHealthy", metav1.ConditionFalse, 1, "No", ""))
		}, want: magnum.Healthy, key: "api", value: "ok"},
		{name: "etcd", change: func(s *Snapshot) {
			setCondition(&s.ControlPlane.Status.Conditions, conditionOf("EtcdClusterHealthy", metav1.ConditionFalse, 1, "No", "one member is down"))
		}, want: magnum.Unhealthy, key: "etcd", value: "one member is down"},
		{name: "the control plane", change: func(s *Snapshot) {
			setCondition(&s.ControlPlane.Status.Conditions, conditionOf("Available", metav1.ConditionFalse, 1, "No", ""))
		}, want: magnum.Unhealthy, key: "api", value: "nok"},
		{name: "the credential", change: func(s *Snapshot) {
			s.Infrastructure.Status.Conditions = []metav1.Condition{conditionOf("OpenStackAuthenticationSucceeded", metav1.ConditionFalse, 1, "OpenStackAuthenticationFailed", "")}
		}, want: magnum.Unhealthy, key: "credential", value: "refused by Keystone"},
		{name: "a group that lags", change: func(s *Snapshot) {
			for _, d := range s.Deployments {
				d.Spec.Template.Spec.Version = "v1.34.3"
			}
		}, want: magnum.Healthy, key: "nodegroup.extra-a", value: "2/2, on v1.34.3: it gets no new node until it is upgraded to 1.35"},
		{name: "no contact", change: func(s *Snapshot) {
			setCondition(&s.Cluster.Status.Conditions, conditionOf("RemoteConnectionProbe", metav1.ConditionFalse, 1, "No", ""))
		}, want: magnum.UnknownHealth, key: "api", value: "nok"},
		{name: "paused", change: func(s *Snapshot) { yes := true; s.Cluster.Spec.Paused = &yes }, want: magnum.UnknownHealth, key: "api", value: "nok"},
		{name: "nothing there", change: func(s *Snapshot) { s.Cluster = nil }, want: magnum.UnknownHealth, key: "api", value: "nok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, s := settled(t)
			if c.change != nil {
				c.change(s)
			}
			h := health(ref, s, smallest().Config, testTime)
			if h.Status != c.want || h.Reasons[c.key] != c.value {
				t.Errorf("%s %v, want %s with %s=%s", h.Status, h.Reasons, c.want, c.key, c.value)
			}
		})
	}
}
