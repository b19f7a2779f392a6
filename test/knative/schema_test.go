package knative

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// Versions of the modules whose CRDs are read from Go's module cache.
const servingModule, gatewayModule = "knative.dev/serving@v0.51.0", "sigs.k8s.io/gateway-api@v1.6.1"

// typed are the kinds that are decoded into their Go types, unknown fields refused.
var typed = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, rbacv1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Strict: true})
})

// schemas are of custom resources, by "apiVersion kind".
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	dirs := []string{}
	for _, m := range []struct{ module, dir string }{{servingModule, "config/core/300-resources"}, {gatewayModule, "config/crd/standard"}} {
		dir, err := moduleDir(m.module)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, filepath.Join(dir, m.dir))
	}
	if dir := beside(); dir != "" { // newer than the modules, so they come last and win
		dirs = append(dirs, filepath.Join(dir, "knative-serving"), filepath.Join(dir, "knative-eventing"))
	}
	all := map[string]*jsonschema.Schema{}
	for _, dir := range dirs {
		if err := readCRDs(dir, all); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// beside is the folder of schemas beside the checkout; "" without one.
func beside() string {
	dir := os.Getenv("CARAFE_CRDS")
	if dir == "" {
		dir = root + "/../shared/crds"
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var m struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(out, &m)); err != nil || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s: %v %s", module, err, m.Error)
	}
	return m.Dir, nil
}

func readCRDs(dir string, into map[string]*jsonschema.Schema) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, doc := range bytes.Split(b, []byte("\n---\n")) {
			var crd struct {
				Kind string
				Spec struct {
					Group    string
					Names    struct{ Kind string }
					Versions []struct {
						Name   string
						Served bool
						Schema struct{ OpenAPIV3Schema map[string]any }
					}
				}
			}
			if err := yaml.Unmarshal(doc, &crd); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if crd.Kind != "CustomResourceDefinition" {
				continue
			}
			for _, v := range crd.Spec.Versions {
				if !v.Served {
					continue
				}
				name := crd.Spec.Group + "/" + v.Name + " " + crd.Spec.Names.Kind
				s, err := compile(name, closed(v.Schema.OpenAPIV3Schema, true).(map[string]any))
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				into[name] = s
			}
		}
		return nil
	})
}

// closed makes a structural schema refuse what an API server would prune: fields that
// it does not name.
func closed(v any, top bool) any {
	s, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, value := range s {
		switch key {
		case "properties":
			properties := map[string]any{}
			for name, p := range value.(map[string]any) {
				properties[name] = closed(p, false)
			}
			out[key] = properties
		case "items", "additionalProperties", "not":
			out[key] = closed(value, false)
		case "type", "enum", "pattern", "required", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			out[key] = value
		case "allOf", "anyOf", "oneOf":
			// Inside these a structural schema names no fields of its own: they stay open.
			out[key] = value
		}
	}
	if s["nullable"] == true && out["type"] != nil {
		out["type"] = []any{out["type"], "null"}
	}
	if s["x-kubernetes-int-or-string"] == true {
		out["type"] = []any{"integer", "string"}
		delete(out, "anyOf")
	}
	properties, named := out["properties"].(map[string]any)
	if named && s["x-kubernetes-preserve-unknown-fields"] != true && out["additionalProperties"] == nil {
		out["additionalProperties"] = false
	}
	if top {
		if !named {
			properties = map[string]any{}
			out["properties"] = properties
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			properties[name] = map[string]any{}
		}
	}
	return out
}

func compile(name string, schema map[string]any) (*jsonschema.Schema, error) {
	// Through JSON, so that numbers are what the compiler takes.
	b, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// notChecked are kinds that no schema can be had for here: their fields are listed.
var notChecked = map[string]func(object) error{
	// knative-extensions/eventing-rabbitmq config/broker, RabbitmqBrokerConfig.
	"eventing.knative.dev/v1alpha1 RabbitmqBrokerConfig": func(o object) error {
		var c struct {
			APIVersion, Kind string
			Metadata         map[string]any
			Spec             struct {
				QueueType                string
				RabbitmqClusterReference struct {
					Name, Namespace  string
					ConnectionSecret struct{ Name string }
				}
			}
		}
		return strict(o, &c)
	},
}

func strict(o object, into any) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(b, into)
}

// check refuses an object that its API would refuse, or would silently cut.
func check(o object) error {
	key := o.apiVersion() + " " + o.kind()
	all, err := schemas()
	if err != nil {
		return err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	known := false
	if s := all[key]; s != nil {
		known = true
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return err
		}
		if err := s.Validate(v); err != nil {
			return err
		}
	}
	if f := notChecked[key]; f != nil {
		return f(o)
	}
	_, _, err = typed().Decode(b, nil, nil)
	switch {
	case err == nil:
		return nil
	case runtime.IsNotRegisteredError(err) && known:
		return nil
	case runtime.IsNotRegisteredError(err):
		return errNoSchema
	}
	return err
}

var errNoSchema = errors.New("no schema")

func TestManifestsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	if beside() == "" {
		t.Log("LEFT OUT: manifests of Knative Eventing against their schemas; CARAFE_CRDS names no folder and ../shared/crds is not there")
	}
	each(t, func(t *testing.T, i installation) {
		for _, o := range i.objects {
			err := check(o)
			if errors.Is(err, errNoSchema) && beside() == "" && strings.Contains(o.apiVersion(), "knative.dev") {
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", o.apiVersion(), o, err)
			}
		}
	}, root+"/knative/func")
}

// The checks themselves must bite.
func TestUnknownAndWrongFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{
		"service":     `{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x}, spec: {template: {spec: {containers: [{image: x, imagePullSecret: y}]}}}}`,
		"concurrency": `{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x}, spec: {template: {spec: {containerConcurrency: "5", containers: [{image: x}]}}}}`,
		"route":       `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: x}, spec: {hostname: x}}`,
		"job":         `{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {ttlSeconds: 5, template: {spec: {containers: []}}}}`,
		"twice":       `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {a: 1}}}`,
		"rabbit":      `{apiVersion: eventing.knative.dev/v1alpha1, kind: RabbitmqBrokerConfig, metadata: {name: x}, spec: {queue: quorum}}`,
		"podmon":      `{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {name: x}, spec: {selectors: {}}}`,
		"nowhere":     `{apiVersion: example.org/v1, kind: Nothing, metadata: {name: x}}`,
	} {
		if err := check(parse(t, manifest)); err == nil {
			t.Errorf("%s is accepted: %s", name, manifest)
		}
	}
	if beside() == "" {
		return
	}
	for name, manifest := range map[string]string{
		"trigger": `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: x, filter: {attribute: {}}, subscriber: {uri: x}}}`,
		"ping":    `{apiVersion: sources.knative.dev/v1, kind: PingSource, metadata: {name: x}, spec: {schedules: x}}`,
	} {
		if err := check(parse(t, manifest)); err == nil {
			t.Errorf("%s is accepted: %s", name, manifest)
		}
	}
}

func parse(t *testing.T, manifest string) object {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		t.Fatal(err)
	}
	return o
}
