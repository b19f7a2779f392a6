// Package keystonetest leads tests to the real OpenStack that test/e2e/cloud.py
// has started. Such tests have the build tag openstack.
package keystonetest

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"carafe/shared/identity"
	"carafe/shared/keystone"
)

// Cloud is the file cloud.json of a running cloud.
type Cloud struct {
	AuthURL           string            `json:"auth_url"`
	ContainerInfraURL string            `json:"container_infra_url"`
	Password          string            `json:"password"`
	Region            string            `json:"region"`
	Ports             map[string]int    `json:"ports"`
	Users             map[string]string `json:"users"` // user to project
	State             string            `json:"state"`
	Client            string            `json:"client"` // a Python environment with the clients
}

// Load reads the file that CARAFE_E2E_CLOUD names.
func Load(t testing.TB) *Cloud {
	t.Helper()
	path := os.Getenv("CARAFE_E2E_CLOUD")
	if path == "" {
		t.Fatal("CARAFE_E2E_CLOUD does not name a cloud.json: run test/e2e/run.sh, or test/e2e/cloud.py up DIR")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cloud{}
	if err := json.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Config is the service user's.
func (c *Cloud) Config() keystone.Config {
	return keystone.Config{
		URL: c.AuthURL, Username: "carafe", Password: keystone.Secret(c.Password), ProjectName: "service",
		UserDomainName: "Default", ProjectDomainName: "Default", Region: c.Region, Interface: "public",
		Timeout: 30 * time.Second, TokenCacheTime: 300 * time.Second, TokenCacheSize: 1000,
		ServiceTokenRoles: []string{"service"}, ServiceTokenRolesRequired: true,
	}
}

// New is a client of its own, with an empty cache.
func (c *Cloud) New(t testing.TB) *keystone.Client {
	t.Helper()
	k, err := keystone.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Login gives a session of a user in their project.
func (c *Cloud) Login(t testing.TB, user string) *gophercloud.ProviderClient {
	t.Helper()
	return c.LoginWith(t, tokens.AuthOptions{
		Username: user, Password: c.Password, DomainName: "Default",
		Scope: tokens.Scope{ProjectName: c.Users[user], DomainName: "Default"},
	})
}

// LoginWith logs in as the options say.
func (c *Cloud) LoginWith(t testing.TB, opts tokens.AuthOptions) *gophercloud.ProviderClient {
	t.Helper()
	p, err := c.TryLogin(context.WithoutCancel(t.Context()), opts) // clean-ups log in too
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TryLogin is LoginWith for a login that may fail.
func (c *Cloud) TryLogin(ctx context.Context, opts tokens.AuthOptions) (*gophercloud.ProviderClient, error) {
	opts.IdentityEndpoint = c.AuthURL
	p, err := gopenstack.NewClient(c.AuthURL)
	if err != nil {
		return nil, err
	}
	return p, gopenstack.AuthenticateV3(ctx, p, &opts, gophercloud.EndpointOpts{})
}

// Caller is the user as a request with a fresh token has it.
func (c *Cloud) Caller(t testing.TB, k *keystone.Client, user string) identity.Caller {
	t.Helper()
	return Authenticate(t, k, c.Login(t, user).Token())
}

// Authenticate is the caller that the token stands for.
func Authenticate(t testing.TB, k *keystone.Client, token string) identity.Caller {
	t.Helper()
	r := httptest.NewRequest("GET", "/v1/clusters", nil)
	r.Header.Set("X-Auth-Token", token)
	caller, err := k.Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

// Stop ends a service; it is started again when the test ends. A test that
// stops one must not be parallel.
func (c *Cloud) Stop(t testing.TB, service string) {
	t.Helper()
	c.control(t, "stop", service)
	t.Cleanup(func() { c.Start(t, service) })
}

// Start starts a service that was stopped and waits until it answers.
func (c *Cloud) Start(t testing.TB, service string) {
	t.Helper()
	c.control(t, "start", service)
}

func (c *Cloud) control(t testing.TB, what, service string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(file), "..", "..", "test", "e2e", "cloud.py")
	out, err := exec.Command("python3", script, what, c.State, service).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", what, service, err, out)
	}
}
