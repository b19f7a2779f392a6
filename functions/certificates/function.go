// Package certificates is the HTTP function of /v1/certificates: it shows the
// authorities of a cluster, signs requests by them, and begins their rotation.
package certificates

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/pki"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "certificates", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{db: p.DB, conductor: p.Conductor, policy: p.Policy, drivers: p.Drivers, secrets: p.Secrets, now: p.Now}
	return map[string]api.Handler{
		"certificate_show":   s.show,
		"certificate_create": s.create,
		"certificate_rotate": s.rotate,
	}, nil
}

type server struct {
	db        *postgres.DB
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	secrets   *certstore.Store
	now       func() time.Time
}

// certificate is what show and create answer. CSR and CACertType are in the
// latter only, and CACertType only if it was sent.
type certificate struct {
	ClusterUUID string          `json:"cluster_uuid"`
	Links       []api.Link      `json:"links"`
	CSR         string          `json:"csr,omitempty"`
	PEM         string          `json:"pem"`
	CACertType  json.RawMessage `json:"ca_cert_type,omitempty"`
}

// show serves GET /v1/certificates/{cluster}[/{ca_cert_type}], in every status
// of the cluster. It reads no secret.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	kind, err := pki.ParseCACertType(api.QueryOf(r).Text("ca_cert_type"))
	if err != nil {
		return err
	}
	c, _, err := s.find(ctx, api.Path(r, "cluster_ident"), "certificate:get_one_all_projects", "certificate:get")
	if err != nil {
		return err
	}
	pem, err := s.secrets.CA(ctx, c.UUID, kind)
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, certificate{ClusterUUID: c.UUID, Links: api.Links(ctx, "certificates", c.UUID), PEM: pem})
}

// find looks a cluster up. An admin reaches all projects if the first rule lets
// it (B62); the action's own rule is asked with the cluster as its target.
func (s *server) find(ctx context.Context, ident, allProjects, rule string) (magnum.Cluster, identity.Caller, error) {
	caller := identity.From(ctx)
	everywhere := caller.IsAdmin && s.policy.Allows(caller, allProjects, nil)
	id := api.ParseIdent(ident)
	if id.Impossible() {
		return magnum.Cluster{}, caller, fault.New(fault.NotFound, "Cluster %s could not be found.", ident)
	}
	c, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, everywhere), postgres.Ident{UUID: id.UUID, Text: id.Text})
	if err != nil {
		return magnum.Cluster{}, caller, err
	}
	return c.Cluster, caller, s.policy.Enforce(caller, rule, map[string]string{
		"project_id": c.ProjectID, "user_id": c.UserID, "name": c.Name, "uuid": c.UUID, "cluster_template_id": c.ClusterTemplateID,
	})
}

// published lets the answer leave, and then the events.
func (s *server) published(w http.ResponseWriter, r *http.Request) error {
	if err := api.Flush(w); err != nil {
		return err
	}
	s.conductor.Published(r.Context())
	return nil
}
