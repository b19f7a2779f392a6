package golden

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"carafe/test/golden/cloud"
	"carafe/test/instance"
)

// observed is the world of the specification's appendices: one project with a
// template ct and a cluster c1, and what a row needs besides.
type observed struct {
	t      *testing.T
	cloud  *cloud.Cloud
	carafe *instance.Instance
	tokens map[string]string // by caller
}

// The project and user that the observations were made for.
const (
	project = "fake_project"
	owner   = "fake_user"
)

func observe(t *testing.T) *observed {
	t.Helper()
	o := &observed{t: t, cloud: cloud.Start(), tokens: map[string]string{}}
	t.Cleanup(o.cloud.Close)
	o.carafe = instance.Start(t, instance.Config{Env: o.cloud.Settings()})
	for _, p := range []string{"p1", "p2", "p3", "p6"} {
		o.cloud.AddProject(p)
	}
	return o
}

// token is that of a caller: roles, and which part of the identity is another's.
func (o *observed) token(caller string) string {
	if t := o.tokens[caller]; t != "" {
		return t
	}
	projectID, userID, roles := project, owner, []string{}
	for _, word := range strings.Split(caller, ", ") {
		switch word {
		case "":
		case "other project":
			projectID = "other_project"
		case "other user":
			userID = "other_user"
		default:
			roles = append(roles, word)
		}
	}
	if len(roles) == 0 {
		roles = []string{"member", "reader"}
	}
	o.tokens[caller] = o.cloud.Token(projectID, userID, roles...)
	return o.tokens[caller]
}

type reply struct {
	status int
	body   map[string]any
	header http.Header
}

func (r reply) detail() string { return Exchange{Body: r.body}.detail() }

// ask sends one request; headers replace those that every request has.
func (o *observed) ask(method, path, version, caller string, body *string, headers map[string]string) reply {
	o.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(*body)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.carafe.URL+path, reader)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", o.token(caller))
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if version != "" {
		req.Header.Set("OpenStack-API-Version", "container-infra "+version)
	}
	for k, v := range headers {
		if v == "" {
			req.Header.Del(k)
		} else {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if len(b) > 0 {
		if err := d.Decode(&r.body); err != nil {
			o.t.Fatalf("%s %s: no JSON: %v: %.300s", method, path, err, b)
		}
	}
	return r
}

// make creates something and gives its uuid.
func (o *observed) make(path, caller, body string) string {
	o.t.Helper()
	r := o.ask("POST", path, "1.14", caller, &body, nil)
	if r.status != http.StatusCreated && r.status != http.StatusAccepted {
		o.t.Fatalf("POST %s %s: %d %s", path, body, r.status, r.detail())
	}
	uuid, _ := r.body["uuid"].(string)
	return uuid
}

// settle waits until a cluster is no longer in progress.
func (o *observed) settle(path string) string {
	o.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r := o.ask("GET", path, "1.14", "", nil, nil)
		if r.status == http.StatusNotFound {
			return "gone"
		}
		if s, _ := r.body["status"].(string); !strings.HasSuffix(s, "IN_PROGRESS") {
			return s
		}
	}
	o.t.Fatalf("%s does not settle", path)
	return ""
}

const base = `"coe": "kubernetes", "image_id": "ubuntu", "flavor_id": "m1.small", "master_flavor_id": "m1.small", "external_network_id": "public", "keypair_id": "kp"`

