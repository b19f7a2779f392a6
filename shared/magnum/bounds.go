package magnum

import (
	"strconv"

	"carafe/shared/fault"
)

// CheckBounds refuses a size outside of what the group allows; no maximum and 0
// are no limit.
func CheckBounds(n NodeGroup, count int) error {
	if count >= n.MinNodeCount && (n.MaxNodeCount == nil || *n.MaxNodeCount == 0 || count <= *n.MaxNodeCount) {
		return nil
	}
	most := "None"
	if n.MaxNodeCount != nil {
		most = strconv.Itoa(*n.MaxNodeCount)
	}
	return fault.New(fault.Invalid, "Resizing %s outside the allowed range: min_node_count = %d, max_node_count = %s",
		n.Name, n.MinNodeCount, most)
}
