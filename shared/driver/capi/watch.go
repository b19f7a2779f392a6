package capi

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Observe looks at one cluster. While an operation runs it also takes the next
// step of it: workers follow an upgraded control plane, named nodes are
// replaced after they have gone, a deleted cluster's load balancers are swept.
func (d *Driver) Observe(ctx context.Context, ref driver.Ref) (driver.Observation, error) {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return driver.Observation{}, classify(err)
	}
	s, err := d.client.snapshot(ctx, dialect, namespaceName(d.config.NamespacePrefix, ref.ProjectID), ClusterName(ref.Cluster))
	if err != nil {
		return driver.Observation{}, classify(err)
	}
	o, err := d.observe(ctx, ref, s, dialect)
	return o, classify(err)
}

// observeParallel steps are taken at once when many clusters are observed.
const observeParallel = 4

// few clusters are read one by one, more by listing everything.
const few = 2

// ObserveAll looks at many clusters with a number of calls that does not grow
// with them; only a cluster that takes a step costs calls of its own.
func (d *Driver) ObserveAll(ctx context.Context, refs []driver.Ref) []driver.Result {
	out := make([]driver.Result, len(refs))
	if len(refs) <= few {
		for i, ref := range refs {
			out[i].Observation, out[i].Err = d.Observe(ctx, ref)
		}
		return out
	}
	fail := func(err error) []driver.Result {
		for i := range out {
			out[i].Err = classify(err)
		}
		return out
	}
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return fail(err)
	}
	all, err := d.client.snapshots(ctx, dialect, refs)
	if err != nil {
		return fail(err)
	}
	var g errgroup.Group
	g.SetLimit(observeParallel)
	for i, ref := range refs {
		g.Go(func() error {
			p := placeOf(d.config, ref)
			s := all[p]
			if s == nil {
				s = newSnapshot()
			}
			var err error
			if d.acts(ref, s, dialect) {
				// Whoever acts must not act on the past.
				s, err = d.client.snapshot(ctx, dialect, p.namespace, p.name)
			}
			if err == nil {
				out[i].Observation, err = d.observe(ctx, ref, s, dialect)
			}
			out[i].Err = classify(err)
			return nil
		})
	}
	_ = g.Wait() // each result has its own error
	return out
}

// acts reports whether observing the cluster means to do something.
func (d *Driver) acts(ref driver.Ref, s *Snapshot, dialect Dialect) bool {
	if deleting(ref) {
		return true
	}
	if ref.Operation == nil || s.Cluster == nil || s.paused() || s.dying() {
		return false
	}
	plan, err := Render(d.input(desired(ref), s, dialect))
	return err == nil && generation(s) <= ref.Version && plan.missing(s) != ""
}

func deleting(ref driver.Ref) bool {
	return ref.Operation != nil && ref.Operation.Kind == magnum.ClusterDelete || ref.Status == magnum.DeleteInProgress
}

func (d *Driver) observe(ctx context.Context, ref driver.Ref, s *Snapshot, dialect Dialect) (driver.Observation, error) {
	if deleting(ref) {
		return d.observeDeletion(ctx, ref, s, dialect)
	}
	if s.Cluster != nil && s.Cluster.Labels[labelClusterUUID] != ref.UUID {
		return driver.Observation{}, fault.New(fault.Invalid, "The management cluster has another cluster under the name %s.", s.Cluster.Name).WithReason(fault.ReasonConfiguration)
	}
	applied, later := true, []string(nil)
	if ref.Operation != nil && s.Cluster != nil && !s.paused() && !s.dying() {
		plan, err := Render(d.input(desired(ref), s, dialect))
		if err != nil {
			return driver.Observation{}, err
		}
		later = plan.Waits
		if plan.missing(s) != "" {
			applied = false
			if generation(s) <= ref.Version {
				if err := d.apply(ctx, plan, s); err != nil {
					return driver.Observation{}, err
				}
			}
		}
	}
	if ref.Operation != nil {
		d.askNova(ctx, s)
	}
	o := assess(ref, s, d.config, applied, later, d.now())
	if still := stuck(ref, s, d.config, d.now()); still > 0 && o.Progress == driver.InProgress && !s.paused() {
		slog.WarnContext(ctx, "nothing moves on the management cluster", "cluster", ref.UUID, "operation", ref.Operation.ID, "for", still, "reason", o.Reason)
		d.telemetry.Stuck(ctx, d.Describe().Name)
	}
	return o, nil
}

// RotateCredential moves a cluster to a new application credential. No node is
// replaced: only the provider and the add-ons use it, and both must have taken it
// up before the old one may go.
func (d *Driver) RotateCredential(ctx context.Context, c driver.Cluster) error {
	if _, err := d.Apply(ctx, c); err != nil {
		return err
	}
	return classify(d.takenUp(ctx, c))
}

func (d *Driver) takenUp(ctx context.Context, c driver.Cluster) error {
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return err
	}
	namespace, name := namespaceName(d.config.NamespacePrefix, c.ProjectID), ClusterName(c.Cluster)
	s, err := d.client.snapshot(ctx, dialect, namespace, name)
	if err != nil {
		return err
	}
	if credentialRefused(s) {
		return fault.New(fault.Unavailable, "The management cluster has not taken up the new credential yet").WithReason(fault.ReasonCredential)
	}
	// A cluster that cannot be reached is told when it can.
	if s.ResourceSet == nil || !isTrue(s.Cluster.Status.Conditions, s.Cluster.Generation, clusterv1.ClusterRemoteConnectionProbeCondition) {
		return nil
	}
	var secret metav1.PartialObjectMetadata
	addon := addonName(name, "cloud-config")
	if found, err := d.client.get(ctx, secretKind, namespace, addon, &secret); err != nil || !found {
		return err
	}
	if applied := s.appliedAt(addon); applied.IsZero() || applied.Before(writtenAt(secret)) {
		return fault.New(fault.Unavailable, "The cluster's add-ons have not been given the new credential yet")
	}
	return nil
}

// writtenAt is when the driver last changed an object.
func writtenAt(o metav1.PartialObjectMetadata) time.Time {
	var last time.Time
	for _, f := range o.ManagedFields {
		if f.Manager == manager && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}
