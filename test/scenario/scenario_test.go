// Package scenario uses Carafe as people and programs use it: the real
// openstack client through the README's walk-through, the programs' own call
// sequences, kills in the middle of operations, and a fuzzer. Everything here
// speaks to a process over HTTP.
package scenario

import (
	"os/exec"
	"strings"
	"testing"

	"carafe/test/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// fast makes the clocks of a test's Carafe quick and its clusters soon ready.
func fast() map[string]string {
	return map[string]string{
		"CARAFE_AUTH_STRATEGY":            "noauth",
		"CARAFE_TICK_EVERY":               "200ms",
		"CARAFE_SYNC_INTERVAL":            "200ms",
		"CARAFE_HEALTH_INTERVAL":          "1s",
		"CARAFE_MAX_CLUSTERS_PER_PROJECT": "100",
		// A killed process is found dead when its leases run out.
		"CARAFE_LEASE":        "5s",
		"CARAFE_STEP_TIMEOUT": "4s",
	}
}

func start(t *testing.T) *instance.Instance {
	t.Helper()
	return instance.Start(t, instance.Config{Env: fast()})
}

// client gives the bin directory of a virtual environment with the tool.
func client(t *testing.T, tool string) string {
	t.Helper()
	cmd := exec.Command("./client.sh", tool)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client.sh %s: %v\n%s", tool, err, said.String())
	}
	return strings.TrimSpace(string(out))
}
