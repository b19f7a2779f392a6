package keystone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// ApplicationCredential lets a cluster act in the name of the user who made it.
type ApplicationCredential struct {
	ID, Name string
	UserID   string
	Secret   Secret
}

// CreateApplicationCredential makes a restricted application credential for a
// cluster with the caller's token, and so in the caller's project
// (spec/conductor.md §5.3). What Keystone refuses, the caller is told in
// Keystone's words: a token of another application credential may make none,
// for example. It is not idempotent: each call makes a new one.
func (c *Client) CreateApplicationCredential(ctx context.Context, caller identity.Caller, clusterID, clusterName string) (ApplicationCredential, error) {
	if caller.ProjectID == "" {
		return ApplicationCredential{}, credentialFault(fault.Invalid, nil,
			"An application credential for the cluster needs a token of a project.")
	}
	roles := c.credentialRoles(caller)
	if len(roles) == 0 {
		return ApplicationCredential{}, credentialFault(fault.Forbidden, nil,
			"An application credential for the cluster cannot be made: you have none of the roles that it may get (%s).",
			c.wantedRoles())
	}
	sc, err := c.ForCaller(ctx, caller, Keystone)
	if err != nil {
		return ApplicationCredential{}, err
	}
	opts := applicationcredentials.CreateOpts{
		Name:        credentialPrefix(clusterID) + "-" + randomHex(4),
		Description: "Magnum cluster (" + nameOr(clusterName, clusterID) + ")",
		Roles:       roles,
	}
	if c.cfg.CredentialLifetime > 0 {
		end := c.now().Add(c.cfg.CredentialLifetime)
		opts.ExpiresAt = &end
	}
	made, err := Whole(applicationcredentials.Create(ctx, sc, caller.UserID, opts).Extract())
	if err != nil {
		return ApplicationCredential{}, creationFault(Fault(Keystone, err))
	}
	return ApplicationCredential{ID: made.ID, Name: made.Name, UserID: caller.UserID, Secret: Secret(made.Secret)}, nil
}

// creationFault says what could not be done, and keeps what is not a refusal.
func creationFault(err error) error {
	switch kind := fault.KindOf(err); kind {
	case fault.Forbidden, fault.Invalid, fault.NotFound, fault.Conflict:
		return credentialFault(kind, err, "An application credential for the cluster cannot be made. %s", fault.Text(err))
	}
	return err
}

func credentialFault(kind fault.Kind, cause error, format string, args ...any) error {
	return fault.Wrap(kind, cause, format, args...).WithReason(fault.ReasonCredential)
}

// DeleteApplicationCredential removes a cluster's credential in the service
// user's name. One that is gone, or whose user is gone, is a success. One that
// was not made for the cluster is refused, so that a wrong row in the database
// cannot take a credential from somebody else.
func (c *Client) DeleteApplicationCredential(ctx context.Context, userID, id, clusterID string) error {
	sc, err := c.ForService(ctx, Keystone)
	if err != nil {
		return err
	}
	have, err := Whole(applicationcredentials.Get(ctx, sc, userID, id).Extract())
	if Status(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return Fault(Keystone, err)
	}
	if !strings.HasPrefix(have.Name, credentialPrefix(clusterID)) {
		return credentialFault(fault.Forbidden, nil, "Application credential %s was not made for cluster %s.", id, clusterID)
	}
	err = applicationcredentials.Delete(ctx, sc, userID, id).ExtractErr()
	if Status(err) == http.StatusNotFound {
		return nil
	}
	return Fault(Keystone, err)
}

// credentialPrefix begins the name of each credential of a cluster.
func credentialPrefix(clusterID string) string { return "magnum-" + clusterID }

func (c *Client) credentialRoles(caller identity.Caller) []applicationcredentials.Role {
	var roles []applicationcredentials.Role
	for _, name := range caller.Roles {
		wanted := !strings.EqualFold(name, "admin")
		if len(c.cfg.CredentialRoles) > 0 {
			wanted = slices.ContainsFunc(c.cfg.CredentialRoles, func(r string) bool { return strings.EqualFold(r, name) })
		}
		if wanted {
			roles = append(roles, applicationcredentials.Role{Name: name})
		}
	}
	return roles
}

func (c *Client) wantedRoles() string {
	if len(c.cfg.CredentialRoles) == 0 {
		return "any but admin"
	}
	return strings.Join(c.cfg.CredentialRoles, ", ")
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

func nameOr(name, id string) string {
	if name != "" {
		return name
	}
	return id
}
