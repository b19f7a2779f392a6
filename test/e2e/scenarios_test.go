//go:build openstack

package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
)

const (
	missing = "could not be found"
	// The client prints a message up to its first full stop.
	mayNot   = "Policy doesn't allow "
	template = "--coe kubernetes --image ubuntu-k8s --flavor m1.small --master-flavor m1.medium --external-network public " +
		"--fixed-network private --fixed-subnet private-subnet --keypair testkey --labels kube_tag=v1.34.1"
)

// TestRealScenarios runs the six scenarios with the real client: as demo and
// demo2 (members of project demo), reader (reader of it), other (member of
// project other) and admin, and checks what each may see and do.
func TestRealScenarios(t *testing.T) {
	cloud := keystonetest.Load(t)
	b := start(t, cloud, nil)
	c := newClient(t, cloud)
	for _, s := range []struct {
		name string
		run  func(*testing.T, *bed, *client)
	}{
		{"Templates", templates}, {"Create", create}, {"ResizeAndNodegroups", resize}, {"Upgrade", upgrade},
		{"CertificatesAndCredentials", certificatesAndCredentials}, {"QuotasStatsServices", quotas}, {"Delete", remove},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, b, c) }) {
			t.FailNow() // each builds on those before
		}
	}
	noSecrets(t, b, b.Log())
}

func templates(t *testing.T, _ *bed, c *client) {
	c.can(t, "demo", "coe cluster template create k8s "+template)
	c.cannot(t, "reader", "coe cluster template create mine "+template, mayNot+"clustertemplate:create to be performed")
	c.cannot(t, "demo", "coe cluster template create open --public "+template, "Not authorized to set public or hidden flag")
	c.can(t, "admin", "coe cluster template create shared --public --coe kubernetes --image ubuntu-k8s --flavor m1.small "+
		"--master-flavor m1.medium --external-network public --keypair testkey --labels kube_tag=v1.34.1")
	c.can(t, "admin", "coe cluster template create kept --hidden --public "+
		"--coe kubernetes --image ubuntu-k8s --flavor m1.small --master-flavor m1.medium --external-network public")

	for user, want := range map[string][]string{
		"demo": {"k8s", "shared"}, "demo2": {"k8s", "shared"}, "reader": {"k8s", "shared"}, "other": {"shared"},
		"admin": {"k8s", "shared", "kept"},
	} {
		got := c.names(t, user, "coe cluster template list")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s sees the templates %v, want %v", user, got, want)
		}
	}
	c.can(t, "reader", "coe cluster template show k8s")
	c.cannot(t, "other", "coe cluster template show k8s", missing)
	c.cannot(t, "reader", "coe cluster template update k8s --name x", mayNot+"clustertemplate:update to be performed")
	c.cannot(t, "other", "coe cluster template delete k8s", missing)
	c.cannot(t, "other", "coe cluster template delete shared", mayNot+"clustertemplate:delete to be performed")
	c.can(t, "demo2", "coe cluster template create next "+strings.Replace(template, "ubuntu-k8s", "ubuntu-k8s-next", 1)+" --labels kube_tag=v1.35.0")

	for what, words := range map[string]string{
		"--image nope --external-network public":                               "Image nope could not be found",
		"--image dup-image --external-network public":                          "Multiple images exist with same name 'dup-image'",
		"--image no-distro --external-network public":                          "Image no-distro doesn't contain os_distro field",
		"--image ubuntu-k8s --external-network private":                        "Unable to find external network private",
		"--image ubuntu-k8s --external-network public --flavor nope":           "Unable to find flavor nope",
		"--image ubuntu-k8s --external-network public --flavor m1.nodisk":      "Flavor with zero root volume size",
		"--image ubuntu-k8s --external-network public --fixed-network nope":    "Unable to find fixed network nope",
		"--image ubuntu-k8s --external-network public --fixed-network dup-net": "Multiple networks exist with same name 'dup-net'",
		"--image ubuntu-k8s --external-network public --fixed-subnet nope":     "Unable to find fixed subnet nope",
	} {
		c.cannot(t, "demo", "coe cluster template create bad --coe kubernetes "+what, words)
	}
}

