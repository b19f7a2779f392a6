// Package quotas is the HTTP function of /v1/quotas.
package quotas

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Config is the environment of quotas.
type Config struct {
	// MaxPerProject is the limit of projects that have none of their own.
	// magnum.conf [quotas] max_clusters_per_project.
	MaxPerProject int `envconfig:"CARAFE_MAX_CLUSTERS_PER_PROJECT" default:"20"`
}

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "quotas", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil {
		return nil, err
	}
	s := &server{config: c, quotas: p.DB.Quotas, policy: p.Policy, cloud: p.Cloud, now: p.Now}
	return map[string]api.Handler{
		"quota_list": s.list, "quota_show": s.show, "quota_create": s.create,
		"quota_update": s.update, "quota_delete": s.delete, "quota_delete_named": s.deleteNamed,
	}, nil
}

type server struct {
	config Config
	quotas postgres.Quotas
	policy *policy.Enforcer
	cloud  openstack.Cloud
	now    func() time.Time
}

type quota struct {
	ID        int64     `json:"id"`
	HardLimit int       `json:"hard_limit"`
	ProjectID string    `json:"project_id"`
	Resource  string    `json:"resource"`
	CreatedAt api.Time  `json:"created_at"`
	UpdatedAt *api.Time `json:"updated_at"`
}

func quotaOf(q magnum.Quota) quota {
	return quota{ID: q.ID, HardLimit: q.HardLimit, ProjectID: q.ProjectID, Resource: q.Resource,
		CreatedAt: api.Time(q.CreatedAt), UpdatedAt: api.TimeOf(q.UpdatedAt)}
}

// list serves GET /v1/quotas: of the caller's project, or of all.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	caller := identity.From(r.Context())
	if err := s.policy.Enforce(caller, "quota:get_all", nil); err != nil {
		return err
	}
	page, err := api.ParsePage(r, api.QuotaSortKeys)
	if err != nil {
		return err
	}
	project := caller.ProjectID
	if caller.IsAdmin && api.QueryOf(r).Bool("all_tenants") {
		project = ""
	}
	rows, err := s.quotas.List(r.Context(), project, lookup.Page(page))
	if err != nil {
		return err
	}
	return api.WritePage(w, r, page, api.List[magnum.Quota, quota]{Name: "quotas", Path: "quotas",
		Rows: rows, ID: func(q *magnum.Quota) string { return strconv.FormatInt(q.ID, 10) },
		Show: func(q *magnum.Quota) quota { return quotaOf(*q) }})
}

// show serves GET /v1/quotas/{project_id}/{resource}. A project without a quota
// of its own is shown the default.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	caller := identity.From(r.Context())
	if err := s.policy.Enforce(caller, "quota:get", nil); err != nil {
		return err
	}
	project, resource := api.Path(r, "project_id"), api.Path(r, "resource")
	if !caller.IsAdmin && project != caller.ProjectID {
		return fault.New(fault.Forbidden, "Not authorized.")
	}
	if resource != magnum.ResourceCluster { // B66
		return fault.New(fault.NotFound, "Quota could not be found: project_id %s resource %s.", project, resource)
	}
	q, err := s.quotas.Get(r.Context(), project, resource)
	if fault.Is(err, fault.NotFound) {
		return api.WriteJSON(w, http.StatusOK, struct {
			HardLimit int    `json:"hard_limit"`
			ProjectID string `json:"project_id"`
			Resource  string `json:"resource"`
		}{s.config.MaxPerProject, project, resource})
	}
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, quotaOf(q))
}

// create serves POST /v1/quotas.
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	caller := identity.From(ctx)
	body, err := api.Decode(r, api.QuotaCreate)
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "quota:create", nil); err != nil { // before Keystone is asked (B68)
		return err
	}
	project := body.String("project_id")
	if project == nil {
		return fault.New(fault.Invalid, "Must provide a valid project ID.")
	}
	if _, err := s.cloud.Project(ctx, caller, *project); err != nil {
		return err
	}
	q, err := s.quotas.Create(ctx, magnum.Quota{ProjectID: *project, Resource: *body.String("resource"),
		HardLimit: *body.Int("hard_limit"), CreatedAt: s.now()})
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusCreated, quotaOf(q))
}

// update serves PATCH /v1/quotas/{project_id}/{resource}.
func (s *server) update(w http.ResponseWriter, r *http.Request) error {
	body, err := api.Decode(r, api.QuotaUpdate)
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(identity.From(r.Context()), "quota:update", nil); err != nil {
		return err
	}
	q, err := s.quotas.Update(r.Context(), api.Path(r, "project_id"), api.Path(r, "resource"), *body.Int("hard_limit"), s.now())
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusAccepted, quotaOf(q))
}

// delete serves DELETE /v1/quotas/{project_id}/{resource}: the default applies again.
func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	return s.remove(w, r, api.Path(r, "project_id"), api.Path(r, "resource"))
}

// deleteNamed serves DELETE /v1/quotas, which names the quota in its query or body.
func (s *server) deleteNamed(w http.ResponseWriter, r *http.Request) error {
	q := api.QueryOf(r)
	return s.remove(w, r, q.Text("project_id"), q.Text("resource"))
}

func (s *server) remove(w http.ResponseWriter, r *http.Request, project, resource string) error {
	if err := s.policy.Enforce(identity.From(r.Context()), "quota:delete", nil); err != nil {
		return err
	}
	if err := s.quotas.Delete(r.Context(), project, resource); err != nil {
		return err
	}
	return api.NoContent(w)
}
