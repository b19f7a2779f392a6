package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return strings.TrimSpace(out.String()), err
}

// TestRekey moves an installation from one key to the next, as an operator does.
func TestRekey(t *testing.T) {
	url := pgtest.URL(t)
	old, err := output(t, "newkey")
	if err != nil {
		t.Fatal(err)
	}
	next, err := output(t, "newkey")
	if err != nil || next == old {
		t.Fatalf("%q, %v", next, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := func(keys string) *certstore.Store {
		t.Helper()
		s, err := certstore.New(certstore.Config{Backend: certstore.Database, SealKeys: certstore.Keys(keys), CacheSize: 1}, db.Secrets, nil, nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	template := magnum.ClusterTemplate{UUID: uuid.NewString(), ProjectID: "p", UserID: "u", Name: "t", COE: "kubernetes", ImageID: "i", ServerType: "vm", CreatedAt: time.Now()}
	if _, err := db.Templates.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	cluster := magnum.Cluster{UUID: uuid.NewString(), ProjectID: "p", UserID: "u", Name: "c", ClusterTemplateID: template.UUID,
		Status: magnum.CreateComplete, Driver: "simulated", CreatedAt: time.Now()}
	if err := db.Clusters.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := store(old).PutCredential(t.Context(), db.Secrets, cluster.UUID, "u", driver.Credential{Epoch: 1, ID: "id", Secret: "secret"}); err != nil {
		t.Fatal(err)
	}

	settings(t, map[string]string{"CARAFE_DATABASE_URL": url, "CARAFE_LISTEN": "127.0.0.1:0"})
	t.Setenv("CARAFE_SEAL_KEYS", next)
	if out, err := output(t, "rekey"); err == nil || !strings.Contains(err.Error(), "not in CARAFE_SEAL_KEYS") || strings.Contains(err.Error(), next) {
		t.Errorf("without the old key: %q, %v", out, err)
	}
	t.Setenv("CARAFE_SEAL_KEYS", next+","+old)
	for _, want := range []string{"Secrets sealed again: 1. All", "Secrets sealed again: 0. All"} {
		if out, err := output(t, "rekey"); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
	if c, err := store(next).Credential(t.Context(), cluster.UUID, certstore.Active); err != nil || c.Secret != "secret" {
		t.Errorf("with the new key alone: %v", err)
	}
}
