package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are Carafe's metrics. Prometheus' names are these with underscores,
// the unit, and _total on counters: carafe_request_duration_seconds.
type instruments struct {
	requests    metric.Float64Histogram
	calls       metric.Float64Histogram
	operations  metric.Float64Histogram
	retries     metric.Int64Counter
	leaseLosses metric.Int64Counter
	stuck       metric.Int64Counter
	meter       metric.Meter // nil: nothing is measured
}

// Requests are milliseconds, operations are minutes.
var (
	requestSeconds   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	operationSeconds = []float64{.1, 1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200}
)

func declare(m metric.Meter) (instruments, error) {
	i := instruments{meter: m}
	var errs [6]error
	i.requests, errs[0] = m.Float64Histogram("carafe.request.duration", metric.WithUnit("s"),
		metric.WithDescription("From a request's arrival at a function to the first byte of its answer."),
		metric.WithExplicitBucketBoundaries(requestSeconds...))
	i.calls, errs[1] = m.Float64Histogram("carafe.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Calls to services outside: from the request to the header of the answer."),
		metric.WithExplicitBucketBoundaries(requestSeconds...))
	i.operations, errs[2] = m.Float64Histogram("carafe.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Operations that ended: from the request that recorded them to their end."),
		metric.WithExplicitBucketBoundaries(operationSeconds...))
	i.retries, errs[3] = m.Int64Counter("carafe.operation.retries",
		metric.WithDescription("Attempts of operations that met a passing fault and are tried again."))
	i.leaseLosses, errs[4] = m.Int64Counter("carafe.lease.losses",
		metric.WithDescription("Handlers that found, when they wanted to write, that another holds their operation."))
	i.stuck, errs[5] = m.Int64Counter("carafe.stuck.observations",
		metric.WithDescription("Looks at a cluster in progress of which nothing had moved for long."))
	return i, errors.Join(errs[:]...)
}

func (t *Telemetry) measures() bool { return t != nil && t.meter != nil }

// Operation counts an operation that ended, by its kind (cluster.create) and its
// outcome (succeeded, failed, superseded); took is the time since it was recorded.
func (t *Telemetry) Operation(ctx context.Context, kind, outcome string, took time.Duration) {
	if t.measures() {
		t.operations.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("kind", kind), attribute.String("outcome", outcome)))
	}
}

// Retry counts an attempt of an operation that goes back to pending; reason is the
// fault's code, never its text: texts are without end.
func (t *Telemetry) Retry(ctx context.Context, kind, reason string) {
	if t.measures() {
		t.retries.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", kind), attribute.String("reason", reason)))
	}
}

// LeaseLost counts a handler that was fenced off from its operation.
func (t *Telemetry) LeaseLost(ctx context.Context, kind string) {
	if t.measures() {
		t.leaseLosses.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", kind)))
	}
}

// Stuck counts a look of a driver's at a cluster that is in progress and does not move.
func (t *Telemetry) Stuck(ctx context.Context, driver string) {
	if t.measures() {
		t.stuck.Add(ctx, 1, metric.WithAttributes(attribute.String("driver", driver)))
	}
}

// State is what the database says at one moment; one function's process reports it
// (the relay, which its tick keeps awake), so that the numbers are not added up.
type State struct {
	Clusters   map[string]int64 // by status
	Health     map[string]int64 // clusters by health status; those without are UNKNOWN
	NodeGroups map[string]int64 // by status
	Operations []OperationCount // those that are not finished

	OutboxEvents int64         // accepted and not yet published
	OutboxAge    time.Duration // of the oldest of them
	SyncDue      int64         // clusters whose status should have been looked at
	SyncLag      time.Duration // how long the oldest of them has been due
	HealthDue    int64
	HealthLag    time.Duration
	DeadLetters  int64
}

// OperationCount is a number of operations of one kind in one state.
type OperationCount struct {
	Kind, State string
	Count       int64
}

// ReadState has read called whenever metrics are collected, at most for the time
// that the collection takes. What read returns with an error is left out and the
// error is the SDK's to report. Call it once.
func (t *Telemetry) ReadState(read func(context.Context) (State, error)) error {
	if !t.measures() {
		return nil
	}
	g := gauges{meter: t.meter}
	clusters := g.number("carafe.clusters", "Clusters by status.")
	health := g.number("carafe.clusters.health", "Clusters by health status.")
	nodeGroups := g.number("carafe.nodegroups", "Node groups by status.")
	operations := g.number("carafe.operations", "Operations that are not finished, by kind and state.")
	outboxEvents := g.number("carafe.outbox.events", "Events that are recorded and not yet published.")
	outboxAge := g.seconds("carafe.outbox.age", "Age of the oldest event that is not yet published.")
	syncDue := g.number("carafe.sync.due", "Clusters whose status should have been looked at by now.")
	syncLag := g.seconds("carafe.sync.lag", "How long the one that has waited longest has been due.")
	healthDue := g.number("carafe.health.due", "Clusters whose health should have been looked at by now.")
	healthLag := g.seconds("carafe.health.lag", "How long the one that has waited longest has been due.")
	deadLetters := g.number("carafe.dead.letters", "Events that no function would take, kept for the operator.")
	if g.err != nil {
		return g.err
	}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		s, err := read(ctx)
		if err != nil {
			return err
		}
		by := func(name string, counts map[string]int64, gauge metric.Int64Observable) {
			for value, n := range counts {
				o.ObserveInt64(gauge, n, metric.WithAttributes(attribute.String(name, value)))
			}
		}
		by("status", s.Clusters, clusters)
		by("health_status", s.Health, health)
		by("status", s.NodeGroups, nodeGroups)
		for _, n := range s.Operations {
			o.ObserveInt64(operations, n.Count, metric.WithAttributes(attribute.String("kind", n.Kind), attribute.String("state", n.State)))
		}
		o.ObserveInt64(outboxEvents, s.OutboxEvents)
		o.ObserveFloat64(outboxAge, s.OutboxAge.Seconds())
		o.ObserveInt64(syncDue, s.SyncDue)
		o.ObserveFloat64(syncLag, s.SyncLag.Seconds())
		o.ObserveInt64(healthDue, s.HealthDue)
		o.ObserveFloat64(healthLag, s.HealthLag.Seconds())
		o.ObserveInt64(deadLetters, s.DeadLetters)
		return nil
	}, g.declared...)
	return err
}

// gauges declares gauges and keeps the first error.
type gauges struct {
	meter    metric.Meter
	declared []metric.Observable
	err      error
}

func (g *gauges) number(name, about string) metric.Int64Observable {
	gauge, err := g.meter.Int64ObservableGauge(name, metric.WithDescription(about))
	g.err = errors.Join(g.err, err)
	g.declared = append(g.declared, gauge)
	return gauge
}

func (g *gauges) seconds(name, about string) metric.Float64Observable {
	gauge, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(about))
	g.err = errors.Join(g.err, err)
	g.declared = append(g.declared, gauge)
	return gauge
}
