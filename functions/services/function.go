// Package services is the HTTP function of /v1/mservices: what is at work. Where
// Magnum lists its conductors, Carafe lists the processes whose relay ticks have
// been seen.
package services

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Config is the environment of services.
type Config struct {
	// DownAfter is how long something may stay silent and still counts as up.
	// magnum.conf [DEFAULT] service_down_time, there in whole seconds.
	DownAfter time.Duration `envconfig:"CARAFE_SERVICE_DOWN_TIME" default:"180s"`
}

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "services", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil {
		return nil, err
	}
	s := &server{config: c, functions: p.DB.Functions, policy: p.Policy, now: p.Now}
	return map[string]api.Handler{"service_list": s.list}, nil
}

type server struct {
	config    Config
	functions postgres.Functions
	policy    *policy.Enforcer
	now       func() time.Time
}

type service struct {
	Host           string    `json:"host"`
	Binary         string    `json:"binary"`
	State          string    `json:"state"`
	ID             int64     `json:"id"`
	ReportCount    int       `json:"report_count"`
	Disabled       bool      `json:"disabled"`
	DisabledReason *string   `json:"disabled_reason"`
	CreatedAt      api.Time  `json:"created_at"`
	UpdatedAt      *api.Time `json:"updated_at"`
}

// list serves GET /v1/mservices.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	if err := s.policy.Enforce(identity.From(r.Context()), "magnum-service:get_all", nil); err != nil {
		return err
	}
	rows, err := s.functions.List(r.Context())
	if err != nil {
		return err
	}
	list := make([]service, len(rows))
	for i, f := range rows {
		list[i] = service{Host: f.Host, Binary: f.Binary, State: "up", ID: f.ID, ReportCount: f.ReportCount,
			CreatedAt: api.Time(f.CreatedAt), UpdatedAt: api.TimeOf(f.UpdatedAt)}
		if s.now().Sub(f.LastSeenUp).Abs() > s.config.DownAfter {
			list[i].State = "down"
		}
	}
	return api.WriteJSON(w, http.StatusOK, struct {
		Services []service `json:"mservices"`
	}{list})
}
