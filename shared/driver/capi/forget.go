package capi

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"carafe/shared/driver"
)

// Forget implements driver.Forgetter. Cluster API's controllers take the cluster
// down in their order, and what would wait for the cloud is let go of: machines
// first, then the infrastructure, then the Cluster.
func (d *Driver) Forget(ctx context.Context, ref driver.Ref) (left []string, gone bool, err error) {
	if err := d.Delete(ctx, ref); err != nil {
		return nil, false, err
	}
	left, gone, err = d.letGo(ctx, ref)
	return left, gone, classify(err)
}

func (d *Driver) letGo(ctx context.Context, ref driver.Ref) (left []string, gone bool, err error) {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return nil, false, err
	}
	p := placeOf(d.config, ref)
	s, err := d.client.snapshot(ctx, dialect, p.namespace, p.name)
	if err != nil || s.Cluster != nil && s.Cluster.Labels[labelClusterUUID] != ref.UUID {
		return nil, err == nil, err // another's: ours is not there
	}
	// cut takes the finalizers off an object that is being deleted.
	cut := func(kind kindOf, o metav1.Object, inCloud bool) error {
		if o.GetDeletionTimestamp().IsZero() || len(o.GetFinalizers()) == 0 {
			return nil
		}
		if inCloud {
			var whole unstructured.Unstructured
			if _, err := d.client.get(ctx, kind, p.namespace, o.GetName(), &whole.Object); err != nil {
				return err
			}
			left = append(left, identifiers(kind.Kind, whole.Object["status"])...)
		}
		_, err := d.client.merge(ctx, kind, p.namespace, o.GetName(), manager, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
		return err
	}
	for _, m := range s.Machines {
		if err := cut(machineKind, m, false); err != nil {
			return left, false, err
		}
	}
	for _, m := range s.Servers {
		if err := cut(dialect.kind("OpenStackMachine"), m, true); err != nil {
			return left, false, err
		}
	}
	switch {
	case len(s.Machines) > 0 || len(s.Servers) > 0:
	case s.Infrastructure != nil:
		err = cut(dialect.kind("OpenStackCluster"), s.Infrastructure, true)
	case s.Cluster != nil && s.ControlPlane == nil && len(s.Deployments) == 0:
		err = cut(clusterKind, s.Cluster, false)
	case s.Cluster == nil:
		gone = true
	}
	return left, gone, err
}

// identifiers are all that a provider's status names by an id of OpenStack's, as
// "network 14c15d33-…".
func identifiers(what string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			id, text := v[key].(string)
			switch {
			case text && key == "id":
				out = append(out, what+" "+id)
			case text && key == "instanceID":
				out = append(out, "server "+id)
			default:
				out = append(out, identifiers(key, v[key])...)
			}
		}
	case []any:
		for _, x := range v {
			out = append(out, identifiers(what, x)...)
		}
	}
	return out
}
