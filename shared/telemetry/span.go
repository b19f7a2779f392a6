package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Span names a piece of work inside the trace of ctx. The caller ends it with the
// work's error. Without a trace in ctx that is recorded it costs next to nothing.
func Span(ctx context.Context, name string) (context.Context, func(error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(error) {}
	}
	return start(ctx, parent.TracerProvider().Tracer(scope), name)
}

// Work is a Span that may be this process's first in its trace: for work that no
// request brought here, such as an operation that the relay found.
func (t *Telemetry) Work(ctx context.Context, name string) (context.Context, func(error)) {
	if t == nil || t.spans == nil {
		return Span(ctx, name)
	}
	return start(ctx, t.tracer, name)
}

func start(ctx context.Context, tracer trace.Tracer, name string) (context.Context, func(error)) {
	ctx, span := tracer.Start(ctx, name)
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

type logKey struct{}

// With has every log line that is written with the returned context carry attrs
// too: request_id, operation, cluster.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	before, _ := ctx.Value(logKey{}).([]slog.Attr)
	return context.WithValue(ctx, logKey{}, append(before[:len(before):len(before)], attrs...))
}

// Logs has next write, on each line, what With put into the context and the ids of
// the trace.
func Logs(next slog.Handler) slog.Handler { return logs{next} }

type logs struct{ slog.Handler }

func (l logs) Handle(ctx context.Context, r slog.Record) error {
	attrs, _ := ctx.Value(logKey{}).([]slog.Attr)
	r.AddAttrs(attrs...)
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler { return logs{l.Handler.WithAttrs(attrs)} }
func (l logs) WithGroup(name string) slog.Handler       { return logs{l.Handler.WithGroup(name)} }
