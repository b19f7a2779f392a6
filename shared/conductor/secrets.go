package conductor

import (
	"context"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Delegation makes and takes back application credentials: what a driver needs
// later in the user's name is made while the user's token is at hand
// (ARCHITECTURE §7). It is nil where there is no Keystone.
type Delegation interface {
	// Delegate makes a credential of the caller's for the cluster. Faults are
	// for the caller: what Keystone refused and why.
	Delegate(ctx context.Context, caller identity.Caller, clusterID, clusterName string) (driver.Credential, error)
	// Revoke takes it back. One that is gone already is a success.
	Revoke(ctx context.Context, userID, credentialID, clusterID string) error
}

// EnsureCertificates makes the cluster's first authorities and puts them in
// force. It may run any number of times.
func (r *Run) EnsureCertificates(ctx context.Context) error {
	const first = 1
	if err := r.Secrets.Ensure(ctx, r.Operation.ClusterID, first); err != nil {
		return err
	}
	return r.InTx(ctx, func(tx *postgres.Store) error {
		return certstore.Activate(ctx, tx.Secrets, r.Operation.ClusterID, first)
	})
}

// Desired is what the rows ask for, with the secrets of the epochs in force.
func (r *Run) Desired(ctx context.Context) (driver.Cluster, error) {
	desired := r.Subject.Desired(r.Operation)
	desired.NodesToRemove = r.Subject.nodesToRemove()
	epoch, err := r.Subject.installedEpoch()
	if err != nil {
		return desired, err
	}
	certificates, err := r.Secrets.Load(ctx, r.Operation.ClusterID, epoch)
	if err != nil {
		return desired, err
	}
	desired.Certificates = &certificates
	credential, err := r.Secrets.Credential(ctx, r.Operation.ClusterID, certstore.Active)
	switch {
	case err == nil:
		desired.Credential = &credential
	case !fault.Is(err, fault.NotFound):
		return desired, err
	}
	return desired, nil
}

// installedEpoch is the epoch of the certificates that the driver was given last:
// the one in force, unless a rotation waits for the driver. A resize beside it
// must not bring the old ones back.
func (s *Subject) installedEpoch() (int, error) {
	for _, o := range s.Open {
		if o.Kind != magnum.CARotate || !o.Done(ApplyStep) {
			continue
		}
		a, err := Arguments[magnum.RotateArguments](o)
		return a.Epoch, err
	}
	return certstore.Active, nil
}

// nodesToRemove collects what the open resizes named, by node group.
func (s *Subject) nodesToRemove() map[string][]string {
	named := map[string][]string{}
	for _, o := range s.Open {
		if o.Kind != magnum.ClusterResize || o.NodeGroupID == nil || o.SupersededBy != nil {
			continue
		}
		if a, err := Arguments[magnum.ResizeArguments](o); err == nil && len(a.NodesToRemove) > 0 {
			named[*o.NodeGroupID] = a.NodesToRemove
		}
	}
	return named
}

// Apply is the step in which the driver takes the desired state, whole: create,
// resize, upgrade and the node group operations are all an Apply. Then the
// operation waits until the driver has brought it about.
func Apply() Step {
	return Step{Name: ApplyStep, Await: true, Do: func(ctx context.Context, r *Run) error {
		desired, err := r.Desired(ctx)
		if err != nil {
			return err
		}
		accepted, err := r.Driver.Apply(ctx, desired)
		if err != nil || accepted.StackID == "" {
			return err
		}
		r.accepted = func(s *Subject) {
			s.Cluster.StackID = orKeep(s.Cluster.StackID, accepted.StackID)
			for i := range s.NodeGroups {
				// Another group's own is known by what is seen of it.
				if n := &s.NodeGroups[i]; n.StackID == nil && n.IsDefault {
					n.StackID = s.Cluster.StackID
				}
			}
		}
		return nil
	}}
}