// TestAppendixB: every observed refusal, and what the boxes make of it.
func TestAppendixB(t *testing.T) {
	type row struct {
		Request, Version, Caller, Given, Skip, Box string
		Body                                       *string
		Peer, Answer                               struct {
			Status       int
			Detail, Like string
		}
	}
	file, err := os.ReadFile("appendix_b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	d := yaml.NewDecoder(strings.NewReader(string(file)))
	d.KnownFields(true)
	if err := d.Decode(&rows); err != nil {
		t.Fatal(err)
	}

	o := observe(t)
	templates, clusters := "/v1/clustertemplates", "/v1/clusters"
	ct := o.make(templates, "", `{"name": "ct", "labels": {"l1": "a", "l2": "b"}, `+base+`}`)
	o.make(templates, "", `{"name": "ct2", `+base+`}`)
	spare := o.make(templates, "", `{"name": "spare", `+base+`}`)
	o.make(templates, "", `{"name": "notls", "tls_disabled": true, `+base+`}`)
	c1 := o.make(clusters, "", `{"name": "c1", "cluster_template_id": "ct", "node_count": 3}`)
	o.make(clusters, "", `{"name": "c3", "cluster_template_id": "notls"}`)
	o.make(clusters, "", `{"name": "held", "cluster_template_id": "ct", "labels": {"test_hold": "true"}}`)
	o.settle(clusters + "/c1")
	o.settle(clusters + "/c3")
	o.make(clusters+"/c1/nodegroups", "", `{"name": "ngx", "node_count": 3}`)
	o.settle(clusters + "/c1")
	o.make("/v1/quotas", "admin", `{"project_id": "p1", "hard_limit": 10}`)

	remove := func(path string) func() {
		return func() { o.ask("DELETE", path, "1.14", "admin", nil, nil) }
	}
	bounds := func(lo, hi string) func() (string, func()) {
		return func() (string, func()) {
			set := func(lo, hi string) {
				patch := `[{"op": "replace", "path": "/min_node_count", "value": ` + lo + `}, `
				if hi == "" {
					patch += `{"op": "remove", "path": "/max_node_count"}]`
				} else {
					patch += `{"op": "replace", "path": "/max_node_count", "value": ` + hi + `}]`
				}
				o.ask("PATCH", clusters+"/c1/nodegroups/default-worker", "1.14", "", &patch, nil)
				o.settle(clusters + "/c1")
			}
			set(lo, hi)
			return "", func() { set("0", "") }
		}
	}
	template := func(with string) func() (string, func()) {
		return func() (string, func()) {
			uuid := o.make(templates, "", `{"name": "given", `+with+base+`}`)
			return uuid, remove(templates + "/" + uuid)
		}
	}
	// given makes a precondition and says which template a row's ct is then,
	// and how to undo it.
	given := map[string]func() (string, func()){
		"":                                     func() (string, func()) { return "", func() {} },
		"uuid taken":                           func() (string, func()) { return "", func() {} },
		"conductor refuses":                    func() (string, func()) { return "", func() {} },
		"cluster that is being created":        func() (string, func()) { return "", func() {} },
		"template tls_disabled":                func() (string, func()) { return "", func() {} },
		"row exists":                           func() (string, func()) { return "", func() {} },
		"Keystone: not found":                  func() (string, func()) { return "", func() {} },
		"template with tags":                   template(`"tags": "t0", `),
		"template storage driver devicemapper": template(`"docker_storage_driver": "devicemapper", "docker_volume_size": 5, `),
		"two templates named ct1": func() (string, func()) {
			a, b := o.make(templates, "", `{"name": "ct1", `+base+`}`), o.make(templates, "", `{"name": "ct1", `+base+`}`)
			return "", func() { remove(templates + "/" + a)(); remove(templates + "/" + b)() }
		},
		"template public": func() (string, func()) {
			uuid := o.make(templates, "admin", `{"name": "given", "public": true, `+base+`}`)
			return uuid, remove(templates + "/" + uuid)
		},
		"own template hidden": func() (string, func()) {
			uuid := o.make(templates, "admin", `{"name": "given", "hidden": true, `+base+`}`)
			return uuid, remove(templates + "/" + uuid)
		},
		"template in use": func() (string, func()) {
			rename := `[{"op": "replace", "path": "/name", "value": "ct"}]`
			return ct, func() { o.ask("PATCH", templates+"/"+ct, "1.14", "", &rename, nil) }
		},
		"limit 0": func() (string, func()) {
			o.make("/v1/quotas", "admin", `{"project_id": "`+project+`", "hard_limit": 0}`)
			return "", remove("/v1/quotas/" + project + "/Cluster")
		},
		"group min 1":        bounds("1", ""),
		"group min 2, max 5": bounds("2", "5"),
		"Glance fails": func() (string, func()) {
			o.cloud.Fail("/image", true)
			return "", func() { o.cloud.Fail("/image", false) }
		},
		"foreign template hidden after create": func() (string, func()) {
			foreign := o.make(templates, "admin", `{"name": "foreign", "public": true, `+base+`}`)
			o.make(clusters, "other project", `{"name": "c1", "cluster_template_id": "`+foreign+`"}`)
			for range 600 {
				r := o.ask("GET", clusters+"/c1", "1.14", "other project", nil, nil)
				if r.body["status"] == "CREATE_COMPLETE" {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			hide := `[{"op": "replace", "path": "/hidden", "value": true}]`
			o.ask("PATCH", templates+"/"+foreign, "1.14", "admin", &hide, nil)
			return foreign, func() {
				o.ask("DELETE", clusters+"/c1", "1.14", "other project", nil, nil)
				for range 600 {
					if o.ask("GET", clusters+"/c1", "1.14", "other project", nil, nil).status == http.StatusNotFound {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				remove(templates + "/" + foreign)()
			}
		},
	}

	for _, r := range rows {
		name := r.Request + " " + r.Version + " " + r.Caller + " " + r.Given
		if r.Body != nil {
			name += " " + clip(*r.Body)
		}
		t.Run(name, func(t *testing.T) {
			o.t = t
			if r.Skip != "" {
				t.Skip(r.Skip)
			}
			want, box := r.Peer, ""
			if r.Answer.Status != 0 {
				want, box = r.Answer, r.Box
			}
			headers := map[string]string{}
			condition := r.Given
			if ct, ok := strings.CutPrefix(condition, "Content-Type "); ok {
				headers["Content-Type"], condition = ct, ""
			}
			if condition == "no Content-Type" {
				headers["Content-Type"], condition = "", ""
			}
			prepare, ok := given[condition]
			if !ok {
				t.Fatalf("no such condition: %s", condition)
			}
			template, undo := prepare()
			defer undo()
			if template == "" {
				template = spare
			}
			fill := strings.NewReplacer("<ct uuid>", template, "<c1 uuid>", c1, project, project)
			method, path, _ := strings.Cut(fill.Replace(r.Request), " ")
			body := r.Body
			if body != nil {
				b := fill.Replace(*body)
				if strings.HasPrefix(condition, "template storage") || condition == "own template hidden" {
					b = strings.ReplaceAll(b, `"ct"`, `"given"`)
				}
				if condition == "uuid taken" {
					b = strings.ReplaceAll(b, "27e3153e-d5bf-4b7e-b517-fb518e17f34c", ct)
				}
				body = &b
			}
			got := o.ask(method, "/v1/"+path, r.Version, r.Caller, body, headers)
			o.tidy(method, path, got)
			if got.status != want.Status {
				t.Fatalf("%s answered %d %q, not %d %q (box %s)", r.Request, got.status, got.detail(), want.Status, want.Detail+want.Like, box)
			}
			if want.Status < 300 {
				return
			}
			if want.Like != "" {
				if !regexp.MustCompile(want.Like).MatchString(got.detail()) {
					t.Errorf("the detail is %q, not like %q", got.detail(), want.Like)
				}
				return
			}
			if w := fill.Replace(want.Detail); !saysTheSame(got.detail(), w) {
				t.Errorf("the detail is\n%q, not\n%q", got.detail(), w)
			}
		})
	}
}

// tidy takes back what a request made, so that the next row finds the world as
// it was.
func (o *observed) tidy(method, path string, got reply) {
	if got.status >= 300 {
		return
	}
	uuid, _ := got.body["uuid"].(string)
	collection, _, _ := strings.Cut(path, "?")
	switch {
	case method == "POST" && (collection == "clustertemplates" || collection == "clusters" || strings.HasSuffix(collection, "/nodegroups")):
		if strings.HasPrefix(collection, "clusters/") {
			o.settle("/v1/clusters/c1")
		}
		o.ask("DELETE", "/v1/"+collection+"/"+uuid, "1.14", "admin", nil, nil)
	case strings.HasSuffix(collection, "/nodegroups/ngx") && method == "PATCH":
		o.settle("/v1/clusters/c1")
		back := `[{"op": "replace", "path": "/min_node_count", "value": 0}]`
		o.ask("PATCH", "/v1/"+collection, "1.14", "", &back, nil)
	case strings.HasPrefix(collection, "clusters/c1") && method == "DELETE":
		o.settle("/v1/clusters/c1")
		o.make("/v1/clusters/c1/nodegroups", "", `{"name": "ngx", "node_count": 3}`)
	}
	if strings.HasPrefix(collection, "clusters/c1") || strings.HasPrefix(collection, "certificates/c1") || strings.HasPrefix(collection, "credentials/c1") {
		o.settle("/v1/clusters/c1")
	}
}

// saysTheSame compares texts; an ellipsis in the wanted one stands for a cut
// or for a list in any order.
func saysTheSame(got, want string) bool {
	if cut, _, ok := strings.Cut(want, "…"); ok {
		return strings.HasPrefix(got, cut)
	}
	return text(got) == text(want)
}

func clip(s string) string {
	if len(s) > 90 {
		return s[:90] + "…"
	}
	return s
}

// TestVersionHeader and the routing cases at the end of appendix B.
func TestVersionHeader(t *testing.T) {
	o := observe(t)
	const (
		t1 = "Invalid service type for OpenStack-API-Version header"
		t2 = "Invalid value for OpenStack-API-Version header"
	)
	for _, tc := range []struct {
		values []string // "-": absent
		status int
		detail string
		shown  string // the version in the answer's header
	}{
		{values: []string{"-"}, status: 200, shown: "1.1"},
		{values: []string{"container-infra latest", "container-infra LATEST"}, status: 200, shown: "1.14"},
		{values: []string{"foo latest"}, status: 406, detail: t1}, // B03
		{values: []string{"container-infra  1.5", "container-infra 1.05"}, status: 200, shown: "1.5"},
		{values: []string{"container-infrastructure 1.3", "container-infrastructure-management 1.3"}, status: 200, shown: "1.3"},
		{values: []string{"1.5", "container-infra", "container-infra 1.5 x", "compute 1.1", "Container-Infra 1.5"}, status: 406, detail: t1},
		{values: []string{"container-infra 1.5, compute 2.1", "compute 2.1,container-infra 1.5"}, status: 200, shown: "1.5"}, // B05
		{values: []string{"container-infra 1", "container-infra 1.1.1", "container-infra a.b"}, status: 406, detail: t2},
		{values: []string{"container-infra 1.0", "container-infra 1.15", "container-infra 1.-1"}, status: 406, detail: "Version "},
		{values: []string{"container-infra 0.9", "container-infra 2.1"}, status: 406, detail: "Mutually exclusive versions requested. Version "},
	} {
		for _, v := range tc.values {
			headers := map[string]string{"OpenStack-API-Version": v}
			if v == "-" {
				headers = nil
			}
			r := o.ask("GET", "/v1/clusters", "", "", nil, headers)
			if r.status != tc.status || !strings.HasPrefix(r.detail(), tc.detail) {
				t.Errorf("%q: %d %q, not %d %q", v, r.status, r.detail(), tc.status, tc.detail)
			}
			if got := r.header.Get("OpenStack-API-Version"); tc.shown != "" && got != "container-infrastructure-management "+tc.shown {
				t.Errorf("%q: the answer is of version %q", v, got)
			}
		}
	}
}

func TestRouting(t *testing.T) {
	o := observe(t)
	for _, tc := range []struct {
		requests []string // method, path, version
		status   int
	}{
		{status: 404, requests: []string{
			"GET /a/bogus/url", "GET /v1/nope", "GET /v2/", "GET /v1/clusters/a/b", "GET /v1/quotas/a/b/c", "GET /v1/bays", "GET /v1/baymodels",
			"GET /v1.json", "GET /v1/clusters.json", "GET /v1/clusters/detail/x", "POST /v1/clusters/abc/foo", "DELETE /v1/clusters/a/b",
		}},
		{status: 405, requests: []string{
			"PUT /v1/clusters", "PUT /v1/clusters/abc", "POST /", "POST /v1", "DELETE /v1/", "GET /v1/certificates", "DELETE /v1/certificates/abc",
			"GET /v1/mservices/x", "GET /v1/stats/x", "GET /v1/credentials 1.12", "GET /v1/clusters/x/actions/resize 1.7",
			"POST /v1/clusters/x/actions/foo 1.7", "HEAD /", "HEAD /v1/clusters",
		}},
		{status: 406, requests: []string{
			"GET /v1/clusters/x/nodegroups 1.8", "PATCH /v1/credentials/x 1.11", "POST /v1/clusters/x/actions/resize 1.6",
			"POST /v1/clusters/x/actions/upgrade 1.6", "GET /v1/credentials 1.11",
		}},
	} {
		for _, request := range tc.requests {
			words := append(strings.Fields(request), "")
			if r := o.ask(words[0], words[1], words[2], "", nil, nil); r.status != tc.status {
				t.Errorf("%s: %d, not %d", request, r.status, tc.status)
			}
		}
	}
	for _, accept := range []string{"application/xml", "text/html"} {
		if r := o.ask("GET", "/v1/clusters", "", "", nil, map[string]string{"Accept": accept}); r.status != 406 {
			t.Errorf("Accept %s: %d", accept, r.status)
		}
	}
}

// TestAppendixA: the successful answers have exactly the keys that the
// specification shows, in its order.
func TestAppendixA(t *testing.T) {
	o := observe(t)
	file, err := os.ReadFile("appendix_a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name, Request, Version, Caller string
		Status                         int
		Body                           *string
		Keys                           []string // of the answer, in order
		Item                           string   // keys of the first of this list instead
		Values                         map[string]any
	}
	d := yaml.NewDecoder(strings.NewReader(string(file)))
	d.KnownFields(true)
	if err := d.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		ok := t.Run(r.Name, func(t *testing.T) {
			o.t = t
			method, path, _ := strings.Cut(r.Request, " ")
			path, query, _ := strings.Cut(path, "?")
			u := url.URL{Path: "/v1/" + path, RawQuery: query}
			raw, status := o.raw(method, u.String(), r.Version, r.Caller, r.Body)
			if status != r.Status {
				t.Fatalf("answered %d, not %d: %s", status, r.Status, raw)
			}
			keys, values, err := keysOf(raw, r.Item)
			if err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			if got, want := strings.Join(keys, " "), strings.Join(r.Keys, " "); got != want {
				t.Errorf("the keys are\n%s, not\n%s", got, want)
			}
			for k, want := range r.Values {
				if got := values[k]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s is %v, not %v", k, got, want)
				}
			}
			if method != "GET" && strings.HasPrefix(path, "clusters") {
				o.settle("/v1/clusters/c1")
				if strings.Contains(*r.Body, "failing") {
					o.settle("/v1/clusters/failing")
				}
			}
		})
		if !ok && strings.HasPrefix(r.Request, "POST") {
			t.Fatal("the rest builds on it")
		}
	}
}

func (o *observed) raw(method, path, version, caller string, body *string) ([]byte, int) {
	o.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(*body)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.carafe.URL+path, reader)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", o.token(caller))
	req.Header.Set("Content-Type", "application/json")
	if version != "" {
		req.Header.Set("OpenStack-API-Version", "container-infra "+version)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return b, resp.StatusCode
}

// keysOf reads the keys of an object in the order in which they were sent.
func keysOf(raw []byte, item string) ([]string, map[string]any, error) {
	if item != "" {
		var outer map[string]json.RawMessage
		if err := json.Unmarshal(raw, &outer); err != nil {
			return nil, nil, err
		}
		var list []json.RawMessage
		if err := json.Unmarshal(outer[item], &list); err != nil || len(list) == 0 {
			return nil, nil, fmt.Errorf("no list %q with an item", item)
		}
		raw = list[0]
	}
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	var keys []string
	depth := 0
	for key := true; ; {
		tok, err := d.Token()
		if err == io.EOF {
			return keys, values, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			key = depth == 1
		default:
			if depth == 1 {
				if key {
					keys = append(keys, fmt.Sprint(v))
				}
				key = !key
			}
		}
	}
}
