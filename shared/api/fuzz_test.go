package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"carafe/shared/fault"
)

// refused checks that a fault is the client's and can be shown.
func refused(t *testing.T, err error) {
	t.Helper()
	if k := fault.KindOf(err); k != fault.Invalid {
		t.Errorf("kind %v: %v", k, err)
	}
	if text := fault.Text(err); text == "" || len(text) > 64<<10 || !utf8.ValidString(text) {
		t.Errorf("text of %d bytes: %.200q", len(text), text)
	}
}

// FuzzDecode: any body is either refused with a 400 that can be shown, or
// gives values within the limits of the table.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"cluster_template_id": "ct", "name": "c1", "labels": {"a": 1, "b": true, "c": 1.5}, "node_count": "3"}`,
		`{"coe": "kubernetes", "image_id": "i", "dns_nameserver": "8.8.8.8, 1.1.1.1", "apiserver_port": 6443}`,
		`{"name": "n", "node_taints": [{"key": "k", "effect": "NoSchedule"}, null], "node_labels": {"a": "b"}}`,
		`{"node_count": 2, "nodes_to_remove": ["a"], "nodegroup": "g"}`, `{"cluster_template": "t", "max_batch_size": 1e3}`,
		`{"cluster_uuid": "c", "csr": "x"}`, `{"hard_limit": 5}`, `{"properties": {"dns-zone": "z."}, "member_ids": []}`,
		`[]`, `null`, `{"a": NaN}`, `{"a": -Infinity}`, `{"\ud83d\ude00": "\ud800"}`, "{\"\xff\": 1}", `{"node_count": 1e999}`,
		`{"created_at": "2026-01-01"}`, `{"cluster": {}}`, strings.Repeat("[", 40), `{"name": "\u0000"}`,
	} {
		f.Add([]byte(s))
	}
	bodies := []*Body{ClusterCreate, ClusterTemplateCreate, NodeGroupCreate, ResizeRequest, UpgradeRequest, CertificateCreate,
		QuotaCreate, QuotaUpdate, FederationCreate}
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, err := parseBody(raw, "x")
		if err != nil {
			refused(t, err)
			return
		}
		for _, b := range bodies {
			v, err := b.decode(root)
			if err != nil {
				refused(t, err)
				continue
			}
			for i := range b.Fields {
				within(t, &b.Fields[i], v.have[i].v)
			}
		}
	})
}

// within checks that a value can be stored.
func within(t *testing.T, f *Field, v any) {
	t.Helper()
	var texts []string
	switch v := v.(type) {
	case string:
		texts = append(texts, v)
	case int:
		if low, high := f.Bounds(); v < low || v > high {
			t.Errorf("%s: %d", f.Name, v)
		}
	case map[string]string:
		for k, s := range v {
			texts = append(texts, k, s)
		}
	case []string:
		texts = v
	case []map[string]string:
		for _, m := range v {
			for k, s := range m {
				texts = append(texts, k, s)
			}
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			t.Errorf("%s: %q", f.Name, s)
		}
	}
}

// FuzzPatch: any patch is refused or applied, and the document is never touched.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{
		`[]`, `[{"op": "replace", "path": "/node_count", "value": 3}]`, `[{"op": "remove", "path": "/labels/new"}]`,
		`[{"op": "replace", "path": "/labels", "value": "{'a': 'b'}"}, {"op": "add", "path": "/labels/c~1d", "value": true}]`,
		`[{"op": "replace", "path": "/node_taints", "value": "[{'key': 'k'}]"}, {"op": "add", "path": "/node_taints/-", "value": "x"}]`,
		`[{"op": "add", "path": "/node_taints/0/key", "value": "x"}]`, `[{"op": null, "path": "/name"}]`, `[{"op": "remove", "path": "/tags"}]`,
		`[{"op": "replace", "path": "/member_ids", "value": ["a"]}]`, `[{"op": "add", "path": "/properties/a", "value": 1}]`, `[null]`, `{}`,
		`[{"op": "replace", "path": "/docker_volume_size", "value": "99999999999999999999"}]`,
	} {
		f.Add([]byte(s))
	}
	specs := map[string]*PatchBody{"clusters": ClusterPatch, "clustertemplates": ClusterTemplatePatch, "nodegroups": NodeGroupPatch, "federations": FederationPatch}
	before := map[string]string{}
	for name, doc := range documents {
		before[name] = printed1(doc)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, err := parseBody(raw, patchArgument)
		if err != nil {
			refused(t, err)
			return
		}
		for name, spec := range specs {
			p, err := spec.decode(root)
			if err != nil {
				refused(t, err)
				continue
			}
			after, err := p.Apply(documents[name])
			if err != nil {
				refused(t, err)
				continue
			}
			for i := range spec.body.Fields {
				if fd := &spec.body.Fields[i]; after.Has(fd.Name) {
					within(t, fd, after.have[i].v)
				}
			}
			if printed1(documents[name]) != before[name] {
				t.Fatalf("the document was changed by %s", raw)
			}
		}
	})
}

func printed1(doc Document) string {
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// FuzzVersionHeader: what is accepted is in the range, what is refused is a 406.
func FuzzVersionHeader(f *testing.F) {
	for _, s := range []string{"container-infra 1.5", "container-infra latest", "compute 2.1, container-infra 1.9", "container-infra 01.+05",
		"container-infra 1.-5", "container-infra 2.0", "", " ", ",", "container-infra 1.99999999999999999999", "container-infra\t1.5 x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		v, shown, err := negotiate([]string{header})
		if err != nil {
			if code, _ := errorBody(t.Context(), err); code != 406 || shown == "" {
				t.Errorf("%d %q", code, shown)
			}
			return
		}
		if v.Less(MinVersion) || MaxVersion.Less(v) || shown != v.String() {
			t.Errorf("%q: %v %q", header, v, shown)
		}
	})
}

// FuzzLiteral: a literal that is read prints as one that is read alike.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{`{'a': 'b'}`, `[{'key': 'k', 'effect': 'NoExecute'},]`, `('a',)`, `{"a": true}`, `'\x41\u00e9\''`, `-1_0`, `1.5e3`,
		`None`, `"it's"`, `{'a': {'b': [1, 2]}}`, `'a' 'b'`, `__import__('os')`, `1e999`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // bodies are UTF-8
		}
		v, err := parseLiteral(text)
		if err != nil {
			return
		}
		shown := pyRepr(v)
		if strings.Contains(shown, "inf") {
			return // Python's own repr of an infinity is no literal either
		}
		again, err := parseLiteral(shown)
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Errorf("%q: %s, read again as %s (%v)", text, shown, pyRepr(again), err)
		}
	})
}
