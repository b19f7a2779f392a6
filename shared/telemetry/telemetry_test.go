package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carafe/shared/telemetry"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	requestTrace  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	deliveryTrace = "00-11111111111111111111111111111111-2222222222222222-01"
)

func start(t *testing.T, c telemetry.Config) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("GET /metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func contains(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("the page has no line %q in\n%s", line, page)
		}
	}
}

func TestRequestsAreCountedByFunctionMethodAndCode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, requestsAreCounted)
}

func requestsAreCounted(t *testing.T) {
	tel := start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	h := tel.Middleware("clusters", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			w.WriteHeader(http.StatusConflict)
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/early":
			w.WriteHeader(http.StatusAccepted)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			time.Sleep(time.Minute) // what a handler does after its answer is not the caller's wait
		}
	}))
	for _, path := range []string{"/", "/", "/refused", "/panic", "/early"} {
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, nil))
		}()
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("BREW", "/", nil))
	contains(t, scrape(t, tel),
		`carafe_request_duration_seconds_count{code="200",function="clusters",method="POST"} 2`,
		`carafe_request_duration_seconds_count{code="409",function="clusters",method="POST"} 1`,
		`carafe_request_duration_seconds_count{code="500",function="clusters",method="POST"} 1`,
		`carafe_request_duration_seconds_count{code="200",function="clusters",method="other"} 1`,
		`carafe_request_duration_seconds_bucket{code="202",function="clusters",method="POST",le="0.001"} 1`)
}

func TestTheConductorsNumbers(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	tel.Operation(t.Context(), "cluster.create", "succeeded", 90*time.Second)
	tel.Retry(t.Context(), "cluster.create", "Unavailable")
	tel.LeaseLost(t.Context(), "cluster.delete")
	tel.Stuck(t.Context(), "k8s_capi")
	if err := tel.ReadState(func(context.Context) (telemetry.State, error) { return fullState, nil }); err != nil {
		t.Fatal(err)
	}
	contains(t, scrape(t, tel),
		`carafe_operation_duration_seconds_bucket{kind="cluster.create",outcome="succeeded",le="120"} 1`,
		`carafe_operation_duration_seconds_bucket{kind="cluster.create",outcome="succeeded",le="60"} 0`,
		`carafe_operation_retries_total{kind="cluster.create",reason="Unavailable"} 1`,
		`carafe_lease_losses_total{kind="cluster.delete"} 1`,
		`carafe_stuck_observations_total{driver="k8s_capi"} 1`,
		`carafe_clusters{status="CREATE_COMPLETE"} 7`,
		`carafe_clusters_health{health_status="UNHEALTHY"} 2`,
		`carafe_nodegroups{status="CREATE_COMPLETE"} 9`,
		`carafe_operations{kind="cluster.create",state="waiting"} 3`,
		`carafe_outbox_events 4`,
		`carafe_outbox_age_seconds 1.5`,
		`carafe_sync_due 5`,
		`carafe_sync_lag_seconds 6`,
		`carafe_health_due 7`,
		`carafe_health_lag_seconds 8`,
		`carafe_dead_letters 1`)
}

var fullState = telemetry.State{
	Clusters:     map[string]int64{"CREATE_COMPLETE": 7},
	Health:       map[string]int64{"UNHEALTHY": 2},
	NodeGroups:   map[string]int64{"CREATE_COMPLETE": 9},
	Operations:   []telemetry.OperationCount{{Kind: "cluster.create", State: "waiting", Count: 3}},
	OutboxEvents: 4, OutboxAge: 1500 * time.Millisecond,
	SyncDue: 5, SyncLag: 6 * time.Second,
	HealthDue: 7, HealthLag: 8 * time.Second,
	DeadLetters: 1,
}

// One broken gauge must not hide the counters of the functions.
func TestADatabaseThatIsAwayLeavesTheRest(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	tel.LeaseLost(t.Context(), "cluster.delete")
	err := tel.ReadState(func(context.Context) (telemetry.State, error) {
		return telemetry.State{}, errors.New("connection refused")
	})
	if err != nil {
		t.Fatal(err)
	}
	page := scrape(t, tel)
	contains(t, page, `carafe_lease_losses_total{kind="cluster.delete"} 1`)
	if strings.Contains(page, "carafe_outbox_events") {
		t.Error("gauges without a reading are shown")
	}
}

func TestTheEventsTraceComesBeforeTheDeliverys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		header map[string]string
		want   string
	}{
		{"None", nil, ""},
		{"Request", map[string]string{"Traceparent": requestTrace}, requestTrace},
		{"Event", map[string]string{"Ce-Traceparent": requestTrace, "Traceparent": deliveryTrace}, requestTrace},
		{"Malformed", map[string]string{"Traceparent": "00-abc"}, ""},
	} {
		for how, tel := range map[string]*telemetry.Telemetry{
			"Off": start(t, telemetry.Config{}), "Metrics": start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"}),
		} {
			t.Run(tc.name+how, func(t *testing.T) {
				var got string
				h := tel.Middleware("x", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					got = telemetry.Traceparent(r.Context())
				}))
				r := httptest.NewRequest("POST", "/", nil)
				for k, v := range tc.header {
					r.Header.Set(k, v)
				}
				h.ServeHTTP(httptest.NewRecorder(), r)
				if got != tc.want {
					t.Errorf("traceparent %q, want %q", got, tc.want)
				}
			})
		}
	}
}

