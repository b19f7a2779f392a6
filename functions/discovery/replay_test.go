package discovery_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carafe/functions/discovery"
	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/identity"
)

const keystone = "http://127.0.0.1:15000/v3"

// users is an Authenticator that knows the prober's users; it puts them into
// the header X-User of a request.
type users struct{}

func (users) Authenticate(r *http.Request) (identity.Caller, error) {
	switch u := r.Header.Get("X-User"); u {
	case "", "bad":
		return identity.Caller{}, fault.New(fault.Unauthenticated, "no token")
	case "unscoped":
		return identity.Caller{UserID: u}, nil
	default:
		return identity.Caller{UserID: u, ProjectID: "p"}, nil
	}
}

// router is the whole API, with a stand-in for all that needs a database: lists
// are empty and no object exists.
func router(t *testing.T) http.Handler {
	t.Helper()
	handlers := discovery.Routes(nil)
	for _, r := range api.Routes {
		if r.Function == "discovery" {
			continue
		}
		handlers[r.Operation] = func(w http.ResponseWriter, req *http.Request) error {
			if r.Body != nil {
				if _, err := api.Decode(req, r.Body); err != nil {
					return err
				}
			}
			if r.Patch != nil {
				if _, err := api.DecodePatch(req, r.Patch); err != nil {
					return err
				}
			}
			if id := api.Path(req, "cluster_ident"); id != "" {
				return fault.New(fault.NotFound, "Cluster %s could not be found.", id)
			}
			if id := api.Path(req, "cluster_template_ident"); id != "" {
				return fault.New(fault.NotFound, "ClusterTemplate %s could not be found.", id)
			}
			if identity.From(req.Context()).ProjectID == "" {
				return fault.New(fault.Forbidden, "Policy doesn't allow %s to be performed.", r.Rules[0])
			}
			return api.WriteJSON(w, r.Status, map[string][]any{strings.TrimPrefix(r.Path, "/"): {}})
		}
	}
	rt, err := api.NewRouter(api.Config{Authenticator: users{}, WWWAuthenticate: keystone}, api.All, handlers)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

type exchange struct {
	Case            string            `json:"case"`
	Method          string            `json:"method"`
	Path            string            `json:"path"`
	RequestBody     json.RawMessage   `json:"request_body"`
	RequestHeaders  map[string]string `json:"request_headers"`
	Status          int               `json:"status"`
	ResponseHeaders map[string]string `json:"response_headers"`
	ResponseBody    any               `json:"response_body"`
	User            *string           `json:"user"`
}

// otherwise are the recorded cases that Carafe answers differently on purpose.
var otherwise = []struct {
	path, version string // regular expressions
	status        int
	box           string
}{
	{path: `.`, version: `^compute latest$`, status: 406, box: "B03"},
	{path: `.`, version: `,`, status: 200, box: "B05"},
	{path: `^/(v2|V1)/clusters$`, version: `.`, status: 404, box: "B17: the first segment is no marker"},
	{path: `^/v1/clusters/1111`, version: `.`, status: 400, box: "B48: only a PATCH without body"},
}

// Every answer that Magnum 23.0.0 gave to the prober's part "root": the service
// documents, the version header, routing, methods and Accept.
func TestMagnumsAnswers(t *testing.T) {
	f, err := os.Open("../../test/golden/recorded/api-root.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rt := router(t)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		n++
		t.Run(x.Case, func(t *testing.T) { replay(t, rt, x) })
	}
	if n < 190 {
		t.Errorf("only %d cases", n)
	}
}

func replay(t *testing.T, rt http.Handler, x exchange) {
	body := string(x.RequestBody)
	if body == "null" {
		body = ""
	}
	r := httptest.NewRequest(x.Method, "http://127.0.0.1:19511/", strings.NewReader(body))
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(x.Path, "?")
	r.URL.Path = strings.ReplaceAll(r.URL.Path, "%63", "c")
	for k, v := range x.RequestHeaders {
		switch k {
		case "X-Auth-Token", "X-Forwarded-Proto", "X-Forwarded-Host": // the rig's server trusts a proxy
		case "Host":
			t.Skip("the prober sent two Host headers")
		default:
			r.Header.Set(k, v)
		}
	}
	if x.User != nil {
		r.Header.Set("X-User", *x.User)
	}
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)

	version := x.RequestHeaders["OpenStack-API-Version"]
	for _, o := range otherwise {
		if x.Status != 401 && x.Status != 405 && x.Status != w.Code && w.Code == o.status &&
			regexp.MustCompile(o.path).MatchString(x.Path) && regexp.MustCompile(o.version).MatchString(version) {
			return
		}
	}
	if w.Code != x.Status {
		t.Fatalf("status %d, Magnum %d: %s", w.Code, x.Status, w.Body)
	}
	for _, name := range []string{"Content-Type", "WWW-Authenticate", "Allow", "vary", "OpenStack-API-Version",
		"OpenStack-API-Minimum-Version", "OpenStack-API-Maximum-Version", "Location"} {
		want, ok := x.ResponseHeaders[name]
		got := w.Header().Get(name)
		if !ok && (name == "vary" || strings.HasPrefix(name, "OpenStack")) {
			continue // B01: ours are on every answer
		}
		if got != want {
			t.Errorf("%s: %q, Magnum %q", name, got, want)
		}
	}
	if _, ok := x.ResponseHeaders["x-openstack-request-id"]; ok != (w.Header().Get("X-Openstack-Request-Id") != "") {
		t.Errorf("request id: %v, Magnum %v", !ok, ok)
	}
	if x.ResponseBody == nil {
		return
	}
	var got any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	adopt(x.ResponseBody, got)
	if strings.Contains(x.Path, "/v1") && x.RequestHeaders["X-Forwarded-Proto"] != "" {
		return // only the links' scheme differs; see TestProxyHeaders
	}
	if d := cmp.Diff(x.ResponseBody, got); d != "" {
		t.Errorf("-Magnum +Carafe:\n%s", d)
	}
}

// adopt takes over into Magnum's error what Carafe adds to every error.
func adopt(want, got any) {
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	we, ok := w["errors"].([]any)
	ge, _ := g["errors"].([]any)
	if !ok || len(ge) != 1 {
		return
	}
	a, b := we[0].(map[string]any), ge[0].(map[string]any)
	w["faultstring"] = g["faultstring"]
	a["request_id"] = b["request_id"] // B11
	if a["code"] == "" && a["detail"] == "" {
		a["title"], a["detail"] = b["title"], b["detail"] // B13
	}
	if text, ok := a["detail"].(string); ok && strings.Contains(text, "the requested API") {
		a["detail"] = b["detail"] // B04
	}
	if text, ok := a["description"].(string); ok { // B06
		text = strings.Replace(text, "service.The", "service. The", 1)
		a["description"], a["detail"], a["status"] = text, text, b["status"]
	}
}
