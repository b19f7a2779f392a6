//go:build openstack

package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/keystonetest"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// TestRealDelegation follows the application credential of a cluster, from the
// request that makes it to the delete that revokes it.
func TestRealDelegation(t *testing.T) {
	cloud := keystonetest.Load(t)
	b := start(t, cloud, nil)
	template := b.ask(t, "demo", "POST", "/clustertemplates", templateBody("delegation")).want(t, http.StatusCreated).str("uuid")
	id := b.ask(t, "demo", "POST", "/clusters", clusterBody(template, "delegation")).want(t, http.StatusAccepted).str("uuid")

	made := credentialsOf(t, b, "demo", id) // the answer is here, so it is
	if len(made) != 1 || made[0].Unrestricted || made[0].ProjectID != userOf(t, b, "demo").ProjectID || len(made[0].Roles) == 0 {
		t.Fatalf("made %+v", made)
	}
	b.settle(t, id, "CREATE_COMPLETE")
	first := sealed(t, b, id)
	acts(t, b, first, true)
	if first.ID != made[0].ID {
		t.Errorf("the row names %s, Keystone has %s", first.ID, made[0].ID)
	}

	// Another member of the project rotates it: it is theirs from now on.
	b.ask(t, "demo2", "PATCH", "/credentials/"+id, map[string]any{}).want(t, http.StatusAccepted)
	waitFor(t, "the first credential is revoked", func() bool { return len(credentialsOf(t, b, "demo", id)) == 0 })
	second := sealed(t, b, id)
	acts(t, b, first, false)
	acts(t, b, second, true)
	if mine := credentialsOf(t, b, "demo2", id); len(mine) != 1 || mine[0].ID != second.ID || second.Epoch != 2 {
		t.Errorf("after the rotation: %+v, Keystone has %+v", second, mine)
	}

	// A credential makes no other one: what Keystone says reaches the caller, and
	// nothing is left of the cluster.
	machine := cloud.LoginWith(t, tokens.AuthOptions{ApplicationCredentialID: second.ID, ApplicationCredentialSecret: second.Secret}).Token()
	refused := b.askWith(t, machine, "POST", "/clusters", clusterBody(template, "by-machine"))
	refused.want(t, http.StatusForbidden)
	if !strings.HasPrefix(refused.detail(), "An application credential for the cluster cannot be made. Keystone: ") {
		t.Errorf("refused with %q", refused.detail())
	}
	b.ask(t, "admin", "GET", "/clusters/by-machine", nil).want(t, http.StatusNotFound)

	b.ask(t, "demo", "DELETE", "/clusters/"+id, nil).want(t, http.StatusNoContent)
	b.settle(t, id, "")
	if left := credentialsOf(t, b, "demo2", id); len(left) != 0 {
		t.Errorf("Keystone still has %+v", left)
	}
	noSecrets(t, b, b.Log())
	inClear(t, b, first.Secret, second.Secret)
}

// TestRealDelegationWithoutTheRole: what the credential would need, the user lacks.
func TestRealDelegationWithoutTheRole(t *testing.T) {
	cloud := keystonetest.Load(t)
	b := start(t, cloud, map[string]string{"CARAFE_APPLICATION_CREDENTIAL_ROLES": "creator"})
	template := b.ask(t, "demo", "POST", "/clustertemplates", templateBody("no-role")).want(t, http.StatusCreated).str("uuid")
	refused := b.ask(t, "demo", "POST", "/clusters", clusterBody(template, "no-role"))
	refused.want(t, http.StatusForbidden)
	if want := "An application credential for the cluster cannot be made: you have none of the roles that it may get (creator)."; refused.detail() != want {
		t.Errorf("refused with %q", refused.detail())
	}
	b.ask(t, "demo", "GET", "/clusters/no-role", nil).want(t, http.StatusNotFound)
}

func userOf(t *testing.T, b *bed, user string) (caller struct{ ID, ProjectID string }) {
	t.Helper()
	c := keystonetest.Authenticate(t, b.cloud.New(t), b.token(t, user))
	caller.ID, caller.ProjectID = c.UserID, c.ProjectID
	return caller
}

// credentialsOf are the user's application credentials that are named for the cluster.
func credentialsOf(t *testing.T, b *bed, user, clusterID string) (found []applicationcredentials.ApplicationCredential) {
	t.Helper()
	sc := &gophercloud.ServiceClient{ProviderClient: b.cloud.Login(t, user), Endpoint: b.cloud.AuthURL + "/"}
	page, err := applicationcredentials.List(sc, userOf(t, b, user).ID, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := applicationcredentials.ExtractApplicationCredentials(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if strings.HasPrefix(c.Name, "magnum-"+clusterID) {
			found = append(found, c)
		}
	}
	return found
}

// sealed opens what the database holds of the cluster's credential in force.
func sealed(t *testing.T, b *bed, clusterID string) driver.Credential {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: b.database})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	issuer, err := pki.New(pki.DefaultSettings(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	store, err := certstore.New(certstore.Config{Backend: certstore.Database, SealKeys: sealKeys, RetireAfter: time.Hour, CacheSize: 1, CacheFor: time.Second},
		db.Secrets, issuer, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Credential(t.Context(), clusterID, certstore.Active)
	if err != nil || c.Secret == "" {
		t.Fatalf("the credential of the cluster: %v", err)
	}
	return c
}

// acts logs in with the credential.
func acts(t *testing.T, b *bed, c driver.Credential, want bool) {
	t.Helper()
	p, err := b.cloud.TryLogin(t.Context(), tokens.AuthOptions{ApplicationCredentialID: c.ID, ApplicationCredentialSecret: c.Secret})
	if (err == nil) != want {
		t.Fatalf("a login with credential %s: %v", c.ID, err)
	}
	if !want {
		return
	}
	if got := keystonetest.Authenticate(t, b.cloud.New(t), p.Token()); !got.HasRole("member") || got.HasRole("admin") {
		t.Errorf("the credential's roles are %v", got.Roles)
	}
}

// inClear searches the log and every row for the secrets.
func inClear(t *testing.T, b *bed, secrets ...string) {
	t.Helper()
	dump, err := exec.Command("pg_dump", "--data-only", b.database).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(dump)+b.Log(), secret) {
			t.Error("a secret stands in the database or the log")
		}
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain waited for: %s", what)
		}
	}
}
