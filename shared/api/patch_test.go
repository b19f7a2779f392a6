package api

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"carafe/shared/fault"
)

func decodePatch(t *testing.T, spec *PatchBody, body string) (Patch, error) {
	t.Helper()
	root, err := parseBody([]byte(body), patchArgument)
	if err != nil {
		return Patch{}, err
	}
	return spec.decode(root)
}

func TestPatchRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec *PatchBody
		doc  string
		body string
		want string
	}{
		{"Object", ClusterPatch, "clusters", `{"a": 1}`, inv + "patch. Value: '{'a': 1}'. Value not a valid list: {'a': 1}"},
		{"Null", ClusterPatch, "clusters", `null`, inv + "patch. Value: 'None'. Value not a valid list: None"},            // B48
		{"Element", ClusterPatch, "clusters", `["x"]`, inv + "patch. Value: '['x']'. Value not a valid dict: x"},          // B19
		{"NullElement", ClusterPatch, "clusters", `[null]`, inv + "patch. Value: '[None]'. Value not a valid dict: None"}, // B19
		{"NoPath", ClusterPatch, "clusters", `[{"op": "move"}]`, inv + "path. Value: 'None'. Mandatory field missing."},
		{"NullPath", ClusterPatch, "clusters", `[{"path": null, "op": "remove"}]`, inv + "path. Value: 'None'. Mandatory field missing."},
		{"FirstFaultyEntry", ClusterPatch, "clusters", `[{"op": "remove", "path": "/uuid"}, {"x": 1}]`, "'/uuid' is an internal attribute and can not be updated"},
		{"NullOp", ClusterPatch, "clusters", `[{"path": "/name", "op": null, "value": "x"}]`, "Couldn't apply patch '[{'path': '/name', 'op': None, 'value': 'x'}]'. Reason: Operation's op must be a string"},
		{"UnicodePath", ClusterPatch, "clusters", `[{"path": "/ü_1-x", "op": "remove"}]`, "Couldn't apply patch '[{'path': '/ü_1-x', 'op': 'remove'}]'. Reason: can't remove a non-existent object 'ü_1-x'"},
		{"PathNewline", ClusterPatch, "clusters", `[{"path": "/name\n", "op": "remove"}]`, inv + "path. Value: '/name\n'. Value should match the pattern ^(/[\\w-]+)+$"},
		{"DotElsewhere", ClusterPatch, "clusters", `[{"path": "/name/a.b", "op": "remove"}]`, inv + "path. Value: '/name/a.b'. Value should match the pattern ^(/[\\w-]+)+$"},
		{"BadEscape", ClusterTemplatePatch, "clustertemplates", `[{"path": "/labels/a~2", "op": "remove"}]`, inv + "path. Value: '/labels/a~2'. Value should match the pattern ^(/[\\w-]+)+$"},
		{"ListForMap", ClusterTemplatePatch, "clustertemplates", `[{"path": "/labels", "op": "replace", "value": []}]`, inv + "value. Value: '[]'. Wrong type. Expected '(<class 'str'>, <class 'int'>)', got '<class 'list'>'"},
		{"MapForText", ClusterTemplatePatch, "clustertemplates", `[{"path": "/tags", "op": "replace", "value": {}}]`, inv + "value. Value: '{}'. Wrong type. Expected '(<class 'str'>, <class 'int'>)', got '<class 'dict'>'"},
		{"RemoveName", ClusterTemplatePatch, "clustertemplates", `[{"path": "/name", "op": "remove"}]`, "'/name' is a mandatory attribute and can not be removed"},                                                                                   // B44
		{"MapOfMaps", ClusterTemplatePatch, "clustertemplates", `[{"path": "/labels", "op": "replace", "value": "{'a': {'b': 'c'}}"}]`, inv + "labels. Value: '{'a': {'b': 'c'}}'. Wrong type. Expected '" + labelTypes + "', got '<class 'dict'>'"}, // B39
		{"LiteralList", ClusterTemplatePatch, "clustertemplates", `[{"path": "/labels", "op": "replace", "value": "[1]"}]`, inv + "labels. Value: '[1]'. Wrong type. Expected '{<class 'str'>: " + labelTypes + "}', got '<class 'list'>'"},
		{"Taint", NodeGroupPatch, "nodegroups", `[{"path": "/node_taints", "op": "replace", "value": "[1]"}]`, inv + "node_taints. Value: '[1]'. Wrong type. Expected '{<class 'str'>: <class 'str'>}', got '<class 'int'>'"},
		{"COE", ClusterTemplatePatch, "clustertemplates", `[{"path": "/coe", "op": "replace", "value": "swarm"}]`, inv + "coe. Value: 'swarm'. Value should be one of: kubernetes"}, // B39
		{"BelowNull", ClusterTemplatePatch, "clustertemplates", `[{"path": "/http_proxy/k2", "op": "add", "value": "x"}]`, "Couldn't apply patch '[{'path': '/http_proxy/k2', 'op': 'add', 'value': 'x'}]'. Reason: Document '<class 'NoneType'>' does not support indexing, must be mapping/sequence or support __getitem__"},
		{"BelowText", ClusterTemplatePatch, "clustertemplates", `[{"path": "/name/x", "op": "remove"}]`, "Couldn't apply patch '[{'path': '/name/x', 'op': 'remove'}]'. Reason: 'x' is not a valid sequence index"},
		{"AddTwice", ClusterTemplatePatch, "clustertemplates", `[{"path": "/tags", "op": "add", "value": "a"}, {"path": "/tags", "op": "add", "value": "b"}]`, "The attribute /tags has existed, please use 'replace' operation instead."}, // B81
		{"RemoveTwice", ClusterTemplatePatch, "clustertemplates", `[{"path": "/tags", "op": "remove"}, {"path": "/tags", "op": "remove"}]`, "Couldn't apply patch '[{'path': '/tags', 'op': 'remove'}, {'path': '/tags', 'op': 'remove'}]'. Reason: can't remove a non-existent object 'tags'"},
		{"Properties", FederationPatch, "federations", `[{"path": "/properties", "op": "replace", "value": "{'a':'b'}"}]`, inv + "properties. Value: '{'a':'b'}'. Wrong type. Expected '{<class 'str'>: <class 'str'>}', got '<class 'str'>'"},
		{"Members", FederationPatch, "federations", `[{"path": "/member_ids", "op": "replace", "value": "x"}]`, inv + "member_ids. Value: 'x'. Wrong type. Expected '[<class 'str'>]', got '<class 'str'>'"},
		{"TooMany", ClusterPatch, "clusters", `[` + strings.Repeat(`{},`, 1000) + `{}]`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := decodePatch(t, tc.spec, tc.body)
			if err == nil {
				_, err = p.Apply(documents[tc.doc])
			}
			if tc.name == "TooMany" {
				if err == nil || !strings.HasSuffix(fault.Text(err), "Value should have at most 1000 entries") {
					t.Errorf("%.200v", err)
				}
				return
			}
			wantFault(t, err, tc.want)
		})
	}
}

