package conductor

import (
	"context"
	"slices"
	"strings"

	"carafe/shared/driver"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Subject is a cluster with all that decides what may be done to it.
type Subject struct {
	Cluster    magnum.Cluster
	Template   magnum.ClusterTemplate
	NodeGroups []magnum.NodeGroup
	Open       []magnum.Operation // that still count: neither finished nor replaced, oldest first
}

// load reads the cluster's surroundings. Inside a transaction that has locked
// the cluster they cannot change.
func load(ctx context.Context, s *postgres.Store, cluster magnum.Cluster) (*Subject, error) {
	subject := &Subject{Cluster: cluster}
	var err error
	if subject.Template, err = s.Templates.ByUUID(ctx, cluster.ClusterTemplateID); err != nil {
		return nil, err
	}
	if subject.NodeGroups, err = s.NodeGroups.OfCluster(ctx, cluster.UUID); err != nil {
		return nil, err
	}
	open, err := s.Operations.Open(ctx, cluster.UUID)
	subject.Open = counting(open)
	return subject, err
}

// counting leaves out what a later wish has replaced. A handler may still hold
// it, or have died with it: the cluster waits for neither.
func counting(open []magnum.Operation) []magnum.Operation {
	return slices.DeleteFunc(open, func(o magnum.Operation) bool { return o.SupersededBy != nil })
}

// NodeGroup gives the group with the uuid, nil if it is gone.
func (s *Subject) NodeGroup(uuid string) *magnum.NodeGroup {
	for i := range s.NodeGroups {
		if s.NodeGroups[i].UUID == uuid {
			return &s.NodeGroups[i]
		}
	}
	return nil
}

// DefaultWorker gives the default group that holds no masters, nil if there is none.
func (s *Subject) DefaultWorker() *magnum.NodeGroup {
	for i := range s.NodeGroups {
		if n := &s.NodeGroups[i]; n.IsDefault && !n.IsMaster() {
			return n
		}
	}
	return nil
}

// Resized gives the groups as they would be with another size of one of them.
func (s *Subject) Resized(uuid string, count int) []magnum.NodeGroup {
	groups := slices.Clone(s.NodeGroups)
	for i := range groups {
		if groups[i].UUID == uuid {
			groups[i].NodeCount = count
		}
	}
	return groups
}

// Ref is the subject as drivers see it, without secrets.
func (s *Subject) Ref() driver.Ref {
	ref := driver.Ref{Cluster: s.Cluster, Template: s.Template, NodeGroups: s.NodeGroups}
	if n := len(s.Open); n > 0 {
		ref.Operation = &s.Open[n-1]
	}
	return ref
}

// Desired is the state that the rows ask for, without secrets.
func (s *Subject) Desired(o magnum.Operation) driver.Cluster {
	return driver.Cluster{Cluster: s.Cluster, Template: s.Template, NodeGroups: s.NodeGroups, Operation: o}
}

// touched gives the groups that an operation is about.
func (s *Subject) touched(o magnum.Operation) []*magnum.NodeGroup {
	var list []*magnum.NodeGroup
	for i := range s.NodeGroups {
		n := &s.NodeGroups[i]
		switch o.Kind {
		case magnum.ClusterCreate, magnum.ClusterUpgrade, magnum.ClusterDelete:
			list = append(list, n)
		default:
			if o.NodeGroupID != nil && n.UUID == *o.NodeGroupID {
				list = append(list, n)
			}
		}
	}
	return list
}

// busy tells whether an open operation other than o is about the group too.
func (s *Subject) busy(n *magnum.NodeGroup, o magnum.Operation) bool {
	return slices.ContainsFunc(s.Open, func(other magnum.Operation) bool {
		return other.ID != o.ID && slices.Contains(s.touched(other), n)
	})
}

// clone copies what decisions change, so that what was before can be told from
// what is after.
func (s *Subject) clone() *Subject {
	c := *s
	c.NodeGroups = slices.Clone(s.NodeGroups)
	c.Open = slices.Clone(s.Open)
	return &c
}

// counts sums desired nodes and masters.
func (s *Subject) counts() (nodes, masters int) {
	for _, n := range s.NodeGroups {
		if n.IsMaster() {
			masters += n.NodeCount
		} else {
			nodes += n.NodeCount
		}
	}
	return nodes, masters
}

// addresses concatenates the groups' node addresses in the order of the groups.
func (s *Subject) addresses() (nodes, masters []string) {
	nodes, masters = []string{}, []string{}
	for _, n := range s.NodeGroups {
		if n.IsMaster() {
			masters = append(masters, n.NodeAddresses...)
		} else {
			nodes = append(nodes, n.NodeAddresses...)
		}
	}
	return nodes, masters
}

func sentence(parts []string) string { return strings.Join(parts, ", ") }
