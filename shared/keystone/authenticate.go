package keystone

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

const (
	// maxToken is longer than any token that Keystone makes; a longer one is
	// not worth a question.
	maxToken = 16 << 10
	// refusedFor is how long a refused token is remembered: against clients
	// that repeat it, not for ever.
	refusedFor = 30 * time.Second
)

// errRefused is why a token does not count; the caller gets a 401.
var errRefused = errors.New("the token is unknown, revoked or expired")

// Authenticate says whom the X-Auth-Token of the request belongs to, as
// keystonemiddleware does. Nothing else of the request is believed: identity
// headers that a client sends have no effect. An expired token counts if an
// X-Service-Token with the right role vouches for it.
//
// Faults: Unauthenticated, or Unavailable if Keystone cannot be asked.
func (c *Client) Authenticate(r *http.Request) (identity.Caller, error) {
	ctx := r.Context()
	vouched := false
	if token := r.Header.Get("X-Service-Token"); token != "" {
		k, err := c.ask(ctx, token, false)
		if err != nil {
			return identity.Caller{}, err
		}
		vouched = slices.ContainsFunc(c.cfg.ServiceTokenRoles, k.caller.HasRole)
		if !vouched && c.cfg.ServiceTokenRolesRequired {
			return identity.Caller{}, unauthenticated(errors.New("the service token lacks a service role"))
		}
	}
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return identity.Caller{}, unauthenticated(errors.New("no token"))
	}
	k, err := c.ask(ctx, token, vouched)
	if err != nil {
		return identity.Caller{}, err
	}
	caller := k.caller
	caller.Token = identity.Token(token)
	return caller, nil
}

// ForCaller is a client of the service in the caller's own name, at the
// address that the caller's catalogue gives.
func (c *Client) ForCaller(ctx context.Context, caller identity.Caller, s Service) (*gophercloud.ServiceClient, error) {
	address := c.base
	if s != Keystone {
		k, err := c.ask(ctx, string(caller.Token), true)
		if err != nil {
			return nil, err
		}
		if address = k.endpoints[s.Type]; address == "" {
			return nil, c.noEndpoint(s, nil)
		}
	}
	p := c.provider
	p.TokenID = string(caller.Token)
	return c.client(&p, s, address), nil
}

// tokenKey is the hash of a token: the token itself is not kept.
type tokenKey struct {
	hash    [sha256.Size]byte
	expired bool // an expired token is all right
}

// knowledge is what Keystone said of a token.
type knowledge struct {
	caller    identity.Caller   // without its token
	endpoints map[string]string // by service type, of userServices
	err       error             // errRefused
	until     time.Time         // believed before this
}

// ask gives what is known of the token, from the cache or from Keystone. Many
// requests with one token ask once.
func (c *Client) ask(ctx context.Context, token string, expiredToo bool) (knowledge, error) {
	if len(token) > maxToken {
		return knowledge{}, unauthenticated(errors.New("the token is too long"))
	}
	key := tokenKey{sha256.Sum256([]byte(token)), expiredToo}
	if k, ok := c.remembered(key); ok {
		return k, k.fault()
	}
	if expiredToo { // what holds for a living token holds all the more here
		if k, ok := c.remembered(tokenKey{key.hash, false}); ok && k.err == nil {
			return k, nil
		}
	}
	flight := c.flights.DoChan(fmt.Sprintf("%x %t", key.hash, expiredToo), func() (any, error) {
		ctx, cancel := c.detach(ctx)
		defer cancel()
		k, err := c.validate(ctx, token, expiredToo)
		if err == nil && c.cfg.TokenCacheTime > 0 {
			c.known.Add(key, k)
		}
		return k, err
	})
	select {
	case result := <-flight:
		if result.Err != nil {
			return knowledge{}, unavailable(result.Err)
		}
		k := result.Val.(knowledge)
		return k, k.fault()
	case <-ctx.Done():
		return knowledge{}, unavailable(ctx.Err())
	}
}

