package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// tokens is an Authenticator whose callers are known by their token.
type tokens map[string]identity.Caller

func (t tokens) Authenticate(r *http.Request) (identity.Caller, error) {
	c, ok := t[r.Header.Get("X-Auth-Token")]
	if !ok {
		return identity.Caller{}, fault.New(fault.Unauthenticated, "no token")
	}
	return c, nil
}

// echo answers every operation with its name.
func echo(t *testing.T, except map[string]Handler) map[string]Handler {
	t.Helper()
	handlers := map[string]Handler{}
	for _, r := range Routes {
		handlers[r.Operation] = func(w http.ResponseWriter, _ *http.Request) error {
			return WriteJSON(w, r.Status, map[string]string{"operation": r.Operation})
		}
	}
	for name, h := range except {
		handlers[name] = h
	}
	return handlers
}

func newRouter(t *testing.T, cfg Config, handlers map[string]Handler) *Router {
	t.Helper()
	if cfg.Authenticator == nil {
		cfg.Authenticator = tokens{"demo": {UserID: "u", ProjectID: "p"}}
	}
	rt, err := NewRouter(cfg, All, handlers)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func TestSmoke(t *testing.T) {
	rt := newRouter(t, Config{}, echo(t, nil))
	r := httptest.NewRequest("GET", "/v1/clusters/?limit=3", nil)
	r.Header.Set("X-Auth-Token", "demo")
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
}
