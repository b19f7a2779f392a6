package capi

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// One LIST tells the nodes of all groups, by age: those that go are left out, one
// that cannot be made says why. What it calls them, nodes_to_remove takes.
func TestNodes(t *testing.T) {
	ref, s := settled(t)
	m := &management{lists: map[string][]any{}}
	server := httptest.NewServer(m)
	defer server.Close()
	c := smallest().Config
	c.CreateParallel, c.QPS, c.Burst, c.PageSize = 10, 1000, 1000, 500
	d, err := NewFor(t.Context(), c, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	workers, extra := ref.NodeGroups[1], ref.NodeGroups[2]
	for _, x := range s.Machines {
		switch {
		case x.Labels[labelNodeGroup] == workers.UUID && strings.HasSuffix(x.Name, "-a"):
			x.Spec.ProviderID, x.CreationTimestamp = "openstack:///11111111-aaaa-4000-8000-00000000000a", metav1.NewTime(testTime.Add(time.Minute))
		case x.Labels[labelNodeGroup] == workers.UUID:
			x.Spec.ProviderID, x.Status.NodeRef.Name = "openstack://region/11111111-aaaa-4000-8000-00000000000b", "worker-b"
		case x.Labels[labelNodeGroup] == extra.UUID && strings.HasSuffix(x.Name, "-a"):
			x.DeletionTimestamp = &metav1.Time{Time: testTime}
		case x.Labels[labelNodeGroup] == extra.UUID:
			x.Status.NodeRef.Name, x.Status.Addresses = "", nil
			x.Status.Conditions = []metav1.Condition{conditionOf("InfrastructureReady", metav1.ConditionFalse, 1, "InstanceCreateFailed", "Quota exceeded for cores")}
		}
		m.lists["machines"] = append(m.lists["machines"], x)
	}
	nodes, err := d.Nodes(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if m.calls.Load() != 1 || len(nodes[ref.NodeGroups[0].UUID]) != 3 {
		t.Errorf("%d calls, %d masters", m.calls.Load(), len(nodes[ref.NodeGroups[0].UUID]))
	}
	want := map[string][]driver.Node{
		workers.UUID: {
			{Index: "b", Name: "worker-b", ServerID: "11111111-aaaa-4000-8000-00000000000b", ProviderID: "openstack://region/11111111-aaaa-4000-8000-00000000000b", Address: "10.0.0.2"},
			{Index: "a", Name: nodesName(s.Cluster.Name, workers) + "-a", ServerID: "11111111-aaaa-4000-8000-00000000000a", ProviderID: "openstack:///11111111-aaaa-4000-8000-00000000000a", Address: "10.0.0.1"},
		},
		extra.UUID: {{Index: "b", Fault: "Quota exceeded for cores"}},
	}
	for uuid, list := range want {
		if diff := cmp.Diff(list, nodes[uuid]); diff != "" {
			t.Errorf("%s", diff)
		}
	}

	for _, n := range []struct {
		group string
		named string
		ok    bool
	}{
		{workers.UUID, "11111111-AAAA-4000-8000-00000000000B", true}, {workers.UUID, "a", true}, {workers.UUID, "worker-b", true}, {workers.UUID, "10.0.0.1", true},
		{extra.UUID, "b", true}, {extra.UUID, "a", false}, {extra.UUID, "0000000b", false}, {workers.UUID, "c", false},
	} {
		w := must(read(driver.Cluster{Cluster: ref.Cluster, Template: ref.Template, NodeGroups: ref.NodeGroups,
			Operation: magnum.Operation{Kind: magnum.ClusterResize}, NodesToRemove: map[string][]string{n.group: {n.named}}}, c, Resolved{}))
		if err := w.checkNodes(s); n.ok != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("removal of %s: %v", n.named, err)
		}
	}
}