func (c *Client) remembered(key tokenKey) (knowledge, bool) {
	k, ok := c.known.Get(key)
	if ok && !c.now().Before(k.until) {
		c.known.Remove(key)
		return knowledge{}, false
	}
	return k, ok
}

func (k knowledge) fault() error {
	if k.err != nil {
		return unauthenticated(k.err)
	}
	return nil
}

// unavailable is for a token that could not be checked (spec/api.md §2.2).
func unavailable(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "The Keystone service is temporarily unavailable.").
		WithReason(fault.ReasonDependency)
}

// document is Keystone's description of a token.
type document struct {
	Token struct {
		ExpiresAt time.Time `json:"expires_at"`
		User      struct {
			named
			Domain named `json:"domain"`
		} `json:"user"`
		Project *struct {
			named
			Domain named `json:"domain"`
		} `json:"project"`
		Domain  *named                `json:"domain"`
		System  map[string]any        `json:"system"`
		Roles   []named               `json:"roles"`
		Catalog []tokens.CatalogEntry `json:"catalog"`
	} `json:"token"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// validate asks Keystone. A refusal is knowledge too; an error means that
// Keystone could not be asked.
func (c *Client) validate(ctx context.Context, token string, expiredToo bool) (knowledge, error) {
	sc, err := c.ForService(ctx, Keystone)
	if err != nil {
		return knowledge{}, err
	}
	address := sc.ServiceURL("auth", "tokens")
	if expiredToo {
		address += "?allow_expired=1"
	}
	var doc document
	_, err = sc.Get(ctx, address, &doc, &gophercloud.RequestOpts{
		MoreHeaders: map[string]string{"X-Subject-Token": token},
	})
	now := c.now()
	refused := knowledge{err: errRefused, until: now.Add(min(refusedFor, c.cfg.TokenCacheTime))}
	switch Status(err) {
	case http.StatusNotFound, http.StatusBadRequest: // 400: not even the form of a token
		return refused, nil
	}
	if err != nil {
		return knowledge{}, Fault(Keystone, err)
	}
	t := doc.Token
	if t.User.ID == "" || t.ExpiresAt.IsZero() {
		return knowledge{}, failed(Keystone, nil, "Its answer cannot be understood.")
	}
	expired := !now.Before(t.ExpiresAt)
	if expired && !expiredToo {
		return refused, nil
	}
	k := knowledge{until: now.Add(c.cfg.TokenCacheTime)}
	if !expired && t.ExpiresAt.Before(k.until) {
		k.until = t.ExpiresAt
	}
	k.caller = callerOf(doc)
	k.endpoints = c.endpointsOf(t.Catalog)
	return k, nil
}

func callerOf(doc document) identity.Caller {
	t := doc.Token
	caller := identity.Caller{
		UserID: t.User.ID, UserName: t.User.Name,
		UserDomainID: t.User.Domain.ID, UserDomainName: t.User.Domain.Name,
		SystemScope: t.System["all"] == true,
		Roles:       make([]string, 0, len(t.Roles)),
	}
	if t.Project != nil {
		caller.ProjectID, caller.ProjectName, caller.ProjectDomainID = t.Project.ID, t.Project.Name, t.Project.Domain.ID
	}
	if t.Domain != nil {
		caller.DomainID = t.Domain.ID
	}
	for _, r := range t.Roles {
		caller.Roles = append(caller.Roles, strings.Clone(r.Name))
	}
	return caller
}

func (c *Client) endpointsOf(catalog []tokens.CatalogEntry) map[string]string {
	found := make(map[string]string, len(userServices))
	for _, s := range userServices {
		// Without a version asked for, this only looks into the catalogue.
		address, err := openstack.V3Endpoint(context.Background(), nil, &tokens.ServiceCatalog{Entries: catalog}, c.endpoint(s))
		if err == nil {
			found[s.Type] = strings.Clone(address)
		}
	}
	return found
}
