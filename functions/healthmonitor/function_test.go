package healthmonitor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
	"carafe/shared/pki"
)

// ward is a bench whose cluster has a real API server over mutual TLS.
type ward struct {
	*functiontest.Bench
	server *httptest.Server
	mu     sync.Mutex
	nodes  []string // JSON, as the API server lists them
	probes int
}

// node sets one node, or adds it.
func (w *ward) node(i int, name, ready string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes[:i], node(name, ready))
}

func (w *ward) probed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probes
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{Bench: functiontest.New(t), nodes: []string{node("n1", "True"), node("n2", "True")}}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		w.probes++
		w.mu.Unlock()
		fmt.Fprint(out, "ok")
	})
	mux.HandleFunc("/api/v1/nodes", func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		list := strings.Join(w.nodes, ",")
		w.mu.Unlock()
		fmt.Fprintf(out, `{"items":[%s]}`, list)
	})
	w.server = httptest.NewUnstartedServer(mux)
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.Cluster = w.NewCluster(t, nil, func(c *magnum.Cluster) {
		address := "https://" + w.server.Listener.Addr().String()
		c.Name, c.APIAddress, c.FloatingIPEnabled = "probed", &address, true
	})
	w.Certify(t, w.Cluster.UUID)
	w.install(t)
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	w.due(t, w.Cluster.UUID)
	return w
}

// install makes the API server trust, and show, the authority in force.
func (w *ward) install(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := w.Secrets.Sign(t.Context(), w.Cluster.UUID, pki.Kubernetes, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := w.Secrets.CA(t.Context(), w.Cluster.UUID, pki.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(ca))
	block, _ := pem.Decode([]byte(issued.PEM))
	now := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	w.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now, nil }}
}

