// Package capi builds clusters with Cluster API and its provider for
// OpenStack: plain objects, rendered by a pure function from the rows and
// applied to a management cluster. It never speaks to a workload cluster.
// spec/capi-driver.md is what it follows; ready add-on manifests are the
// operator's.
package capi

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/telemetry"
)

// Driver is the driver. It holds no state but connections.
type Driver struct {
	config Config
	client *client
	caCert []byte
	addons *Addons
	// telemetry of the calls to the management cluster and to OpenStack; nil: none.
	telemetry *telemetry.Telemetry
	now       func() time.Time
	// cloud opens OpenStack with a cluster's credential; nil: never.
	cloud func(context.Context, cloud) (openStack, error)
}

var (
	_ driver.Driver            = (*Driver)(nil)
	_ driver.BatchObserver     = (*Driver)(nil)
	_ driver.HealthObserver    = (*Driver)(nil)
	_ driver.CredentialRotator = (*Driver)(nil)
	_ driver.LeafRotator       = (*Driver)(nil)
	_ driver.NodeLister        = (*Driver)(nil)
	_ driver.Forgetter         = (*Driver)(nil)
)

// New reads what the configuration names; it calls nobody yet, so that a
// management cluster that is away stops no function from starting.
func New(ctx context.Context, config Config, t *telemetry.Telemetry) (*Driver, error) {
	d, err := NewFor(ctx, config, nil)
	if err == nil {
		d.telemetry, d.client.telemetry = t, t
	}
	return d, err
}

// NewFor is New with a connection of the caller's; nil: the kubeconfig's.
func NewFor(_ context.Context, config Config, connection *rest.Config) (*Driver, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	d := &Driver{config: config, client: &client{config: config, fixed: connection}, now: time.Now}
	if config.CACert != "" {
		data, err := os.ReadFile(config.CACert)
		if err != nil {
			return nil, fmt.Errorf("CARAFE_CAPI_CACERT: %w", err)
		}
		d.caCert = data
	}
	if config.Addons != "" {
		addons, err := LoadAddons(config.Addons)
		if err != nil {
			return nil, fmt.Errorf("CARAFE_CAPI_ADDONS: %w", err)
		}
		d.addons = addons
	}
	if config.AuthURL != "" {
		d.cloud = d.openCloud
	}
	return d, nil
}

// Describe says what the driver can build. Authorities cannot be rotated:
// Cluster API has no way to do it under a running control plane.
func (d *Driver) Describe() driver.Description {
	var types []driver.ClusterType
	for _, os := range []string{"ubuntu", "flatcar", "debian", "rockylinux", "fedora", "centos", "rhel", "almalinux", "opensuse"} {
		types = append(types, driver.ClusterType{ServerType: "vm", OS: os, COE: "kubernetes"})
	}
	return driver.Description{
		Name: "k8s_capi", ClusterTypes: types, FollowsTemplate: true, RotateLeaf: true,
		RotateCredential: d.config.AuthURL != "", Credential: d.config.AuthURL != "",
	}
}

// desired is what a ref's rows ask for, without secrets.
func desired(ref driver.Ref) driver.Cluster {
	c := driver.Cluster{Cluster: ref.Cluster, Template: ref.Template, NodeGroups: ref.NodeGroups}
	if ref.Operation == nil {
		return c
	}
	c.Operation = *ref.Operation
	if a := arguments[magnum.ResizeArguments](ref.Operation); len(a.NodesToRemove) > 0 {
		for _, g := range ref.NodeGroups {
			if ref.Operation.NodeGroupID != nil && *ref.Operation.NodeGroupID == g.UUID ||
				ref.Operation.NodeGroupID == nil && g.IsDefault && !g.IsMaster() {
				c.NodesToRemove = map[string][]string{g.UUID: a.NodesToRemove}
			}
		}
	}
	return c
}

// input is all that Render needs, beside what OpenStack says.
func (d *Driver) input(c driver.Cluster, s *Snapshot, dialect Dialect) Input {
	return Input{
		Cluster: c, Config: d.config, CACert: d.caCert, Resolved: s.resolved(),
		Observed: s, Dialect: dialect, Addons: d.addons,
	}
}

// Apply writes the objects of a cluster, waves in order. It stops where a
// later step could do harm: at another cluster's certificates, at a cluster
// that is being deleted or held, at the mark of later rows.
func (d *Driver) Apply(ctx context.Context, c driver.Cluster) (driver.Accepted, error) {
	name := ClusterName(c.Cluster)
	accepted := driver.Accepted{StackID: name}
	dialect, err := d.client.infrastructureDialect(ctx)
	if err != nil {
		return driver.Accepted{}, classify(err)
	}
	s, err := d.client.snapshot(ctx, dialect, namespaceName(d.config.NamespacePrefix, c.ProjectID), name)
	if err != nil {
		return driver.Accepted{}, classify(err)
	}
	if err := mayApply(s, c); err != nil {
		return driver.Accepted{}, err
	}
	in := d.input(c, s, dialect)
	if in.Resolved, err = d.resolve(ctx, in); err != nil {
		return driver.Accepted{}, err
	}
	plan, err := Render(in)
	if err != nil {
		return driver.Accepted{}, err
	}
	if err := d.apply(ctx, plan, s); err != nil {
		return driver.Accepted{}, classify(err)
	}
	return accepted, classify(d.cleanUp(ctx, plan, s, dialect))
}

// mayApply refuses to write to a cluster that someone else has in hand.
func mayApply(s *Snapshot, c driver.Cluster) error {
	if s.Cluster == nil {
		return nil
	}
	if s.dying() {
		return fault.New(fault.Conflict, "The cluster is being deleted on the management cluster.")
	}
	if uuid := s.Cluster.Labels[labelClusterUUID]; uuid != c.UUID {
		return fault.New(fault.Invalid, "The management cluster has another cluster under the name %s.", s.Cluster.Name).WithReason(fault.ReasonConfiguration)
	}
	if s.paused() {
		return fault.New(fault.Unavailable, "The cluster is paused on the management cluster")
	}
	if generation(s) > c.Version {
		return stale()
	}
	return nil
}
