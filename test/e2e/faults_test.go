//go:build openstack

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carafe/shared/keystonetest"
)

// gate is a way to a real service that can be broken.
type gate struct {
	*httptest.Server
	mode atomic.Value // "" or one of modes
}

var modes = []string{"stopped", "500", "garbage", "slow"}

func newGate(t *testing.T, cloud *keystonetest.Cloud, service string) *gate {
	t.Helper()
	target, err := url.Parse(fmt.Sprint("http://127.0.0.1:", cloud.Ports[service]))
	if err != nil {
		t.Fatal(err)
	}
	direct := httputil.NewSingleHostReverseProxy(target)
	direct.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g := &gate{}
	g.mode.Store("")
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch g.mode.Load() {
		case "stopped":
			panic(http.ErrAbortHandler) // the connection ends without an answer
		case "500":
			http.Error(w, "Traceback (most recent call last)", http.StatusInternalServerError)
		case "garbage":
			_, _ = w.Write([]byte("<html>\x00 not what you asked for")) // the client may be gone
		case "slow":
			select {
			case <-time.After(30 * time.Second):
			case <-r.Context().Done():
			}
		default:
			direct.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// TestRealFaults breaks each service in each way while users work: no request
// gets a 500, what was accepted is done when the service is back, and nothing
// is left behind in Barbican.
func TestRealFaults(t *testing.T) {
	cloud := keystonetest.Load(t)
	gates := map[string]*gate{}
	for service, kind := range map[string]string{
		"keystone": "", "barbican": "key-manager", "glance": "image", "neutron": "network", "nova": "compute",
	} {
		gates[service] = newGate(t, cloud, service)
		if kind == "" {
			continue
		}
		path := map[string]string{"nova": "/v2.1"}[service]
		setEndpoint(t, cloud, kind, gates[service].URL+path)
		t.Cleanup(func() { setEndpoint(t, cloud, kind, fmt.Sprint("http://127.0.0.1:", cloud.Ports[service], path)) })
	}
	b := start(t, cloud, map[string]string{
		"CARAFE_KEYSTONE_URL":           gates["keystone"].URL + "/v3",
		"CARAFE_OPENSTACK_TIMEOUT":      "6s",  // Keystone hashes an application credential for seconds on a busy machine
		"CARAFE_CERTIFICATES_CACHE_FOR": "1ms", // ask Barbican each time
	})
	t.Cleanup(func() { // else the instance cannot end what it has begun
		for _, g := range gates {
			g.mode.Store("")
		}
	})
	template := b.ask(t, "demo", "POST", "/clustertemplates", templateBody("k8s")).want(t, http.StatusCreated).str("uuid")
	next := b.ask(t, "demo", "POST", "/clustertemplates", templateBody("next")).want(t, http.StatusCreated).str("uuid")
	bases := map[string]string{} // a cluster for each kind of operation: one would keep the other out
	for _, name := range []string{"resize", "rotate", "credential", "upgrade"} {
		bases[name] = b.ask(t, "demo", "POST", "/clusters", clusterBody(template, name)).want(t, http.StatusAccepted).str("uuid")
	}
	for _, id := range bases {
		b.settle(t, id, "CREATE_COMPLETE")
	}
	b.ask(t, "admin", "GET", "/clusters", nil).want(t, http.StatusOK) // its token is known now

	for _, service := range []string{"keystone", "barbican", "nova", "glance", "neutron"} {
		for _, mode := range modes {
			t.Run(service+"/"+mode, func(t *testing.T) {
				fresh := cloud.Login(t, "demo").Token()
				g := gates[service]
				f := &broken{bed: b, service: service, mode: mode}
				g.mode.Store(mode)
				f.reads(t, bases["resize"], fresh)
				made := f.writes(t, bases, template, next)
				g.mode.Store("")
				for _, id := range made {
					b.settle(t, id, "CREATE_COMPLETE")
				}
				for _, id := range bases {
					f.complete(t, id)
				}
				f.deletes(t, g, made)
			})
		}
	}
	noSecrets(t, b, b.Log())
}

func templateBody(name string) map[string]any {
	return map[string]any{"name": name, "coe": "kubernetes", "image_id": "ubuntu-k8s", "flavor_id": "m1.small",
		"master_flavor_id": "m1.medium", "external_network_id": "public", "keypair_id": "testkey",
		"fixed_network": "private", "fixed_subnet": "private-subnet", "labels": map[string]string{"kube_tag": "v1.34.1"}}
}

func clusterBody(template, name string) map[string]any {
	return map[string]any{"name": name, "cluster_template_id": template, "node_count": 1, "master_count": 1}
}

// broken is the bed while one service is out of order.
type broken struct {
	*bed
	service, mode string
}

// names are what the services are called in errors.
var names = map[string]string{"keystone": "Keystone", "barbican": "Barbican", "nova": "Nova", "glance": "Glance", "neutron": "Neutron"}

// try makes a request that may be done, refused for the cluster's state, or
// answered by a 503 that names the service; nothing else.
func (f *broken) try(t *testing.T, user, method, path string, body any) answer {
	t.Helper()
	a := f.ask(t, user, method, path, body)
	switch {
	case a.status < 300, a.status == http.StatusConflict, strings.Contains(a.detail(), " when status is "):
	case a.status == http.StatusServiceUnavailable:
		if !strings.Contains(a.detail(), names[f.service]) {
			t.Errorf("%s %s: the 503 does not name %s: %s", method, path, names[f.service], a.text)
		}
	default:
		t.Errorf("%s %s: %d %s", method, path, a.status, a.text)
	}
	if strings.Contains(a.text, "Traceback") || strings.Contains(a.text, "html") {
		t.Errorf("%s %s: what the service said has got through: %s", method, path, a.text)
	}
	return a
}

// reads need nothing but the database, and Keystone for a token that is new.
func (f *broken) reads(t *testing.T, base, fresh string) {
	t.Helper()
	for _, path := range []string{"/clusters", "/clusters/" + base, "/clustertemplates", "/clusters/" + base + "/nodegroups", "/stats"} {
		f.ask(t, "demo", "GET", path, nil).want(t, http.StatusOK)
	}
	a := f.askWith(t, fresh, "GET", "/clusters", nil)
	if f.service != "keystone" {
		a.want(t, http.StatusOK)
		return
	}
	a.want(t, http.StatusServiceUnavailable)
	if a.detail() != "The Keystone service is temporarily unavailable." {
		t.Errorf("detail: %s", a.text)
	}
}

// writes gives the clusters that were accepted.
func (f *broken) writes(t *testing.T, bases map[string]string, template, next string) []string {
	t.Helper()
	var made []string
	f.try(t, "demo", "POST", "/clustertemplates", templateBody("t-"+f.service+f.mode))
	if a := f.try(t, "demo", "POST", "/clusters", clusterBody(template, f.service+"-"+f.mode)); a.status == http.StatusAccepted {
		made = append(made, a.str("uuid"))
	}
	f.try(t, "demo", "POST", "/clusters/"+bases["resize"]+"/actions/resize", map[string]any{"node_count": 2})
	f.try(t, "demo", "POST", "/clusters/"+bases["resize"]+"/nodegroups", map[string]any{"name": "n" + f.service + f.mode, "flavor_id": "m1.small", "node_count": 1})
	f.try(t, "demo", "GET", "/certificates/"+bases["resize"], nil)
	f.try(t, "demo", "POST", "/certificates", map[string]any{"cluster_uuid": bases["resize"], "csr": csr(t)})
	f.try(t, "demo", "PATCH", "/certificates/"+bases["rotate"], nil)
	f.try(t, "demo", "PATCH", "/credentials/"+bases["credential"], map[string]any{})
	f.try(t, "demo", "POST", "/clusters/"+bases["upgrade"]+"/actions/upgrade", map[string]any{"cluster_template": next})
	project := "0123456789abcdef0123456789abcdef"
	if a := f.ask(t, "admin", "POST", "/quotas", map[string]any{"project_id": project, "hard_limit": 3, "resource": "Cluster"}); a.status != http.StatusNotFound {
		if f.service != "keystone" || a.status != http.StatusServiceUnavailable {
			t.Errorf("quota of an unknown project: %d %s", a.status, a.text)
		}
	}
	return made
}

// complete waits until the cluster has done all it was asked to.
func (f *broken) complete(t *testing.T, id string) {
	t.Helper()
	var last answer
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		last = f.ask(t, "demo", "GET", "/clusters/"+id, nil)
		if strings.HasSuffix(last.str("status"), "_COMPLETE") {
			return
		}
	}
	t.Fatalf("the cluster does not complete: %s", last.text)
}

// deletes deletes the clusters while the service is broken again: that is always
// accepted, and done when the service is back.
func (f *broken) deletes(t *testing.T, g *gate, ids []string) {
	t.Helper()
	g.mode.Store(f.mode)
	for _, id := range ids {
		f.ask(t, "demo", "DELETE", "/clusters/"+id, nil).want(t, http.StatusNoContent)
	}
	time.Sleep(time.Second) // let it meet the trouble
	g.mode.Store("")
	for _, id := range ids {
		f.settle(t, id, "")
		inBarbican(t, f.bed, id, 0)
	}
}
