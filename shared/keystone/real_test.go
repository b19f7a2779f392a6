//go:build openstack

package keystone_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"

	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
)

const clusterID = "5d12f6fd-a196-4bf0-ae4c-1f639a523a52"

func authenticate(k *keystone.Client, token string) (identity.Caller, error) {
	r := httptest.NewRequest("GET", "/v1/clusters", nil)
	r.Header.Set("X-Auth-Token", token)
	return k.Authenticate(r)
}

func wantKind(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(fault.Text(err), text) {
		t.Errorf("error is %v, want kind %d and %q", err, kind, text)
	}
}

func TestRealCallers(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	for user, roles := range map[string][]string{
		"demo": {"member", "reader"}, "reader": {"reader"}, "admin": {"admin", "manager", "member", "reader"},
	} {
		got := cloud.Caller(t, k, user)
		want := identity.Caller{
			UserName: user, UserDomainID: "default", UserDomainName: "Default",
			ProjectName: cloud.Users[user], ProjectDomainID: "default", Roles: roles,
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(identity.Caller{}, "UserID", "ProjectID", "Token"),
			cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
			t.Errorf("%s: %s", user, diff)
		}
		if len(got.UserID) != 32 || len(got.ProjectID) != 32 {
			t.Errorf("%s: ids %q, %q", user, got.UserID, got.ProjectID)
		}
	}
	system := cloud.LoginWith(t, tokens.AuthOptions{
		Username: "admin", Password: cloud.Password, DomainName: "Default", Scope: tokens.Scope{System: true},
	})
	if got := keystonetest.Authenticate(t, k, system.Token()); !got.SystemScope || got.ProjectID != "" || !got.HasRole("admin") {
		t.Errorf("system scope: %+v", got)
	}
}

func TestRealRefusals(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	for _, token := range []string{"", "nonsense", strings.Repeat("g", 300), "gAAAAABl", "../../v3"} {
		_, err := authenticate(k, token)
		wantKind(t, err, fault.Unauthenticated, "The request you have made requires authentication.")
	}
	p := cloud.Login(t, "demo")
	token := p.Token()
	if _, err := authenticate(k, token); err != nil {
		t.Fatal(err)
	}
	sc := &gophercloud.ServiceClient{ProviderClient: p, Endpoint: cloud.AuthURL + "/"}
	if err := tokens.Revoke(t.Context(), sc, token).Err; err != nil {
		t.Fatal(err)
	}
	_, err := authenticate(cloud.New(t), token)
	wantKind(t, err, fault.Unauthenticated, "requires authentication")
}

func TestRealWrongPasswordOfTheServiceUser(t *testing.T) {
	cloud := keystonetest.Load(t)
	cfg := cloud.Config()
	cfg.Password = "wrong"
	k, err := keystone.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = authenticate(k, cloud.Login(t, "demo").Token())
	wantKind(t, err, fault.Unavailable, "The Keystone service is temporarily unavailable.")
	if fault.ReasonOf(err) != fault.ReasonDependency || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error is %v", err)
	}
}

