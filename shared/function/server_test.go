package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/events"
	"carafe/triggers"
)

// begin serves until stop is called, and gives the address and how it ended.
func begin(t *testing.T, s *Server) (url string, stop context.CancelFunc, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	return "http://" + l.Addr().String(), cancel, ended
}

func get(url string, header ...string) (int, string) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestProbes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		path   string
		agent  string
		ready  error
		status int
		body   string
	}{
		{"Live", "/livez", "curl/8", nil, 200, "ok"},
		{"LiveWithoutDatabase", "/livez", "curl/8", errors.New("away"), 200, "ok"},
		{"Ready", "/readyz", "curl/8", nil, 200, "ok"},
		{"NotReady", "/readyz", "curl/8", errors.New("password of the database"), 503, "not ready"},
		{"KubeletLive", "/livez", "kube-probe/1.34", errors.New("away"), 200, "ok"},
		{"KubeletReady", "/", "kube-probe/1.34", nil, 200, "ok"},
		{"KubeletNotReady", "/", "kube-probe/1.34", errors.New("away"), 503, "not ready"},
		{"Other", "/v1/clusters", "curl/8", errors.New("away"), 200, "the function: /v1/clusters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url, _, _ := begin(t, &Server{Grace: time.Second, Ready: func(context.Context) error { return tc.ready },
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "the function:", r.URL.Path) })})
			status, body := get(url+tc.path, "User-Agent", tc.agent)
			if status != tc.status || body != tc.body {
				t.Errorf("%d %q, want %d %q", status, body, tc.status, tc.body)
			}
		})
	}
}

func TestRequestsInFlightAreAnswered(t *testing.T) {
	t.Parallel()
	inside, goOn := make(chan bool), make(chan bool)
	url, stop, ended := begin(t, &Server{Grace: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside <- true
		<-goOn
		if r.Context().Err() != nil {
			t.Error("the request was cut off")
		}
		// What comes after the answer is waited for, too.
		fmt.Fprint(w, "done")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(50 * time.Millisecond)
		close(inside)
	})})
	answered := make(chan string, 1)
	go func() { _, body := get(url); answered <- body }()
	<-inside
	stop()
	time.Sleep(20 * time.Millisecond) // the listener closes meanwhile
	close(goOn)
	if got := <-answered; got != "done" {
		t.Errorf("answered %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, open := <-inside; open {
		t.Error("Serve returned before the handler did")
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	inside := make(chan bool)
	url, stop, ended := begin(t, &Server{Grace: 50 * time.Millisecond, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})})
	go get(url)
	<-inside
	stop()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "were cut off") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}

func TestDrainFailsProbesAndAnswersTheRest(t *testing.T) {
	t.Parallel()
	url, stop, ended := begin(t, &Server{Quiet: 300 * time.Millisecond, Grace: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "served")
	})})
	if status, _ := get(url, "User-Agent", "kube-probe/1"); status != 200 {
		t.Fatalf("before: %d", status)
	}
	stop()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := get(url, "User-Agent", "kube-probe/1"); status == 503 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the probe goes on succeeding")
		}
	}
	if status, body := get(url); status != 200 || body != "served" {
		t.Errorf("a request during the drain: %d %q", status, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// takes is a function that takes events and notes its name.
func takes(name string, seen *[]string) Built {
	return Built{Function: Function{Name: name, Kind: Event}, Handler: events.Handler(func(context.Context, event.Event) error {
		*seen = append(*seen, name)
		return nil
	})}
}

func TestEventsReachTheirFunctions(t *testing.T) {
	t.Parallel()
	routes, err := events.ReadRoutes(triggers.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		functions   []string
		takesEvents bool
		path        string
		typ         string
		status      int
		want        string
	}{
		{"AloneTakesAll", []string{"deadletter"}, true, "/", "whatever", 204, "deadletter"},
		{"SeveralByTheRoutes", []string{"clustercreate", "clusterdelete"}, true, "/", events.ClusterDelete, 204, "clusterdelete"},
		{"SeveralByName", []string{"clustercreate", "clusterdelete"}, true, "/events/clustercreate", "whatever", 204, "clustercreate"},
		{"SeveralUnknownType", []string{"clustercreate", "clusterdelete"}, true, "/", "whatever", 422, ""},
		{"EmbeddedTakesNone", []string{"clustercreate", "clusterdelete"}, false, "/", events.ClusterDelete, 404, ""},
		{"EmbeddedTakesNoneByName", []string{"clustercreate", "clusterdelete"}, false, "/events/clustercreate", events.ClusterDelete, 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			var built []Built
			for _, name := range tc.functions {
				built = append(built, takes(name, &seen))
			}
			r := httptest.NewRequest("POST", tc.path, nil)
			r.Header = http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/test"}, "Ce-Type": {tc.typ}}
			w := httptest.NewRecorder()
			Router(built, routes, tc.takesEvents).ServeHTTP(w, r)
			if got := strings.Join(seen, " "); w.Code != tc.status || got != tc.want {
				t.Errorf("%d, went to %q; want %d and %q", w.Code, got, tc.status, tc.want)
			}
		})
	}
}

func TestLocalOnly(t *testing.T) {
	t.Parallel()
	h := LocalOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:9511": 200, "127.0.0.1": 200, "localhost:9511": 200, "[::1]:9511": 200, "[::1]": 200,
		"magnum.example:9511": 421, "": 421, "192.0.2.1": 421, "localhost.example": 421,
	} {
		r := httptest.NewRequest("GET", "/v1", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	all := []Function{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got, err := Pick(all, []string{"c", "a", "c"})
	if err != nil || names(got) != "a c" {
		t.Errorf("%q, %v", names(got), err)
	}
	if _, err := Pick(all, []string{"a", "x"}); err == nil || err.Error() != `there is no function "x"; there are: a b c` {
		t.Errorf("%v", err)
	}
}
