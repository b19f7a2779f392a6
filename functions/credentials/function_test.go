package credentials

import (
	"context"
	"testing"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/identity"
	"carafe/shared/magnum"
)

// keystone makes credentials in memory.
type keystone struct {
	refuse    error
	meanwhile func() // runs while the credential is made
	made      []string
	revoked   []string
}

func (k *keystone) Delegate(_ context.Context, caller identity.Caller, clusterID, _ string) (driver.Credential, error) {
	if k.refuse != nil {
		return driver.Credential{}, k.refuse
	}
	k.made = append(k.made, caller.UserID+"/"+clusterID)
	if k.meanwhile != nil {
		k.meanwhile()
	}
	return driver.Credential{ID: "new", Secret: "new-secret"}, nil
}

func (k *keystone) Revoke(_ context.Context, userID, credentialID, _ string) error {
	k.revoked = append(k.revoked, userID+"/"+credentialID)
	return nil
}

func patch(t *testing.T, b *functiontest.Bench, path, who, roles, version string) functiontest.Answer {
	t.Helper()
	return b.Call(t, Function(), functiontest.Request{Method: "PATCH", Path: "/v1/credentials" + path, Who: who, Roles: roles, Version: version})
}

func TestRotateIsRefused(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	k := &keystone{}
	b.Conductor.Delegation, b.Driver.Description.Credential = k, true
	creating := b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "creating"; c.Status = magnum.CreateInProgress })
	for _, tc := range []struct {
		name, path, who, roles, version string
		status                          int
		detail                          string
	}{
		{"OldVersion", "/c1", "", "", "1.11", 406, "Version 1.11 was requested but the requested API credential_rotate is not supported for this version."},
		{"Creating", "/" + creating.UUID, "", "", "", 400, `Rotating the credential of a cluster when status is "CREATE_IN_PROGRESS" is not supported.`},
		{"Reader", "/c1", "", "reader", "", 403, "Policy doesn't allow credential:rotate to be performed."},
		{"OtherProject", "/" + b.Cluster.UUID, "p2/u1", "", "", 404, "Cluster " + b.Cluster.UUID + " could not be found."},
		{"NotThere", "/zz", "", "", "", 404, "Cluster zz could not be found."},
		{"NoCluster", "", "", "", "", 400, `Missing argument: "cluster_ident"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := patch(t, b, tc.path, tc.who, tc.roles, tc.version)
			if a.Status != tc.status || tc.name != "OldVersion" && a.Detail() != tc.detail {
				t.Errorf("%d %q, want %d %q", a.Status, a.Detail(), tc.status, tc.detail)
			}
		})
	}
	k.refuse = fault.New(fault.Forbidden, "Keystone says no.")
	if a := patch(t, b, "/c1", "", "", ""); a.Status != 403 || a.Detail() != "Keystone says no." {
		t.Errorf("refused by Keystone: %d %q", a.Status, a.Detail())
	}
	b.Driver.Description.RotateCredential = false
	if a := patch(t, b, "/c1", "", "", ""); a.Status != 400 || a.Detail() != "Credential rotation is not supported by driver." {
		t.Errorf("unsupported: %d %q", a.Status, a.Detail())
	}
	if len(k.made) != 0 || len(b.Events(t, b.Cluster.UUID)) != 0 {
		t.Errorf("made %v, events %v", k.made, b.Events(t, b.Cluster.UUID))
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	k := &keystone{}
	b.Conductor.Delegation, b.Driver.Description.Credential = k, true
	if a := patch(t, b, "/c1", "p1/u2", "", "1.12"); a.Status != 202 || a.Body["uuid"] != b.Cluster.UUID || len(a.Body) != 1 {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.CreateComplete || c.UserID != "u1" {
		t.Errorf("%s, owner %s: the lifecycle has been touched", c.Status, c.UserID)
	}
	o := b.Operation(t, b.Cluster.UUID)
	if o.Kind != magnum.CredentialRotate || string(o.Arguments) != `{"epoch": 1}` || o.UserID != "u2" {
		t.Errorf("operation %s %s of %s", o.Kind, o.Arguments, o.UserID)
	}
	if c, err := b.Secrets.Credential(t.Context(), b.Cluster.UUID, 1); err != nil || c.Secret != "new-secret" {
		t.Errorf("the new credential: %v", err)
	}

	// A second one while the first is at work takes its place.
	if a := patch(t, b, "/c1", "", "", ""); a.Status != 202 {
		t.Errorf("twice: %d %s", a.Status, a.Text)
	}
	if first, err := b.DB.Operations.Get(t.Context(), o.ID); err != nil || first.State != magnum.Superseded {
		t.Errorf("the first is %s, %v", first.State, err)
	}
	if o := b.Operation(t, b.Cluster.UUID); string(o.Arguments) != `{"epoch": 2}` || o.UserID != "u1" {
		t.Errorf("operation %s of %s", o.Arguments, o.UserID)
	}
	// Had only the answer to the commit been lost, it would be in force.
	b.Conductor.TakeBack(t.Context(), identity.Caller{UserID: "u1"}, b.Cluster.UUID, "new")
	if len(k.made) != 2 || len(k.revoked) != 0 {
		t.Errorf("made %v, revoked %v", k.made, k.revoked)
	}
}

// TestWhatCameToNothingIsTakenBack has the cluster change its status between
// the look at it and the record of the wish.
func TestWhatCameToNothingIsTakenBack(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	k := &keystone{}
	b.Conductor.Delegation, b.Driver.Description.Credential = k, true
	k.meanwhile = func() {
		c := b.Reload(t, b.Cluster.UUID)
		c.Status = magnum.DeleteInProgress
		if err := b.DB.Clusters.Update(t.Context(), &c, b.Clock); err != nil {
			t.Error(err)
		}
	}
	a := patch(t, b, "/c1", "", "", "")
	if want := `Rotating the credential of a cluster when status is "DELETE_IN_PROGRESS" is not supported.`; a.Status != 400 || a.Detail() != want {
		t.Errorf("%d %q, want %q", a.Status, a.Detail(), want)
	}
	if len(k.made) != 1 || len(k.revoked) != 1 || k.revoked[0] != "u1/new" {
		t.Errorf("made %v, revoked %v", k.made, k.revoked)
	}
}

func TestRotateWithoutKeystone(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	if a := patch(t, b, "/c1", "", "", ""); a.Status != 202 {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	if _, err := b.Secrets.Credential(t.Context(), b.Cluster.UUID, certstore.Active); !fault.Is(err, fault.NotFound) {
		t.Errorf("a credential out of nowhere: %v", err)
	}
	other := functiontest.New(t)
	other.Driver.Description.Credential = true
	if a := patch(t, other, "/c1", "", "", ""); a.Status != 501 {
		t.Errorf("%d %s", a.Status, a.Text)
	}
}
