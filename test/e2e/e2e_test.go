//go:build openstack

// Package e2e runs bin/carafe in a real OpenStack: Keystone says who calls,
// Barbican keeps the keys, and flavors, keypairs, images and networks are the
// cloud's. cloud.py is that cloud; run.sh starts it and all tests.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"

	"carafe/shared/certstore"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
	"carafe/shared/pgtest"
	"carafe/test/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// bed is a Carafe in the cloud.
type bed struct {
	*instance.Instance
	cloud    *keystonetest.Cloud
	database string

	mu     sync.Mutex
	tokens map[string]string // by user
}

// sealKeys seal what Carafe keeps in its database.
var sealKeys = certstore.Keys("k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))

// start runs a Carafe with the settings and enters it in the catalogue.
func start(t *testing.T, cloud *keystonetest.Cloud, more map[string]string) *bed {
	t.Helper()
	env := map[string]string{
		"CARAFE_KEYSTONE_URL":      cloud.AuthURL,
		"CARAFE_KEYSTONE_USERNAME": "carafe",
		"CARAFE_KEYSTONE_PASSWORD": cloud.Password,
		"CARAFE_OPENSTACK_REGION":  cloud.Region,
		"CARAFE_CERTIFICATES":      "barbican",
		"CARAFE_DRIVERS":           "simulated",
		"CARAFE_SEAL_KEYS":         string(sealKeys),
		"CARAFE_TICK_EVERY":        "500ms",
		"CARAFE_OPENSTACK_TIMEOUT": "30s", // a busy machine is no outage
		// Clusters act in their users' names, as with a driver that builds something.
		"CARAFE_SIMULATED_CREDENTIAL": "true",
		"CARAFE_LOG_LEVEL":            "debug",
		"CARAFE_LOG_FORMAT":           "json",
	}
	for k, v := range more {
		env[k] = v
	}
	b := &bed{cloud: cloud, database: pgtest.URL(t), tokens: map[string]string{}}
	b.Instance = instance.Start(t, instance.Config{Env: env, DatabaseURL: b.database})
	setEndpoint(t, cloud, "container-infra", b.URL+"/v1")
	return b
}

// setEndpoint moves a service in the catalogue.
func setEndpoint(t *testing.T, cloud *keystonetest.Cloud, kind, address string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also in a clean-up
	sc := &gophercloud.ServiceClient{ProviderClient: cloud.Login(t, "admin"), Endpoint: cloud.AuthURL + "/"}
	page, err := services.List(sc, services.ListOpts{ServiceType: kind}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all, err := services.ExtractServices(page)
	if err != nil || len(all) != 1 {
		t.Fatalf("services of type %s: %v, %v", kind, all, err)
	}
	page, err = endpoints.List(sc, endpoints.ListOpts{ServiceID: all[0].ID}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	have, err := endpoints.ExtractEndpoints(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range have {
		if err := endpoints.Update(ctx, sc, e.ID, endpoints.UpdateOpts{URL: address}).Err; err != nil {
			t.Fatal(err)
		}
	}
}

// token is a token of the user, the same in all of a test.
func (b *bed) token(t *testing.T, user string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens[user] == "" {
		b.tokens[user] = b.cloud.Login(t, user).Token()
	}
	return b.tokens[user]
}

// answer is what Carafe says to one request.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// detail is the text of the first error in the body.
func (a answer) detail() string {
	list, _ := a.body["errors"].([]any)
	if len(list) == 0 {
		if e, ok := a.body["error"].(map[string]any); ok {
			s, _ := e["message"].(string)
			return s
		}
		return ""
	}
	e, _ := list[0].(map[string]any)
	s, _ := e["detail"].(string)
	return s
}

// ask makes one request as the user.
func (b *bed) ask(t *testing.T, user, method, path string, body any) answer {
	t.Helper()
	return b.askWith(t, b.token(t, user), method, path, body)
}

func (b *bed) askWith(t *testing.T, token, method, path string, body any) answer {
	t.Helper()
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, b.URL+"/v1"+path, send)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-Auth-Token", token)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "container-infra 1.14")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.body) // an empty or strange body shows in the test
	return a
}

// want fails the test unless the answer has the status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.text)
	}
	return a
}

func (a answer) str(key string) string {
	s, _ := a.body[key].(string)
	return s
}

// settle waits until the cluster is in the status; gone is "" .
func (b *bed) settle(t *testing.T, id, status string) {
	t.Helper()
	var last answer
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		last = b.ask(t, "admin", "GET", "/clusters/"+id, nil)
		if status == "" && last.status == http.StatusNotFound {
			return
		}
		if status != "" && last.str("status") == status {
			return
		}
	}
	t.Fatalf("the cluster does not come to %q: %s", status, last.text)
}

