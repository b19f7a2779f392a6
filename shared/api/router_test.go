package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
			if r.Status == http.StatusNoContent {
				return NoContent(w)
			}
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

// quiet is a logger for tests that provoke errors.
var quiet = slog.New(slog.DiscardHandler)

// send asks rt; headers are name and value in turn. The token is demo's.
func send(t *testing.T, rt http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("X-Auth-Token", "demo")
	r.Header.Set("Accept", "application/json")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	return w
}

func errorOf(t *testing.T, w *httptest.ResponseRecorder) ErrorObject {
	t.Helper()
	var body ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body.Errors) != 1 {
		t.Fatalf("no error body (%v): %d %s", err, w.Code, w.Body)
	}
	if body.Faultstring != body.Errors[0].Detail {
		t.Errorf("faultstring %q, detail %q", body.Faultstring, body.Errors[0].Detail)
	}
	return body.Errors[0]
}

const (
	v11  = "container-infra 1.1"
	v16  = "container-infra 1.6"
	v17  = "container-infra 1.7"
	v18  = "container-infra 1.8"
	v111 = "container-infra 1.11"
	v112 = "container-infra 1.12"
	v114 = "container-infra 1.14"
)

// Appendix B, version header cases.
func TestVersionHeader(t *testing.T) {
	rt := newRouter(t, Config{}, echo(t, nil))
	const t3, t4 = "Mutually exclusive versions requested. Version ", " was requested but the minor version is not supported"
	for _, tc := range []struct {
		header string // "-": absent
		want   string // the version, or a part of the detail
	}{
		{"-", "1.1"},
		{"container-infra latest", "1.14"},
		{"container-infra LATEST", "1.14"},
		{"foo latest", textServiceType}, // B03
		{"container-infra  1.5", "1.5"},
		{"container-infra\t1.5", "1.5"},
		{" container-infra 1.5 ", "1.5"},
		{"container-infrastructure 1.3", "1.3"},
		{"container-infrastructure-management 1.3", "1.3"},
		{"container-infra 1.05", "1.5"},
		{"container-infra 01.+5", "1.5"},
		{"", textServiceType},
		{"1.5", textServiceType},
		{"container-infra", textServiceType},
		{"container-infra 1.5 x", textServiceType},
		{"compute 1.1", textServiceType},
		{"Container-Infra 1.5", textServiceType},
		{"container-infra 1.5, compute 2.1", "1.5"}, // B05
		{"compute 2.1,container-infra 1.9", "1.9"},
		{"compute 2.1, identity 3", "1.1"},
		{"compute 2.1,", textServiceType},
		{"container-infra 1", textVersionValue},
		{"container-infra 1.1.1", textVersionValue},
		{"container-infra a.b", textVersionValue},
		{"container-infra 1.", textVersionValue},
		{"container-infra 1.1_4", textVersionValue},
		{"container-infra 1.0", "Version 1.0" + t4},
		{"container-infra 1.15", "Version 1.15" + t4},
		{"container-infra 1.-1", "Version 1.-1" + t4},
		{"container-infra 1.99999999999999999999999", "Version 1.99999999999999999999999" + t4},
		{"container-infra 0.9", t3 + "0.9"},
		{"container-infra 2.1", t3 + "2.1"},
		{"container-infra -1.5", t3 + "-1.5"},
	} {
		t.Run(tc.header, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/v1/clusters", nil)
			r.Header.Set("X-Auth-Token", "demo")
			if tc.header != "-" {
				r.Header.Set("OpenStack-API-Version", tc.header)
			}
			w := httptest.NewRecorder()
			rt.ServeHTTP(w, r)
			for _, h := range []string{"OpenStack-API-Version", "OpenStack-API-Minimum-Version", "OpenStack-API-Maximum-Version", "Vary"} {
				if w.Header().Get(h) == "" { // B01
					t.Errorf("no %s", h)
				}
			}
			if strings.Count(tc.want, " ") == 0 {
				if got := w.Header().Get("OpenStack-API-Version"); w.Code != 200 || got != ServiceType+" "+tc.want {
					t.Errorf("%d %s", w.Code, got)
				}
				return
			}
			e := errorOf(t, w)
			if w.Code != 406 || !strings.Contains(e.Detail, tc.want) {
				t.Errorf("%d %s", w.Code, e.Detail)
			}
			unsupported := e.Code == "magnum.microversion-unsupported"
			if unsupported != (strings.HasPrefix(tc.want, "Version") || strings.HasPrefix(tc.want, t3)) {
				t.Errorf("code %q", e.Code)
			}
			if unsupported && (e.Description != e.Detail || e.Status != 406 || e.RequestID == "" || e.MaxVersion != "1.14" || e.MinVersion != "1.1") {
				t.Errorf("B06: %+v", e) // all keys
			}
		})
	}
}

