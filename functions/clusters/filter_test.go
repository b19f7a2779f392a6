package clusters

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// TestListFilters asks both lists for parts of four clusters, page by page.
func TestListFilters(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	template := a.b.Cluster.ClusterTemplateID
	a.b.Clock = a.b.Clock.Add(time.Hour)
	change := func(name string, status magnum.Status, health magnum.HealthStatus) {
		c := a.b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name, c.Status = name, status })
		if health != "" {
			if _, err := a.b.DB.Clusters.UpdateHealth(t.Context(), c.UUID, health, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	change("broken", magnum.CreateFailed, "")
	change("broken", magnum.UpdateFailed, "")
	change("ill", magnum.CreateComplete, magnum.Unhealthy)
	a.b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name, c.ProjectID, c.Status = "broken", "p2", magnum.CreateFailed })

	for _, tc := range []struct {
		query string
		want  []string // names, in order of creation
	}{
		{"status=CREATE_FAILED", []string{"broken"}},
		{"status=DELETE_FAILED", nil},
		{"name=broken", []string{"broken", "broken"}},
		{"name=BROKEN", nil},
		{"name=%25", nil}, // no pattern
		{"name=broken&status=UPDATE_FAILED", []string{"broken"}},
		{"health_status=UNHEALTHY", []string{"ill"}},
		{"health_status=HEALTHY", nil},
		{"cluster_template_id=" + template, []string{"c1"}},
		{"cluster_template_id=" + strings.ToUpper(strings.ReplaceAll(template, "-", "")), []string{"c1"}},
		{"cluster_template_id=11111111-2222-3333-4444-555555555555", nil},
		{"changed-since=2026-12-01T12:00:01Z", []string{"broken", "broken", "ill"}},
		{"changed-since=2026-12-01T14:00:01+02:00", []string{"broken", "broken", "ill"}}, // the + has become a space
		{"changed-since=2026-12-01T12:00:00", []string{"c1", "broken", "broken", "ill"}},
		{"changed-since=2027-01-01", nil},
	} {
		for _, list := range []string{"", "/detail"} {
			var got []string
			for path, pages := list+"?limit=1&"+tc.query, 0; path != ""; pages++ {
				page := a.call("GET", path, "")
				clusters, _ := page.Body["clusters"].([]any)
				if page.Status != http.StatusOK || pages > 5 {
					t.Fatalf("%s: %d %s", path, page.Status, page.Text)
				}
				for _, c := range clusters {
					got = append(got, c.(map[string]any)["name"].(string))
				}
				next, _ := page.Body["next"].(string)
				_, path, _ = strings.Cut(next, "/v1/clusters")
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s?%s: %v, want %v", list, tc.query, got, tc.want)
			}
		}
	}
	for _, query := range []string{"status=create_failed", "status=", "health_status=ILL", "health_status=", "cluster_template_id=t1",
		"cluster_template_id=", "name=", "name=%00", "name=a&name=b", "changed-since=yesterday", "changed-since=", "changed-since=2026-13-01"} {
		for _, list := range []string{"", "/detail"} {
			name, _, _ := strings.Cut(query, "=")
			want := "Invalid input for field/attribute " + name + ". Value: '"
			if answer := a.call("GET", list+"?"+query, ""); answer.Status != http.StatusBadRequest || !strings.HasPrefix(answer.Detail(), want) {
				t.Errorf("%s?%s: %d %s", list, query, answer.Status, answer.Text)
			}
		}
	}
	for query, want := range map[string]string{ // what Magnum says of what no list has
		"project_id=p1": `Unknown argument: "project_id"`, "Status=x&foo=1": `Unknown argument: "Status, foo"`,
	} {
		if answer := a.call("GET", "?"+query, ""); answer.Status != http.StatusBadRequest || answer.Detail() != want {
			t.Errorf("%s: %d %s", query, answer.Status, answer.Text)
		}
	}
	admin := a.b.Call(t, Function(), functiontest.Request{Method: "GET", Path: "/v1/clusters?status=CREATE_FAILED", Roles: "admin"})
	if clusters, _ := admin.Body["clusters"].([]any); len(clusters) != 2 {
		t.Errorf("an admin's: %d %s", admin.Status, admin.Text)
	}
}