// collector is an OTLP/HTTP collector that keeps what it is sent.
type collector struct {
	mu      sync.Mutex
	spans   []*tracev1.Span
	metrics []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var m collectortrace.ExportTraceServiceRequest
		if proto.Unmarshal(b, &m) != nil {
			w.WriteHeader(400)
			return
		}
		for _, r := range m.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	case "/v1/metrics":
		var m collectormetrics.ExportMetricsServiceRequest
		if proto.Unmarshal(b, &m) != nil {
			w.WriteHeader(400)
			return
		}
		for _, r := range m.ResourceMetrics {
			for _, s := range r.ScopeMetrics {
				for _, x := range s.Metrics {
					c.metrics = append(c.metrics, x.Name)
				}
			}
		}
	default:
		w.WriteHeader(404)
	}
}

// From the HTTP request, through the event's extension, into the call of the driver.
func TestOneTraceFromTheRequestToTheDriversCall(t *testing.T) {
	t.Parallel()
	var got collector
	otlp := httptest.NewServer(&got)
	defer otlp.Close()
	tel := start(t, telemetry.Config{Endpoint: otlp.URL})

	var called string
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called = r.Header.Get("Traceparent") }))
	defer cloud.Close()
	client := &http.Client{Transport: tel.Transport("kubernetes", nil)}
	clustercreate := tel.Middleware("clustercreate", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, end := telemetry.Span(r.Context(), "driver apply")
		defer end(nil)
		call, _ := http.NewRequestWithContext(ctx, "PATCH", cloud.URL, nil)
		if resp, err := client.Do(call); err != nil {
			t.Error(err)
		} else {
			_ = resp.Body.Close()
		}
	}))
	clusters := tel.Middleware("clusters", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := telemetry.Traceparent(r.Context()) // goes into the rows of the operation and the event
		delivery := httptest.NewRequest("POST", "/", nil)
		delivery.Header.Set("Ce-Traceparent", event)
		clustercreate.ServeHTTP(httptest.NewRecorder(), delivery)
	}))
	r := httptest.NewRequest("POST", "/v1/clusters", nil)
	r.Header.Set("Traceparent", requestTrace)
	clusters.ServeHTTP(httptest.NewRecorder(), r)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	spans := map[string]*tracev1.Span{}
	for _, s := range got.spans {
		spans[s.Name] = s
		if id := hex.EncodeToString(s.TraceId); id != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("span %q is of trace %s", s.Name, id)
		}
	}
	for _, pair := range [][2]string{{"clustercreate POST", "clusters POST"}, {"driver apply", "clustercreate POST"}, {"kubernetes PATCH", "driver apply"}} {
		child, parent := spans[pair[0]], spans[pair[1]]
		if child == nil || parent == nil {
			t.Fatalf("no span %q or %q among %v", pair[0], pair[1], got.spans)
		}
		if !bytes.Equal(child.ParentSpanId, parent.SpanId) {
			t.Errorf("%q is not a child of %q", pair[0], pair[1])
		}
	}
	if want := "00-0af7651916cd43dd8448eb211c80319c-" + hex.EncodeToString(spans["kubernetes PATCH"].SpanId) + "-01"; called != want {
		t.Errorf("the service outside got traceparent %q, want %q", called, want)
	}
	if all := strings.Join(got.metrics, " "); !strings.Contains(all, "carafe.request.duration") || !strings.Contains(all, "carafe.call.duration") {
		t.Errorf("the last counts were not pushed at the end: %s", all)
	}
}

func TestACollectorThatIsAwayHindersNoRequest(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{Endpoint: "http://127.0.0.1:1"})
	h := tel.Middleware("clusters", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 204 {
		t.Errorf("answer %d", w.Code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = tel.Shutdown(ctx) // gives up with ctx; the error is for the log
}

func TestLogLinesCarryTheIdsOfTheirRequest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(telemetry.Logs(slog.NewJSONHandler(&out, nil)))
	ctx := telemetry.Continue(t.Context(), requestTrace)
	ctx = telemetry.With(ctx, slog.String("request_id", "req-1"))
	one := telemetry.With(ctx, slog.String("operation", "op-1"))
	_ = telemetry.With(ctx, slog.String("operation", "op-2")) // does not write over its sibling's
	log.InfoContext(one, "claimed")
	for _, want := range []string{`"request_id":"req-1"`, `"operation":"op-1"`, `"trace_id":"0af7651916cd43dd8448eb211c80319c"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

func TestWithoutTelemetryEverythingStillWorks(t *testing.T) {
	t.Parallel()
	var none *telemetry.Telemetry
	off := start(t, telemetry.Config{})
	for _, tel := range []*telemetry.Telemetry{none, off} {
		tel.Operation(t.Context(), "cluster.create", "failed", time.Second)
		tel.Retry(t.Context(), "cluster.create", "x")
		tel.LeaseLost(t.Context(), "cluster.create")
		_, end := tel.Work(t.Context(), "relay")
		end(nil)
		if err := errors.Join(tel.ReadState(nil), tel.Serve(t.Context()), tel.Shutdown(t.Context())); err != nil {
			t.Error(err)
		}
		w := httptest.NewRecorder()
		tel.Middleware("x", http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		tel.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 404 {
			t.Errorf("answer %d", w.Code)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tel.Serve(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := start(t, telemetry.Config{MetricsAddress: "nonsense"}).Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "CARAFE_METRICS_ADDRESS") {
		t.Errorf("an address that cannot be: %v", err)
	}
}

func BenchmarkMiddleware(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	for name, c := range map[string]telemetry.Config{"off": {}, "metrics": {MetricsAddress: "127.0.0.1:0"}} {
		b.Run(name, func(b *testing.B) {
			tel, err := telemetry.Start(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			h := tel.Middleware("clusters", handler)
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if _, err := telemetry.Start(b.Context(), telemetry.Config{MetricsAddress: "127.0.0.1:0"}); err != nil {
			b.Fatal(err)
		}
	}
}
