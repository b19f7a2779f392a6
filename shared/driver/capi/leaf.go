package capi

import (
	"context"
	"time"

	"carafe/shared/driver"
	"carafe/shared/fault"
)

// RotateLeaf makes the control plane's nodes, and with them the certificates
// that its components show, new: those that are older than at are replaced one
// by one. It may run any number of times with the same time. (Without it they
// are replaced 30 days before they expire.)
func (d *Driver) RotateLeaf(ctx context.Context, ref driver.Ref, at time.Time) error {
	namespace, name := namespaceName(d.config.NamespacePrefix, ref.ProjectID), controlPlaneName(ClusterName(ref.Cluster))
	found, err := d.client.merge(ctx, controlPlaneKind, namespace, name, manager, map[string]any{
		"spec": map[string]any{"rollout": map[string]any{"after": at.UTC().Format(time.RFC3339)}},
	})
	if err == nil && !found {
		return fault.New(fault.Conflict, "The cluster has no control plane yet.")
	}
	return classify(err)
}
