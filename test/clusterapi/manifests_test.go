//go:build clusterapi

package clusterapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"carafe/test/clusterapi/bed"
)

// A real kube-apiserver takes every object of a kind of its own that the overlays
// hold: applied as kubectl does, unknown fields refused, nothing kept.
func TestOverlaysAreTaken(t *testing.T) {
	t.Parallel()
	overlays, err := filepath.Glob(filepath.Join(bed.Root(), "knative/overlays/*/kustomization.yaml"))
	presets, _ := filepath.Glob(filepath.Join(bed.Root(), "knative/overlays/*/*/kustomization.yaml")) // the pattern is fine
	overlays = append(overlays, presets...)
	if err != nil || len(overlays) < 5 {
		t.Fatalf("%d overlays, %v", len(overlays), err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./kustomize")
	cmd.Dir = filepath.Join(bed.Root(), "test/knative")
	for _, o := range overlays {
		cmd.Args = append(cmd.Args, filepath.Dir(o))
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	c := connect(t, theBed.Config)
	served := map[string]metav1.APIResource{} // by apiVersion and kind
	for _, version := range []string{"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "autoscaling/v2"} {
		var list metav1.APIResourceList
		get(t, theBed.Config, base(version), &list)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") { // no subresource
				served[version+" "+r.Kind] = r
			}
		}
	}
	namespace := func(name string) {
		body := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`
		if err := c.Patch(types.ApplyYAMLPatchType).AbsPath("/api/v1/namespaces", name).Param("fieldManager", "test").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	taken := map[string]int{} // by overlay
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var line struct {
			From   string
			Object unstructured.Unstructured
		}
		err := d.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &line.Object
		r, ok := served[o.GetAPIVersion()+" "+o.GetKind()]
		if !ok {
			continue // Knative's and others' are checked against their schemas
		}
		q := c.Patch(types.ApplyYAMLPatchType).AbsPath(base(o.GetAPIVersion()))
		if r.Namespaced {
			namespace(o.GetNamespace())
			q = q.Namespace(o.GetNamespace())
		}
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := strictly(t, q.Resource(r.Name).Name(o.GetName()), body); err != nil {
			t.Errorf("%s: %s %s: %v", filepath.Base(line.From), o.GetKind(), o.GetName(), err)
		}
		taken[filepath.Base(line.From)]++
	}
	for _, o := range overlays {
		if name := filepath.Base(filepath.Dir(o)); taken[name] < 5 {
			t.Errorf("%s: %d objects of Kubernetes' own", name, taken[name])
		}
	}
	wrong := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"wrong","namespace":"default"},"dada":{}}`
	if err := strictly(t, c.Patch(types.ApplyYAMLPatchType).AbsPath("/api/v1").Namespace("default").Resource("configmaps").Name("wrong"), []byte(wrong)); err == nil {
		t.Error("an unknown field is taken: this test shows nothing")
	}
	t.Logf("%v", taken)
}

// strictly applies an object without keeping it.
func strictly(t *testing.T, q *rest.Request, body []byte) error {
	t.Helper()
	return q.Param("fieldManager", "test").Param("force", "true").Param("fieldValidation", "Strict").Param("dryRun", "All").Body(body).Do(t.Context()).Error()
}

func base(version string) string {
	if strings.Contains(version, "/") {
		return "/apis/" + version
	}
	return "/api/" + version
}
