package function

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/barbican"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/identity"
	"carafe/shared/identity/noauth"
	"carafe/shared/keystone"
	"carafe/shared/openstack"
	"carafe/shared/openstack/named"
	"carafe/shared/pki"
	"carafe/shared/policy"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
)

// Settings is the environment of what all functions share.
type Settings struct {
	API       APIConfig
	Policy    policy.Config
	Keystone  keystone.Config
	Options   openstack.OptionsConfig
	Secrets   certstore.Config
	X509      pki.Settings
	Conductor conductor.Settings
	Drivers   DriversConfig
	// BootVolumeSize holds where the label boot_volume_size is missing, in GB.
	// magnum.conf [cinder] default_boot_volume_size.
	BootVolumeSize int `envconfig:"CARAFE_DEFAULT_BOOT_VOLUME_SIZE" default:"0"`
	// CheckTimeout bounds all that one request asks of the cloud to check the
	// names in it, retries included; 0 leaves only the bound of each call, CARAFE_OPENSTACK_TIMEOUT.
	CheckTimeout time.Duration `envconfig:"CARAFE_OPENSTACK_CHECK_TIMEOUT" default:"20s"`
}

// APIConfig is the API's part of the environment.
type APIConfig struct {
	// PublicRoutes need no token (api-paste.ini, acl_public_routes).
	PublicRoutes []string `envconfig:"CARAFE_PUBLIC_ROUTES" default:"/,/v1,/v1/openapi.json"`
	// WWWAuthenticate is the Keystone address that a 401 names; empty means
	// CARAFE_KEYSTONE_PUBLIC_URL, else CARAFE_KEYSTONE_URL.
	// magnum.conf [keystone_authtoken] www_authenticate_uri.
	WWWAuthenticate string `envconfig:"CARAFE_WWW_AUTHENTICATE_URI"`
	// ProxyHeaders trusts Forwarded and X-Forwarded-* for the links in bodies.
	// magnum.conf [oslo_middleware] enable_proxy_headers_parsing.
	ProxyHeaders bool `envconfig:"CARAFE_ENABLE_PROXY_HEADERS_PARSING"`
	// AllowedOrigins may use the API from a browser. magnum.conf [cors] allowed_origin.
	AllowedOrigins []string `envconfig:"CARAFE_CORS_ALLOWED_ORIGIN"`
	// MaxLimit caps a page of a list. magnum.conf [api] max_limit.
	MaxLimit int `envconfig:"CARAFE_API_MAX_LIMIT" default:"1000"`
}

// NewPlatform makes what all functions of a process share. It opens nothing
// that must be closed: what it is given belongs to the caller.
func NewPlatform(ctx context.Context, env *Env, db *postgres.DB, publisher events.Publisher, owner string, t *telemetry.Telemetry) (*Platform, error) {
	var s Settings
	if err := ReadConfig(&s); err != nil {
		return nil, err
	}
	p := &Platform{Now: time.Now, NewID: newID, Publisher: publisher, Owner: owner, DB: db}
	var err error
	if p.Policy, err = policy.New(s.Policy); err != nil {
		return nil, err
	}
	if p.Options, err = openstack.NewOptions(s.Options); err != nil {
		return nil, err
	}
	delegation, vault, err := p.authenticate(env, s, t)
	if err != nil {
		return nil, err
	}
	p.Checks = openstack.Checks{Cloud: p.Cloud, DefaultBootVolumeSize: s.BootVolumeSize, Timeout: s.CheckTimeout}
	if p.Secrets, err = secrets(env, s, db, vault); err != nil {
		return nil, err
	}
	if p.Drivers, err = s.Drivers.open(ctx, env, p, t); err != nil {
		return nil, err
	}
	p.Conductor = &conductor.Conductor{DB: db, Drivers: p.Drivers, Secrets: p.Secrets, Delegation: delegation,
		Publisher: publisher, Settings: s.Conductor, Now: p.Now, NewID: newID, Owner: owner, Telemetry: t}
	return p, nil
}

// newID makes a UUID v7.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// authenticate sets up who the callers are and which cloud is theirs: Keystone's,
// or, without one, whoever says so and a cloud that has everything one can name.
func (p *Platform) authenticate(env *Env, s Settings, t *telemetry.Telemetry) (conductor.Delegation, certstore.Vault, error) {
	p.API = api.Config{PublicRoutes: s.API.PublicRoutes, WWWAuthenticate: s.API.WWWAuthenticate, ProxyHeaders: s.API.ProxyHeaders,
		CORS: api.CORS{AllowedOrigins: s.API.AllowedOrigins}, MaxLimit: s.API.MaxLimit, Now: p.Now,
		IsAdmin: func(_ context.Context, c identity.Caller) bool { return p.Policy.IsAdmin(c) }}
	if env.AuthStrategy == "noauth" {
		p.API.Authenticator, p.Cloud = noauth.Authenticator{}, named.Cloud{}
		return nil, nil, nil
	}
	k, err := keystone.New(s.Keystone)
	if err != nil {
		return nil, nil, err
	}
	k.Wrap(func(next http.RoundTripper) http.RoundTripper { return t.Transport("openstack", next) })
	if p.API.WWWAuthenticate == "" {
		p.API.WWWAuthenticate = k.PublicURL()
	}
	p.API.Authenticator, p.Cloud = k, openstack.New(k)
	return delegation{k}, barbican.New(k), nil
}

// delegation makes and takes back application credentials in Keystone.
type delegation struct{ keystone *keystone.Client }

// Delegate implements conductor.Delegation.
func (d delegation) Delegate(ctx context.Context, caller identity.Caller, clusterID, clusterName string) (driver.Credential, error) {
	made, err := d.keystone.CreateApplicationCredential(ctx, caller, clusterID, clusterName)
	return driver.Credential{ID: made.ID, Secret: string(made.Secret)}, err
}

// Revoke implements conductor.Delegation.
func (d delegation) Revoke(ctx context.Context, userID, credentialID, clusterID string) error {
	return d.keystone.DeleteApplicationCredential(ctx, userID, credentialID, clusterID)
}

func secrets(env *Env, s Settings, db *postgres.DB, vault certstore.Vault) (*certstore.Store, error) {
	issuer, err := pki.New(s.X509, time.Now)
	if err != nil {
		return nil, err
	}
	if s.Secrets.SealKeys == "" && env.AuthStrategy == "noauth" {
		if s.Secrets.SealKeys, err = ownSealKey(env.Dir); err != nil {
			return nil, fmt.Errorf("CARAFE_SEAL_KEYS is not set, and no key can be kept in %s: %w", env.Dir, err)
		}
	}
	return certstore.New(s.Secrets, db.Secrets, issuer, vault, time.Now)
}
