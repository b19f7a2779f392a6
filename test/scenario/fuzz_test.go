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
	token := c.Token("fuzz", "fuzz", "admin", "member", "reader")
	seed(caller{t, carafe.URL + "/v1", map[string]string{"X-Auth-Token": token, "OpenStack-API-Version": "container-infra latest"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second+5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "./schemathesis.sh", carafe.URL, strconv.Itoa(seconds), token).CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
}

// seed makes what schemathesis.toml names.
func seed(c caller) {
	c.t.Helper()
	for _, template := range []string{"fuzz-template", "fuzz-spare"} {
		c.want(201, "POST", "/clustertemplates", `{"name": "`+template+`", "coe": "kubernetes", "image_id": "ubuntu-k8s",
			"flavor_id": "m1.small", "master_flavor_id": "m1.small", "external_network_id": "public", "master_lb_enabled": true}`)
	}
	for name, labels := range map[string]string{"fuzz-small": `{}`, "fuzz-large": `{"test_polls": "3"}`, "fuzz-failed": `{"test_fail": "create"}`} {
		c.want(202, "POST", "/clusters", `{"name": "`+name+`", "cluster_template_id": "fuzz-template", "labels": `+labels+`}`)
		c.until("/clusters/"+name, []string{"CREATE_IN_PROGRESS"}, "CREATE_COMPLETE", "CREATE_FAILED")
	}
	c.want(202, "POST", "/clusters/fuzz-small/nodegroups", `{"name": "fuzz-group"}`)
	c.want(201, "POST", "/quotas", `{"project_id": "fuzz", "resource": "Cluster", "hard_limit": 1000}`)
}