func TestPatchApplies(t *testing.T) {
	labels := func(p Patched) any { return p.Map("labels") }
	template := documents["clustertemplates"]
	for _, tc := range []struct {
		name    string
		body    string
		of      func(Patched) any
		want    any
		changed []string
	}{
		{"Empty", `[]`, func(p Patched) any { return *p.String("name") }, "gold-patch", nil},
		{"SameValue", `[{"path": "/name", "op": "replace", "value": "gold-patch"}]`, func(p Patched) any { return p.Has("name") }, true, nil},
		{"Name", `[{"path": "/name", "op": "replace", "value": "n"}]`, func(p Patched) any { return *p.String("name") }, "n", []string{"name"}},
		{"LiteralMap", `[{"path": "/labels", "op": "replace", "value": "{'a': 'b', 'n': 1}"}]`, labels, map[string]string{"a": "b", "n": "1"}, []string{"labels"}},
		{"JSONInText", `[{"path": "/labels", "op": "replace", "value": "{\"a\": true}"}]`, labels, map[string]string{"a": "True"}, []string{"labels"}}, // B41
		{"JSONMap", `[{"path": "/labels", "op": "replace", "value": {"a": "c"}}]`, labels, map[string]string{"a": "c"}, []string{"labels"}},            // B41
		{"AddLabel", `[{"path": "/labels/k", "op": "add", "value": 5}]`, labels, map[string]string{"new": "v", "k": "5"}, []string{"labels"}},
		{"RemoveLabel", `[{"path": "/labels/new", "op": "remove"}]`, labels, map[string]string{}, []string{"labels"}},
		{"EscapedLabel", `[{"path": "/labels/node.kubernetes.io~1x~0y", "op": "add", "value": "v"}]`, labels, map[string]string{"new": "v", "node.kubernetes.io/x~y": "v"}, []string{"labels"}}, // B80
		{"LabelThenRemove", `[{"path": "/labels/k", "op": "add", "value": "v"}, {"path": "/labels/k", "op": "remove"}]`, labels, map[string]string{"new": "v"}, nil},
		{"RemoveLabels", `[{"path": "/labels", "op": "remove"}]`, func(p Patched) any { return len(p.Map("labels")) }, 0, []string{"labels"}},
		{"Default", `[{"path": "/floating_ip_enabled", "op": "replace", "value": false}, {"path": "/floating_ip_enabled", "op": "remove"}]`, func(p Patched) any { return *p.Bool("floating_ip_enabled") }, true, nil},
		{"BooleanWord", `[{"path": "/tls_disabled", "op": "replace", "value": "true"}]`, func(p Patched) any { return *p.Bool("tls_disabled") }, true, []string{"tls_disabled"}},
		{"NumberInText", `[{"path": "/docker_volume_size", "op": "replace", "value": "7"}]`, func(p Patched) any { return *p.Int("docker_volume_size") }, 7, []string{"docker_volume_size"}}, // B43
		{"AddNull", `[{"path": "/tags", "op": "add", "value": "t"}]`, func(p Patched) any { return *p.String("tags") }, "t", []string{"tags"}},
		{"AddAfterRemove", `[{"path": "/flavor_id", "op": "remove"}, {"path": "/flavor_id", "op": "add", "value": "m2"}]`, func(p Patched) any { return *p.String("flavor_id") }, "m2", []string{"flavor_id"}}, // B81
		{"RemoveNull", `[{"path": "/tags", "op": "remove"}]`, func(p Patched) any { return p.IsNull("tags") && p.Has("tags") }, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := decodePatch(t, ClusterTemplatePatch, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			after, err := p.Apply(template)
			if err != nil {
				t.Fatal(err)
			}
			if got := tc.of(after); !reflect.DeepEqual(got, tc.want) || !reflect.DeepEqual(after.Changed, tc.changed) {
				t.Errorf("%v, changed %v", got, after.Changed)
			}
			if !reflect.DeepEqual(template["labels"], map[string]string{"new": "v"}) {
				t.Fatal("the document was changed")
			}
		})
	}
}

