package capi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
)

// Nodes implements driver.NodeLister with one LIST of machines. Those that are on
// their way out are gone already. A machine's index is the part of its name behind
// its group's: no other machine has ever had it, and nodes_to_remove takes it.
func (d *Driver) Nodes(ctx context.Context, ref driver.Ref) (map[string][]driver.Node, error) {
	s, name := newSnapshot(), ClusterName(ref.Cluster)
	selector := clusterv1.ClusterNameLabel + "=" + name
	err := each(ctx, d.client, machineKind, namespaceName(d.config.NamespacePrefix, ref.ProjectID), selector, false, func(m *clusterv1.Machine) {
		if m.DeletionTimestamp.IsZero() {
			s.Machines = append(s.Machines, m)
		}
	})
	if err != nil {
		return nil, classify(err)
	}
	nodes := map[string][]driver.Node{}
	for _, g := range ref.NodeGroups {
		machines := s.machinesOf(g.UUID, g.IsMaster())
		slices.SortFunc(machines, func(a, b *clusterv1.Machine) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		for _, m := range machines {
			n := driver.Node{Index: index(m, nodesName(name, g)), Name: m.Status.NodeRef.Name, ProviderID: m.Spec.ProviderID, Address: address(m)}
			n.ServerID = n.ProviderID[strings.LastIndex(n.ProviderID, "/")+1:]
			if t := machineTrouble(s, m, d.now()); t != nil {
				n.Fault = t.text
			}
			nodes[g.UUID] = append(nodes[g.UUID], n)
		}
	}
	return nodes, nil
}

func index(m *clusterv1.Machine, group string) string { return strings.TrimPrefix(m.Name, group+"-") }

// address is the one by which a node is known: the external one, if it has one.
func address(m *clusterv1.Machine) string {
	internal, external := "", ""
	for _, x := range m.Status.Addresses {
		switch {
		case x.Type == clusterv1.MachineExternalIP && external == "":
			external = x.Address
		case x.Type == clusterv1.MachineInternalIP && internal == "":
			internal = x.Address
		}
	}
	return cmp.Or(external, internal)
}

// matching are the machines of a group that the texts name: by server id, node
// name, machine name, index or address.
func matching(machines []*clusterv1.Machine, group string, nodes []string) []*clusterv1.Machine {
	var out []*clusterv1.Machine
	for _, m := range machines {
		if slices.ContainsFunc(nodes, func(n string) bool { return isNode(m, group, n) }) {
			out = append(out, m)
		}
	}
	return out
}

func isNode(m *clusterv1.Machine, group, name string) bool {
	id := m.Spec.ProviderID
	if m.Name == name || m.Status.NodeRef.Name == name || index(m, group) == name {
		return true
	}
	// A node reports its server's id as systemUUID, on some firmware in capitals.
	if id != "" && (id == name || strings.EqualFold(id[strings.LastIndex(id, "/")+1:], name)) {
		return true
	}
	return slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool { return a.Address == name })
}
