package api

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"carafe/shared/fault"
)

// decode reads body as spec, as a handler would.
func decode(t *testing.T, spec *Body, body string) (Values, error) {
	t.Helper()
	root, err := parseBody([]byte(body), spec.Argument)
	if err != nil {
		return Values{}, err
	}
	return spec.decode(root)
}

func wantFault(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != fault.Invalid || fault.Text(err) != text {
		t.Errorf("got  %v\nwant %s", err, text)
	}
}

const inv = "Invalid input for field/attribute "

// What the recorded answers do not hold: the boxes that say what is right,
// nulls, numbers, and what no column or client could take.
func TestDecodeRefuses(t *testing.T) {
	x243, x256 := strings.Repeat("a", 243), strings.Repeat("ä", 256)
	many := `{"cluster_template_id": "t", "labels": {"k": "v"`
	for i := range 10000 {
		many += `, "k` + strconv.Itoa(i) + `": "v"`
	}
	many += "}}"
	for _, tc := range []struct {
		name string
		spec *Body
		body string
		want string
	}{
		{"Null", ClusterCreate, `null`, inv + "cluster. Value: 'None'. Value not a valid dict: None"}, // B19
		{"Array", ClusterCreate, `[]`, inv + "cluster. Value: '[]'. Value not a valid dict: []"},      // B19
		{"Number", ClusterCreate, `5`, inv + "cluster. Value: '5'. Value not a valid dict: 5"},        // B19
		{"Syntax", ClusterCreate, `{`, notJSON},
		{"Trailing", ClusterCreate, `{"cluster_template_id":"ct"} x`, notJSON},
		{"Trailing comma", ClusterCreate, `{"a": 1,}`, notJSON},
		{"Control character", ClusterCreate, "{\"a\": \"\n\"}", notJSON},
		{"Leading zero", ClusterCreate, `{"node_count": 01}`, notJSON},
		{"Deep", ClusterCreate, `{"labels": ` + strings.Repeat("[", 100000), inv + "cluster. Value nested deeper than 32 levels."},
		{"UnknownSorted", ClusterCreate, `{"b": 1, "a": 1, "name": 5}`, "Unknown attributes for argument cluster: a, b"}, // B20
		{"TypeArgument", ClusterCreate, `{"cluster": {}}`, inv + "cluster. Value: '{}'. unable to convert to Cluster. Error: Cluster.__init__() takes 1 positional argument but 2 were given"},
		{"LastKeyCounts", ClusterCreate, `{"node_count": 1, "node_count": -1, "cluster_template_id": "t"}`, inv + "node_count. Value: '-1'. Value should be greater or equal to 0"},
		{"NameNewline", ClusterCreate, `{"name": "abc\n"}`, inv + "name. Value: 'abc\n'. Value should match the pattern ^[a-zA-Z][a-zA-Z0-9_.-]*$"}, // B29
		{"NameLong", ClusterCreate, `{"name": "` + x243 + `"}`, inv + "name. Value: '" + x243 + "'. Value should have a maximum character requirement of 242"},
		{"CharactersNotBytes", ClusterTemplateCreate, `{"name": "` + x256 + `"}`, inv + "name. Value: '" + x256 + "'. Value should have a maximum character requirement of 255"},
		{"NUL", ClusterTemplateCreate, `{"coe": "kubernetes", "image_id": "a\u0000b"}`, inv + "image_id. Value: 'a\x00b'. " + noNUL},
		{"NULInText", ClusterCreate, `{"cluster_template_id": "\u0000"}`, inv + "cluster_template_id. Value: '\x00'. " + noNUL},
		{"NULInKey", ClusterCreate, `{"cluster_template_id": "t", "labels": {"\u0000": "v"}}`, inv + `labels. Value: '{'\x00': 'v'}'. ` + noNUL},
		{"Float", ClusterCreate, `{"cluster_template_id": "t", "node_count": -1.9}`, inv + "node_count. Value: '-1'. Value should be greater or equal to 0"},
		{"NaN", ClusterCreate, `{"cluster_template_id": "t", "node_count": NaN}`, inv + "cluster. Value: '{'cluster_template_id': 't', 'node_count': nan}'. cannot convert float NaN to integer"},
		{"Infinity", ClusterCreate, `{"cluster_template_id": "t", "node_count": -Infinity}`, inv + "node_count. Value: '-inf'. cannot convert float infinity to integer"},
		{"Huge", ClusterCreate, `{"cluster_template_id": "t", "node_count": 99999999999999999999999}`, inv + "node_count. Value: '99999999999999999999999'. Value should be lower or equal to 2147483647"},
		{"HugeFloat", ClusterCreate, `{"cluster_template_id": "t", "node_count": 1e30}`, inv + "node_count. Value: '1000000000000000019884624838656'. Value should be lower or equal to 2147483647"},
		{"Digits", ClusterCreate, `{"node_count": ` + strings.Repeat("9", 5000) + `}`, notJSON},
		{"ListForInt", ClusterCreate, `{"cluster_template_id": "t", "node_count": []}`, inv + "node_count. Value: '[]'. int() argument must be a string, a bytes-like object or a real number, not 'list'"}, // B19
		{"TextForInt", ClusterCreate, `{"cluster_template_id": "t", "node_count": "1.0"}`, inv + "cluster. Value: '{'cluster_template_id': 't', 'node_count': '1.0'}'. invalid literal for int() with base 10: '1.0'"},
		{"Boolean", ClusterCreate, `{"cluster_template_id": "t", "master_lb_enabled": "maybe"}`, inv + "master_lb_enabled. Value: 'maybe'. Unrecognized value 'maybe', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"}, // B15
		{"NullLabel", ClusterCreate, `{"cluster_template_id": "t", "labels": {"k": null}}`, inv + "labels. Value: '{'k': None}'. Field `labels[k]' cannot be None"},                                                                                                     // B31
		{"TooManyLabels", ClusterCreate, many, ""},
		{"StatusOrder", ClusterCreate, `{"cluster_template_id": "t", "health_status": "X"}`, inv + "health_status. Value: 'X'. Value should be one of: HEALTHY, UNHEALTHY, UNKNOWN"}, // B20
		{"ServerTypeOrder", ClusterTemplateCreate, `{"coe": "kubernetes", "image_id": "i", "server_type": "lxc"}`, inv + "server_type. Value: 'lxc'. Value should be one of: bm, vm"},
		{"ReadOnlyNull", ClusterCreate, `{"cluster_template_id": "t", "stack_id": null}`, inv + "stack_id. Value: 'None'. Cannot set read only field."},
		{"ReadOnlyTime", ClusterCreate, `{"cluster_template_id": "t", "created_at": "2026-01-01T00:00:00+00:00"}`, inv + "created_at. Value: '2026-01-01 00:00:00+00:00'. Cannot set read only field."},
		{"COE", ClusterTemplateCreate, `{"image_id": "i"}`, inv + "coe. Value: 'None'. Mandatory field missing."}, // B36
		{"DNSNumber", ClusterTemplateCreate, `{"coe": "kubernetes", "image_id": "i", "dns_nameserver": 5}`, inv + "dns_nameserver. Value: '5'. Wrong type. Expected '<class 'str'>', got '<class 'int'>'"},
		{"SlashInTemplate", ClusterTemplateCreate, `{"name": "a/b"}`, inv + `name. Value: 'a/b'. Value should match the pattern ^[^/\x00-\x1f\x7f]+$`}, // B55
		{"NodeGroupName", NodeGroupCreate, `{}`, inv + "name. Value: 'None'. Mandatory field missing."},                                                // B57
		{"NodeGroupNullName", NodeGroupCreate, `{"name": null}`, inv + "name. Value: 'None'. Mandatory field missing."},
		{"NodeGroupSpace", NodeGroupCreate, `{"name": "a b"}`, inv + "name. Value: 'a b'. Value should match the pattern ^[a-zA-Z][a-zA-Z0-9_.-]*$"}, // B55
		{"ResizeNull", ResizeRequest, `{"node_count": null}`, inv + "node_count. Value: 'None'. Mandatory field missing."},                           // B72
		{"RemoveNull", ResizeRequest, `{"node_count": 1, "nodes_to_remove": [null]}`, inv + "nodes_to_remove. Value: '[None]'. Wrong type. Expected '<class 'str'>', got '<class 'NoneType'>'"},
		{"Upgrade", UpgradeRequest, `{}`, inv + "cluster_template. Value: 'None'. Mandatory field missing."},                             // B70
		{"UpgradeNull", UpgradeRequest, `{"cluster_template": null}`, inv + "cluster_template. Value: 'None'. Mandatory field missing."}, // B70
		{"CSR", CertificateCreate, `{"cluster_uuid": "c"}`, inv + "csr. Value: 'None'. Mandatory field missing."},                        // B74
		{"ClusterOfCSR", CertificateCreate, `{"cluster_uuid": null, "csr": "x"}`, inv + "cluster_uuid. Value: 'None'. Mandatory field missing."},
		{"QuotaPatch", QuotaUpdate, `{}`, inv + "hard_limit. Value: 'None'. Mandatory field missing."}, // B67
		{"QuotaPatchList", QuotaUpdate, `[{"op": "replace"}]`, inv + "quotapatch. Value: '[{'op': 'replace'}]'. Value not a valid dict: [{'op': 'replace'}]"},
		{"QuotaNull", QuotaCreate, `{"hard_limit": null}`, inv + "hard_limit. Value: 'None'. Mandatory field missing."},
		{"TaintNumber", NodeGroupCreate, `{"name": "n", "node_taints": [{"key": 1}]}`, inv + "node_taints. Value: '[{'key': 1}]'. Wrong type. Expected '<class 'str'>', got '<class 'int'>'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := decode(t, tc.spec, tc.body)
			if tc.name == "TooManyLabels" {
				if err == nil || !strings.HasSuffix(fault.Text(err), "Value should have at most 1000 entries") || len(fault.Text(err)) > 9000 {
					t.Errorf("%.200v", err)
				}
				return
			}
			wantFault(t, err, tc.want)
		})
	}
}

