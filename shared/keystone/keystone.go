// Package keystone is everything that Carafe asks of OpenStack's identity
// service: who a token belongs to, where the other services are, and
// application credentials. It also makes the clients with which the packages of
// the other services speak, so that all calls have the same limits and headers.
//
// It decides nothing: what a caller may do is the policy's.
package keystone

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// Secret is a setting that prints as ***.
type Secret string

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret from %#v too.
func (Secret) GoString() string { return "***" }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Config is the environment of everything that speaks with OpenStack.
type Config struct {
	// URL of Keystone, with or without /v3. [keystone_authtoken] auth_url.
	URL string `envconfig:"CARAFE_KEYSTONE_URL"`
	// PublicURL is what a 401 tells the client and what a cluster is given;
	// empty means URL. [keystone_authtoken] www_authenticate_uri.
	PublicURL string `envconfig:"CARAFE_KEYSTONE_PUBLIC_URL"`

	// The service user: either name and password, or an application credential.
	Username          string `envconfig:"CARAFE_KEYSTONE_USERNAME"`
	Password          Secret `envconfig:"CARAFE_KEYSTONE_PASSWORD"`
	UserDomainName    string `envconfig:"CARAFE_KEYSTONE_USER_DOMAIN_NAME" default:"Default"`
	ProjectName       string `envconfig:"CARAFE_KEYSTONE_PROJECT_NAME" default:"service"`
	ProjectDomainName string `envconfig:"CARAFE_KEYSTONE_PROJECT_DOMAIN_NAME" default:"Default"`
	CredentialID      string `envconfig:"CARAFE_KEYSTONE_APPLICATION_CREDENTIAL_ID"`
	CredentialSecret  Secret `envconfig:"CARAFE_KEYSTONE_APPLICATION_CREDENTIAL_SECRET"`

	// Region and Interface choose the endpoints of the catalogue; no region
	// means any. [nova_client] region_name, endpoint_type and their like.
	Region    string `envconfig:"CARAFE_OPENSTACK_REGION"`
	Interface string `envconfig:"CARAFE_OPENSTACK_INTERFACE" default:"public"`

	// CAFile holds PEM authorities to trust beside the system's. [keystone_auth] cafile.
	CAFile string `envconfig:"CARAFE_OPENSTACK_CA_FILE"`
	// Insecure trusts any certificate: for laboratories. [keystone_auth] insecure.
	Insecure bool `envconfig:"CARAFE_OPENSTACK_INSECURE"`
	// Timeout bounds one call. [keystone_auth] timeout.
	Timeout time.Duration `envconfig:"CARAFE_OPENSTACK_TIMEOUT" default:"10s"`

	// TokenCacheTime is how long an answer about a token is believed, at most
	// until the token ends; 0 means not at all. [keystone_authtoken] token_cache_time.
	TokenCacheTime time.Duration `envconfig:"CARAFE_TOKEN_CACHE_TIME" default:"300s"`
	// TokenCacheSize bounds the number of tokens remembered.
	TokenCacheSize int `envconfig:"CARAFE_TOKEN_CACHE_SIZE" default:"10000"`
	// ServiceTokenRoles let an X-Service-Token vouch for an expired user's
	// token. [keystone_authtoken] service_token_roles.
	ServiceTokenRoles []string `envconfig:"CARAFE_SERVICE_TOKEN_ROLES" default:"service"`
	// ServiceTokenRolesRequired refuses a service token without such a role.
	// [keystone_authtoken] service_token_roles_required.
	ServiceTokenRolesRequired bool `envconfig:"CARAFE_SERVICE_TOKEN_ROLES_REQUIRED" default:"true"`

	// CredentialRoles are the roles that a cluster's application credential
	// gets, of those that the caller has; empty means all of the caller's but
	// admin.
	CredentialRoles []string `envconfig:"CARAFE_APPLICATION_CREDENTIAL_ROLES"`
	// CredentialLifetime ends a cluster's application credential; 0 means never.
	CredentialLifetime time.Duration `envconfig:"CARAFE_APPLICATION_CREDENTIAL_LIFETIME"`
}