func TestPatchOfClusters(t *testing.T) {
	for body, beyond := range map[string]string{
		`[{"path": "/node_count", "op": "replace", "value": 3}]`:                                   "",
		`[{"path": "/health_status", "op": "add", "value": "HEALTHY"}]`:                            "",
		`[{"path": "/health_status_reason", "op": "replace", "value": "{'api': 'ok'}"}]`:           "",
		`[{"path": "/health_status_reason/api", "op": "add", "value": "ok"}]`:                      "",
		`[{"path": "/health_status", "op": "remove"}]`:                                             "", // B47
		`[{"path": "/keypair", "op": "remove"}]`:                                                   "keypair",
		`[{"path": "/create_timeout", "op": "remove"}]`:                                            "create_timeout", // B46
		`[{"path": "/labels", "op": "remove"}]`:                                                    "labels",         // B50
		`[{"path": "/name", "op": "replace", "value": "gold-c1"}]`:                                 "",
		`[{"path": "/name", "op": "replace", "value": "x"}, {"path": "/keypair", "op": "remove"}]`: "keypair, name",
	} {
		p, err := decodePatch(t, ClusterPatch, body)
		if err != nil {
			t.Fatal(err)
		}
		after, err := p.Apply(documents["clusters"])
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := after.Beyond("node_count", "health_status", "health_status_reason"); got != beyond {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// A handler that rewrites an operation: the member of a federation.
func TestPatchRewritten(t *testing.T) {
	p, err := decodePatch(t, FederationPatch, `[{"path": "/member_ids", "op": "add", "value": "u2"}]`)
	if err != nil {
		t.Fatal(err)
	}
	p.Operations[0].Op, p.Operations[0].Value = "replace", []string{"u1", "u2"}
	after, err := p.Apply(documents["federations"])
	if err != nil || !reflect.DeepEqual(after.List("member_ids"), []string{"u1", "u2"}) || after.Beyond("member_ids", "properties") != "" {
		t.Errorf("%v %v", after, err)
	}
	if v := p.Value("/member_ids"); v == nil {
		t.Error("no value")
	}
}

// No body of 1 MiB may cost more than a moment.
func TestHostileBodiesAreCheap(t *testing.T) {
	const half = 1 << 19
	list := "[" + strings.Repeat("1,", half/2) + "1]"
	for name, body := range map[string]string{
		"edits of a long list": `[{"path": "/node_taints", "op": "replace", "value": ` + list + `}` +
			strings.Repeat(`,{"path": "/node_taints/0", "op": "remove"}`, 900) + `]`,
		"edits of a long list in a text": `[{"path": "/node_taints", "op": "replace", "value": "` + list + `"}` +
			strings.Repeat(`,{"path": "/node_taints/0", "op": "remove"}`, 900) + `]`,
		"joined texts": `[{"path": "/node_taints", "op": "replace", "value": "` + strings.Repeat("'a'", half/3) + `"}]`,
		"nesting":      strings.Repeat(`[`, half),
		"keys":         `[{` + strings.Repeat(`"a":1,`, half/6) + `"b":1}]`,
	} {
		start := time.Now()
		p, err := decodePatch(t, NodeGroupPatch, body)
		if err == nil {
			_, err = p.Apply(documents["nodegroups"])
		}
		if took := time.Since(start); err == nil || took > 2*time.Second {
			t.Errorf("%s: %v, %.100v", name, took, err)
		}
	}
	rt := newRouter(t, Config{}, echo(t, nil))
	var query strings.Builder
	for i := range half / 8 {
		query.WriteString("&x" + strconv.Itoa(i))
	}
	start := time.Now()
	if w := send(t, rt, "GET", "/v1/clusters?"+query.String()[1:], ""); w.Code != 400 || time.Since(start) > 2*time.Second || w.Body.Len() > 1<<16 {
		t.Errorf("query: %d after %v, %d bytes", w.Code, time.Since(start), w.Body.Len())
	}
}

func TestPatchOfLists(t *testing.T) {
	doc := Document{"node_taints": []map[string]string{{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"}}}
	for body, want := range map[string]string{
		`[{"path": "/node_taints/0", "op": "remove"}]`:                      `[{'effect': 'NoExecute', 'key': 'b'}]`,
		`[{"path": "/node_taints/1/key", "op": "replace", "value": "c"}]`:   `[{'effect': 'NoExecute', 'key': 'a'}, {'effect': 'NoExecute', 'key': 'c'}]`,
		`[{"path": "/node_taints", "op": "replace", "value": "[]"}]`:        `[]`,
		`[{"path": "/node_taints/2", "op": "remove"}]`:                      "can't remove a non-existent object '2'",
		`[{"path": "/node_taints/2/key", "op": "replace", "value": "x"}]`:   "index '2' is out of bounds",
		`[{"path": "/node_taints/x", "op": "remove"}]`:                      "'x' is not a valid sequence index",
		`[{"path": "/node_taints/5", "op": "add", "value": "x"}]`:           "can't insert outside of list",
		`[{"path": "/node_taints/-", "op": "replace", "value": "x"}]`:       "'path' with '-' can't be applied to 'replace' operation",
		`[{"path": "/node_taints/99999999999999999999", "op": "remove"}]`:   "can't remove a non-existent object '99999999999999999999'",
		`[{"path": "/node_taints/-", "op": "add", "value": "x"}]`:           "Wrong type. Expected '{<class 'str'>: <class 'str'>}', got '<class 'str'>'",
		`[{"path": "/node_taints/0/zz", "op": "replace", "value": "x"}]`:    "can't replace a non-existent object 'zz'",
		`[{"path": "/node_taints/0/key/x", "op": "replace", "value": "x"}]`: "'x' is not a valid sequence index",
	} {
		p, err := decodePatch(t, NodeGroupPatch, body)
		if err != nil {
			t.Fatal(err)
		}
		after, err := p.Apply(doc)
		got := ""
		if err != nil {
			got = fault.Text(err)
		} else {
			got = pyRepr(after.Maps("node_taints"))
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
}