// Appendix B, routing cases.
func TestRouting(t *testing.T) {
	rt := newRouter(t, Config{}, echo(t, nil))
	const every = "DELETE, GET, PATCH, POST"
	for _, tc := range []struct {
		method, path, version string
		status                int
		want                  string // the operation, a part of the detail, or of a 405 Allow
	}{
		{"GET", "/a/bogus/url", v114, 404, ""},
		{"GET", "/v1/nope", v114, 404, ""},
		{"GET", "/v2/", v114, 404, ""},
		{"GET", "/v1/clusters/a/b", v114, 404, ""},
		{"GET", "/v1/quotas/a/b/c", v114, 404, ""},
		{"GET", "/v1/bays", v11, 404, ""},
		{"GET", "/v1/baymodels", v11, 404, ""},
		{"GET", "/v1.json", v114, 404, ""},
		{"GET", "/v1/clusters.json", v114, 404, ""},
		{"GET", "/v1/clusters/detail/x", v114, 404, ""},
		{"GET", "/v1/clusters/xx/detail", v114, 404, ""}, // B17
		{"POST", "/v1/clusters/abc/foo", v114, 404, ""},
		{"DELETE", "/v1/clusters/a/b", v114, 404, ""},
		{"PUT", "/v1/clusters", v114, 405, every},
		{"PUT", "/v1/clusters/abc", v114, 405, every},
		{"FOO", "/v1/clusters/abc", v114, 405, every},
		{"CONNECT", "/v1/clusters/abc", v114, 405, every},
		{"POST", "/", v114, 405, "GET"},
		{"POST", "/v1", v114, 405, "GET"},
		{"DELETE", "/v1/", v114, 405, "GET"},
		{"GET", "/v1/certificates", v114, 405, "GET, PATCH, POST"},
		{"DELETE", "/v1/certificates/abc", v114, 405, "GET, PATCH, POST"},
		{"GET", "/v1/mservices/x", v114, 405, "GET"},
		{"GET", "/v1/stats/x", v114, 405, "GET"},
		{"GET", "/v1/credentials", v112, 405, "PATCH"},
		{"GET", "/v1/clusters/x/actions/resize", v17, 405, ""},
		{"POST", "/v1/clusters/x/actions/foo", v17, 405, ""},
		{"GET", "/v1/clusters/x/actions", v17, 405, ""},
		{"HEAD", "/", v114, 405, "GET"},
		{"HEAD", "/v1/clusters", v114, 405, every},
		{"PUT", "/v1/clusters/x/nodegroups", v114, 405, every},
		{"GET", "/v1/clusters/x/nodegroups", v18, 406, "requested API nodegroup_list is"},
		{"PUT", "/v1/clusters/x/nodegroups", v18, 406, "is not supported for this version."},
		{"PATCH", "/v1/credentials/x", v111, 406, "Version 1.11 was requested but the requested API credential_rotate is not supported for this version."},
		{"GET", "/v1/credentials", v111, 406, "credential_rotate"},
		{"POST", "/v1/clusters/x/actions/resize", v16, 406, "cluster_resize"},
		{"POST", "/v1/clusters/x/actions/upgrade", v16, 406, "cluster_upgrade"},

		{"DELETE", "/v1/clusters", v11, 400, `Missing argument: "cluster_ident"`},
		{"PATCH", "/v1/clusters", v11, 400, `Missing argument: "cluster_ident"`},
		{"PATCH", "/v1/clustertemplates", v11, 400, `Missing argument: "cluster_template_ident"`},
		{"PATCH", "/v1/certificates", v11, 400, `Missing argument: "cluster_ident"`},
		{"GET", "/v1/quotas/x", v11, 400, `Missing argument: "resource"`},
		{"PATCH", "/v1/quotas/x", v11, 400, `Missing argument: "resource"`},
		{"DELETE", "/v1/quotas/x", v11, 400, `Missing argument: "resource"`},
		{"DELETE", "/v1/quotas", v11, 400, `Missing argument: "project_id"`},
		{"DELETE", "/v1/quotas?project_id=x", v11, 400, `Missing argument: "resource"`},
		{"DELETE", "/v1/clusters/c1/nodegroups", v114, 400, `Missing argument: "nodegroup_id"`},
		{"GET", "/v1/clusters/nodegroups", v114, 400, `Missing argument: "cluster_id"`},
		{"GET", "/v1/clusters//nodegroups", v114, 400, `Missing argument: "cluster_id"`},
		{"POST", "/v1/clusters/c1?_method=delete", v11, 400, `Unknown argument: "_method"`},
		{"POST", "/v1/clusters/c1", v11, 400, "Invalid input for field/attribute cluster. Value: 'c1'. unable to convert to Cluster. Error: Cluster.__init__() takes 1 positional argument but 2 were given"},
		{"PATCH", "/v1/clusters/x/zz", v114, 400, "Invalid input for field/attribute rollback. Value: 'zz'. unable to convert to bool. Error: Unrecognized value 'zz', acceptable"},
		{"PATCH", "/v1/clusters/x/y", v11, 404, ""},

		{"GET", "/v1/clusters", v11, 200, "cluster_list"},
		{"GET", "/v1/clusters/", v11, 200, "cluster_list"},
		{"GET", "/v1/clusters//", v11, 200, "cluster_list"}, // recorded
		{"GET", "/v1//clusters", v11, 200, "cluster_list"},
		{"GET", "/clusters", v11, 200, "cluster_list"},
		{"GET", "/clusters/c1/nodegroups/n1/", v114, 200, "nodegroup_show"},
		{"GET", "/v1/clusters/detail", v11, 200, "cluster_detail"},
		{"GET", "/v1/clusters/detail/", v11, 200, "cluster_detail"},
		{"PATCH", "/v1/clusters/detail", v11, 202, "cluster_update"},
		{"GET", "/v1/clusters/%20", v11, 200, "cluster_show"},
		{"POST", "/v1/clusters/c1/actions/upgrade", v17, 202, "cluster_upgrade"},
		{"GET", "/v1/certificates/c1/etcd", v11, 200, "certificate_show"},
		{"PATCH", "/v1/certificates/c1", v11, 202, "certificate_rotate"},
		{"GET", "/v1/quotas/p/Cluster", v11, 200, "quota_show"},
		{"DELETE", "/v1/quotas?project_id=p&resource=Cluster", v11, 204, ""},
		{"GET", "/v1/clusters/events", v11, 200, "cluster_show"}, // a name like any other
		{"GET", "/v1/clusters/c1/operations", v11, 200, "cluster_operations"},
		{"GET", "/v1/clusters/c1/events?limit=2", v11, 200, "cluster_events"},
		{"GET", "/v1/openapi.json", v11, 200, "openapi_show"},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			w := send(t, rt, tc.method, tc.path, "", "OpenStack-API-Version", tc.version)
			if w.Code != tc.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			switch {
			case tc.status == 405:
				if got := w.Header().Get("Allow"); got != tc.want {
					t.Errorf("Allow %q", got)
				}
			case tc.want != "" && !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), tc.want):
				t.Errorf("%s", w.Body)
			}
			if tc.status == 404 || tc.status == 405 {
				if e := errorOf(t, w); e.Code != "" || e.Title != http.StatusText(tc.status) || e.Detail == "" { // B13
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// Every operation of the table is reached on its own path, in one function
// alone as in all together.
func TestEveryOperationIsReached(t *testing.T) {
	for _, r := range Routes {
		path := r.Path
		if path != rootPath && path != v1Path {
			path = "/v1" + path
		}
		for _, key := range pathKeys(r.Path) {
			path = strings.Replace(path, "{"+key+"}", "x", 1)
		}
		query := ""
		for _, p := range r.Query {
			if p.Mandatory {
				query += "&" + p.Name + "=x"
			}
		}
		own := echo(t, nil)
		for _, other := range Routes {
			if other.Function != r.Function {
				delete(own, other.Operation)
			}
		}
		alone, err := NewRouter(Config{Authenticator: tokens{"demo": {}}}, r.Function, own)
		if err != nil {
			t.Fatal(err)
		}
		for _, rt := range []*Router{newRouter(t, Config{}, echo(t, nil)), alone} {
			w := send(t, rt, r.Method, path+"?"+strings.TrimPrefix(query, "&"), "", "OpenStack-API-Version", v114)
			if w.Code != r.Status || r.Status != 204 && !strings.Contains(w.Body.String(), r.Operation) {
				t.Errorf("%s %s: %d %s", r.Method, path, w.Code, w.Body)
			}
		}
	}
}

// A function alone knows what exists elsewhere, but does not serve it.
func TestOneFunctionAlone(t *testing.T) {
	handlers := map[string]Handler{}
	for _, r := range Routes {
		if r.Function == "stats" {
			handlers[r.Operation] = func(w http.ResponseWriter, _ *http.Request) error { return NoContent(w) }
		}
	}
	rt, err := NewRouter(Config{Authenticator: tokens{"demo": {}}}, "stats", handlers)
	if err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{"/v1/stats": 204, "/v1/clusters": 404} {
		if w := send(t, rt, "GET", path, ""); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := send(t, rt, "PUT", "/v1/clusters", ""); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	handlers["cluster_list"] = handlers["stats_show"]
	if _, err := NewRouter(Config{Authenticator: tokens{}}, "stats", handlers); err == nil {
		t.Error("a handler of another function was taken")
	}
	if _, err := NewRouter(Config{Authenticator: tokens{}}, All, handlers); err == nil {
		t.Error("operations without handlers were taken")
	}
}

func TestFaultsBecomeErrorBodies(t *testing.T) {
	var logged strings.Builder
	give := func(err error) Handler { return func(http.ResponseWriter, *http.Request) error { return err } }
	secret := errors.New("password=hunter2")
	for _, tc := range []struct {
		name                string
		handler             Handler
		status              int
		code, title, detail string
		logs                bool
	}{
		{"Invalid", give(fault.New(fault.Invalid, "No. 8.8.8 is wrong. Really.")), 400, "client", "No", "No. 8.8.8 is wrong. Really.", false},
		{"TitleKeepsDots", give(fault.New(fault.Invalid, "Expected a dns list, but received 8.8.8.")), 400, "client", "Expected a dns list, but received 8.8.8", "Expected a dns list, but received 8.8.8.", false}, // B12
		{"NotFound", give(fault.New(fault.NotFound, "Cluster c could not be found.")), 404, "client", "Cluster c could not be found", "Cluster c could not be found.", false},
		{"Conflict", give(fault.New(fault.Conflict, "x")), 409, "client", "x", "x", false},
		{"NotImplemented", give(fault.New(fault.NotImplemented, "x")), 501, "server", "x", "x", false},
		{"Unavailable", give(fault.Wrap(fault.Unavailable, secret, "Nova is away.")), 503, "server", "Nova is away", "Nova is away.", false},
		{"Unclassified", give(secret), 500, "server", "Internal server error", "Internal server error", true}, // B14
		{"Panic", func(http.ResponseWriter, *http.Request) error { panic(secret) }, 500, "server", "Internal server error", "Internal server error", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logged.Reset()
			rt := newRouter(t, Config{Log: slog.New(slog.NewTextHandler(&logged, nil))}, echo(t, map[string]Handler{"stats_show": tc.handler}))
			w := send(t, rt, "GET", "/v1/stats", "")
			e := errorOf(t, w)
			if w.Code != tc.status || e.Status != tc.status || e.Code != tc.code || e.Title != tc.title || e.Detail != tc.detail {
				t.Errorf("%d %+v", w.Code, e)
			}
			id := w.Header().Get("X-OpenStack-Request-ID")
			if e.RequestID != id || !strings.HasPrefix(id, "req-") || len(id) != 40 { // B11
				t.Errorf("request id %q in the body, %q in the header", e.RequestID, id)
			}
			if got := strings.Count(logged.String(), "hunter2"); got != map[bool]int{true: 1}[tc.logs] {
				t.Errorf("logged %d times: %s", got, logged.String())
			}
		})
	}
}

// An error after the answer has left changes nothing for the client.
func TestErrorAfterTheAnswer(t *testing.T) {
	var logged strings.Builder
	rt := newRouter(t, Config{Log: slog.New(slog.NewTextHandler(&logged, nil))}, echo(t, map[string]Handler{
		"cluster_create": func(w http.ResponseWriter, _ *http.Request) error {
			if err := WriteJSON(w, 202, Accepted{UUID: "u"}); err != nil {
				return err
			}
			if err := Flush(w); err != nil {
				return err
			}
			return errors.New("broker away")
		}}))
	server := httptest.NewServer(rt)
	defer server.Close()
	r, _ := http.NewRequest("POST", server.URL+"/v1/clusters", strings.NewReader("{}"))
	r.Header.Set("X-Auth-Token", "demo")
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 202 || string(body) != `{"uuid":"u"}` || resp.ContentLength != int64(len(body)) {
		t.Errorf("%d %s (%v)", resp.StatusCode, body, err)
	}
	server.Close() // waits for the handler
	if !strings.Contains(logged.String(), "broker away") {
		t.Error("not logged")
	}
}

type failing struct{ err error }

func (f failing) Authenticate(*http.Request) (identity.Caller, error) {
	return identity.Caller{}, f.err
}

func TestTokenLayer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		status int
		body   string
	}{
		{"Unauthenticated", fault.New(fault.Unauthenticated, "expired"), 401,
			`{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`},
		{"KeystoneAway", fault.New(fault.Unavailable, "The Keystone service is temporarily unavailable."), 503,
			`{"error":{"code":503,"title":"Service Unavailable","message":"The Keystone service is temporarily unavailable."}}`}, // B10
		{"Broken", errors.New("nil map"), 500,
			`{"error":{"code":500,"title":"Internal Server Error","message":"Internal server error"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := newRouter(t, Config{Authenticator: failing{tc.err}, WWWAuthenticate: "https://k/v3", Log: quiet}, echo(t, nil))
			for _, path := range []string{"/v1/clusters", "/v1/nope", "/clusters"} { // before the version, before routing
				w := send(t, rt, "PUT", path, "", "OpenStack-API-Version", "nonsense")
				if w.Code != tc.status || w.Body.String() != tc.body || w.Header().Get("X-OpenStack-Request-ID") == "" {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
				if got := w.Header().Get("WWW-Authenticate"); (got == `Keystone uri="https://k/v3"`) != (tc.status == 401) {
					t.Errorf("WWW-Authenticate %q", got)
				}
			}
			for path, status := range map[string]int{"/": 200, "/v1": 200, "/v1/": 200, "/v1/openapi.json": 200, "/v1.json": 404} {
				if w := send(t, rt, "GET", path, ""); w.Code != status {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		})
	}
}

// One id for header, context and body; the caller's own is kept beside it.
func TestRequestContext(t *testing.T) {
	var got struct {
		id, global, ident string
		caller            identity.Caller
		version           Version
	}
	rt := newRouter(t, Config{IsAdmin: func(_ context.Context, c identity.Caller) bool { return c.ProjectID == "p" }},
		echo(t, map[string]Handler{"nodegroup_show": func(w http.ResponseWriter, r *http.Request) error {
			got.id, got.global = identity.RequestID(r.Context()), identity.GlobalRequestID(r.Context())
			got.caller, got.version, got.ident = identity.From(r.Context()), VersionOf(r.Context()), Path(r, "cluster_id")+"/"+Path(r, "nodegroup_id")
			return NoContent(w)
		}}))
	const global = "req-11111111-2222-3333-4444-555555555555"
	w := send(t, rt, "GET", "/v1/clusters/a%20b/nodegroups/n", "", "OpenStack-API-Version", v112, "X-OpenStack-Request-ID", global)
	if got.id != w.Header().Get("X-OpenStack-Request-ID") || got.id == global || got.global != global {
		t.Errorf("%+v", got)
	}
	if !got.caller.IsAdmin || got.caller.ProjectID != "p" || got.version != (Version{1, 12}) || got.ident != "a b/n" {
		t.Errorf("%+v", got)
	}
	send(t, rt, "GET", "/v1/clusters/c/nodegroups/n", "", "OpenStack-API-Version", v112, "X-OpenStack-Request-ID", "req-XYZ")
	if got.global != got.id {
		t.Errorf("took %q", got.global)
	}
}

func TestAccept(t *testing.T) {
	for accept, ok := range map[string]bool{
		"": true, "*/*": true, "application/json": true, "application/*": true, "nonsense": true, "application/JSON": true,
		"application/json;q=0.5": true, "text/plain, application/json": true, "text/html,*/*;q=0.1": true, ",": false,
		"application/xml": false, "text/html": false, "text/*": false, "application/vnd.openstack.magnum.v1+json": false,
		"application/json;q=0": false, "application/json;q=0, */*": false,
	} {
		if got := acceptsJSON([]string{accept}); got != ok {
			t.Errorf("%q: %v", accept, got)
		}
	}
	rt := newRouter(t, Config{}, echo(t, nil))
	w := send(t, rt, "GET", "/v1/clusters", "", "Accept", "application/xml")
	if e := errorOf(t, w); w.Code != 406 || e.Title != "Not Acceptable" || e.Detail == "" { // B13
		t.Errorf("%d %+v", w.Code, e)
	}
}

func TestBodies(t *testing.T) {
	rt := newRouter(t, Config{MaxBody: 100}, echo(t, map[string]Handler{
		"quota_update": func(w http.ResponseWriter, r *http.Request) error {
			if _, err := Decode(r, QuotaUpdate); err != nil {
				return err
			}
			return NoContent(w)
		},
		"quota_delete_named": func(w http.ResponseWriter, r *http.Request) error {
			return WriteJSON(w, 200, QueryOf(r).Text("project_id")+"/"+QueryOf(r).Text("resource"))
		}}))
	const quota = "/v1/quotas/p/Cluster"
	for _, tc := range []struct {
		name, method, path, contentType, body string
		status                                int
		want                                  string
	}{
		{"JSON", "PATCH", quota, "application/json", `{"hard_limit": 1}`, 204, ""},
		{"Charset", "PATCH", quota, "application/json; charset=utf-8", `{"hard_limit": 1}`, 204, ""},
		{"JavaScript", "PATCH", quota, "text/javascript", `{"hard_limit": 1}`, 204, ""},
		{"Text", "PATCH", quota, "text/plain", `{}`, 415, "Unknown mimetype: text/plain"},
		{"PatchType", "PATCH", quota, "application/json-patch+json", `[]`, 415, "Unknown mimetype: application/json-patch+json"},
		{"NoType", "PATCH", quota, "", `{}`, 400, `Unknown argument: "{}"`}, // recorded: clusters, create with content type None
		{"EmptyBody", "PATCH", quota, "application/octet-stream", "", 400, `Missing argument: "quotapatch"`},
		{"EmptyBodyOfNone", "PATCH", "/v1/certificates/c", "application/octet-stream", "", 202, ""},
		{"TooLarge", "PATCH", quota, "application/json", strings.Repeat(" ", 101), 413, "larger than 100 bytes"},
		{"UTF8", "PATCH", quota, "application/json", "{\"\xff\": 1}", 400, "not UTF-8"},
		{"Form", "PATCH", quota, "application/x-www-form-urlencoded", "name=x", 400, `Unknown argument: "name"`},
		{"BodyOfNone", "PATCH", "/v1/certificates/c", "application/json", `{"x": 1}`, 400, `Unknown argument: "x"`},
		{"ListOfNone", "PATCH", "/v1/certificates/c", "application/json", `[]`, 400, "Request must be a JSON dict"},
		{"EmptyObject", "PATCH", "/v1/certificates/c", "application/json", `{}`, 202, ""},
		{"GET", "GET", "/v1/stats", "application/json", `{"y": 1, "x": 1}`, 400, `Unknown argument: "x, y"`},
		{"Named", "DELETE", "/v1/quotas", "application/json", `{"project_id": "p", "resource": "Cluster"}`, 200, "p/Cluster"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := send(t, rt, tc.method, tc.path, tc.body, "Content-Type", tc.contentType)
			if w.Code != tc.status || !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), tc.want) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// A body of unknown length is cut at the limit too.
func TestChunkedBody(t *testing.T) {
	rt := newRouter(t, Config{MaxBody: 100}, echo(t, nil))
	for size, status := range map[int]int{99: 202, 101: 413} {
		r := httptest.NewRequest("POST", "/v1/clusters", io.MultiReader(strings.NewReader(strings.Repeat(" ", size))))
		r.ContentLength = -1
		r.Header.Set("X-Auth-Token", "demo")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
		}
	}
}

func TestProxyHeaders(t *testing.T) {
	show := map[string]Handler{"cluster_show": func(w http.ResponseWriter, r *http.Request) error {
		return WriteJSON(w, 200, Links(r.Context(), "clusters", "u")[0].Href)
	}}
	for _, tc := range []struct {
		trust   bool
		headers []string
		want    string
	}{
		{true, nil, "http://magnum:9511/v1/clusters/u"},
		{false, []string{"X-Forwarded-Proto", "https"}, "http://magnum:9511/v1/clusters/u"},
		{true, []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example", "X-Forwarded-Prefix", "/infra/"}, "https://api.example/infra/v1/clusters/u"},
		{true, []string{"Forwarded", `for=1.2.3.4;proto=https;host="api.example:1", for=5.6.7.8;host=x`, "X-Forwarded-Host", "no"}, "https://api.example:1/v1/clusters/u"},
	} {
		rt := newRouter(t, Config{ProxyHeaders: tc.trust}, echo(t, show))
		w := send(t, rt, "GET", "http://magnum:9511/v1/clusters/c", "", tc.headers...)
		if got := strings.Trim(w.Body.String(), `"`); got != tc.want {
			t.Errorf("%v: %s", tc.headers, got)
		}
	}
}

