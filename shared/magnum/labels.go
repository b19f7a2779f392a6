package magnum

import "maps"

// LabelDifferences compares labels with those of the parent, a cluster's with its
// template's or a node group's with its cluster's (spec/api.md §6.4): parent's
// values of those that differ, own ones that only the child has, and parent's
// ones that only the parent has.
func LabelDifferences(parent, child map[string]string) (overridden, added, skipped map[string]string) {
	overridden, added, skipped = map[string]string{}, map[string]string{}, map[string]string{}
	for k, v := range child {
		was, ok := parent[k]
		switch {
		case !ok:
			added[k] = v
		case was != v:
			overridden[k] = was
		}
	}
	for k, v := range parent {
		if _, ok := child[k]; !ok {
			skipped[k] = v
		}
	}
	return overridden, added, skipped
}

// FollowLabels are the labels of a child whose parent's change: those that are the
// parent's follow, its own stay. What the parent newly has comes only to a child
// that took all from it: one that left some out was given labels instead of them.
func FollowLabels(child, from, to map[string]string) map[string]string {
	_, _, skipped := LabelDifferences(from, child)
	moved := maps.Clone(child)
	if moved == nil {
		moved = map[string]string{}
	}
	for k, v := range from {
		if own, ok := child[k]; !ok || own != v {
			continue
		}
		if _, ok := to[k]; !ok {
			delete(moved, k)
			continue
		}
		moved[k] = to[k]
	}
	for k, v := range to {
		_, old := from[k]
		_, own := child[k]
		if len(skipped) == 0 && !old && !own {
			moved[k] = v
		}
	}
	return moved
}

// MergeLabels lays own labels over those of the parent.
func MergeLabels(parent, own map[string]string) map[string]string {
	merged := make(map[string]string, len(parent)+len(own))
	maps.Copy(merged, parent)
	maps.Copy(merged, own)
	return merged
}
