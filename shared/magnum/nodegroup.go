package magnum

import (
	"fmt"
	"slices"
	"strings"

	"carafe/shared/fault"
)

// CheckNodeGroup refuses a group whose bounds, labels or taints cannot be, in
// Magnum's order (spec/api.md §4.3.2). All are faults of kind Conflict, the
// status that Magnum has for them (B60).
func CheckNodeGroup(n NodeGroup) error {
	for _, check := range []func(NodeGroup) error{checkCounts, checkRole, checkNodeLabels, checkNodeTaints} {
		if err := check(n); err != nil {
			return err
		}
	}
	return nil
}

func unfit(attr string, n NodeGroup, format string, args ...any) error {
	return fault.New(fault.Conflict, "%s for %s is invalid (%s).", attr, n.Name, fmt.Sprintf(format, args...))
}

func checkCounts(n NodeGroup) error {
	if most := n.MaxNodeCount; most != nil && *most != 0 {
		if *most < n.MinNodeCount {
			return unfit("max_node_count", n, "min_node_count (%d) should be less or equal to max_node_count (%d)", n.MinNodeCount, *most)
		}
		if n.NodeCount > *most {
			return unfit("max_node_count", n, "node_count (%d) should be less or equal to max_node_count (%d)", n.NodeCount, *most)
		}
	}
	if n.MinNodeCount > n.NodeCount {
		return unfit("min_node_count", n, "min_node_count (%d) should be less or equal to node_count (%d)", n.MinNodeCount, n.NodeCount)
	}
	return nil
}

func checkRole(n NodeGroup) error {
	if !n.IsMaster() {
		return nil
	}
	if len(n.NodeLabels) > 0 {
		return unfit("node_labels", n, "node_labels may not be set on master nodegroups")
	}
	if len(n.NodeTaints) > 0 {
		return unfit("node_taints", n, "node_taints may not be set on master nodegroups")
	}
	return nil
}

// What a kubelet lets itself be labelled with in the namespaces of Kubernetes.
var (
	kubeletPrefixes = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
	kubeletLabels   = []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os",
		"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "kubernetes.io/arch",
		"kubernetes.io/hostname", "kubernetes.io/os", "node.kubernetes.io/instance-type",
		"node.kubernetes.io/windows-build", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
	}
)

func checkNodeLabels(n NodeGroup) error {
	keys := make([]string, 0, len(n.NodeLabels))
	for k := range n.NodeLabels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, key := range keys {
		prefix, _, ok := strings.Cut(key, "/")
		if !ok || !ofKubernetes(prefix) || slices.Contains(kubeletPrefixes, prefix) || slices.Contains(kubeletLabels, key) {
			continue
		}
		return unfit("node_labels", n, "node label '%s' is in a restricted Kubernetes namespace; the kubelet will refuse to start. "+
			"Labels in the kubernetes.io/ and k8s.io/ namespaces must use one of the allowed prefixes (%s) or be one of the allowed labels (%s).",
			key, strings.Join(kubeletPrefixes, ", "), strings.Join(kubeletLabels, ", "))
	}
	return nil
}

func ofKubernetes(prefix string) bool {
	return prefix == "kubernetes.io" || prefix == "k8s.io" ||
		strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

func checkNodeTaints(n NodeGroup) error {
	for i, taint := range n.NodeTaints {
		if taint == nil {
			return unfit("node_taints", n, "node_taints[%d] must be an object with key, effect and optional value", i)
		}
		var unknown []string
		for k := range taint {
			if k != "key" && k != "value" && k != "effect" {
				unknown = append(unknown, k)
			}
		}
		slices.Sort(unknown)
		switch {
		case len(unknown) > 0:
			return unfit("node_taints", n, "node_taints[%d] contains unrecognised field(s) %s; allowed fields are key, value, effect", i, strings.Join(unknown, ", "))
		case taint["key"] == "":
			return unfit("node_taints", n, "node_taints[%d].key is required", i)
		case !slices.Contains(taintEffects, taint["effect"]):
			return unfit("node_taints", n, "node_taints[%d].effect must be one of %s", i, strings.Join(taintEffects, ", "))
		}
	}
	return nil
}
