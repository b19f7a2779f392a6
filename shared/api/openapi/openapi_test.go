package openapi

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The file in schema/ is what the tables say; `go generate` makes it so.
func TestFileIsUpToDate(t *testing.T) {
	file, err := os.ReadFile("../../../schema/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var written, made any
	if err := yaml.Unmarshal(file, &written); err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(Document())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &made); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(made, written); d != "" {
		t.Errorf("run go generate ./shared/api/openapi (-tables +file):\n%s", d)
	}
}

// Every reference leads somewhere.
func TestReferencesResolve(t *testing.T) {
	doc, err := json.Marshal(Document())
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(doc, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				at := root
				for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := at.(map[string]any)
					at = m[part]
				}
				if at == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(root)
}