func node(name, ready string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"conditions":[{"type":"Ready","status":%q}]}}`, name, ready)
}

func (w *ward) due(t *testing.T, clusterUUID string) {
	t.Helper()
	if err := w.DB.Ticks.ScheduleHealth(t.Context(), clusterUUID, &w.Clock); err != nil {
		t.Fatal(err)
	}
}

// tick lets a minute pass and the function look.
func (w *ward) tick(t *testing.T) magnum.Cluster {
	t.Helper()
	w.Clock = w.Clock.Add(time.Minute)
	if status := w.Deliver(t, Function(), events.Tick, magnum.Operation{ClusterID: w.Cluster.UUID}); status != http.StatusNoContent {
		t.Fatalf("the tick was answered %d", status)
	}
	return w.Reload(t, w.Cluster.UUID)
}

func (w *ward) want(t *testing.T, c magnum.Cluster, status magnum.HealthStatus, reasons map[string]string, told int) {
	t.Helper()
	if diff := cmp.Diff(reasons, c.HealthStatusReason); c.HealthStatus != status || diff != "" {
		t.Errorf("health %q, want %q\n%s", c.HealthStatus, status, diff)
	}
	if got := w.Events(t, c.UUID); len(got) != told || told > 0 && got[told-1] != "magnum.cluster.health success" {
		t.Errorf("events %v, want %d of health", got, told)
	}
	if !c.UpdatedAt.Equal(*w.Cluster.UpdatedAt) || c.Version != w.Cluster.Version {
		t.Errorf("updated at %v, version %d: the health moved them", c.UpdatedAt, c.Version)
	}
}

func TestHealthIsWrittenOnChangeOnly(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	well := map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True"}
	w.want(t, w.tick(t), magnum.Healthy, well, 1)
	w.want(t, w.tick(t), magnum.Healthy, well, 1)
	ticks, err := w.DB.Ticks.Of(t.Context(), []string{w.Cluster.UUID})
	if at := ticks[w.Cluster.UUID].HealthCheckedAt; err != nil || at == nil || !at.Equal(w.Clock) {
		t.Errorf("checked at %v, %v", at, err)
	}
	w.node(1, "n2", "Unknown")
	w.want(t, w.tick(t), magnum.Unhealthy, map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "False"}, 2)
	w.node(1, "n2", "True")
	w.want(t, w.tick(t), magnum.Healthy, well, 3)
}

func TestAClusterThatIsNotReached(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	well := map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True"}
	w.tick(t)
	w.server.Close()
	w.want(t, w.tick(t), magnum.Healthy, well, 1)
	w.want(t, w.tick(t), magnum.Healthy, well, 1)
	refused := map[string]string{"api": "The API server at " + w.server.Listener.Addr().String() + " refuses the connection."}
	w.want(t, w.tick(t), magnum.UnknownHealth, refused, 2)
	w.want(t, w.tick(t), magnum.UnknownHealth, refused, 2)
}

func TestANodeIsGone(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for i, name := range []string{"default-master", "default-worker"} {
		_, err := w.DB.NodeGroups.Create(t.Context(), magnum.NodeGroup{UUID: w.NewID(), Name: name, ClusterID: w.Cluster.UUID, ProjectID: "p1",
			NodeCount: 1 + i, Role: []string{"master", "worker"}[i], IsDefault: true, Status: magnum.CreateComplete, CreatedAt: w.Clock}, w.Cluster.Name)
		if err != nil {
			t.Fatal(err)
		}
	}
	w.want(t, w.tick(t), magnum.Unhealthy, map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True", "nodes": "2 of 3 nodes are Ready."}, 1)
	w.node(2, "n3", "True")
	w.want(t, w.tick(t), magnum.Healthy, map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True", "n3.Ready": "True"}, 2)
}

func TestRotationReachesTheProbe(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.tick(t)
	if err := w.Secrets.Ensure(t.Context(), w.Cluster.UUID, 2); err != nil {
		t.Fatal(err)
	}
	if err := certstore.Activate(t.Context(), w.DB.Secrets, w.Cluster.UUID, 2); err != nil {
		t.Fatal(err)
	}
	w.server.Close()
	l, err := net.Listen("tcp", w.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(w.server.Config.Handler)
	again.Listener.Close()
	again.Listener, again.Config.ErrorLog = l, log.New(io.Discard, "", 0)
	w.server = again
	w.install(t)
	again.StartTLS()
	t.Cleanup(again.Close)
	w.want(t, w.tick(t), magnum.Healthy, map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True"}, 1)
	if w.probed() != 2 {
		t.Errorf("%d probes, want 2", w.probed())
	}
}

func TestWhoIsNotProbed(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	address := *w.Cluster.APIAddress
	for _, tc := range []struct {
		name   string
		change func(*magnum.Cluster)
		status magnum.HealthStatus
		why    map[string]string
	}{
		{"creating", func(c *magnum.Cluster) { c.Status = magnum.CreateInProgress }, "", map[string]string{}},
		{"deleting", func(c *magnum.Cluster) { c.Status = magnum.DeleteInProgress }, "", map[string]string{}},
		{"without-address", func(c *magnum.Cluster) { c.APIAddress = nil }, "", map[string]string{}},
		{"healed", func(c *magnum.Cluster) {
			c.Labels = map[string]string{"auto_healing_enabled": "true", "auto_healing_controller": "magnum-auto-healer"}
		}, "", map[string]string{}},
		{"private", func(c *magnum.Cluster) { c.FloatingIPEnabled = false }, magnum.UnknownHealth,
			map[string]string{"api": "The cluster private is not accessible."}},
		{"bare", func(*magnum.Cluster) {}, "", map[string]string{}}, // no certificates: a miss, and there was only one
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := w.NewCluster(t, nil, func(c *magnum.Cluster) {
				c.Name, c.APIAddress, c.FloatingIPEnabled = tc.name, &address, true
				tc.change(c)
			})
			w.due(t, c.UUID)
			w.tick(t)
			c = w.Reload(t, c.UUID)
			if diff := cmp.Diff(tc.why, c.HealthStatusReason); c.HealthStatus != tc.status || diff != "" {
				t.Errorf("health %q, want %q\n%s", c.HealthStatus, tc.status, diff)
			}
		})
	}
}

// observing is a driver that knows the health of its clusters.
type observing struct {
	*functiontest.Driver
	health driver.Health
	err    error
}

func (o *observing) Health(context.Context, driver.Ref) (driver.Health, error) {
	return o.health, o.err
}

// observingAll knows it of many at once.
type observingAll struct {
	observing
	asked []int
}

func (o *observingAll) HealthAll(_ context.Context, refs []driver.Ref) ([]driver.Health, error) {
	o.asked = append(o.asked, len(refs))
	all := make([]driver.Health, len(refs))
	for i := range all {
		all[i] = o.health
	}
	return all, o.err
}

func TestADriverThatKnows(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	sick := map[string]string{"controlplane": "Ready", "nodegroup": "Waiting on ['n2']"}
	o := &observing{Driver: w.Driver, health: driver.Health{Status: magnum.Unhealthy, Reasons: sick}}
	w.Drivers = driver.NewRegistry(driver.Selection{}, o)
	w.want(t, w.tick(t), magnum.Unhealthy, sick, 1)
	o.err = fault.New(fault.Unavailable, "The management cluster does not answer.")
	w.want(t, w.tick(t), magnum.Unhealthy, sick, 1)
	w.want(t, w.tick(t), magnum.Unhealthy, sick, 1)
	w.want(t, w.tick(t), magnum.UnknownHealth, map[string]string{"api": "The management cluster does not answer."}, 2)
	if w.probed() != 0 {
		t.Errorf("%d probes beside the driver", w.probed())
	}

	all := &observingAll{observing: observing{Driver: w.Driver, health: driver.Health{Status: magnum.Healthy, Reasons: map[string]string{"cluster": "Ready"}}}}
	w.Drivers = driver.NewRegistry(driver.Selection{}, all)
	other := w.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "other" })
	w.due(t, other.UUID)
	w.want(t, w.tick(t), magnum.Healthy, map[string]string{"cluster": "Ready"}, 3)
	if c := w.Reload(t, other.UUID); c.HealthStatus != magnum.Healthy || len(all.asked) != 1 || all.asked[0] != 2 {
		t.Errorf("the other is %q, asked for %v", c.HealthStatus, all.asked)
	}
}

func TestFanOut(t *testing.T) {
	t.Setenv("CARAFE_HEALTH_BATCH", "1")
	t.Setenv("CARAFE_HEALTH_FAN_OUT", "1")
	w := newWard(t)
	private := w.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name, c.APIAddress = "private", w.Cluster.APIAddress })
	later := w.Clock.Add(time.Second)
	if err := w.DB.Ticks.ScheduleHealth(t.Context(), private.UUID, &later); err != nil {
		t.Fatal(err)
	}
	if c := w.tick(t); c.HealthStatus != magnum.Healthy {
		t.Errorf("the first batch is not looked at: %q", c.HealthStatus)
	}
	list, err := w.DB.Events.Claim(t.Context(), "test", w.Clock, w.Clock.Add(time.Minute), 10)
	if err != nil {
		t.Fatal(err)
	}
	var batch Batch
	for _, e := range list {
		if e.Type == events.Health {
			if err := json.Unmarshal(e.Data, &batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(batch.ClusterIDs) != 1 || batch.ClusterIDs[0] != private.UUID {
		t.Fatalf("left to others: %v", batch.ClusterIDs)
	}
	h, err := Function().Build(t.Context(), w.Platform)
	if err != nil {
		t.Fatal(err)
	}
	send := func(data any) int {
		e := event.New()
		e.SetID("1")
		e.SetSource("/test")
		e.SetType(events.Health)
		if err := e.SetData(event.ApplicationJSON, data); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(text)))
		r.Header.Set("Content-Type", event.ApplicationCloudEventsJSON)
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		return out.Code
	}
	if status := send(batch); status != http.StatusNoContent {
		t.Errorf("the batch was answered %d", status)
	}
	if c := w.Reload(t, private.UUID); c.HealthStatus != magnum.UnknownHealth {
		t.Errorf("the other batch is not looked at: %q", c.HealthStatus)
	}
	if status := send(map[string]string{}); status != http.StatusUnprocessableEntity {
		t.Errorf("an empty batch was answered %d", status)
	}
}