// Validate gives all problems at once.
func (c *Config) Validate() error {
	var problems []error
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		problems = append(problems, fmt.Errorf("CARAFE_KEYSTONE_URL is not an http or https address: %q", c.URL))
	}
	if c.CredentialID == "" && c.Username == "" {
		problems = append(problems, errors.New("CARAFE_KEYSTONE_USERNAME or CARAFE_KEYSTONE_APPLICATION_CREDENTIAL_ID is required"))
	}
	switch c.Interface {
	case "public", "internal", "admin", "publicURL", "internalURL", "adminURL":
	default:
		problems = append(problems, fmt.Errorf("CARAFE_OPENSTACK_INTERFACE is not public, internal or admin: %q", c.Interface))
	}
	if c.TokenCacheTime < 0 || c.TokenCacheTime > 300*time.Second {
		problems = append(problems, errors.New("CARAFE_TOKEN_CACHE_TIME is not between 0 and 300s"))
	}
	if c.Timeout <= 0 {
		problems = append(problems, errors.New("CARAFE_OPENSTACK_TIMEOUT is not positive"))
	}
	return errors.Join(problems...)
}

// Service is one OpenStack service.
type Service struct {
	Name string // as people say
	Type string // as the catalogue says
	path string // below the catalogue's address, unless that ends in it
}

// The services that Carafe speaks with.
var (
	Keystone = Service{Name: "Keystone", Type: "identity", path: "v3"}
	Barbican = Service{Name: "Barbican", Type: "key-manager", path: "v1"}
	Glance   = Service{Name: "Glance", Type: "image", path: "v2"}
	Neutron  = Service{Name: "Neutron", Type: "network", path: "v2.0"}
	Nova     = Service{Name: "Nova", Type: "compute"}
)

// userServices are those that are asked with the caller's own token.
var userServices = []Service{Glance, Neutron, Nova}

// Client speaks with Keystone. It may be used by many goroutines.
type Client struct {
	cfg      Config
	base     string // Keystone's address up to /v3/
	provider gophercloud.ProviderClient
	now      func() time.Time

	known   *lru.Cache[tokenKey, knowledge]
	flights singleflight.Group                         // one validation per token and one login at a time
	service atomic.Pointer[gophercloud.ProviderClient] // nil until the first login
}

// New checks the settings; it does not call Keystone, so that a process can
// start while Keystone is down.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(strings.TrimSuffix(cfg.URL, "/"), "/v3")
	if cfg.PublicURL == "" {
		cfg.PublicURL = base + "/v3"
	}
	httpClient, err := newHTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	known, err := lru.New[tokenKey, knowledge](max(cfg.TokenCacheSize, 1))
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, base: base + "/v3/", now: time.Now, known: known}
	c.provider = gophercloud.ProviderClient{
		IdentityBase:     base + "/",
		IdentityEndpoint: base + "/v3/",
		HTTPClient:       *httpClient,
		RetryFunc:        retry,
	}
	c.provider.UserAgent.Prepend("carafe")
	return c, nil
}

// Wrap puts something around every call to OpenStack, such as what measures it.
// It belongs before the first call.
func (c *Client) Wrap(around func(http.RoundTripper) http.RoundTripper) {
	c.provider.HTTPClient.Transport = around(c.provider.HTTPClient.Transport)
}

// PublicURL is Keystone's address for users: what a 401 names.
func (c *Client) PublicURL() string { return c.cfg.PublicURL }

// Region is the region of the catalogue that is used; empty if any.
func (c *Client) Region() string { return c.cfg.Region }

func newHTTPClient(cfg Config) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CARAFE_OPENSTACK_CA_FILE: %w", err)
		}
		if trust.RootCAs, err = x509.SystemCertPool(); err != nil {
			trust.RootCAs = x509.NewCertPool()
		}
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CARAFE_OPENSTACK_CA_FILE: no PEM certificate in %s", cfg.CAFile)
		}
	}
	if cfg.Insecure {
		slog.Warn("CARAFE_OPENSTACK_INSECURE is set: certificates of OpenStack services are not checked")
		trust.InsecureSkipVerify = true //nolint:gosec // the operator asked for it, and it is logged
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = trust
	t.MaxIdleConnsPerHost = 32
	return &http.Client{Transport: transport{t}, Timeout: cfg.Timeout}, nil
}

