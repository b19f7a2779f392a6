package capi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerifyTellsWhatIsThere(t *testing.T) {
	got, err := Verify("testdata/addons")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 18 || got[0] != "calico 1.34: 1 objects in 1 files" {
		t.Errorf("%d lines, the first %q", len(got), got[0])
	}
}

func TestVerifyTellsWhatIsWrong(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":               {map[string]string{".hidden/x": ""}, "holds no add-on"},
		"an unknown add-on":     {map[string]string{"flannel/1.35/a.yaml": good}, "no add-on of that name"},
		"a folder per patch":    {map[string]string{"ccm/1.35.2/a.yaml": good}, "not named by a minor version"},
		"no manifest":           {map[string]string{"ccm/1.35/README": "x"}, "no manifest"},
		"no YAML":               {map[string]string{"ccm/1.35/a.yaml": "a: [b"}, "ccm/1.35/a.yaml: document 1"},
		"no name":               {map[string]string{"ccm/1.35/a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, "no apiVersion, kind or name"},
		"an unknown value":      {map[string]string{"ccm/1.35/a.yaml": good + "data: {x: '${CLUSTER_NAEM}'}\n"}, "unknown placeholder ${CLUSTER_NAEM}"},
		"too large":             {map[string]string{"ccm/1.35/a.yaml": good + "data: {x: '" + strings.Repeat("x", addonBytes) + "'}\n"}, "fit into a Secret"},
		"nothing to remove":     {map[string]string{"ccm/1.35/a.yaml": good, "ccm/1.35/removed.yaml": "image: x\n"}, "needs image (with kubectl) and objects"},
		"a word in removed":     {map[string]string{"ccm/1.35/a.yaml": good, "ccm/1.35/removed.yaml": "imaeg: x\n"}, "removed.yaml"},
		"the second of several": {map[string]string{"ccm/1.35/a.yaml": good + "---\nkind: X\n"}, "document 2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				p := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}

// A value cannot become structure, whatever is in it.
func TestValuesStayStrings(t *testing.T) {
	objects, err := parseManifests([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '${REGION}', z: 'a ${TAG:-b} c'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	in := smallest()
	in.Config.Region = "x: y\n- [evil]"
	w, err := read(in.Cluster, in.Config, in.Resolved)
	if err != nil {
		t.Fatal(err)
	}
	r := &render{Input: in, wish: w}
	got := r.addonFiles(&addon{name: "monitoring", files: map[string][]map[string]any{"a.yaml": objects}}, "")
	back, err := parseManifests([]byte(got["a.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	data := back[0]["data"].(map[string]any)
	if data["x"] != in.Config.Region || data["z"] != "a b c" {
		t.Errorf("%q", data)
	}
}
