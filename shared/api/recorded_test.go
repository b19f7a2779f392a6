package api

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// ours are the texts that this package makes; all others come from a handler.
var ours = regexp.MustCompile(`^(Invalid input for field/attribute|Unknown a|Missing argument|Request (is|must)|` +
	`Expected a|'.*' is an? (internal|mandatory)|'add' and|Couldn't apply patch|Adding a new attribute|The attribute /|` +
	`Unknown mimetype|Limit must|Invalid sort|The sort_key|cannot change|Version 1)`)

// otherwise are the recorded answers that are different on purpose, by the box
// of spec/api.md that says why. want is a part of our detail.
var otherwise = []struct{ box, method, path, body, want string }{
	{"B04", "", "", "", "the requested API "},
	{"B17", "GET", "/detail", "", "There is no "},
	{"B41", "PATCH", "", `/(labels|node_labels|node_taints|health_status_reason)", "value": ("(x|junk|a=b|)"|5|"__imp)`, "malformed value"},
	{"B41", "PATCH", "", `/(labels|node_labels|health_status_reason)", "value": \{`, ""},
	{"B41", "PATCH", "", `/node_taints", "value": \[`, ""},
	{"B43", "PATCH", "", `"value": "\d+"`, ""},
	{"B43", "PATCH", "", `"value": "(abc)?"`, "invalid literal for int() with base 10: "},
	{"B46", "PATCH", "/clusters/", `"remove", "path": "/(keypair|create_timeout|master_count)"`, "cannot change cluster property(ies)"},
	{"B14: no column holds it", "", "", `1000000000000`, "Value should be lower or equal to 2147483647"},
	{"B36", "POST", "/clustertemplates", `"\{\}"`, "attribute coe."},
	{"B44", "PATCH", "/clustertemplates", `"remove", "path": "/name"`, "'/name' is a mandatory attribute"},
	{"B55", "POST", "", `"name": "(a/b|with space|1digit)"`, "Value should match the pattern"},
	{"B80", "PATCH", "", `/labels/a\.b|/labels/a~`, ""},
	{"B67", "PATCH", "/quotas/", `^\{\}$`, "attribute hard_limit. Value: 'None'. Mandatory field missing."},
	{"another document", "PATCH", "/clustertemplates/", `"remove", "path": "/labels/kube_tag"`, "can't remove a non-existent object"},
	{"issue 4", "GET", `[?&](status|name)=`, "", ""},
}

// documents stand for the objects that the prober patched.
var documents = map[string]Document{
	"clusters": {"id": 1, "uuid": "x", "name": "gold-c1", "project_id": "p", "user_id": "u", "cluster_template_id": "t",
		"keypair": "testkey", "docker_volume_size": 5, "labels": map[string]string{"kube_tag": "v1"}, "master_flavor_id": "m1.small",
		"flavor_id": "m1.small", "stack_id": "s", "api_address": "https://x", "status": magnum.CreateComplete, "status_reason": "y",
		"health_status": magnum.HealthStatus(""), "health_status_reason": map[string]string{}, "create_timeout": 60, "discovery_url": nil,
		"coe_version": "v1", "container_version": nil, "fixed_network": nil, "fixed_subnet": nil, "floating_ip_enabled": true,
		"master_lb_enabled": false, "created_at": "x", "updated_at": nil, "node_count": 1, "master_count": 1,
		"node_addresses": []string{}, "master_addresses": []string{}},
	"clustertemplates": {"id": 1, "uuid": "x", "name": "gold-patch", "project_id": "p", "user_id": "u", "coe": "kubernetes",
		"image_id": "ubuntu-k8s", "flavor_id": "m1.small", "master_flavor_id": "m1.small", "dns_nameserver": "8.8.8.8",
		"keypair_id": "testkey", "external_network_id": "public", "fixed_network": nil, "fixed_subnet": nil, "network_driver": "calico",
		"apiserver_port": nil, "docker_volume_size": 5, "cluster_distro": "ubuntu", "http_proxy": nil, "https_proxy": nil, "no_proxy": nil,
		"volume_driver": nil, "registry_enabled": false, "labels": map[string]string{"new": "v"}, "tls_disabled": false, "public": false,
		"server_type": "vm", "insecure_registry": nil, "docker_storage_driver": nil, "master_lb_enabled": false,
		"floating_ip_enabled": true, "hidden": false, "tags": nil, "driver": "k8s_rig_v1", "created_at": "x", "updated_at": nil},
	"nodegroups": {"id": 1, "uuid": "x", "name": "gold-keep", "cluster_id": "c", "project_id": "p", "docker_volume_size": nil,
		"labels": map[string]string{}, "flavor_id": "m1.small", "image_id": "i", "node_addresses": []string{}, "node_count": 2,
		"role": "worker", "min_node_count": 0, "max_node_count": nil, "is_default": false, "stack_id": "s", "status": magnum.CreateComplete,
		"status_reason": nil, "version": nil, "node_labels": map[string]string{"a": "b"}, "node_taints": []map[string]string{},
		"created_at": "x", "updated_at": nil},
	"federations": {"name": "f", "member_ids": []string{}, "properties": map[string]string{"dns-zone": "z."}, "status": "CREATE_COMPLETE",
		"hostcluster_id": "h", "status_reason": nil},
}

var changeable = map[string][]string{
	"clusters": {"node_count", "health_status", "health_status_reason"}, "federations": {"member_ids", "properties"},
}