// client is the real openstack client.
type client struct {
	cloud *keystonetest.Cloud
	dir   string
	mu    sync.Mutex
	in    io.WriteCloser
	out   *bufio.Reader
}

func newClient(t *testing.T, cloud *keystonetest.Cloud) *client {
	t.Helper()
	script, err := filepath.Abs("cli.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(cloud.Client, "bin", "python"), script)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // its end
		if err := cmd.Wait(); err != nil {
			t.Errorf("cli.py: %v", err)
		}
	})
	return &client{cloud: cloud, dir: t.TempDir(), in: in, out: bufio.NewReader(out)}
}

// result is what a command left.
type result struct {
	Code     int
	Out, Err string
}

// run runs one command as the user.
func (c *client) run(t *testing.T, user, line string) result {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	env := map[string]string{
		"OS_AUTH_URL": c.cloud.AuthURL, "OS_USERNAME": user, "OS_PASSWORD": c.cloud.Password,
		"OS_PROJECT_NAME": c.cloud.Users[user], "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default",
		"OS_REGION_NAME": c.cloud.Region, "OS_IDENTITY_API_VERSION": "3", "PYTHONWARNINGS": "ignore", "SHELL": "/bin/bash",
		"HOME": c.dir, "PATH": os.Getenv("PATH"), "COLUMNS": "200",
	}
	text, err := json.Marshal(map[string]any{"env": env, "dir": c.dir, "line": line})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	reply, err := c.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(reply, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// can runs a command that must succeed, and gives what it printed.
func (c *client) can(t *testing.T, user, line string) string {
	t.Helper()
	r := c.run(t, user, line)
	if r.Code != 0 {
		t.Fatalf("(%s) openstack %s\n%s%s[exit %d]", user, line, r.Out, r.Err, r.Code)
	}
	return r.Out
}

// cannot runs a command that must fail with the words. (Some of the client's
// commands print a failure and exit with 0.)
func (c *client) cannot(t *testing.T, user, line, words string) {
	t.Helper()
	r := c.run(t, user, line)
	lenient := strings.Contains(line, " delete ") || strings.Contains(line, " quotas ")
	if r.Code == 0 && !lenient || !strings.Contains(r.Out+r.Err, words) {
		t.Errorf("(%s) openstack %s\n%s%s[exit %d], want a failure with %q", user, line, r.Out, r.Err, r.Code, words)
	}
}

// show gives one field of a thing.
func (c *client) show(t *testing.T, user, line, field string) string {
	t.Helper()
	return strings.TrimSpace(c.can(t, user, line+" -f value -c "+field))
}

// names gives the names that a list shows.
func (c *client) names(t *testing.T, user, line string) []string {
	t.Helper()
	return strings.Fields(c.can(t, user, line+" -f value -c name"))
}

// csr is a certificate signing request in PEM.
func csr(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// service is a client of a service in the service user's name.
func service(t *testing.T, cloud *keystonetest.Cloud, s keystone.Service) *gophercloud.ServiceClient {
	t.Helper()
	sc, err := cloud.New(t).ForService(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}
