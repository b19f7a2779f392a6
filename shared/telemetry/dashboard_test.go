package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"carafe/shared/telemetry"
)

// observability is what operators are given to look at these metrics.
const observability = "../../knative/observability"

// What the alerts and the dashboard ask for exists, and what exists is shown.
func TestAlertsAndDashboardNameTheMetricsThatExist(t *testing.T) {
	t.Parallel()
	exist := metricNames(t)
	asked := map[string]bool{}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(observability, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:carafe|process|go)_[a-z_]+`).FindAllString(string(text), -1) {
			asked[name] = true
			if !slices.Contains(exist, name) {
				t.Errorf("%s asks for %s, which no function has", file, name)
			}
		}
	}
	for _, name := range exist {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !regexp.MustCompile(`^carafe_`).MatchString(name) || asked[name] || asked[base+"_bucket"] || asked[base+"_count"] {
			continue
		}
		t.Errorf("%s is on no panel and in no alert", name)
	}
}

// metricNames are the series of a process in which everything has happened once.
func metricNames(t *testing.T) []string {
	t.Helper()
	tel := start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	tel.Operation(t.Context(), "cluster.create", "failed", time.Second)
	tel.Retry(t.Context(), "cluster.create", "Unavailable")
	tel.LeaseLost(t.Context(), "cluster.create")
	tel.Stuck(t.Context(), "k8s_capi")
	if err := tel.ReadState(func(context.Context) (telemetry.State, error) { return fullState, nil }); err != nil {
		t.Fatal(err)
	}
	outside := httptest.NewServer(tel.Middleware("clusters", http.NotFoundHandler()))
	defer outside.Close()
	client := &http.Client{Transport: tel.Transport("keystone", nil)}
	resp, err := client.Get(outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(scrape(t, tel), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
