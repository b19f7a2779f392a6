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

// MergeLabels lays own labels over those of the parent.
func MergeLabels(parent, own map[string]string) map[string]string {
	merged := make(map[string]string, len(parent)+len(own))
	maps.Copy(merged, parent)
	maps.Copy(merged, own)
	return merged
}
