package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// firstHost is the last part of the address of a group's node 0.
const firstHost = 10

// address is that of the group's node with the index: the same one every time.
func address(n magnum.NodeGroup, index int) string {
	a, b, host := place(n)
	host += index
	return fmt.Sprintf("10.%d.%d.%d", a, (b+host/256)&255, host%256)
}

func place(n magnum.NodeGroup) (a, b, host int) {
	sum := sha256.Sum256([]byte(n.ClusterID + n.Name))
	seed := int(binary.BigEndian.Uint16(sum[:2]))
	return seed >> 8, seed & 255, firstHost
}

// indexOf is the index of the node that has the address.
func indexOf(n magnum.NodeGroup, address string) (int, bool) {
	var a, b, c int
	if _, err := fmt.Sscanf(address, "10.%d.%d.%d", &a, &b, &c); err != nil {
		return 0, false
	}
	first, second, host := place(n)
	index := ((b-second)&255)*256 + c - host
	return index, a == first && index >= 0
}

// node is all that is known of the group's node with the index.
func node(c magnum.Cluster, n magnum.NodeGroup, index int) driver.Node {
	server := uuid.NewSHA1(uuid.MustParse(n.UUID), []byte(strconv.Itoa(index))).String()
	return driver.Node{
		Index: strconv.Itoa(index), Name: fmt.Sprintf("%s-%s-%d", named(c, 24), groupName(n), index), Address: address(n, index),
		ServerID: server, ProviderID: "openstack:///" + server,
	}
}

// groupName is the part of a node's name that says its group. One that has to
// be cut or mended gets a part of its hash, to be told from others.
func groupName(n magnum.NodeGroup) string {
	const most = 15
	name := strings.Trim(unfit.ReplaceAllString(strings.ToLower(n.Name), "-"), "-")
	if name == n.Name && len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(n.Name))
	return strings.Trim(name[:min(len(name), most-5)]+"-"+hex.EncodeToString(sum[:2]), "-")
}

// is reports whether a client means the node: the autoscaler sends the
// systemUUID or the bare index, the healer the server id, people a name or an
// address (spec/clients.md §5, §6).
func is(n driver.Node, text string) bool {
	return text == n.Name || text == n.Address || strings.EqualFold(text, n.ServerID) || text == n.ProviderID || text == n.Index
}

// planned is what a group becomes: the nodes that are named go, and beyond them
// the youngest; what is missing is made anew.
func planned(was postgres.SimulatedNodes, present []int, c magnum.Cluster, n magnum.NodeGroup, remove []string) postgres.SimulatedNodes {
	p := postgres.SimulatedNodes{Before: present, Next: was.Next}
	for _, index := range was.Now {
		if !slices.ContainsFunc(remove, func(text string) bool { return is(node(c, n, index), text) }) {
			p.Now = append(p.Now, index)
		}
	}
	count := min(n.NodeCount, mostNodes)
	for len(p.Now) < count {
		p.Now = append(p.Now, p.Next)
		p.Next++
	}
	p.Now = slices.Clone(p.Now[:count])
	return p
}

// mostNodes is how many nodes of a group there is room for, as a real cloud has
// its bounds: each of them takes memory.
const mostNodes = 10000

// tooLarge tells which group that is being changed there is no room for.
func tooLarge(groups []magnum.NodeGroup) (reason string, ok bool) {
	for _, n := range groups {
		if n.NodeCount > mostNodes && n.Status.InProgress() {
			return fmt.Sprintf("simulated driver: there is room for %d nodes in a node group, not for the %d of %s", mostNodes, n.NodeCount, n.Name), true
		}
	}
	return "", false
}

// checkNodes refuses a wish to remove what is not in the group: another node
// would have to go in its place.
func checkNodes(current *driver.Ref, desired driver.Cluster) error {
	if current == nil {
		return nil
	}
	for _, n := range current.NodeGroups {
		var there []driver.Node
		for _, a := range n.NodeAddresses {
			if index, ok := indexOf(n, a); ok {
				there = append(there, node(current.Cluster, n, index))
			}
		}
		seen := map[string]string{}
		for _, text := range desired.NodesToRemove[n.UUID] {
			i := slices.IndexFunc(there, func(x driver.Node) bool { return is(x, text) })
			if i < 0 {
				if _, err := strconv.Atoi(text); err == nil && n.Status != magnum.CreateComplete && n.Status != magnum.UpdateComplete {
					continue // one that is on its way, or never came up, has no name but its index
				}
				return fault.New(fault.Invalid, "The node %s is not in the node group %s.", text, n.Name)
			}
			if twice, ok := seen[there[i].Index]; ok {
				return fault.New(fault.Invalid, "nodes_to_remove names a node of %s twice: %s, %s.", n.Name, twice, text)
			}
			seen[there[i].Index] = text
		}
	}
	return nil
}
