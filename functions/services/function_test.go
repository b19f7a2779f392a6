package services

import (
	"testing"
	"time"

	"carafe/shared/functiontest"
)

// PB-54: a function of a host has one row, whoever reports it first, and no row is
// without a host; one that was deleted comes back.
func TestAFunctionHasOneRow(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	report := func() {
		t.Helper()
		done := make(chan error)
		for range 4 {
			go func() { done <- b.DB.Functions.Seen(t.Context(), "host", "relay", b.Now()) }()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	list := func(state string) {
		t.Helper()
		a := b.Call(t, Function(), functiontest.Request{Method: "GET", Path: "/v1/mservices", Roles: "admin"})
		rows, _ := a.Body["mservices"].([]any)
		if len(rows) != 1 {
			t.Fatalf("%d %s", a.Status, a.Text)
		}
		if row := rows[0].(map[string]any); row["host"] != "host" || row["binary"] != "relay" || row["state"] != state {
			t.Errorf("%v, want %s", row, state)
		}
	}
	report()
	list("up")
	b.Clock = b.Clock.Add(10 * time.Minute)
	list("down")
	if err := b.DB.Functions.Forget(t.Context(), b.Clock); err != nil {
		t.Fatal(err)
	}
	report()
	list("up")
}
