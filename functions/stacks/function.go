// Package stacks is the HTTP function that answers, for clouds without Heat, the
// few calls of the orchestration API with which the cluster-autoscaler's Magnum
// provider and magnum-auto-healer find the nodes of a cluster. It only reads: from
// the rows and from what the driver tells of the nodes.
//
// It is off unless CARAFE_STACKS is true. Then it is below /orchestration/v1, and
// the catalogue must lead there:
//
//	openstack service create --name heat orchestration
//	openstack endpoint create heat public 'https://CARAFE/orchestration/v1/%(project_id)s'
//
// With it, a cluster shows its stack_id in every version of the API: the healer
// asks for the latest one, where Magnum calls it cluster_id only.
//
// What a client finds is three levels of stacks, as Magnum's Heat driver makes
// them: the cluster's (its stack_id, which its default node groups share) or a
// node group's (the group's stack_id); below it, under the resource kube_minions
// or kube_masters, the one of the nodes, with the group's uuid as its id and the
// nodes by index as its resources; and one for each node, with its server. The
// output refs_map gives the server of each index.
//
// The healer replaces workers through it, by a resize of Carafe's own. It cannot
// replace masters: for these it would have Heat change the stack, which is
// refused with 405. A driver that heals by itself, as the Cluster API does, needs
// neither; the autoscaler's other provider, for the Cluster API, needs no stacks.
package stacks

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Config is the environment of stacks.
type Config struct {
	// Enabled lets the function answer.
	Enabled bool `envconfig:"CARAFE_STACKS" default:"false"`
}

const path = "/orchestration"

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "stacks", Kind: function.Foreign, Path: path, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil || !c.Enabled {
		return nil, err
	}
	s := &server{api: p.API, db: p.DB, drivers: p.Drivers, clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}}
	return s.routes(), nil
}

type server struct {
	api      api.Config
	db       *postgres.DB
	drivers  *driver.Registry
	clusters lookup.Clusters
}

func (s *server) routes() http.Handler {
	mux := chi.NewMux()
	mux.Route(path+"/v1/{project}/stacks", func(r chi.Router) {
		r.Get("/{id}", s.answer(s.show))
		r.Get("/{name}/{id}", s.answer(s.show))
		r.Get("/{id}/resources", s.answer(s.list))
		r.Get("/{name}/{id}/resources", s.answer(s.list))
		r.Get("/{name}/{id}/resources/{resource}", s.answer(s.showResource))
	})
	mux.NotFound(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "There is no "+r.URL.Path+" here: of Heat's API only stacks and their resources can be read.")
	})
	mux.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, "There is no Heat behind this: stacks can only be read. Clusters and their nodes are changed in the container-infra API.")
	})
	return mux
}

// show serves GET …/stacks/{id} and …/stacks/{name}/{id}. Heat would redirect the
// former to the latter.
func (s *server) show(r *http.Request, st *stack) (any, error) {
	return map[string]any{"stack": st.document(base(r))}, nil
}

// list serves GET …/resources. Heat's nested_depth brings in those of the stacks
// below.
func (s *server) list(r *http.Request, st *stack) (any, error) {
	return map[string]any{"resources": st.list(base(r), depth(r))}, nil
}

// showResource serves GET …/resources/{resource}.
func (s *server) showResource(r *http.Request, st *stack) (any, error) {
	name := chi.URLParam(r, "resource")
	for _, x := range st.resources {
		if x.name == name {
			return map[string]any{"resource": x.document(base(r), st, "")}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "The Resource (%s) could not be found in Stack %s.", name, st.name)
}

// answer finds the stack that a request is about.
func (s *server) answer(show func(*http.Request, *stack) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := s.serve(r, show)
		if err == nil {
			if err = api.WriteJSON(w, http.StatusOK, body); err != nil {
				slog.WarnContext(r.Context(), "write answer", "err", err)
			}
			return
		}
		status := api.Status(fault.KindOf(err))
		if status == http.StatusInternalServerError {
			slog.ErrorContext(r.Context(), "stacks", "path", r.URL.Path, "err", err)
		}
		if status == http.StatusUnauthorized && s.api.WWWAuthenticate != "" {
			w.Header().Set("WWW-Authenticate", "Keystone uri=\""+s.api.WWWAuthenticate+"\"")
		}
		refuse(w, status, fault.Text(err))
	}
}

func (s *server) serve(r *http.Request, show func(*http.Request, *stack) (any, error)) (any, error) {
	caller, err := s.api.Authenticator.Authenticate(r)
	if err != nil {
		return nil, err
	}
	if s.api.IsAdmin != nil {
		caller.IsAdmin = s.api.IsAdmin(r.Context(), caller)
	}
	if project := chi.URLParam(r, "project"); project != caller.ProjectID {
		return nil, fault.New(fault.Forbidden, "The token is not of the project %s.", project)
	}
	r = r.WithContext(identity.With(r.Context(), caller))
	st, err := s.find(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		return nil, err
	}
	return show(r, st)
}

// refuse answers with an error of Heat's form.
func refuse(w http.ResponseWriter, status int, message string) {
	_ = api.WriteJSON(w, status, map[string]any{ // who has gone does not miss it
		"code": status, "title": http.StatusText(status), "explanation": message,
		"error": map[string]any{"message": message, "type": strings.ReplaceAll(http.StatusText(status), " ", ""), "traceback": nil},
	})
}

// find gives the stack with the id, as far as the caller may see its cluster.
func (s *server) find(ctx context.Context, id string) (*stack, error) {
	groupID, index := split(id)
	missing := fault.New(fault.NotFound, "The Stack (%s) could not be found.", id)
	clusterID, err := s.db.Clusters.OfStack(ctx, id, groupID)
	if err != nil {
		return nil, err
	}
	row, _, err := s.clusters.Find(ctx, clusterID, lookup.Rules{AllProjects: "cluster:get_one_all_projects", Action: "cluster:get"})
	if fault.Is(err, fault.NotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	t, err := s.tree(ctx, row.Cluster)
	if err != nil {
		return nil, err
	}
	if st := t.find(id, groupID, index); st != nil {
		return st, nil
	}
	return nil, missing
}

// split takes apart the id of a stack of nodes, or of one node.
func split(id string) (groupID, index string) {
	const uuidLength = 36
	if len(id) < uuidLength || uuid.Validate(id[:uuidLength]) != nil {
		return "", ""
	}
	return id[:uuidLength], strings.TrimPrefix(id[uuidLength:], "-")
}

// tree reads a cluster with its nodes.
func (s *server) tree(ctx context.Context, c magnum.Cluster) (*tree, error) {
	groups, err := s.db.NodeGroups.OfCluster(ctx, c.UUID)
	if err != nil {
		return nil, err
	}
	template, err := s.db.Templates.ByUUID(ctx, c.ClusterTemplateID)
	if err != nil {
		return nil, err
	}
	d, err := s.drivers.Named(c.Driver)
	if err != nil {
		return nil, err
	}
	lister, ok := d.(driver.NodeLister)
	if !ok {
		return nil, fault.New(fault.NotImplemented, "The driver %s does not tell the nodes of its clusters.", c.Driver)
	}
	nodes, err := lister.Nodes(ctx, driver.Ref{Cluster: c, Template: template, NodeGroups: groups})
	if err != nil {
		return nil, err
	}
	return &tree{cluster: c, groups: groups, nodes: nodes}, nil
}
