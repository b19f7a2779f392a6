package events

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// InProcess delivers HTTP requests to handlers of this process, by the host that
// the URL names: http://clustercreate goes to the handler "clustercreate". The
// handlers cannot tell it from a request that came over the network.
type InProcess map[string]http.Handler

// RoundTrip serves the request in the caller's goroutine.
func (p InProcess) RoundTrip(req *http.Request) (_ *http.Response, err error) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	defer req.Body.Close()
	a := &answerBuffer{header: http.Header{}}
	h, ok := p[req.URL.Host]
	if !ok {
		h = http.NotFoundHandler() // as a cluster answers for a Service that it lacks
	}
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(req.Context(), "panic in a function", "function", req.URL.Host, "stack", string(debug.Stack()))
			err = fmt.Errorf("%s panicked: %v", req.URL.Host, p)
		}
	}()
	h.ServeHTTP(a, in)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: req,
	}, nil
}

// answerBuffer is the http.ResponseWriter of a request in process.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerBuffer) Header() http.Header { return a.header }

func (a *answerBuffer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *answerBuffer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// Flush is here for handlers that ask for it: all is delivered at the end.
func (a *answerBuffer) Flush() {}
