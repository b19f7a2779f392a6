package statussync

import (
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Types of what Knative's ApiServerSource sends for an object of the
// management cluster (knative/overlays/capi).
const (
	changeAdd    = "dev.knative.apiserver.resource.add"
	changeUpdate = "dev.knative.apiserver.resource.update"
	changeDelete = "dev.knative.apiserver.resource.delete"
)

func isChange(e event.Event) bool {
	return strings.HasPrefix(e.Type(), "dev.knative.apiserver.resource.")
}

// changed is the uuid of the cluster that an object of the management
// cluster's belongs to; empty if it is nobody's.
func changed(e event.Event) string {
	var o struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if e.DataAs(&o) != nil {
		return ""
	}
	return o.Metadata.Labels["magnum.openstack.org/cluster-uuid"]
}
