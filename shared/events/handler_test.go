package events

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/trace"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

const structured = `{"specversion":"1.0","id":"1","type":"magnum.conductor.sync","source":"/test","subject":"c1",` +
	`"datacontenttype":"application/json","data":{"clusters":["c1"]}}`

func binary(extra ...string) http.Header {
	h := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Type": {Sync}, "Ce-Source": {"/test"}, "Content-Type": {"application/json"}}
	for i := 0; i < len(extra); i += 2 {
		h.Set(extra[i], extra[i+1])
	}
	return h
}

func as(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

func TestHandlerAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		method string
		header http.Header
		body   string
		result error
		panics bool
		want   int
		called bool
	}{
		{name: "Binary", header: binary(), body: `{"clusters":["c1"]}`, want: 204, called: true},
		{name: "Structured", header: as("application/cloudevents+json; charset=utf-8"), body: structured, want: 204, called: true},
		{name: "WithoutData", header: binary(), want: 204, called: true},
		{name: "Batch", header: as("application/cloudevents-batch+json"), body: "[" + structured + "]", want: 415},
		{name: "NoEvent", header: as("application/json"), body: `{}`, want: 400},
		{name: "NotJSON", header: as("application/cloudevents+json"), body: `{"specversion":`, want: 400},
		{name: "WithoutID", header: as("application/cloudevents+json"), body: `{"specversion":"1.0","type":"a","source":"/b"}`, want: 400},
		{name: "OtherSpecVersion", header: binary("ce-specversion", "9.9"), want: 400},
		{name: "EmptyExtensionName", header: binary("Ce-", "x"), want: 400},
		{name: "TwoMegabytes", header: binary(), body: strings.Repeat("x", 2<<20), want: 413},
		{name: "TwoMegabytesStructured", header: as("application/cloudevents+json"), body: `{"data":"` + strings.Repeat("x", 2<<20) + `"}`, want: 413},
		{name: "Get", method: "GET", want: 405},
		{name: "UnknownType", header: binary("ce-type", "magnum.conductor.cluster.explode"), want: 422},
		{name: "Invalid", header: binary(), result: fault.New(fault.Invalid, "no such operation"), want: 422, called: true},
		{name: "Gone", header: binary(), result: fault.New(fault.NotFound, "no such cluster"), want: 422, called: true},
		{name: "Unavailable", header: binary(), result: fault.New(fault.Unavailable, "the database is away"), want: 503, called: true},
		{name: "Race", header: binary(), result: fault.New(fault.Conflict, "changed meanwhile"), want: 503, called: true},
		{name: "Unclassified", header: binary(), result: errors.New("secret of the database"), want: 503, called: true},
		{name: "Panic", header: binary(), panics: true, want: 503, called: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			called := false
			h := Handler(func(_ context.Context, e event.Event) error {
				called = true
				if tc.panics {
					panic("boom")
				}
				return tc.result
			}, Sync)
			if tc.method == "" {
				tc.method = "POST"
			}
			r := httptest.NewRequest(tc.method, "/", strings.NewReader(tc.body))
			if tc.header != nil {
				r.Header = tc.header
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.want || called != tc.called {
				t.Errorf("answered %d %q, called %t; want %d, called %t", w.Code, w.Body, called, tc.want, tc.called)
			}
			if tc.want == 204 && w.Body.Len() > 0 {
				t.Errorf("a success has a body: %q", w.Body)
			}
			if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "goroutine") {
				t.Errorf("the answer tells an internal detail: %q", w.Body)
			}
		})
	}
}

func TestHandlerCarriesOnRequestAndTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h := Handler(func(ctx context.Context, e event.Event) error {
		if got := identity.RequestID(ctx); got != "req-1" {
			t.Errorf("request id %q", got)
		}
		if got := trace.SpanContextFromContext(ctx).TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("trace id %q", got)
		}
		return nil
	})
	r := httptest.NewRequest("POST", "/", nil)
	r.Header = binary("ce-requestid", "req-1", "ce-traceparent", parent)
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// FuzzHandler throws anything at a receiver: it must answer, and only with what
// the broker treats as the doc comment says.
func FuzzHandler(f *testing.F) {
	f.Add("application/cloudevents+json", "1.0", "Ce-Id", "1", structured)
	f.Add("application/json", "1.0", "Ce-", "", "{}")
	f.Add("application/cloudevents-batch+json", "", "Ce-Time", "yesterday", "[]")
	h := Handler(func(context.Context, event.Event) error { return nil })
	f.Fuzz(func(t *testing.T, contentType, version, name, value, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {contentType}, "Ce-Specversion": {version}, http.CanonicalHeaderKey(name): {value}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 204, 400, 413, 415:
		default:
			t.Errorf("answered %d %q", w.Code, w.Body)
		}
	})
}
