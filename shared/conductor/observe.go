package conductor

import (
	"slices"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// Seen is what an observation means for a cluster.
type Seen struct {
	Ended   []Ending           // operations that have come to their end
	Resumed []magnum.Operation // operations that the driver is done with and whose function goes on
	Removed []string           // node groups that are gone, by uuid
}

// See applies an observation to the subject's rows and says what it means for
// the operations that wait for the driver. It is pure: the caller stores the
// rows, ends the operations and aggregates.
func (s *Subject) See(o driver.Observation) Seen {
	s.Cluster.StackID = orKeep(s.Cluster.StackID, o.StackID)
	s.Cluster.APIAddress = orKeep(s.Cluster.APIAddress, o.APIAddress)
	s.Cluster.COEVersion = orKeep(s.Cluster.COEVersion, o.COEVersion)
	s.Cluster.ContainerVersion = orKeep(s.Cluster.ContainerVersion, o.ContainerVersion)
	for i := range s.NodeGroups {
		seeNodeGroup(&s.NodeGroups[i], o)
	}
	var seen Seen
	for _, op := range slices.Clone(s.Open) {
		if op.State != magnum.Waiting {
			continue
		}
		s.judge(op, o, &seen)
	}
	if s.Cluster.Status.InProgress() && len(seen.Ended) == 0 {
		s.Cluster.StatusReason = nil
		if o.Reason != "" {
			s.Cluster.StatusReason = &o.Reason
		}
	}
	return seen
}

// judge decides what the observation means for one waiting operation.
func (s *Subject) judge(op magnum.Operation, o driver.Observation, seen *Seen) {
	progress, reason := o.Progress, o.Reason
	if group, ok := groupOf(op, o); ok {
		progress = group.Progress
		if group.Reason != "" {
			reason = group.Reason
		}
	}
	deletes := op.Kind == magnum.ClusterDelete || op.Kind == magnum.NodeGroupDelete
	switch {
	case progress == driver.InProgress:
	case progress == driver.Failed:
		if reason == "" {
			reason = "The driver reported a failure without a reason."
		}
		seen.Ended = append(seen.Ended, Ending{Operation: op, Failed: true, Reason: reason, Code: o.ErrorCode})
	case deletes && progress == driver.Complete:
		// It is still there: the removal has not begun to show.
	case !deletes && progress == driver.Gone:
		seen.Ended = append(seen.Ended, Ending{Operation: op, Failed: true, Reason: "The driver does not know the cluster any more."})
	case op.Kind == magnum.ClusterDelete || op.Kind == magnum.CARotate:
		seen.Resumed = append(seen.Resumed, op)
	case op.Kind == magnum.NodeGroupDelete:
		seen.Removed = append(seen.Removed, *op.NodeGroupID)
		seen.Ended = append(seen.Ended, Ending{Operation: op})
	default:
		seen.Ended = append(seen.Ended, Ending{Operation: op})
	}
}

// groupOf gives what was seen of the group that an operation is about.
func groupOf(op magnum.Operation, o driver.Observation) (driver.NodeGroupObservation, bool) {
	if op.NodeGroupID == nil || op.Kind == magnum.ClusterUpgrade {
		return driver.NodeGroupObservation{}, false
	}
	g, ok := o.NodeGroups[*op.NodeGroupID]
	if !ok {
		return driver.NodeGroupObservation{Progress: driver.InProgress}, true
	}
	return g, true
}

func orKeep(old *string, seen string) *string {
	if seen == "" || old != nil && *old == seen {
		return old
	}
	return &seen
}

func seeNodeGroup(n *magnum.NodeGroup, o driver.Observation) {
	g, ok := o.NodeGroups[n.UUID]
	if !ok {
		return
	}
	n.StackID = orKeep(n.StackID, g.StackID)
	if g.NodeAddresses != nil {
		n.NodeAddresses = g.NodeAddresses
	}
	if g.NodeCount != nil { // an autoscaler's wish counts as the user's
		n.NodeCount = *g.NodeCount
	}
	// Its own reason says more than the operation's.
	if g.Progress == driver.Failed && n.Status.InProgress() && g.Reason != "" {
		n.Status, n.StatusReason = n.Status.To("FAILED"), &g.Reason
	}
}
