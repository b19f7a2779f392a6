//go:build clusterapi

package clusterapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"carafe/test/clusterapi/bed"
)

var documentStart = regexp.MustCompile(`(?m)^---.*$`)

// Every object of every golden file, in both dialects, passes the schemas,
// the CEL rules and the webhooks of who reads it: a dry run shows it.
func TestGoldenObjectsAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(bed.Root(), "shared/driver/capi/testdata/golden/*.yaml"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	c := connect(t, theBed.Config)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		old := strings.HasSuffix(f, "v1beta1.yaml")
		if old && !theBed.RealProvider {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), ".yaml"), func(t *testing.T) {
			for _, part := range documentStart.Split(string(data), -1) {
				var o map[string]any
				if err := yaml.Unmarshal([]byte(part), &o); err != nil {
					t.Fatal(err)
				}
				if len(o) == 0 {
					continue
				}
				version, kind := o["apiVersion"].(string), o["kind"].(string)
				meta := o["metadata"].(map[string]any)
				base := "/apis/" + version
				if version == "v1" {
					base = "/api/v1"
				}
				p := base + "/" + strings.ToLower(kind) + "s/" + meta["name"].(string)
				query := "?fieldManager=magnum&force=true&dryRun=All&fieldValidation=Strict"
				if kind == "Namespace" {
					query = "?fieldManager=magnum&force=true" // the others need it
				} else {
					p = base + "/namespaces/" + meta["namespace"].(string) + "/" + strings.ToLower(kind) + "s/" + meta["name"].(string)
				}
				body, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Patch(types.ApplyYAMLPatchType).RequestURI(p + query).Body(body).Do(t.Context()).Error(); err != nil {
					t.Errorf("%s %s: %v", kind, meta["name"], err)
				}
			}
		})
	}
}
