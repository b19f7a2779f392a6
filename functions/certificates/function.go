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
	"carafe/shared/function"
	"carafe/shared/lookup"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "certificates", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{events: p.DB.Events, clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}, conductor: p.Conductor, drivers: p.Drivers, secrets: p.Secrets, now: p.Now}
	return map[string]api.Handler{
		"certificate_show":   s.show,
		"certificate_create": s.create,
		"certificate_rotate": s.rotate,
	}, nil
}

type server struct {
	clusters  lookup.Clusters
	events    postgres.Events
	conductor *conductor.Conductor
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
	c, _, err := s.clusters.Find(ctx, api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "certificate:get_one_all_projects", Action: "certificate:get"})
	if err != nil {
		return err
	}
	pem, err := s.secrets.CA(ctx, c.UUID, kind)
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, certificate{ClusterUUID: c.UUID, Links: api.Links(ctx, "certificates", c.UUID), PEM: pem})
}