// retry repeats a read that the service could not answer for a moment, as
// while it is being restarted: twice, soon. A slow service is not asked again.
func retry(ctx context.Context, method, _ string, _ *gophercloud.RequestOpts, err error, failed uint) error {
	if method != http.MethodGet || failed > 2 || !momentary(err) {
		return err
	}
	select {
	case <-time.After(time.Duration(failed) * 150 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return err
	}
}

// serviceProvider is the service user's session. It logs in on first use, and
// gophercloud renews the token before it ends and when it is refused.
func (c *Client) serviceProvider(ctx context.Context) (*gophercloud.ProviderClient, error) {
	if p := c.service.Load(); p != nil {
		return p, nil
	}
	flight := c.flights.DoChan("login", func() (any, error) {
		if p := c.service.Load(); p != nil {
			return p, nil
		}
		p := c.provider
		p.UseTokenLock()
		ctx, cancel := c.detach(ctx)
		defer cancel()
		if err := openstack.AuthenticateV3(ctx, &p, c.login(), gophercloud.EndpointOpts{}); err != nil {
			return nil, loginFault(err)
		}
		// Short-lived tokens are renewed in the last quarter of their life.
		p.ReauthBeforeTokenExpiration = min(2*time.Minute, p.TokenExpiry().Sub(c.now())/4)
		renew := p.ReauthFunc
		p.ReauthFunc = func(ctx context.Context) error {
			ctx, cancel := c.detach(ctx)
			defer cancel()
			return renew(ctx)
		}
		c.service.Store(&p)
		return &p, nil
	})
	select {
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*gophercloud.ProviderClient), nil
	case <-ctx.Done():
		return nil, Fault(Keystone, ctx.Err())
	}
}

// detach is for work that many requests wait for: the one that began it must
// not end it for the others by going away.
func (c *Client) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*c.cfg.Timeout)
}

func (c *Client) login() *tokens.AuthOptions {
	if c.cfg.CredentialID != "" {
		return &tokens.AuthOptions{
			IdentityEndpoint:            c.base,
			ApplicationCredentialID:     c.cfg.CredentialID,
			ApplicationCredentialSecret: string(c.cfg.CredentialSecret),
			AllowReauth:                 true,
		}
	}
	return &tokens.AuthOptions{
		IdentityEndpoint: c.base,
		Username:         c.cfg.Username,
		Password:         string(c.cfg.Password),
		DomainName:       c.cfg.UserDomainName,
		Scope:            tokens.Scope{ProjectName: c.cfg.ProjectName, DomainName: c.cfg.ProjectDomainName},
		AllowReauth:      true,
	}
}

// ForService is a client of the service in the service user's name.
func (c *Client) ForService(ctx context.Context, s Service) (*gophercloud.ServiceClient, error) {
	p, err := c.serviceProvider(ctx)
	if err != nil {
		return nil, err
	}
	if s == Keystone {
		return c.client(p, s, c.base), nil
	}
	address, err := p.EndpointLocator(c.endpoint(s))
	if err != nil {
		return nil, c.noEndpoint(s, err)
	}
	return c.client(p, s, address), nil
}

func (c *Client) endpoint(s Service) gophercloud.EndpointOpts {
	o := gophercloud.EndpointOpts{
		Region:       c.cfg.Region,
		Availability: gophercloud.Availability(strings.TrimSuffix(c.cfg.Interface, "URL")),
	}
	o.ApplyDefaults(s.Type)
	return o
}

// client does not discover versions: each service has one that matters, and
// asking would double the calls.
func (c *Client) client(p *gophercloud.ProviderClient, s Service, address string) *gophercloud.ServiceClient {
	sc := &gophercloud.ServiceClient{ProviderClient: p, Endpoint: gophercloud.NormalizeURL(address), Type: s.Type}
	if s.path != "" && !strings.HasSuffix(sc.Endpoint, "/"+s.path+"/") {
		sc.ResourceBase = sc.Endpoint + s.path + "/"
	}
	return sc
}
