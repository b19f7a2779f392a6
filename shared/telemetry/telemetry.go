// Package telemetry shows what Carafe does: traces and metrics by OpenTelemetry,
// a Prometheus endpoint, and log lines that carry the ids of a request.
//
// Traces and metrics are pushed by OTLP where OTEL_EXPORTER_OTLP_ENDPOINT is set;
// the endpoint of the metrics is open where CARAFE_METRICS_ADDRESS is set. With
// neither, nothing is measured and nothing is paid for, but a caller's traceparent
// still travels: from the request into the event and on into the driver's calls.
//
// There are no globals: a process makes one Telemetry and hands it on. All methods
// of a nil *Telemetry do nothing, so that code under test needs none.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope names Carafe's own instruments among those of libraries.
const scope = "carafe"

// Config is the environment of telemetry. The OpenTelemetry SDK reads its other
// variables itself: OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_METRIC_EXPORT_INTERVAL and the rest.
type Config struct {
	// Endpoint is the base URL of an OTLP/HTTP collector; empty pushes nothing.
	Endpoint string `envconfig:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// MetricsAddress is where /metrics listens, apart from the API's port, which is
	// public; empty listens nowhere. Use a loopback address, or one that only the
	// monitoring can reach.
	MetricsAddress string `envconfig:"CARAFE_METRICS_ADDRESS"`
	// Service is the name of the Knative Service, which Knative sets.
	Service string `envconfig:"K_SERVICE"`
	// Revision is the name of the Knative revision, which Knative sets.
	Revision string `envconfig:"K_REVISION"`
}

// Telemetry measures one process.
type Telemetry struct {
	address  string
	registry *prometheus.Registry // nil: no endpoint
	meters   *sdkmetric.MeterProvider
	spans    *sdktrace.TracerProvider // nil: no traces
	tracer   trace.Tracer             // nil with spans
	instruments
}

// Start makes the exporters that c asks for. It connects to nothing: a collector
// that is away costs a log line of the SDK and the data, never a request. The
// caller ends with Shutdown.
func Start(ctx context.Context, c Config) (*Telemetry, error) {
	t := &Telemetry{address: c.MetricsAddress}
	if c.Endpoint == "" && c.MetricsAddress == "" {
		return t, nil
	}
	about, err := describe(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("describe this process for OpenTelemetry: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if c.MetricsAddress != "" {
		t.registry = prometheus.NewRegistry()
		t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reader, err := promexporter.New(promexporter.WithRegisterer(t.registry), promexporter.WithoutScopeInfo())
		if err != nil {
			return nil, fmt.Errorf("start the Prometheus exporter: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if c.Endpoint != "" {
		base := strings.TrimRight(c.Endpoint, "/")
		metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"))
		if err != nil {
			return nil, fmt.Errorf("start the OTLP exporter of metrics: %w", err)
		}
		spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"))
		if err != nil {
			return nil, fmt.Errorf("start the OTLP exporter of traces: %w", err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
		t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(spans))
		t.tracer = t.spans.Tracer(scope)
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	if t.instruments, err = declare(t.meters.Meter(scope)); err != nil {
		return nil, fmt.Errorf("declare the metrics: %w", err)
	}
	return t, nil
}

// describe gives the attributes that every span and metric of this process has.
// Processes of one function must differ in service.instance.id, or a collector
// would mix up their counters.
func describe(ctx context.Context, c Config) (*resource.Resource, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	attributes := []attribute.KeyValue{
		attribute.String("service.name", "carafe"),
		attribute.String("service.instance.id", fmt.Sprintf("%s/%d", host, os.Getpid())),
	}
	if c.Service != "" {
		attributes = append(attributes, attribute.String("faas.name", c.Service), attribute.String("faas.version", c.Revision))
	}
	return resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
}

// Handler is the page of metrics for Prometheus. It must not be on the API's port.
func (t *Telemetry) Handler() http.Handler {
	if t == nil || t.registry == nil {
		return http.NotFoundHandler()
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry}))
	return mux
}

// Serve answers /metrics at the configured address until ctx ends. Without an
// address it returns at once.
func (t *Telemetry) Serve(ctx context.Context) error {
	if t == nil || t.registry == nil {
		return nil
	}
	listener, err := net.Listen("tcp", t.address)
	if err != nil {
		return fmt.Errorf("listen for /metrics (CARAFE_METRICS_ADDRESS): %w", err)
	}
	server := &http.Server{
		Handler:           t.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // a scrape may be cut: the next process is asked again
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve /metrics: %w", err)
	}
	return nil
}

// Shutdown pushes what is not yet pushed. A process that ends without it loses its
// last spans and, pushed by OTLP only, its last counts.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var errs []error
	if t.spans != nil {
		errs = append(errs, t.spans.Shutdown(ctx))
	}
	if t.meters != nil {
		errs = append(errs, t.meters.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
