package capi

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"carafe/shared/magnum"
)

// Any name that the API accepts gives legal names, and two clusters or two
// groups never share one.
func TestNamesAreLegalAndDistinct(t *testing.T) {
	name := rapid.StringMatching(`[\x20-\x7eäß世]{1,255}`)
	id := rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	rapid.Check(t, func(t *rapid.T) {
		a := magnum.Cluster{Name: name.Draw(t, "name"), UUID: id.Draw(t, "uuid")}
		b := magnum.Cluster{Name: name.Draw(t, "other"), UUID: id.Draw(t, "other uuid")}
		cluster := ClusterName(a)
		legal(t, cluster, 27)
		if a.UUID != b.UUID && cluster == ClusterName(b) {
			t.Fatalf("%q and %q are both called %s", a.Name, b.Name, cluster)
		}
		seen := map[string]string{}
		for range 4 {
			g := magnum.NodeGroup{Name: name.Draw(t, "group"), UUID: id.Draw(t, "group uuid"), Role: "worker"}
			n := groupName(cluster, g)
			legal(t, n, 51)
			if other, ok := seen[n]; ok && other != g.UUID {
				t.Fatalf("groups %s and %s are both called %s", other, g.UUID, n)
			}
			seen[n] = g.UUID
		}
		legal(t, controlPlaneName(cluster)+"-abcdefgh", 60)
	})
}

func TestNamespacesAreLegalAndDistinct(t *testing.T) {
	project := rapid.StringMatching(`[\x20-\x7eäß世]{1,255}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := project.Draw(t, "a"), project.Draw(t, "b")
		n := namespaceName("magnum", a)
		legal(t, n, 58)
		if a != b && n == namespaceName("magnum", b) {
			t.Fatalf("projects %q and %q share %s", a, b, n)
		}
	})
	if got, want := namespaceName("magnum", "9f2c0e6d3b1a4c5d8e7f6a5b4c3d2e1f"), "magnum-9f2c0e6d3b1a4c5d8e7f6a5b4c3d2e1f"; got != want {
		t.Errorf("namespace %s, want %s", got, want)
	}
}

func TestClusterKeepsItsName(t *testing.T) {
	stack := "old-name-abc"
	if got := ClusterName(magnum.Cluster{Name: "new name", UUID: "x", StackID: &stack}); got != stack {
		t.Errorf("renamed cluster is called %s, want %s", got, stack)
	}
}

var legalForm = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

func legal(t *rapid.T, name string, limit int) {
	t.Helper()
	if len(name) > limit || !legalForm.MatchString(name) || len(validation.IsDNS1123Label(name)) > 0 {
		t.Fatalf("%q is no legal name of at most %d characters", name, limit)
	}
}