// checking is a handler that does only what this package does.
func checking(r Route) Handler {
	return func(w http.ResponseWriter, req *http.Request) error {
		if r.Body != nil {
			if _, err := Decode(req, r.Body); err != nil {
				return err
			}
		}
		if r.Patch != nil {
			patch, err := DecodePatch(req, r.Patch)
			if err != nil {
				return err
			}
			after, err := patch.Apply(documents[r.Function])
			if err != nil {
				return err
			}
			if allowed := changeable[r.Function]; allowed != nil {
				if beyond := after.Beyond(allowed...); beyond != "" {
					return fault.New(fault.Invalid, "cannot change %s property(ies) %s.", strings.TrimSuffix(r.Function, "s"), beyond)
				}
			}
		}
		if r.SortKeys != nil {
			page, err := ParsePage(req, r.SortKeys)
			if err != nil {
				return err
			}
			if page.sortErr != nil {
				return page.sortErr
			}
		}
		return NoContent(w)
	}
}

// What this package refuses, of all that the prober sent to Magnum 23.0.0, is
// refused with Magnum's words; what Magnum took, it does not refuse.
func TestRecordedRefusals(t *testing.T) {
	files, err := filepath.Glob("../../test/golden/recorded/api-*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	handlers := map[string]Handler{}
	for _, r := range Routes {
		handlers[r.Operation] = checking(r)
	}
	rt := newRouter(t, Config{}, handlers)
	compared := 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var x recorded
			if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(x.Path, "/v1/") && x.User != nil && !strings.HasSuffix(file, "root.jsonl") && x.compare(t, rt, filepath.Base(file)) {
				compared++
			}
		}
		f.Close()
	}
	t.Logf("%d answers compared", compared)
	if compared < 400 {
		t.Errorf("only %d answers compared", compared)
	}
}

type recorded struct {
	Case           string            `json:"case"`
	Method         string            `json:"method"`
	Path           string            `json:"path"`
	RequestBody    json.RawMessage   `json:"request_body"`
	RequestHeaders map[string]string `json:"request_headers"`
	Status         int               `json:"status"`
	ResponseBody   struct {
		Errors []struct{ Title, Detail string }
	} `json:"response_body"`
	User *string `json:"user"`
}

func (x *recorded) compare(t *testing.T, rt http.Handler, file string) bool {
	detail, title := "", ""
	if len(x.ResponseBody.Errors) == 1 {
		detail, title = x.ResponseBody.Errors[0].Detail, x.ResponseBody.Errors[0].Title
	}
	refused := ours.MatchString(detail)
	if !refused && (x.Status >= 300 || x.Status == 0) {
		return false // a handler's, or a box: 500 and no answer at all
	}
	body := string(x.RequestBody)
	if body == "null" {
		body = ""
	}
	var raw struct {
		Raw *string `json:"__raw__"`
	}
	if json.Unmarshal(x.RequestBody, &raw) == nil && raw.Raw != nil {
		body = *raw.Raw
	}
	r := httptest.NewRequest(x.Method, "http://h"+x.Path, strings.NewReader(body))
	for k, v := range x.RequestHeaders {
		r.Header.Set(k, v)
	}
	r.Header.Set("X-Auth-Token", "demo")
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	var got ErrorBody
	if w.Code >= 300 {
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s %s: %v: %s", file, x.Case, err, w.Body)
			return true
		}
	}
	ourDetail, ourTitle := "", ""
	if len(got.Errors) == 1 {
		ourDetail, ourTitle = got.Errors[0].Detail, got.Errors[0].Title
	}
	if refused == (w.Code >= 300) && sameText(detail, ourDetail) && (!refused || x.Status == w.Code) {
		if i := strings.Index(detail, "."); refused && title != ourTitle && !strings.Contains(detail[:i+1], "Value") && len(ourTitle) < i {
			t.Errorf("%s %s: title %q, Magnum %q", file, x.Case, ourTitle, title)
		}
		return true
	}
	for _, o := range otherwise {
		if (o.method == "" || o.method == x.Method) && match(o.path, x.Path) && match(o.body, string(x.RequestBody)) &&
			(o.want == "" || strings.Contains(ourDetail, o.want)) {
			return true
		}
	}
	t.Errorf("%s %s\n  %s %s %.300s\n  Magnum %d %.400s\n  Carafe %d %.400s", file, x.Case, x.Method, x.Path, x.RequestBody, x.Status, detail, w.Code, ourDetail)
	return true
}

func match(re, s string) bool { return re == "" || regexp.MustCompile(re).MatchString(s) }

var (
	members = regexp.MustCompile(`Value should be one of: [A-Za-z_, ]+$`)
	printed = regexp.MustCompile(`Value: '[{\[].*[}\]]'\. `)
)

// sameText compares two texts; of lists that Magnum writes in no order, and of
// a body that the recording has in another order, only what is in them.
func sameText(a, b string) bool {
	if a == b {
		return true
	}
	if members.MatchString(a) && members.MatchString(b) {
		return sorted(members.FindString(a)) == sorted(members.FindString(b)) && members.ReplaceAllString(a, "") == members.ReplaceAllString(b, "")
	}
	if printed.MatchString(a) && printed.MatchString(b) {
		return sorted(printed.FindString(a)) == sorted(printed.FindString(b)) && printed.ReplaceAllString(a, "") == printed.ReplaceAllString(b, "")
	}
	return strings.HasPrefix(a, "Couldn't apply patch") && sorted(a) == sorted(b)
}

func sorted(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" '{}[],:.", r) })
	slices.Sort(words)
	return strings.Join(words, " ")
}
