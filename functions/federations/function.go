// Package federations is the HTTP function of /v1/federations. Magnum accepts
// what it never does; here a driver that cannot federate refuses before anything
// is stored (B64, PB-38).
package federations

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "federations", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{db: p.DB, conductor: p.Conductor, policy: p.Policy, now: p.Now}
	return map[string]api.Handler{
		"federation_list": s.list(false), "federation_detail": s.list(true), "federation_show": s.show,
		"federation_create": s.create, "federation_update": s.update, "federation_delete": s.delete,
	}, nil
}

type server struct {
	db        *postgres.DB
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	now       func() time.Time
}

// find looks a federation of the caller's project up, and asks the rule with it
// as its target.
func (s *server) find(r *http.Request, rule string) (magnum.Federation, identity.Caller, error) {
	caller := identity.From(r.Context())
	f, err := s.db.Federations.Get(r.Context(), postgres.ScopeOf(caller, false), lookup.Ident(api.Path(r, "federation_ident")))
	if err != nil {
		return f, caller, err
	}
	return f, caller, s.policy.Enforce(caller, rule, map[string]string{"project_id": f.ProjectID, "uuid": f.UUID, "name": f.Name})
}

// short is a federation in a list, full in every other answer (spec/api.md §4.9).
type short struct {
	UUID          string            `json:"uuid"`
	Name          string            `json:"name"`
	HostClusterID string            `json:"hostcluster_id"`
	MemberIDs     []string          `json:"member_ids"`
	Status        magnum.Status     `json:"status"`
	Properties    map[string]string `json:"properties"`
	Links         []api.Link        `json:"links"`
}

type full struct {
	UUID          string            `json:"uuid"`
	Name          string            `json:"name"`
	HostClusterID string            `json:"hostcluster_id"`
	MemberIDs     []string          `json:"member_ids"`
	Status        magnum.Status     `json:"status"`
	StatusReason  *string           `json:"status_reason"`
	Properties    map[string]string `json:"properties"`
	Links         []api.Link        `json:"links"`
	CreatedAt     api.Time          `json:"created_at"`
	UpdatedAt     *api.Time         `json:"updated_at"`
}

func shortOf(ctx context.Context, f magnum.Federation) short {
	return short{UUID: f.UUID, Name: f.Name, HostClusterID: f.HostClusterID, MemberIDs: f.MemberIDs, Status: f.Status,
		Properties: f.Properties, Links: api.Links(ctx, "federations", f.UUID)}
}

func fullOf(ctx context.Context, f magnum.Federation) full {
	return full{UUID: f.UUID, Name: f.Name, HostClusterID: f.HostClusterID, MemberIDs: f.MemberIDs, Status: f.Status,
		StatusReason: f.StatusReason, Properties: f.Properties, Links: api.Links(ctx, "federations", f.UUID),
		CreatedAt: api.Time(f.CreatedAt), UpdatedAt: api.TimeOf(f.UpdatedAt)}
}

// list serves GET /v1/federations and /v1/federations/detail.
func (s *server) list(detail bool) api.Handler {
	rule, path := "federation:get_all", "federations"
	if detail {
		rule, path = "federation:detail", "federations/detail"
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := r.Context()
		caller := identity.From(ctx)
		if err := s.policy.Enforce(caller, rule, nil); err != nil {
			return err
		}
		page, err := api.ParsePage(r, api.FederationSortKeys)
		if err != nil {
			return err
		}
		rows, err := s.db.Federations.List(ctx, postgres.ScopeOf(caller, false), lookup.Page(page))
		if err != nil {
			return err
		}
		return api.WritePage(w, r, page, api.List[magnum.Federation, any]{Name: "federations", Path: path,
			Rows: rows, ID: func(f *magnum.Federation) string { return f.UUID },
			Show: func(f *magnum.Federation) any {
				if detail {
					return fullOf(ctx, *f)
				}
				return shortOf(ctx, *f)
			}})
	}
}

// show serves GET /v1/federations/{ident}.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	f, _, err := s.find(r, "federation:get")
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, fullOf(r.Context(), f))
}
