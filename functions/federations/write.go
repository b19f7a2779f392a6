package federations

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// create serves POST /v1/federations.
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	caller := identity.From(ctx)
	body, err := api.Decode(r, api.FederationCreate)
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "federation:create", nil); err != nil {
		return err
	}
	hostID := body.String("hostcluster_id")
	if hostID == nil {
		return fault.New(fault.Invalid, "No hostcluster specified. Please specify a hostcluster_id.")
	}
	host, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, false), lookup.Ident(*hostID))
	if err != nil {
		return err
	}
	properties := body.Map("properties")
	if properties == nil {
		return fault.New(fault.Invalid, "Please specify a `properties` dict for the federation.")
	}
	if _, ok := properties["dns-zone"]; !ok {
		return fault.New(fault.Invalid, "No DNS zone specified. Please specify a `dns-zone`.")
	}
	if _, err := s.conductor.Federator(host.Cluster); err != nil {
		return err
	}
	f := magnum.Federation{UUID: uuid.NewString(), ProjectID: caller.ProjectID, Name: api.GenerateName("federation"),
		HostClusterID: *hostID, MemberIDs: body.List("member_ids"), Status: magnum.CreateInProgress, Properties: properties, CreatedAt: s.now()}
	if name := body.String("name"); name != nil {
		f.Name = *name
	}
	err = s.conductor.AcceptFederation(ctx, caller, magnum.FederationCreate, f.UUID, func(ctx context.Context, tx *postgres.Store) error {
		_, err := tx.Federations.Create(ctx, f)
		return err
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, f.UUID)
}

// update serves PATCH /v1/federations/{ident}: members come and go by the first
// operation's value, properties by their keys.
func (s *server) update(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	patch, err := api.DecodePatch(r, api.FederationPatch)
	if err != nil {
		return err
	}
	f, caller, err := s.find(r, "federation:update")
	if err != nil {
		return err
	}
	if len(patch.Operations) == 0 { // B65
		return fault.New(fault.Invalid, "The patch is empty.")
	}
	members, changed, err := s.members(ctx, caller, f, patch.Operations[0])
	if err != nil {
		return err
	}
	if changed {
		patch.Operations = patch.Operations[1:]
	}
	patched, err := patch.Apply(document(f))
	if err != nil {
		return err
	}
	if beyond := patched.Beyond("member_ids", "properties"); beyond != "" {
		return fault.New(fault.Invalid, "cannot change federation property(ies) %s.", beyond)
	}
	err = s.conductor.AcceptFederation(ctx, caller, magnum.FederationUpdate, f.UUID, func(ctx context.Context, tx *postgres.Store) error {
		now, err := tx.Federations.Lock(ctx, f.UUID)
		if err != nil {
			return err
		}
		if now.Version != f.Version {
			return fault.New(fault.Conflict, "Federation %s was changed by another request. Read it again and repeat the change.", f.UUID)
		}
		now.Properties = patched.Map("properties")
		if changed {
			now.MemberIDs = members
		}
		now.Status, now.StatusReason = magnum.UpdateInProgress, nil
		return tx.Federations.Update(ctx, &now, s.now())
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, f.UUID)
}

// members is the list after an operation that lets a cluster join or leave.
func (s *server) members(ctx context.Context, caller identity.Caller, f magnum.Federation, op api.Operation) ([]string, bool, error) {
	member, ok := op.Value.(string)
	if op.Path != "/member_ids" || !ok || op.Op == "replace" {
		return nil, false, nil
	}
	member = canonical(member)
	if op.Op == "remove" {
		if !slices.Contains(f.MemberIDs, member) {
			return nil, false, fault.New(fault.NotFound, "Cluster %s is not a member of the federation %s.", member, f.Name)
		}
		return slices.DeleteFunc(slices.Clone(f.MemberIDs), func(id string) bool { return id == member }), true, nil
	}
	// By uuid only: something else is nobody's.
	if _, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, false), lookup.Ident(member)); err != nil {
		return nil, false, err
	}
	if slices.Contains(f.MemberIDs, member) {
		return nil, false, fault.New(fault.Conflict, "A cluster with UUID %s is already a member of the federation %s.", member, f.Name)
	}
	return append(slices.Clone(f.MemberIDs), member), true, nil
}

func canonical(text string) string {
	if id, ok := api.UUIDLike(text); ok {
		return id
	}
	return text
}

func document(f magnum.Federation) api.Document {
	return api.Document{"uuid": f.UUID, "name": f.Name, "hostcluster_id": f.HostClusterID, "member_ids": f.MemberIDs,
		"status": string(f.Status), "status_reason": f.StatusReason, "properties": f.Properties, "project_id": f.ProjectID}
}

// delete serves DELETE /v1/federations/{ident}.
func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	f, caller, err := s.find(r, "federation:delete")
	if err != nil {
		return err
	}
	err = s.conductor.AcceptFederation(r.Context(), caller, magnum.FederationDelete, f.UUID, func(ctx context.Context, tx *postgres.Store) error {
		now, err := tx.Federations.Lock(ctx, f.UUID)
		if err != nil {
			return err
		}
		now.Status, now.StatusReason = magnum.DeleteInProgress, nil
		return tx.Federations.Update(ctx, &now, s.now())
	})
	if err != nil {
		return err
	}
	if err := api.NoContent(w); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}
