package conductor

import (
	"maps"
	"slices"

	"carafe/shared/magnum"
)

// sameCluster compares what Clusters.Update stores.
func sameCluster(a, b magnum.Cluster) bool {
	return a.UserID == b.UserID && a.ClusterTemplateID == b.ClusterTemplateID && same(a.StackID, b.StackID) &&
		same(a.APIAddress, b.APIAddress) && a.Status == b.Status && same(a.StatusReason, b.StatusReason) &&
		same(a.COEVersion, b.COEVersion) && same(a.ContainerVersion, b.ContainerVersion) && maps.Equal(a.Labels, b.Labels)
}

// sameNodeGroup compares what NodeGroups.Update stores.
func sameNodeGroup(a, b magnum.NodeGroup) bool {
	return slices.Equal(a.NodeAddresses, b.NodeAddresses) && a.NodeCount == b.NodeCount &&
		a.MinNodeCount == b.MinNodeCount && same(a.MaxNodeCount, b.MaxNodeCount) && same(a.StackID, b.StackID) &&
		a.Status == b.Status && same(a.StatusReason, b.StatusReason) && same(a.ImageID, b.ImageID) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.NodeLabels, b.NodeLabels) && slices.EqualFunc(a.NodeTaints, b.NodeTaints, maps.Equal[map[string]string])
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
