package simulated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/kubeprobe"
	"carafe/shared/magnum"
	"carafe/shared/pki"
)

// served is a trial whose clusters have their APIs.
type served struct {
	*trial
	secrets *certstore.Store
}

func newServed(t *testing.T, labels map[string]string) *served {
	t.Helper()
	x := &served{trial: newTrial(t, labels)}
	settings := pki.DefaultSettings()
	settings.KeyAlgorithm = "ecdsa" // quick
	x.clock = time.Now()
	now := func() time.Time { return x.clock }
	issuer, err := pki.New(settings, now)
	if err != nil {
		t.Fatal(err)
	}
	x.secrets, err = certstore.New(certstore.Config{Backend: certstore.Database, SealKeys: certstore.NewKey(),
		RetireAfter: time.Hour, CacheSize: 10, CacheFor: time.Minute}, x.db.Secrets, issuer, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// host serves until the function that it gives is called.
func (x *served) host(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	e, err := x.Host(ctx, x.secrets)
	if err != nil || e == nil {
		t.Fatalf("host: %v, %v", e, err)
	}
	done := make(chan error)
	go func() { done <- e.Serve(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// certify makes the authorities of an epoch and puts them in force.
func (x *served) certify(t *testing.T, clusterID string, epoch int) certstore.Access {
	t.Helper()
	if err := x.secrets.Ensure(t.Context(), clusterID, epoch); err != nil {
		t.Fatal(err)
	}
	if err := certstore.Activate(t.Context(), x.db.Secrets, clusterID, epoch); err != nil {
		t.Fatal(err)
	}
	a, err := x.secrets.Access(t.Context(), clusterID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// up brings a cluster up and stores what the conductor would of it.
func (x *served) up(t *testing.T, c driver.Cluster) (address string) {
	t.Helper()
	x.cluster = c
	if err := x.apply(t, magnum.ClusterCreate, nil); err != nil {
		t.Fatal(err)
	}
	address = x.observe(t).APIAddress
	row, err := x.db.Clusters.ByUUID(t.Context(), c.UUID)
	if err != nil {
		t.Fatal(err)
	}
	row.APIAddress = &address
	if err := x.db.Clusters.Update(t.Context(), &row, x.clock); err != nil {
		t.Fatal(err)
	}
	return address
}

func client(t *testing.T, a certstore.Access) *http.Client {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Client.Certificate, a.Client.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CA)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestEachClusterShowsItself(t *testing.T) {
	t.Parallel()
	x := newServed(t, nil)
	defer x.host(t)()
	first, second := x.cluster, x.add(t, "other", map[string]string{"test_not_ready": "1"})
	keys := []certstore.Access{x.certify(t, first.UUID, 1), x.certify(t, second.UUID, 1)}
	addresses := []string{x.up(t, first), x.up(t, second)}
	if addresses[0] == addresses[1] {
		t.Fatalf("both are at %s", addresses[0])
	}
	for i, c := range []driver.Cluster{first, second} {
		if status, text := get(t, client(t, keys[i]), addresses[i]+"/healthz"); status != 200 || text != "ok" {
			t.Errorf("healthz: %d %s", status, text)
		}
		_, text := get(t, client(t, keys[i]), addresses[i]+"/api/v1/nodes")
		var list struct{ Items []nodeObject }
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Items) != 3 {
			t.Fatalf("%v: %s", err, text)
		}
		want, err := x.Nodes(t.Context(), driver.Ref{Cluster: c.Cluster, NodeGroups: c.NodeGroups})
		if err != nil {
			t.Fatal(err)
		}
		w, n := want[c.NodeGroups[1].UUID][1], list.Items[2]
		if n.Metadata.Name != w.Name || n.Spec.ProviderID != w.ProviderID || n.Status.NodeInfo["systemUUID"] != w.ServerID || n.Status.Addresses[0]["address"] != w.Address {
			t.Errorf("node %+v is not %+v", n, w)
		}
		// A key of one opens no other.
		if status, text := get(t, client(t, keys[1-i]), addresses[i]+"/healthz"); status != 0 {
			t.Errorf("the other cluster's key opens this one: %d %s", status, text)
		}
		stranger := client(t, keys[i])
		stranger.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
		if status, text := get(t, stranger, addresses[i]+"/healthz"); status != 0 {
			t.Errorf("no key opens this one: %d %s", status, text)
		}
	}
	// The probe of the health monitor sees what the label says.
	pair, err := tls.X509KeyPair(keys[1].Client.Certificate, keys[1].Client.Key)
	if err != nil {
		t.Fatal(err)
	}
	r := kubeprobe.New(kubeprobe.Settings{ConnectTimeout: 5 * time.Second, Timeout: 10 * time.Second, Path: "/readyz"}).
		Probe(t.Context(), kubeprobe.Target{Address: addresses[1], CA: keys[1].CA, Client: pair})
	h, _ := kubeprobe.Verdict(r, 3)
	if h.Status != magnum.Unhealthy || len(r.Nodes) != 3 {
		t.Errorf("the probe says %v of %+v", h, r)
	}
}

func TestPagesAndRefusals(t *testing.T) {
	t.Parallel()
	x := newServed(t, nil)
	defer x.host(t)()
	x.cluster.NodeGroups[1].NodeCount = 700
	access := x.certify(t, x.cluster.UUID, 1)
	address := x.up(t, x.cluster)
	c := client(t, access)

	var names []string
	for next, pages := "", 0; ; pages++ {
		_, text := get(t, c, address+"/api/v1/nodes?limit=250&continue="+next)
		var list struct {
			Metadata struct{ Continue string }
			Items    []nodeObject
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			names = append(names, n.Metadata.Name)
		}
		if next = list.Metadata.Continue; next == "" {
			if pages != 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != 701 {
		t.Errorf("%d nodes", n)
	}
	for _, tc := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/version", 200, `"gitVersion":"v1.34.1"`},
		{"GET", "/api/v1/nodes/" + names[5], 200, `"kind":"Node"`},
		{"GET", "/api/v1/nodes?fieldSelector=metadata.name=" + names[5], 200, names[5]},
		{"GET", "/api/v1/nodes/nobody", 404, `"kind":"Status"`},
		{"GET", "/api/v1/pods", 404, "its nodes only"},
		{"GET", "/api/v1/nodes?watch=true", 405, "cannot be watched"},
		{"DELETE", "/api/v1/nodes/" + names[5], 405, "can be read only"},
		{"GET", "/api/v1/nodes?continue=-7", 200, names[5]},
		{"GET", "/api/v1/nodes?continue=99999&limit=abc", 200, `"items":[]`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, address+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(text), tc.says) {
			t.Errorf("%s %s: %d %.200s %v, want %d %s", tc.method, tc.path, resp.StatusCode, text, err, tc.status, tc.says)
		}
	}
}

func TestTheAddressStaysOverARestart(t *testing.T) {
	t.Parallel()
	x := newServed(t, nil)
	access := x.certify(t, x.cluster.UUID, 1)
	end := x.host(t)
	address := x.up(t, x.cluster)
	end()
	if status, _ := get(t, client(t, access), address+"/healthz"); status != 0 {
		t.Fatalf("it is served after the end: %d", status)
	}
	end = x.host(t)
	if status, text := get(t, client(t, access), address+"/healthz"); status != 200 {
		t.Errorf("after a restart: %d %s", status, text)
	}
	end()

	// Somebody took the port: the clusters move, and their rows say where to.
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "https://"))
	thief, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	defer x.host(t)()
	row, err := x.db.Clusters.ByUUID(t.Context(), x.cluster.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if *row.APIAddress == address {
		t.Fatalf("it is still at %s", address)
	}
	if status, text := get(t, client(t, access), *row.APIAddress+"/healthz"); status != 200 {
		t.Errorf("moved to %s: %d %s", *row.APIAddress, status, text)
	}
	if got := x.observe(t).APIAddress; got != *row.APIAddress {
		t.Errorf("observed at %s, stored at %s", got, *row.APIAddress)
	}
	// A port that was asked for is not replaced by another.
	p, _ := strconv.Atoi(port)
	again := New(Config{Name: "simulated", Port: p}, x.db, time.Now)
	if _, err := again.Host(t.Context(), x.secrets); err == nil || !strings.Contains(err.Error(), "CARAFE_SIMULATED_PORT") {
		t.Errorf("a port in use: %v", err)
	}
}

func TestRotationReachesTheEndpoint(t *testing.T) {
	t.Parallel()
	x := newServed(t, nil)
	defer x.host(t)()
	old := x.certify(t, x.cluster.UUID, 1)
	address := x.up(t, x.cluster)
	if status, text := get(t, client(t, old), address+"/healthz"); status != 200 {
		t.Fatalf("before: %d %s", status, text)
	}
	fresh := x.certify(t, x.cluster.UUID, 2)
	if status, _ := get(t, client(t, old), address+"/healthz"); status != 0 {
		t.Errorf("the old key still opens: %d", status)
	}
	if status, text := get(t, client(t, fresh), address+"/healthz"); status != 200 {
		t.Errorf("the new key: %d %s", status, text)
	}
}

func TestKubectl(t *testing.T) {
	t.Parallel()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl here")
	}
	x := newServed(t, map[string]string{"kube_tag": "v1.35.2"})
	defer x.host(t)()
	access := x.certify(t, x.cluster.UUID, 1)
	address := x.up(t, x.cluster)
	b64 := base64.StdEncoding.EncodeToString
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"users": [{"name": "u", "user": {"client-certificate-data": %q, "client-key-data": %q}}]}`,
		address, b64(access.CA), b64(access.Client.Certificate), b64(access.Client.Key)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"get nodes", "control-plane"},
		{"get nodes -o wide --chunk-size=1", "-default-worker-1"},
		{"get nodes -o json", `"kubeletVersion"`},
		{"get --raw /readyz", "ok"},
		{"version", "Server Version: v1.3"},
	} {
		cmd := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", config, "--cache-dir", t.TempDir()}, strings.Fields(tc.args)...)...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("kubectl %s: %v\n%s", tc.args, err, out)
		}
	}
}