func TestDecodeValues(t *testing.T) {
	v, err := decode(t, ClusterCreate, `{"cluster_template_id": "ct", "node_count": " 3 ", "master_count": true, "docker_volume_size": 7.9,
		"labels": {"i": 1, "t": true, "f": 1.5, "e": 1e16, "s": "x"}, "merge_labels": "YES", "master_lb_enabled": 0, "keypair": null,
		"create_timeout": null, "status": "CREATE_COMPLETE", "uuid": "{5D12F6FDA1964BF0AE4C1F639A523A53}", "faults": {"a": "b"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if *v.Int("node_count") != 3 || *v.Int("master_count") != 1 || *v.Int("docker_volume_size") != 7 || v.Int("create_timeout") != nil {
		t.Errorf("integers: %+v", v.have)
	}
	if want := map[string]string{"i": "1", "t": "True", "f": "1.5", "e": "1e+16", "s": "x"}; !reflect.DeepEqual(v.Map("labels"), want) {
		t.Errorf("labels %v", v.Map("labels"))
	}
	if !*v.Bool("merge_labels") || *v.Bool("master_lb_enabled") || v.Bool("floating_ip_enabled") != nil {
		t.Error("booleans")
	}
	if !v.Has("keypair") || !v.IsNull("keypair") || v.String("keypair") != nil || v.Has("name") || v.IsNull("name") {
		t.Error("presence")
	}
	for _, ignored := range []string{"status", "uuid", "faults"} { // B27
		if v.Has(ignored) || v.have[v.body.index[ignored]].v != nil {
			t.Errorf("%s was not forgotten", ignored)
		}
	}
	if *v.String("cluster_template_id") != "ct" {
		t.Error("text")
	}
}

func TestDecodeDefaults(t *testing.T) {
	v, err := decode(t, ClusterCreate, `{"cluster_template_id": "ct", "node_count": null, "master_count": null, "name": null, "merge_labels": null}`) // B28
	if err != nil {
		t.Fatal(err)
	}
	if *v.Int("node_count") != 1 || *v.Int("master_count") != 1 || *v.Int("create_timeout") != 60 || *v.Bool("merge_labels") || v.String("name") != nil {
		t.Errorf("%+v", v.have)
	}
	v, err = decode(t, NodeGroupCreate, `{"name": "n", "role": null, "min_node_count": null, "node_taints": [null, {"key": "k", "value": null}], "id": 7, "is_default": true}`) // B57, B58
	if err != nil {
		t.Fatal(err)
	}
	if *v.String("role") != "worker" || *v.Int("min_node_count") != 0 || v.Int("max_node_count") != nil || v.Has("is_default") {
		t.Errorf("%+v", v.have)
	}
	if want := []map[string]string{nil, {"key": "k"}}; !reflect.DeepEqual(v.Maps("node_taints"), want) {
		t.Errorf("%v", v.Maps("node_taints"))
	}
	v, err = decode(t, UpgradeRequest, `{"cluster_template": "ct", "max_batch_size": null}`) // B69
	if err != nil || *v.Int("max_batch_size") != 1 {
		t.Errorf("%v %v", v, err)
	}
	v, err = decode(t, ResizeRequest, `{"node_count": 2, "nodes_to_remove": null}`) // what openstacksdk sends
	if err != nil || v.List("nodes_to_remove") != nil || *v.Int("node_count") != 2 {
		t.Errorf("%v %v", v, err)
	}
	v, err = decode(t, QuotaCreate, `{}`)
	if err != nil || *v.Int("hard_limit") != 1 || *v.String("resource") != "Cluster" || v.Has("project_id") {
		t.Errorf("%v %v", v, err)
	}
}

// A name that is not in the table is found by the first test, not by a user.
func TestUnknownNamePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	v, _ := decode(t, QuotaCreate, `{}`)
	v.Has("hardlimit")
}

func TestPythonNotation(t *testing.T) {
	for body, want := range map[string]string{
		`"it's"`:                           `"it's"`,
		`"it's \"so\""`:                    `'it\'s "so"'`,
		`"a\nb\t\u0001\u007f\\"`:           `'a\nb\t\x01\x7f\\'`,
		`"\u00fc\u00ad\u200b\ud83d\ude00"`: `'ü\xad\u200b😀'`,
		`"\ud800x"`:                        "'\uFFFDx'",
		`[1, 1.0, -0.0, 1e5, 1.5e300, 0.00001, true, null]`: `[1, 1.0, -0.0, 100000.0, 1.5e+300, 1e-05, True, None]`,
		`{"b": {}, "a": [[]]}`:                              `{'b': {}, 'a': [[]]}`,
		`123456789012345678901234`:                          `123456789012345678901234`,
	} {
		v, err := parseJSON(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if got := pyRepr(v); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestLiterals(t *testing.T) {
	for text, want := range map[string]string{
		`{'a': 'b'}`:             `{'a': 'b'}`,
		`{"a": "b",}`:            `{'a': 'b'}`,
		` [ {'key':'k' , } , ] `: `[{'key': 'k'}]`,
		`{'a': True, 'b': None}`: `{'a': True, 'b': None}`,
		`{"a": true, "b": null}`: `{'a': True, 'b': None}`,
		`('a')`:                  `'a'`,
		`('a',)`:                 `['a']`,
		`()`:                     `[]`,
		`'a' "b"`:                `'ab'`,
		`'\x41\u00e9\'\q\
'`: `'Aé\'\\q'`,
		`-1_000`: `-1000`,
		`1.5e3`:  `1500.0`,
		`0`:      `0`,
		`None`:   `None`,
	} {
		v, err := parseLiteral(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := pyRepr(v); got != strings.ReplaceAll(want, `'Aé\'\\q'`, `"Aé'\\q"`) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{``, `x`, `{'a'}`, `{'a': }`, `{'a': 'b'`, `[1 2]`, `{1: 'a'}`, `'a`, `"a'`, `'\x4'`, `01`, `1__0`, `--1`,
		`__import__('os')`, `{'a': os}`, `{'a': 'b'} x`, `[,]`, "'a\n'", strings.Repeat("[", 100000), `f'x'`, `1.2.3`, `{**{}}`, `nan`} {
		if v, err := parseLiteral(text); err == nil {
			t.Errorf("%.20s: %s", text, pyRepr(v))
		}
	}
}

func TestUUIDLike(t *testing.T) {
	const canonical = "5d12f6fd-a196-4bf0-ae4c-1f639a523a53"
	for text, ok := range map[string]bool{
		canonical: true, "5D12F6FD-A196-4BF0-AE4C-1F639A523A53": true, "5d12f6fda1964bf0ae4c1f639a523a53": true,
		"{5d12f6fd-a196-4bf0-ae4c-1f639a523a53}": true, "urn:uuid:5d12f6fd-a196-4bf0-ae4c-1f639a523a53": true,
		"5d12f6fda1964bf0ae4c1f639a523a5": false, "5d12f6fda1964bf0ae4c1f639a523a5g": false, "": false, "abc": false,
		strings.Repeat("-", 40): false,
	} {
		if got, is := UUIDLike(text); is != ok || ok && got != canonical {
			t.Errorf("%s: %s %v", text, got, is)
		}
	}
	for text, want := range map[string]Ident{ // B22
		"777": {Text: "777", ID: 777}, "0777": {Text: "0777"}, "-1": {Text: "-1"}, "99999999999": {Text: "99999999999"},
		"c1": {Text: "c1"}, "5D12F6FDA1964BF0AE4C1F639A523A53": {Text: "5D12F6FDA1964BF0AE4C1F639A523A53", UUID: canonical},
	} {
		if got := ParseIdent(text); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for text, impossible := range map[string]bool{"": true, "\x00": true, "\xff": true, " ": false, canonical: false} {
		if ParseIdent(text).Impossible() != impossible {
			t.Errorf("%q", text)
		}
	}
}

func TestConditionalRequests(t *testing.T) {
	w := httptest.NewRecorder()
	SetETag(w, 17)
	tag := w.Header().Get("ETag")
	for match, ok := range map[string]bool{"": true, tag: true, "*": true, `"1", ` + tag: true, `"16"`: false, "W/" + tag: false, "17": false} {
		r := httptest.NewRequest("PATCH", "/", nil)
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		if err := CheckIfMatch(r, 17); (err == nil) != ok || err != nil && Status(fault.KindOf(err)) != http.StatusPreconditionFailed {
			t.Errorf("%s: %v", match, err)
		}
	}
	for key, ok := range map[string]bool{"": false, "k": true, `"k k"`: true, `""`: false, "ä": false, strings.Repeat("k", 256): false} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Idempotency-Key", key)
		if _, err := IdempotencyKey(r); (err == nil) != ok {
			t.Errorf("%s: %v", key, err)
		}
	}
	if key, err := IdempotencyKey(httptest.NewRequest("POST", "/", nil)); key != "" || err != nil {
		t.Errorf("%s %v", key, err)
	}
}
