package certificates

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/pki"
)

// create serves POST /v1/certificates: it signs a request. Whoever may ask gets
// what he asks for within the rules of pki; each signature is told to the world
// (PB-61). It works in every status of the cluster, so that a kubeconfig can be
// made while the cluster still comes up.
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	body, err := api.Decode(r, api.CertificateCreate)
	if err != nil {
		return err
	}
	ident, csr, caCertType := *body.String("cluster_uuid"), *body.String("csr"), "" // the former two are mandatory
	if t := body.String("ca_cert_type"); t != nil {
		caCertType = *t
	}
	kind, err := pki.ParseCACertType(caCertType)
	if err != nil {
		return err
	}
	c, caller, err := s.clusters.Find(ctx, ident,
		lookup.Rules{AllProjects: "certificate:create_all_projects", Action: "certificate:create"})
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Invalid, "%s", fault.Text(err)) // B78
	}
	if err != nil {
		return err
	}
	issued, err := s.secrets.Sign(ctx, c.UUID, kind, csr)
	if err != nil {
		return err
	}
	if err := s.record(ctx, c.Cluster, caller, kind, issued); err != nil {
		return err
	}
	answer := certificate{ClusterUUID: c.UUID, Links: api.Links(ctx, "certificates", c.UUID), CSR: csr, PEM: issued.PEM}
	if body.Has("ca_cert_type") { // null included
		if answer.CACertType, err = json.Marshal(body.String("ca_cert_type")); err != nil {
			return err
		}
	}
	if err := api.WriteJSON(w, http.StatusCreated, answer); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}

// signature is the data of a magnum.certificate.create event.
type signature struct {
	ClusterUUID string `json:"cluster_uuid"`
	ClusterName string `json:"cluster_name"`
	CACertType  string `json:"ca_cert_type"`
	Serial      string `json:"serial"`
	Subject     string `json:"subject"`
	NotBefore   string `json:"not_before"`
	NotAfter    string `json:"not_after"`
	UserID      string `json:"user_id"`
	ProjectID   string `json:"project_id"`
}

// record writes down who got what signed, before he gets it.
func (s *server) record(ctx context.Context, c magnum.Cluster, caller identity.Caller, kind pki.Kind, issued pki.Issued) error {
	data, err := json.Marshal(signature{
		ClusterUUID: c.UUID, ClusterName: c.Name, CACertType: kind.String(), Serial: issued.Serial, Subject: issued.Subject,
		NotBefore: api.Time(issued.NotBefore).String(), NotAfter: api.Time(issued.NotAfter).String(),
		UserID: caller.UserID, ProjectID: caller.ProjectID,
	})
	if err != nil {
		return fmt.Errorf("encode signature: %w", err)
	}
	return s.events.Add(ctx, magnum.Event{
		ID: s.conductor.NewID(), Type: events.NotifyCertificateCreate, Source: s.conductor.Source(), Subject: c.UUID,
		Outcome: magnum.OutcomeSuccess, Priority: "info", ProjectID: c.ProjectID, RequestID: identity.RequestID(ctx),
		Data: data, CreatedAt: s.now(),
	})
}