func create(t *testing.T, b *bed, c *client) {
	c.cannot(t, "reader", "coe cluster create web --cluster-template k8s", mayNot+"cluster:create to be performed")
	c.cannot(t, "other", "coe cluster create web --cluster-template k8s", missing)
	c.cannot(t, "demo", "coe cluster create web --cluster-template k8s --keypair nope", "Unable to find keypair nope")
	c.can(t, "demo", "coe cluster create web --cluster-template k8s --node-count 2 --master-count 1")
	c.can(t, "other", "coe cluster create theirs --cluster-template shared --node-count 1")
	for user, want := range map[string][]string{
		"demo": {"web"}, "demo2": {"web"}, "reader": {"web"}, "other": {"theirs"}, "admin": {"theirs", "web"},
	} {
		got := c.names(t, user, "coe cluster list")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s sees the clusters %v, want %v", user, got, want)
		}
	}
	id := c.show(t, "demo", "coe cluster show web", "uuid")
	b.settle(t, id, "CREATE_COMPLETE")
	b.settle(t, c.show(t, "other", "coe cluster show theirs", "uuid"), "CREATE_COMPLETE")
	c.cannot(t, "other", "coe cluster show web", missing)
	if s := c.show(t, "admin", "coe cluster show web", "status"); s != "CREATE_COMPLETE" {
		t.Errorf("admin sees %s", s)
	}
	inBarbican(t, b, id, 4)
}

