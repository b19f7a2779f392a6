package knative

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The driver says itself which rights it needs (shared/driver/capi/doctor.go); the role
// that operators give it has these and no others.
func TestTheRolesAreWhatTheDriverNeeds(t *testing.T) {
	t.Parallel()
	i := render(t, root+"/knative/overlays/production")
	want := driversRights(t)
	granted := map[string]map[string]bool{}
	for _, role := range i.of("rbac.authorization.k8s.io", "ClusterRole") {
		granted[role.name()] = rights(role)
	}
	if got := granted["carafe-conductor"]; !maps.Equal(got, want["rights"]) {
		t.Errorf("carafe-conductor may\n%s\nand the driver needs\n%s", lines(got), lines(want["rights"]))
	}
	for right := range want["autoscalerRights"] {
		if !granted["carafe-autoscaler"][right] {
			t.Errorf("carafe-autoscaler may not %s", right)
		}
	}
	for right := range granted["carafe-checks"] {
		verb, _, _ := strings.Cut(right, " ")
		if (verb != "get" && verb != "list") || strings.Contains(right, "secrets") {
			t.Errorf("carafe-checks may %s", right)
		}
	}
}

func lines(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), "\n")
}

// rights are a role's, one "verb resource.group" each.
func rights(role object) map[string]bool {
	set := map[string]bool{}
	for _, rule := range list(role, "rules") {
		for _, g := range strs(rule, "apiGroups") {
			for _, r := range strs(rule, "resources") {
				for _, v := range strs(rule, "verbs") {
					set[v+" "+strings.TrimSuffix(r+"."+g, ".")] = true
				}
			}
		}
	}
	return set
}

// driversRights reads the driver's tables from its source, by name.
func driversRights(t *testing.T) map[string]map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), root+"/shared/driver/capi/doctor.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	word := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			return s
		case *ast.Ident:
			if e.Name == "infrastructureGroup" {
				return "infrastructure.cluster.x-k8s.io"
			}
		}
		t.Fatalf("an entry of the driver's rights is %T: read it here too", e)
		return ""
	}
	tables := map[string]map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasSuffix(strings.ToLower(spec.Names[0].Name), "rights") {
			return true
		}
		set := map[string]bool{}
		for _, entry := range spec.Values[0].(*ast.CompositeLit).Elts {
			fields := entry.(*ast.CompositeLit).Elts
			for _, r := range fields[1].(*ast.CompositeLit).Elts {
				for _, v := range fields[2].(*ast.CompositeLit).Elts {
					set[word(v)+" "+strings.TrimSuffix(word(r)+"."+word(fields[0]), ".")] = true
				}
			}
		}
		tables[spec.Names[0].Name] = set
		return false
	})
	for _, name := range []string{"rights", "autoscalerRights"} {
		if len(tables[name]) == 0 {
			t.Fatalf("the driver's table %s is not found", name)
		}
	}
	return tables
}
