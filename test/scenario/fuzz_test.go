package scenario

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"carafe/test/golden/cloud"
	"carafe/test/instance"
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
	c := cloud.Start() // real identities, so that a missing token is noticed
	t.Cleanup(c.Close)
	carafe := instance.Start(t, instance.Config{Env: c.Settings()})
	token := c.Token("fuzz", "fuzz", "member", "reader")
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second+5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "./schemathesis.sh", carafe.URL, strconv.Itoa(seconds), token).CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
}
