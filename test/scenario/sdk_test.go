package scenario

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOpenstackSDK runs sdk.py: the real openstacksdk against a Carafe.
func TestOpenstackSDK(t *testing.T) {
	t.Parallel()
	carafe := start(t)
	csr, _ := request(t, "admin", "system:masters")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, filepath.Join(client(t, "openstack"), "python3"), "sdk.py", carafe.URL+"/v1")
	script.Stdin = strings.NewReader(csr)
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("sdk.py: %v\n%s", err, out)
	}
}
