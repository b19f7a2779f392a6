//go:build clusterapi

package clusterapi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Twenty groups are made at once, each by an operation of its own; then one is
// sized by an autoscaler, and half of them go again.
func TestGroups(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	s := newSubject(t, d)
	s.create()

	const count = 20
	for i := range count {
		s.addGroup(fmt.Sprintf("extra %d", i), "worker", 1)
	}
	s.Version++
	var g errgroup.Group
	for i := range count {
		mine := s.Cluster
		mine.NodeGroups = slices.Clone(s.NodeGroups)
		mine.Operation = magnum.Operation{Seq: sequence.Add(1), ID: uuid.NewString(), Kind: magnum.NodeGroupCreate, NodeGroupID: &mine.NodeGroups[2+i].UUID}
		g.Go(func() error {
			// Two that write at the same moment make one of them try again.
			var err error
			for range 20 {
				if _, err = d.Apply(t.Context(), mine); !fault.Is(err, fault.Unavailable) {
					return err
				}
				time.Sleep(200 * time.Millisecond)
			}
			return err
		})
		s.Operation = mine.Operation
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	o := s.complete()
	for _, g := range s.NodeGroups {
		if n := o.NodeGroups[g.UUID]; n.Progress != driver.Complete || len(n.NodeAddresses) != 1 {
			t.Errorf("%s: %+v", g.Name, n)
		}
	}

	s.autoscale(s.groupNamed("extra 0"))

	gone := map[string]bool{}
	for i := range s.NodeGroups {
		if g := &s.NodeGroups[i]; !g.IsDefault && i%2 == 0 {
			g.Status = magnum.DeleteInProgress
			gone[g.UUID] = true
			s.begin(magnum.NodeGroupDelete, g, "")
			s.apply()
		}
	}
	s.until("half of the groups are gone", 8*time.Minute, func(o driver.Observation) bool {
		for uuid := range gone {
			if o.NodeGroups[uuid].Progress != driver.Gone {
				return false
			}
		}
		return true
	})
	s.NodeGroups = slices.DeleteFunc(s.NodeGroups, func(g magnum.NodeGroup) bool { return gone[g.UUID] })
	if n := len(s.deployments()); n != len(s.NodeGroups)-1 {
		t.Errorf("%d MachineDeployments, want %d", n, len(s.NodeGroups)-1)
	}
	s.delete()
	s.leftNothing()
}

// autoscale hands a group to an autoscaler and takes it back.
func (s *subject) autoscale(g *magnum.NodeGroup) {
	s.t.Helper()
	g.Labels, g.MinNodeCount, g.MaxNodeCount = map[string]string{"auto_scaling_enabled": "true"}, 1, pointer(4)
	s.begin(magnum.NodeGroupUpdate, g, "")
	s.apply()
	s.complete()
	// What the autoscaler does:
	name := s.last.NodeGroups[g.UUID].StackID
	patch(s.t, s.path(coreGroup, "machinedeployments", name)+"?fieldManager=autoscaler", types.MergePatchType, `{"spec":{"replicas":2}}`)
	s.begin(magnum.CredentialRotate, nil, "{}") // any operation that is not about the group's size
	s.apply()
	o := s.until("the autoscaler's size stands", 10*time.Minute, func(o driver.Observation) bool {
		n := o.NodeGroups[g.UUID]
		return n.Progress == driver.Complete && n.NodeCount != nil && *n.NodeCount == 2 && len(n.NodeAddresses) == 2
	})
	g.NodeCount = *o.NodeGroups[g.UUID].NodeCount

	current := s.ref()
	wish := s.Cluster
	wish.NodeGroups = slices.Clone(s.NodeGroups)
	for i := range wish.NodeGroups {
		if wish.NodeGroups[i].UUID == g.UUID {
			wish.NodeGroups[i].NodeCount = 9
		}
	}
	wish.Operation = magnum.Operation{Kind: magnum.ClusterResize, NodeGroupID: &g.UUID}
	if err := s.d.Check(s.t.Context(), &current, wish); !fault.Is(err, fault.Conflict) {
		s.t.Errorf("a resize beyond the bounds: %v, want Conflict", err)
	}
	s.resize(g, 3)

	g.Labels = nil
	s.begin(magnum.NodeGroupUpdate, g, "")
	s.apply()
	s.complete()
	if n := len(s.machines(g)); n != 3 {
		s.t.Errorf("%d nodes after the autoscaler was turned off, want 3", n)
	}
}