// inBarbican counts the cluster's containers and secrets.
func inBarbican(t *testing.T, b *bed, id string, want int) {
	t.Helper()
	sc := service(t, b.cloud, keystone.Barbican)
	page, err := containers.List(sc, containers.ListOpts{Limit: 100}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := containers.ExtractContainers(page)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range found {
		if strings.Contains(f.Name, id) {
			n++
		}
	}
	if n != want {
		t.Errorf("Barbican has %d pairs of the cluster, want %d", n, want)
	}
	page, err = secrets.List(sc, secrets.ListOpts{Limit: 100}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loose, err := secrets.ExtractSecrets(page)
	if err != nil {
		t.Fatal(err)
	}
	n = 0
	for _, s := range loose {
		if strings.Contains(s.Name, id) {
			n++
		}
	}
	if n != 2*want {
		t.Errorf("Barbican has %d secrets of the cluster, want %d", n, 2*want)
	}
}

func resize(t *testing.T, b *bed, c *client) {
	c.cannot(t, "reader", "coe cluster resize web 3", mayNot+"cluster:resize to be performed")
	c.cannot(t, "other", "coe cluster resize web 3", missing)
	id := c.show(t, "demo", "coe cluster show web", "uuid")
	c.can(t, "demo2", "coe cluster resize web 3")
	b.settle(t, id, "UPDATE_COMPLETE")
	if n := c.show(t, "reader", "coe cluster show web", "node_count"); n != "3" {
		t.Errorf("%s nodes", n)
	}
	// An administrator reaches other projects (PEER BUG B62).
	c.can(t, "admin", "coe cluster resize web 2")
	b.settle(t, id, "UPDATE_COMPLETE")

	c.cannot(t, "reader", "coe nodegroup create web big --node-count 1 --flavor m1.medium", mayNot+"nodegroup:create to be performed")
	c.cannot(t, "other", "coe nodegroup create web big --node-count 1 --flavor m1.medium", missing)
	c.cannot(t, "demo", "coe nodegroup create web big --node-count 1 --flavor nope", "Unable to find flavor nope")
	c.can(t, "demo", "coe nodegroup create web big --node-count 1 --flavor m1.medium")
	b.settle(t, id, "UPDATE_COMPLETE")
	if got := c.names(t, "reader", "coe nodegroup list web"); len(got) != 3 || !slices.Contains(got, "big") {
		t.Errorf("node groups are %v", got)
	}
	c.cannot(t, "other", "coe nodegroup list web", missing)
	c.cannot(t, "reader", "coe nodegroup update web big --max-nodes 4", mayNot+"nodegroup:update to be performed")
	c.can(t, "demo2", "coe nodegroup update web big --max-nodes 4")
	b.settle(t, id, "UPDATE_COMPLETE")
	c.cannot(t, "reader", "coe nodegroup delete web big", mayNot+"nodegroup:delete to be performed")
	c.can(t, "demo", "coe nodegroup delete web big")
	b.settle(t, id, "UPDATE_COMPLETE")
}

func upgrade(t *testing.T, b *bed, c *client) {
	c.cannot(t, "reader", "coe cluster upgrade web next", mayNot+"cluster:upgrade to be performed")
	c.cannot(t, "other", "coe cluster upgrade web shared", missing)
	c.can(t, "demo", "coe cluster upgrade web next")
	b.settle(t, c.show(t, "demo", "coe cluster show web", "uuid"), "UPDATE_COMPLETE")
	next := c.show(t, "demo", "coe cluster template show next", "uuid")
	if got := c.show(t, "reader", "coe cluster show web", "cluster_template_id"); got != next {
		t.Errorf("the cluster's template is %s, want %s", got, next)
	}
}

func certificatesAndCredentials(t *testing.T, b *bed, c *client) {
	id := c.show(t, "demo", "coe cluster show web", "uuid")
	ca := c.can(t, "demo", "coe ca show web")
	// Only who made the cluster may have its certificates, and administrators.
	c.cannot(t, "demo2", "coe ca show web", mayNot+"certificate:get to be performed")
	c.cannot(t, "reader", "coe ca show web", mayNot+"certificate:get to be performed")
	c.cannot(t, "other", "coe ca show web", missing)
	c.can(t, "admin", "coe ca show web")

	csr := filepath.Join(c.dir, "client.csr")
	if out, err := exec.Command("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-keyout", filepath.Join(c.dir, "client.key"), "-out", csr, "-subj", "/CN=alice/O=system:masters").CombinedOutput(); err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	signed := c.can(t, "demo", "coe ca sign web "+csr)
	verify(t, ca, signed)
	c.cannot(t, "demo2", "coe ca sign web "+csr, mayNot+"certificate:create to be performed")
	c.cannot(t, "other", "coe ca sign web "+csr, missing)

	c.can(t, "demo", "coe cluster config web --dir "+c.dir+" --force")
	kubeconfig, err := os.ReadFile(filepath.Join(c.dir, "config"))
	if err != nil || !strings.Contains(string(kubeconfig), "server: ") {
		t.Errorf("kubeconfig: %s, %v", kubeconfig, err)
	}
	c.cannot(t, "demo2", "coe cluster config web --dir "+c.dir+" --force", mayNot+"certificate:")

	c.cannot(t, "reader", "coe ca rotate web", mayNot+"certificate:rotate_ca to be performed")
	c.cannot(t, "other", "coe ca rotate web", missing)
	c.can(t, "demo2", "coe ca rotate web")
	b.settle(t, id, "UPDATE_COMPLETE")
	if again := c.can(t, "demo", "coe ca show web"); again == ca {
		t.Error("the authority is the same after the rotation")
	}

	b.ask(t, "reader", "PATCH", "/credentials/"+id, map[string]any{}).want(t, http.StatusForbidden)
	b.ask(t, "other", "PATCH", "/credentials/"+id, map[string]any{}).want(t, http.StatusNotFound)
	b.ask(t, "demo", "PATCH", "/credentials/"+id, map[string]any{}).want(t, http.StatusAccepted)
	b.settle(t, id, "UPDATE_COMPLETE")
}

// verify checks a signed certificate against the authority.
func verify(t *testing.T, ca, signed string) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		t.Fatalf("no authority in %q", ca)
	}
	block, _ := pem.Decode([]byte(signed))
	if block == nil {
		t.Fatalf("no certificate in %q", signed)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
}

func quotas(t *testing.T, b *bed, c *client) {
	k := b.cloud.New(t)
	demo, other := b.cloud.Caller(t, k, "demo").ProjectID, b.cloud.Caller(t, k, "other").ProjectID
	for _, user := range []string{"demo", "reader"} {
		c.cannot(t, user, "coe quotas create --project-id "+demo+" --resource Cluster --hard-limit 9", mayNot+"quota:create to be performed")
		c.cannot(t, user, "coe quotas list", mayNot+"quota:get_all to be performed")
		c.cannot(t, user, "coe quotas show --project-id "+other+" --resource Cluster", "Not authorized")
		c.can(t, user, "coe quotas show --project-id "+demo+" --resource Cluster")
		c.cannot(t, user, "coe stats list "+other, "Not authorized")
		c.cannot(t, user, "coe service list", mayNot+"magnum-service:get_all to be performed")
	}
	c.cannot(t, "admin", "coe quotas create --project-id 0123456789abcdef0123456789abcdef --resource Cluster", "The project_id 0123456789abcdef0123456789abcdef could not be found")
	c.can(t, "admin", "coe quotas create --project-id "+demo+" --resource Cluster --hard-limit 1")
	c.cannot(t, "demo", "coe cluster create more --cluster-template k8s", "You have reached the maximum clusters per project, 1")
	c.can(t, "admin", "coe quotas update --project-id "+demo+" --resource Cluster --hard-limit 5")
	c.can(t, "admin", "coe quotas delete --project-id "+demo+" --resource Cluster")
	if out := c.can(t, "admin", "coe stats list "+other); !strings.Contains(out, "clusters") {
		t.Errorf("stats: %s", out)
	}
	c.can(t, "demo", "coe stats list "+demo)
	c.can(t, "admin", "coe service list")
}

func remove(t *testing.T, b *bed, c *client) {
	id := c.show(t, "demo", "coe cluster show web", "uuid")
	theirs := c.show(t, "other", "coe cluster show theirs", "uuid")
	c.cannot(t, "reader", "coe cluster delete web", mayNot+"cluster:delete to be performed")
	c.cannot(t, "other", "coe cluster delete web", missing)
	c.cannot(t, "demo", "coe cluster template delete next", "is referenced by one or multiple clusters")
	c.can(t, "demo2", "coe cluster delete web")
	c.can(t, "admin", "coe cluster delete theirs")
	b.settle(t, id, "")
	b.settle(t, theirs, "")
	inBarbican(t, b, id, 0)
	inBarbican(t, b, theirs, 0)
	for _, name := range []string{"k8s", "next"} {
		c.can(t, "demo", "coe cluster template delete "+name)
	}
	c.can(t, "admin", "coe cluster template delete shared")
}

// noSecrets searches what Carafe has written, and what its database holds, for
// what nobody may find there.
func noSecrets(t *testing.T, b *bed, texts ...string) {
	t.Helper()
	dump, err := exec.Command("pg_dump", "--data-only", b.database).Output()
	if err != nil {
		t.Logf("pg_dump: %v", err)
	}
	texts = append(texts, string(dump))
	marks := map[string]string{"the service user's password": b.cloud.Password, "a private key": "PRIVATE KEY", "a token": "gAAAAA"}
	for user, token := range b.tokens {
		marks["the token of "+user] = token
	}
	for what, mark := range marks {
		for _, text := range texts {
			if at := strings.Index(text, mark); at >= 0 {
				t.Errorf("%s stands in: …%s…", what, text[max(0, at-200):min(len(text), at+40)])
			}
		}
	}
}
