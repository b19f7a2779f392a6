package kubeprobe

import (
	"fmt"
	"strings"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// maxReasons bounds the nodes that a verdict names one by one. Of larger
// clusters those that are not ready are named, up to the same number.
const maxReasons = 500

// Verdict judges what a probe has seen of a cluster that should have so many
// nodes (0: do not count, for one that is being resized). A cluster that was not
// reached is UNKNOWN, and missed says so: a single miss should not change what is
// known, several should (PB-51).
func Verdict(r Result, wanted int) (h driver.Health, missed bool) {
	h.Reasons = map[string]string{"api": "ok"}
	if r.Problem != "" {
		h.Reasons["api"] = r.Problem
	}
	if !r.Reached {
		h.Status = magnum.UnknownHealth
		return h, true
	}
	ready := 0
	for _, n := range r.Nodes {
		if n.Ready {
			ready++
		}
	}
	name(h.Reasons, r.Nodes, ready)
	switch {
	case !r.OK, !r.Listed, ready < len(r.Nodes):
		h.Status = magnum.Unhealthy
	case ready < wanted:
		h.Status = magnum.Unhealthy
		h.Reasons["nodes"] = fmt.Sprintf("%d of %d nodes are Ready.", ready, wanted)
	default:
		h.Status = magnum.Healthy
	}
	return h, false
}

// name tells of each node, in Magnum's form.
func name(reasons map[string]string, nodes []Node, ready int) {
	few := len(nodes) <= maxReasons
	if !few {
		reasons["nodes"] = fmt.Sprintf("%d of %d nodes are Ready.", ready, len(nodes))
	}
	named := 0
	for _, n := range nodes {
		switch {
		case named == maxReasons:
			return
		case n.Ready && few:
			reasons[n.Name+".Ready"] = "True"
		case !n.Ready:
			reasons[n.Name+".Ready"] = "False"
		default:
			continue
		}
		named++
	}
}

// Decide says whether a cluster is to be probed. If not, the health that follows
// without a probe, or nil to leave what is known as it is.
func Decide(c magnum.Cluster) (probe bool, h *driver.Health) {
	switch {
	case c.Status == magnum.CreateInProgress, c.Status == magnum.DeleteInProgress, c.APIAddress == nil, *c.APIAddress == "":
		return false, nil // there is nothing to look at, yet or any more (PB-51)
	case Healed(c):
		return false, nil
	case !accessible(c):
		return false, &driver.Health{Status: magnum.UnknownHealth,
			Reasons: map[string]string{"api": fmt.Sprintf("The cluster %s is not accessible.", c.Name)}}
	}
	return true, nil
}

// Healed reports whether magnum-auto-healer runs in the cluster: it reports the
// health by itself.
func Healed(c magnum.Cluster) bool {
	return isTrue(c.Labels["auto_healing_enabled"]) && c.Labels["auto_healing_controller"] == "magnum-auto-healer"
}

// accessible reports whether the API server has an address in public
// (magnum/drivers/common/k8s_monitor.py).
func accessible(c magnum.Cluster) bool {
	if !c.MasterLBEnabled {
		return c.FloatingIPEnabled
	}
	if own, ok := c.Labels["master_lb_floating_ip_enabled"]; ok {
		return isTrue(own)
	}
	return c.FloatingIPEnabled
}

// isTrue reads a label as OpenStack does (oslo_utils.strutils, bool_from_string).
func isTrue(label string) bool {
	switch strings.ToLower(strings.TrimSpace(label)) {
	case "1", "t", "true", "on", "y", "yes":
		return true
	}
	return false
}
