package scenario

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestSchemathesis fuzzes a Carafe from its own OpenAPI document for three
// minutes, or for CARAFE_FUZZ_SECONDS.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	seconds := 180
	if s := os.Getenv("CARAFE_FUZZ_SECONDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("CARAFE_FUZZ_SECONDS: %v", err)
		}
		seconds = n
	}
	carafe := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second+5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "./schemathesis.sh", carafe.URL, strconv.Itoa(seconds)).CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
}
