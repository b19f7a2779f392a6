// Package arch holds the tree to its boundaries: who may import whom, what a
// package may be called, and what may not be in any.
package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// own is the path below the module, such as shared/events.
func (p pkg) own() string { return strings.TrimPrefix(p.ImportPath, "carafe/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(out); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// under reports whether the path is one of the roots or below one.
func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

// reserved are modules that only some of our packages may import.
var reserved = []struct {
	imported []string
	except   []string // of those imported
	by       []string
	why      string
}{
	{
		imported: []string{"github.com/jackc/pgx/v5"},
		by:       []string{"shared/postgres", "shared/pgtest", "shared/function"},
		why:      "only shared/postgres speaks SQL",
	},
	{
		imported: []string{"k8s.io", "sigs.k8s.io"},
		except:   []string{"sigs.k8s.io/yaml"},
		by:       []string{"shared/driver/capi", "shared/health"},
		why:      "only the Cluster API driver and the health probe speak Kubernetes",
	},
	{
		imported: []string{"github.com/cloudevents/sdk-go/v2/protocol", "github.com/cloudevents/sdk-go/v2/binding", "github.com/cloudevents/sdk-go/v2/client"},
		by:       []string{"shared/events"},
		why:      "only shared/events knows how events travel",
	},
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if problem := forbidden(p.own(), imported); problem != "" {
				t.Errorf("%s imports %s: %s", p.own(), imported, problem)
			}
		}
	}
}

// forbidden says why the import must not be; empty: it may.
func forbidden(importer, imported string) string {
	for _, r := range reserved {
		if under(imported, r.imported...) && !under(imported, r.except...) && !under(importer, r.by...) && !under(importer, "test") {
			return r.why
		}
	}
	own, ours := strings.CutPrefix(imported, "carafe/")
	switch {
	case importer == "shared/fault" && (ours || strings.Contains(imported, ".")):
		return "shared/fault imports the standard library only"
	case importer == "shared/magnum" && (ours && own != "shared/fault" || !ours && strings.Contains(imported, ".")):
		return "shared/magnum imports the standard library and shared/fault only"
	case !ours:
		return ""
	case under(importer, "shared", "schema", "triggers") && under(own, "functions"):
		return "what is shared knows no function"
	case under(importer, "functions") && !slices.Contains(hosts, importer) && under(own, "functions") && !under(own, root(importer)):
		return "a function knows no other"
	case !under(importer, "test") && under(own, "test"):
		return "the program does not need its tests"
	}
	return ""
}

// hosts know all functions: the registry, and the main that serves it.
var hosts = []string{"functions", "functions/carafe"}

// root is a function's folder: functions/clusters of functions/clusters/x.
func root(importer string) string {
	parts := strings.SplitN(importer, "/", 3)
	return path.Join(parts[:2]...)
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		importer, imported string
		want               bool
	}{
		{"functions/clusters", "carafe/functions/actions", true},
		{"functions/clusters", "carafe/functions/clusters/inner", false},
		{"functions/carafe", "carafe/functions/actions", false},
		{"shared/api", "carafe/functions/clusters", true},
		{"shared/magnum", "carafe/shared/fault", false},
		{"shared/magnum", "carafe/shared/driver", true},
		{"shared/magnum", "github.com/google/uuid", true},
		{"shared/fault", "carafe/shared/magnum", true},
		{"functions/clusters", "github.com/jackc/pgx/v5/pgxpool", true},
		{"shared/postgres/server", "github.com/jackc/pgx/v5", false},
		{"shared/events", "sigs.k8s.io/yaml", false},
		{"shared/function", "k8s.io/client-go/rest", true},
		{"shared/driver/capi", "k8s.io/client-go/rest", false},
		{"functions/relay", "github.com/cloudevents/sdk-go/v2/binding", true},
		{"functions/relay", "github.com/cloudevents/sdk-go/v2/event", false},
		{"shared/api", "carafe/test/golden", true},
	} {
		if got := forbidden(tc.importer, tc.imported); (got != "") != tc.want {
			t.Errorf("%s imports %s: %q", tc.importer, tc.imported, got)
		}
	}
}

// vague are names that say nothing of what a package is about.
var vague = []string{"util", "utils", "common", "helper", "helpers", "base", "manager", "misc", "models", "types", "lib", "pkg", "core"}

func TestPackagesAreNamedForWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if name := path.Base(p.ImportPath); slices.Contains(vague, name) {
			t.Errorf("%s: %q says nothing", p.own(), name)
		}
	}
}

// mayReadEnvironment are those for whom the environment is their subject; all
// others get settings from function.ReadConfig.
var mayReadEnvironment = []string{"shared/function"}

func TestSourcesOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if under(p.own(), "test") || strings.HasSuffix(p.own(), "test") { // test doubles are in xtest
			continue
		}
		documented := false
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || file.Doc != nil
			if ast.IsGenerated(file) {
				documented = true
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv == nil && n.Name.Name == "init" {
						t.Errorf("%s: an init function: build it in functions/carafe and pass it on", fset.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if ok && x.Name == "os" && (n.Sel.Name == "Getenv" || n.Sel.Name == "LookupEnv") && !under(p.own(), mayReadEnvironment...) {
						t.Errorf("%s: os.%s: settings come from function.ReadConfig", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
		if !documented {
			t.Errorf("%s has no package comment", p.own())
		}
	}
}
