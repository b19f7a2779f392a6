package knative

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

func readFunc(t *testing.T) object {
	t.Helper()
	b, err := os.ReadFile(root + "/func.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := yaml.UnmarshalStrict(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFuncYAMLFitsFuncsSchema(t *testing.T) {
	t.Parallel()
	if beside() == "" {
		t.Skip("LEFT OUT: func.yaml against func's schema; CARAFE_CRDS names no folder and ../shared/crds is not there")
	}
	f, err := os.Open(filepath.Join(beside(), "func", "func_yaml-schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("func.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("func.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(object){nil, func(o object) { o["build"].(map[string]any)["builder"] = "host" }, func(o object) { o["runtimes"] = "go" }} {
		o := readFunc(t)
		if change != nil {
			change(o)
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		switch err := schema.Validate(v); {
		case change == nil && err != nil:
			t.Error(err)
		case change != nil && err == nil:
			t.Errorf("a wrong func.yaml is accepted: %s", b)
		}
	}
}

// What func's scaffolding writes around the function compiles: its main calls
// http.Start(f.New()) of knative.dev/func-go (knative/func templates/go/scaffolding).
func TestFuncsScaffoldingCompiles(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	main := "package main\n\nimport (\n\tf \"carafe\"\n\n\t\"knative.dev/func-go/http\"\n)\n\nfunc main() { _ = http.Start(f.New()) }\n"
	mod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module carafe\n", "module s\n\nreplace carafe => "+checkout+"\n", 1) +
		"\nrequire carafe v0.0.0-00010101000000-000000000000\n\nrequire knative.dev/func-go v0.22.0\n"
	for name, content := range map[string]string{"main.go": main, "go.mod": text, "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", filepath.Join(dir, "f"), ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Without a database it must say so and end, not serve.
	run := exec.Command(filepath.Join(dir, "f"))
	run.Env = []string{"LISTEN_ADDRESS=127.0.0.1:0", "CARAFE_DATABASE_URL="}
	out, _ := run.CombinedOutput()
	if !strings.Contains(string(out), "CARAFE_DATABASE_URL is not set") {
		t.Errorf("started without a database, it says\n%s", out)
	}
}