func TestRealTrustAsCaller(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	demo, other := cloud.Caller(t, k, "demo"), cloud.Caller(t, k, "other")
	sc := &gophercloud.ServiceClient{ProviderClient: cloud.Login(t, "demo"), Endpoint: cloud.AuthURL + "/"}
	trust, err := trusts.Create(t.Context(), sc, trusts.CreateOpts{
		TrustorUserID: demo.UserID, TrusteeUserID: other.UserID, ProjectID: demo.ProjectID,
		Roles: []trusts.Role{{Name: "member"}}, Impersonation: true,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trusts.Delete(t.Context(), sc, trust.ID).ExtractErr() }() // the cloud is thrown away
	p := cloud.LoginWith(t, tokens.AuthOptions{
		Username: "other", Password: cloud.Password, DomainName: "Default", Scope: tokens.Scope{TrustID: trust.ID},
	})
	got := keystonetest.Authenticate(t, k, p.Token())
	if got.UserID != demo.UserID || got.ProjectID != demo.ProjectID || !got.HasRole("member") {
		t.Errorf("through a trust: %+v", got)
	}
}

func TestRealProject(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	demo, other, admin := cloud.Caller(t, k, "demo"), cloud.Caller(t, k, "other"), cloud.Caller(t, k, "admin")
	for name, caller := range map[string]identity.Caller{"own": demo, "another's": other, "admin": admin} {
		p, err := k.Project(t.Context(), caller, demo.ProjectID)
		if err != nil || p.Name != "demo" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for _, id := range []string{"0123456789abcdef0123456789abcdef", "..", ".", "a/b", "demo", "a?b=c", "%", "é"} {
		_, err := k.Project(t.Context(), admin, id)
		wantKind(t, err, fault.NotFound, "The project_id "+id+" could not be found.")
	}
}

func TestRealApplicationCredential(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	ctx := t.Context()
	demo := cloud.Caller(t, k, "demo")
	made, err := k.CreateApplicationCredential(ctx, demo, clusterID, "web")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.Name, "magnum-"+clusterID+"-") || len(made.Name) != len("magnum-")+36+1+8 || made.UserID != demo.UserID {
		t.Errorf("made %+v", made)
	}
	login := tokens.AuthOptions{ApplicationCredentialID: made.ID, ApplicationCredentialSecret: string(made.Secret)}
	caller := keystonetest.Authenticate(t, k, cloud.LoginWith(t, login).Token())
	if caller.UserID != demo.UserID || caller.ProjectID != demo.ProjectID || !caller.HasRole("member") || caller.HasRole("admin") {
		t.Errorf("the credential's caller is %+v", caller)
	}
	// It is restricted: it cannot make another.
	_, err = k.CreateApplicationCredential(ctx, caller, clusterID, "web")
	wantKind(t, err, fault.Forbidden, "An application credential for the cluster cannot be made. Keystone: ")

	err = k.DeleteApplicationCredential(ctx, made.UserID, made.ID, "11111111-1111-1111-1111-111111111111")
	wantKind(t, err, fault.Forbidden, "was not made for cluster")
	for range 2 { // the second time it is gone
		if err := k.DeleteApplicationCredential(ctx, made.UserID, made.ID, clusterID); err != nil {
			t.Error(err)
		}
	}
	if _, err := cloud.TryLogin(ctx, login); err == nil {
		t.Error("the deleted credential still logs in")
	}
	if err := k.DeleteApplicationCredential(ctx, "0123456789abcdef0123456789abcdef", made.ID, clusterID); err != nil {
		t.Errorf("of a user who is gone: %v", err)
	}
}

func TestRealApplicationCredentialRoles(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	admin := cloud.Caller(t, k, "admin")
	made, err := k.CreateApplicationCredential(t.Context(), admin, clusterID, "")
	if err != nil {
		t.Fatal(err)
	}
	caller := keystonetest.Authenticate(t, k, cloud.LoginWith(t, tokens.AuthOptions{
		ApplicationCredentialID: made.ID, ApplicationCredentialSecret: string(made.Secret),
	}).Token())
	if caller.HasRole("admin") || !caller.HasRole("member") {
		t.Errorf("an admin's credential has the roles %v", caller.Roles)
	}
	if err := k.DeleteApplicationCredential(t.Context(), made.UserID, made.ID, clusterID); err != nil {
		t.Error(err)
	}

	cfg := cloud.Config()
	cfg.CredentialRoles = []string{"member"}
	if k, err = keystone.New(cfg); err != nil {
		t.Fatal(err)
	}
	_, err = k.CreateApplicationCredential(t.Context(), cloud.Caller(t, k, "reader"), clusterID, "")
	wantKind(t, err, fault.Forbidden, "you have none of the roles that it may get (member)")
	unscoped := admin
	unscoped.ProjectID = ""
	_, err = k.CreateApplicationCredential(t.Context(), unscoped, clusterID, "")
	wantKind(t, err, fault.Invalid, "needs a token of a project")
}

// TestRealExpiredToken: an expired token is refused, unless a service vouches for
// it, as one does that is still at work in the user's name.
func TestRealExpiredToken(t *testing.T) {
	cloud := keystonetest.Load(t)
	restart := func(tokenLife string) {
		t.Setenv("CARAFE_E2E_TOKEN_LIFE", tokenLife)
		cloud.Stop(t, "keystone")
		cloud.Start(t, "keystone")
	}
	restart("2")
	token := cloud.Login(t, "demo").Token()
	ends := time.Now().Add(3 * time.Second)
	restart("14400")
	time.Sleep(time.Until(ends)) // Keystone's clock is no test's to move

	k := cloud.New(t)
	_, err := authenticate(k, token)
	wantKind(t, err, fault.Unauthenticated, "requires authentication")
	r := httptest.NewRequest("GET", "/v1/clusters", nil)
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("X-Service-Token", cloud.Login(t, "carafe").Token())
	if caller, err := k.Authenticate(r); err != nil || caller.UserName != "demo" || !caller.HasRole("member") {
		t.Errorf("vouched for by a service: %+v, %v", caller, err)
	}
	r.Header.Set("X-Service-Token", cloud.Login(t, "demo2").Token())
	_, err = k.Authenticate(r)
	wantKind(t, err, fault.Unauthenticated, "requires authentication")
	_, err = authenticate(k, token) // what was learnt under a service token holds for nobody else
	wantKind(t, err, fault.Unauthenticated, "requires authentication")
}

func TestRealOutage(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	known, fresh := cloud.Login(t, "demo").Token(), cloud.Login(t, "reader").Token()
	caller := keystonetest.Authenticate(t, k, known)
	cloud.Stop(t, "keystone")
	if _, err := authenticate(k, known); err != nil {
		t.Errorf("a cached token: %v", err)
	}
	_, err := authenticate(k, fresh)
	wantKind(t, err, fault.Unavailable, "The Keystone service is temporarily unavailable.")
	_, err = authenticate(cloud.New(t), known)
	wantKind(t, err, fault.Unavailable, "The Keystone service is temporarily unavailable.")
	_, err = k.Project(t.Context(), caller, caller.ProjectID)
	wantKind(t, err, fault.Unavailable, "Keystone connection failed. It cannot be reached.")
	_, err = k.CreateApplicationCredential(t.Context(), caller, clusterID, "")
	wantKind(t, err, fault.Unavailable, "Keystone connection failed. It cannot be reached.")
	cloud.Start(t, "keystone")
	if _, err := authenticate(k, fresh); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}
