package knative

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// Prometheus itself reads what the alerts and the dashboard ask. That the metrics exist
// is tested where they are made, in shared/telemetry.
func TestPrometheusUnderstandsAlertsAndDashboard(t *testing.T) {
	t.Parallel()
	asked := map[string]string{}
	i := render(t, root+"/knative/overlays/monitoring")
	for _, o := range i.of("monitoring.coreos.com", "PrometheusRule") {
		for _, g := range list(o, "spec", "groups") {
			for _, r := range list(g, "rules") {
				asked["alert "+text(r, "alert")] = text(r, "expr")
				if text(r, "annotations", "summary") == "" || text(r, "labels", "severity") == "" {
					t.Errorf("%s has no summary or no severity", text(r, "alert"))
				}
			}
		}
	}
	b, err := os.ReadFile(root + "/knative/observability/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for n, target := range p.Targets {
			asked["panel "+p.Title+string(rune('A'+n))] = strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
		}
	}
	if len(asked) < 20 {
		t.Errorf("only %d are found", len(asked))
	}
	for name, expr := range asked {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
			t.Errorf("%s: %s: %v", name, expr, err)
		}
	}
}

// The operator's book says of every alert what it means and what to do.
func TestTheBookKnowsEveryAlert(t *testing.T) {
	t.Parallel()
	book, err := os.ReadFile(root + "/knative/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range render(t, root+"/knative/overlays/monitoring").of("monitoring.coreos.com", "PrometheusRule") {
		for _, g := range list(o, "spec", "groups") {
			for _, r := range list(g, "rules") {
				if !strings.Contains(string(book), "\n| "+text(r, "alert")+" |") {
					t.Errorf("the book does not know %s", text(r, "alert"))
				}
			}
		}
	}
}
