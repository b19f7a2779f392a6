package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// TestForget: an operator forgets a cluster whose cloud is gone (PB-29).
func TestForget(t *testing.T) {
	url := pgtest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	template := magnum.ClusterTemplate{UUID: uuid.NewString(), ProjectID: "p", UserID: "u", Name: "t", COE: "kubernetes", ImageID: "i", ServerType: "vm", CreatedAt: time.Now()}
	if _, err := db.Templates.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	cluster := magnum.Cluster{UUID: uuid.NewString(), ProjectID: "p", UserID: "u", Name: "c", ClusterTemplateID: template.UUID,
		Status: magnum.DeleteFailed, Driver: "simulated", CreatedAt: time.Now()}
	if err := db.Clusters.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	settings(t, map[string]string{"CARAFE_DATABASE_URL": url, "CARAFE_LISTEN": "127.0.0.1:0", "CARAFE_DIR": t.TempDir()})
	if _, err := output(t, "forget", "c"); err == nil || !strings.Contains(err.Error(), "uuid") {
		t.Errorf("by name: %v", err)
	}
	if out, err := output(t, "forget", cluster.UUID); err != nil || !strings.Contains(out, cluster.UUID) {
		t.Fatalf("%q, %v", out, err)
	}
	open, err := db.Operations.Open(t.Context(), cluster.UUID)
	if err != nil || len(open) != 1 || open[0].Kind != magnum.ClusterDelete || !strings.Contains(string(open[0].Arguments), `"force"`) {
		t.Errorf("%+v, %v", open, err)
	}
}
