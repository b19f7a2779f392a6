package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Middleware measures the requests and events that a function answers, and has its
// handler go on with the trace of whoever asked: an event's own traceparent says
// more than that of the broker that delivered it, so it comes first.
func (t *Telemetry) Middleware(function string, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	var labels labelCache
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if parent := callersTraceparent(r.Header); parent != "" {
			ctx = Continue(ctx, parent)
		}
		if !t.measures() {
			if ctx != r.Context() {
				r = r.WithContext(ctx)
			}
			next.ServeHTTP(w, r)
			return
		}
		var span trace.Span
		if t.spans != nil {
			ctx, span = t.tracer.Start(ctx, function+" "+knownMethod(r.Method), trace.WithSpanKind(trace.SpanKindServer),
				trace.WithAttributes(
					attribute.String("faas.name", function),
					attribute.String("http.request.method", knownMethod(r.Method)),
					attribute.String("url.path", r.URL.Path)))
		}
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		answer := &answer{ResponseWriter: w, began: time.Now()}
		returned := false
		defer func() { // also when the handler panics, which is for the server to catch
			answer.note(http.StatusOK) // who wrote nothing said 200
			status := answer.status
			if !returned {
				status = http.StatusInternalServerError
			}
			t.requests.Record(ctx, answer.took.Seconds(), labels.of("function", function, r.Method, status))
			if span != nil {
				span.SetAttributes(attribute.Int("http.response.status_code", status))
				if status >= 500 {
					span.SetStatus(codes.Error, http.StatusText(status))
				}
				span.End()
			}
		}()
		next.ServeHTTP(answer, r)
		returned = true
	})
}

// callersTraceparent is the event's in binary mode, else the request's.
func callersTraceparent(h http.Header) string {
	if parent := h.Get("Ce-Traceparent"); parent != "" {
		return parent
	}
	return h.Get("Traceparent")
}

// answer notes when and how a handler answers. The work that follows an answer that
// has already left (publishing, for one) is not the caller's wait.
type answer struct {
	http.ResponseWriter
	began  time.Time
	took   time.Duration
	status int
}

func (a *answer) note(status int) {
	if a.status == 0 && status >= 200 {
		a.status, a.took = status, time.Since(a.began)
	}
}

func (a *answer) WriteHeader(status int) {
	a.note(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.note(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush is for those who ask for an http.Flusher.
func (a *answer) Flush() {
	a.note(http.StatusOK)
	_ = http.NewResponseController(a.ResponseWriter).Flush() // as http.Flusher has it: what cannot flush does not
}

// Transport measures the calls to a service outside (keystone, barbican, kubernetes)
// and sends the trace along. base nil is http.DefaultTransport.
func (t *Telemetry) Transport(service string, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if t == nil {
		return base
	}
	return &transport{t: t, service: service, base: base}
}

type transport struct {
	t       *Telemetry
	service string
	base    http.RoundTripper
	labels  labelCache
}

func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := Span(r.Context(), c.service+" "+knownMethod(r.Method))
	if parent := Traceparent(ctx); parent != "" {
		r = r.Clone(ctx) // a RoundTripper must not change its caller's request
		r.Header.Set("Traceparent", parent)
	}
	began := time.Now()
	response, err := c.base.RoundTrip(r)
	status := 0
	if err == nil {
		status = response.StatusCode
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if c.t.measures() {
		c.t.calls.Record(ctx, time.Since(began).Seconds(), c.labels.of("service", c.service, r.Method, status))
	}
	end(err)
	return response, err
}

// labelCache keeps the attribute sets of one function or service: they are few, and
// to build one costs more than to record with it.
type labelCache struct{ sets sync.Map }

type labelKey struct {
	method string
	status int
}

// of gives the label that key names, the method and the status; a call that got no
// answer has the code "none".
func (c *labelCache) of(key, value, method string, status int) metric.MeasurementOption {
	k := labelKey{knownMethod(method), status}
	if set, ok := c.sets.Load(k); ok {
		return set.(metric.MeasurementOption)
	}
	code := "none"
	if status != 0 {
		code = strconv.Itoa(status)
	}
	set := metric.WithAttributeSet(attribute.NewSet(
		attribute.String(key, value), attribute.String("method", k.method), attribute.String("code", code)))
	c.sets.Store(k, set)
	return set
}

// knownMethod keeps labels few whatever a client sends.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	case "":
		return http.MethodGet // of a client's request
	}
	return "other"
}

var traceContext propagation.TraceContext

// Traceparent is the W3C header value for ctx's trace, "" without one: what an
// operation's row and an event keep, so that whoever goes on with the work goes on
// with the trace.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// Continue has ctx go on with the trace that traceparent names; one that is not
// valid changes nothing.
func Continue(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