func TestCORS(t *testing.T) {
	const origin = "https://horizon"
	rt := newRouter(t, Config{CORS: CORS{AllowedOrigins: []string{origin}}}, echo(t, nil))
	for _, tc := range []struct {
		name, method string
		headers      []string
		allowed      bool
	}{
		{"Actual", "GET", []string{"Origin", origin}, true},
		{"OtherOrigin", "GET", []string{"Origin", "https://evil"}, false},
		{"Preflight", "OPTIONS", []string{"Origin", origin, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "x-auth-token, content-type"}, true},
		{"PreflightMethod", "OPTIONS", []string{"Origin", origin, "Access-Control-Request-Method", "TRACE"}, false},
		{"PreflightHeader", "OPTIONS", []string{"Origin", origin, "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-evil"}, false},
		{"Options", "OPTIONS", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := send(t, rt, tc.method, "/v1/clusters", "", tc.headers...)
			h := w.Header()
			if w.Code != 200 || (h.Get("Access-Control-Allow-Origin") == origin) != tc.allowed {
				t.Errorf("%d %v", w.Code, h)
			}
			if tc.method == "OPTIONS" && (h.Get("Content-Length") != "0" || h.Get("X-OpenStack-Request-ID") != "" || h.Get("OpenStack-API-Version") != "") {
				t.Errorf("%v", h)
			}
			if tc.name == "Actual" && !slices.Contains(h.Values("Vary"), "Origin") {
				t.Errorf("%v", h)
			}
		})
	}
}
