package knative

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// root is Carafe's checkout.
const root = "../.."

// object is one manifest.
type object map[string]any

func (o object) apiVersion() string { return text(o, "apiVersion") }
func (o object) kind() string       { return text(o, "kind") }
func (o object) name() string       { return text(o, "metadata", "name") }
func (o object) namespace() string  { return text(o, "metadata", "namespace") }
func (o object) String() string     { return o.kind() + "/" + o.name() }

// is reports whether the object is of a kind of a group, in any version.
func (o object) is(group, kind string) bool {
	g, _, found := strings.Cut(o.apiVersion(), "/")
	if !found {
		g = ""
	}
	return g == group && o.kind() == kind
}

// at walks maps by string and lists by int; nil where there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			switch m := v.(type) {
			case object:
				v = m[s]
			case map[string]any:
				v = m[s]
			default:
				return nil
			}
		case int:
			list, ok := v.([]any)
			if !ok || s >= len(list) {
				return nil
			}
			v = list[s]
		}
	}
	return v
}

func text(v any, path ...any) string { s, _ := at(v, path...).(string); return s }

func list(v any, path ...any) []any { l, _ := at(v, path...).([]any); return l }

func strs(v any, path ...any) []string {
	var all []string
	for _, s := range list(v, path...) {
		all = append(all, s.(string))
	}
	return all
}

// installation is what one kustomization renders.
type installation struct {
	name    string
	objects []object
}

func (i installation) of(group, kind string) []object {
	var found []object
	for _, o := range i.objects {
		if o.is(group, kind) {
			found = append(found, o)
		}
	}
	return found
}

func (i installation) has(group, kind, name string) bool {
	for _, o := range i.of(group, kind) {
		if o.name() == name {
			return true
		}
	}
	return false
}

var rendered sync.Map // by folder: func() (installation, error)

// render is what kubectl apply -k would send. Nobody changes what it returns.
func render(t *testing.T, dir string) installation {
	t.Helper()
	once, _ := rendered.LoadOrStore(dir, sync.OnceValues(func() (installation, error) { return build(dir) }))
	i, err := once.(func() (installation, error))()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// build renders by kustomize's own library and its default restrictions.
func build(dir string) (installation, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return installation{}, fmt.Errorf("kustomize build %s: %w", dir, err)
	}
	i := installation{name: strings.TrimPrefix(filepath.ToSlash(dir), root+"/knative/")}
	for _, r := range resources.Resources() {
		m, err := r.Map()
		if err != nil {
			return installation{}, err
		}
		i.objects = append(i.objects, m)
	}
	return i, nil
}

// each runs check on the base and on every overlay there is, and on what else is named.
func each(t *testing.T, check func(t *testing.T, i installation), also ...string) {
	t.Helper()
	dirs := append(also, root+"/knative/base")
	err := filepath.WalkDir(root+"/knative/overlays", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "kustomization.yaml" {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 5 {
		t.Fatalf("few kustomizations are found: %v", dirs)
	}
	for _, dir := range dirs {
		t.Run(strings.TrimPrefix(filepath.ToSlash(dir), root+"/knative/"), func(t *testing.T) {
			t.Parallel()
			check(t, render(t, dir))
		})
	}
}

// One that is in none would never be looked at here.
func TestEveryComponentIsInAnOverlay(t *testing.T) {
	t.Parallel()
	var used strings.Builder
	err := filepath.WalkDir(root+"/knative", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "kustomization.yaml" {
			return err
		}
		b, err := os.ReadFile(path)
		used.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	components, err := os.ReadDir(root + "/knative/components")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components {
		if !strings.Contains(used.String(), "components/"+c.Name()+"\n") {
			t.Errorf("no overlay has the component %s", c.Name())
		}
	}
}
