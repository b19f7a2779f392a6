package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
	"carafe/triggers"
)

// TestRegistryIsTheTree: a function that is in one of the lists is in all.
func TestRegistryIsTheTree(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders, names, taking []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "carafe" {
			folders = append(folders, e.Name())
		}
	}
	served := map[string]bool{}
	for _, r := range api.Routes {
		served[r.Function] = true
	}
	for _, f := range all {
		names = append(names, f.Name)
		if f.Kind == function.Event || f.Kind == function.Cron {
			taking = append(taking, f.Name)
		}
		if (f.Kind == function.HTTP) != served[f.Name] {
			t.Errorf("%s is of kind %s; the API has routes of it: %t", f.Name, f.Kind, served[f.Name])
		}
		if (f.Kind == function.HTTP) != (f.Handlers != nil) || (f.Kind == function.HTTP) == (f.Build != nil) {
			t.Errorf("%s: an HTTP function has Handlers, the others have Build", f.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(taking)
	if diff := cmp.Diff(folders, names); diff != "" {
		t.Errorf("folders under functions/ (-) and the registry (+):\n%s", diff)
	}
	routes, err := events.ReadRoutes(triggers.FS)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(routes.Functions(), taking); diff != "" {
		t.Errorf("functions in triggers/ (-) and those that take events (+):\n%s", diff)
	}
	ticking := map[string]bool{}
	for _, s := range routes.Schedules {
		ticking[s.Function] = true
	}
	for _, f := range all {
		if (f.Kind == function.Cron) != ticking[f.Name] {
			t.Errorf("%s is of kind %s; it has a PingSource: %t", f.Name, f.Kind, ticking[f.Name])
		}
	}
}

// settings are the environment of a test: what is not named is unset.
func settings(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"CARAFE_LISTEN", "PORT", "K_SINK", "K_SERVICE", "CARAFE_DATABASE_URL", "CARAFE_AUTH_STRATEGY",
		"CARAFE_KEYSTONE_URL", "CARAFE_LOG_LEVEL", "CARAFE_LOG_FORMAT", "CARAFE_SHUTDOWN_GRACE"} {
		if value, ok := env[name]; ok {
			t.Setenv(name, value)
			continue
		}
		t.Setenv(name, "") // restores it after the test
		os.Unsetenv(name)
	}
}

// TestRefusals: whatever is wrong at the start is said in one line each, and
// the line says what to do.
func TestRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nobody := "postgres://carafe@127.0.0.1:1/carafe?connect_timeout=1"
	for _, tc := range []struct {
		name string
		args string
		env  map[string]string
		want string
	}{
		{"UnknownCommand", "brew", nil, `no command "brew"`},
		{"UnknownFunction", "serve clusters teapots", nil, `no function "teapots"; there are: `},
		{"AddonsWhat", "addons", nil, "verify and a folder"},
		{"DoctorOfWhat", "doctor", nil, "CARAFE_DATABASE_URL is not set"},
		{"MigrateWhat", "migrate", nil, "up or status"},
		{"Malformed", "serve", map[string]string{"CARAFE_LOG_LEVEL": "loud", "CARAFE_SHUTDOWN_GRACE": "long"},
			"CARAFE_LOG_LEVEL is \"loud\": it takes debug, info, warn or error\nCARAFE_SHUTDOWN_GRACE is \"long\": it takes a duration"},
		{"NoauthEverywhere", "serve", map[string]string{"CARAFE_LISTEN": ":9511"}, "noauth believes everyone"},
		{"NoauthOnKnative", "serve relay", map[string]string{"PORT": "8080"}, "noauth believes everyone"},
		{"NoauthOtherAddress", "serve", map[string]string{"CARAFE_LISTEN": "192.0.2.1:9511"}, "loopback"},
		{"KeystoneWhere", "serve", map[string]string{"CARAFE_AUTH_STRATEGY": "keystone"}, "CARAFE_KEYSTONE_URL is not set"},
		{"NoPort", "serve", map[string]string{"CARAFE_LISTEN": "localhost"}, "host:port"},
		{"NamesWithoutDatabase", "serve relay", nil, "CARAFE_DATABASE_URL is not set"},
		{"PortInUse", "serve", map[string]string{"CARAFE_LISTEN": taken.Addr().String(), "CARAFE_DATABASE_URL": nobody}, "is in use: stop what listens there"},
		{"DatabaseAway", "serve", map[string]string{"CARAFE_LISTEN": "127.0.0.1:0", "CARAFE_DATABASE_URL": nobody}, "the database cannot be reached"},
		{"DatabaseMalformed", "migrate up", map[string]string{"CARAFE_DATABASE_URL": "postgres://%zz"}, "not a PostgreSQL connection string"},
		{"SomeHTTPFunctions", "serve clusters quotas", map[string]string{"CARAFE_LISTEN": "127.0.0.1:0", "CARAFE_DATABASE_URL": nobody}, "one HTTP function or all of them"},
		{"SinkMalformed", "serve relay", map[string]string{"CARAFE_LISTEN": "127.0.0.1:0", "CARAFE_DATABASE_URL": nobody, "K_SINK": "broker"}, "K_SINK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			settings(t, tc.env)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := run(ctx, strings.Fields(tc.args), io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if lines := strings.Count(err.Error(), "\n"); lines > strings.Count(tc.want, "\n") {
				t.Errorf("more than a line:\n%s", err)
			}
		})
	}
}

func TestMigrate(t *testing.T) {
	settings(t, map[string]string{"CARAFE_DATABASE_URL": pgtest.Empty(t)})
	said := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := said("migrate", "status"); !strings.Contains(got, "pending") || strings.Contains(got, "applied") {
		t.Errorf("before: %s", got)
	}
	var together sync.WaitGroup
	for range 5 { // processes that start at the same time
		together.Go(func() {
			if err := run(t.Context(), []string{"migrate", "up"}, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if got := said("migrate", "status"); strings.Contains(got, "pending") {
		t.Errorf("after: %s", got)
	}
}

func TestDoctor(t *testing.T) {
	said := func() (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), []string{"doctor"}, &out)
		return out.String(), err
	}
	settings(t, map[string]string{"CARAFE_DATABASE_URL": pgtest.Empty(t)})
	if out, err := said(); err == nil || !strings.Contains(out, "run carafe migrate up") {
		t.Errorf("without a schema: %v\n%s", err, out)
	}
	url := pgtest.URL(t)
	settings(t, map[string]string{"CARAFE_DATABASE_URL": url})
	if out, err := said(); err != nil || strings.Contains(out, "NOT OK") {
		t.Errorf("in order: %v\n%s", err, out)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	long := time.Now().Add(-10 * time.Minute)
	err = db.Events.Add(t.Context(), magnum.Event{ID: uuid.NewString(), Type: events.Sync, Source: "/test", Subject: "c1", Data: []byte("{}"), CreatedAt: long})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Events.Bury(t.Context(), postgres.DeadLetter{EventID: "1", Source: "/test", Type: events.Sync, ReceivedAt: long}); err != nil {
		t.Fatal(err)
	}
	out, err := said()
	if err == nil || !strings.Contains(out, "1 events wait, the oldest for 10m") || !strings.Contains(out, "1 events were not taken") {
		t.Errorf("with an event that does not leave, and one that nobody took: %v\n%s", err, out)
	}
}

// serving runs carafe in this process until the test ends, and gives its address.
func serving(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	env["CARAFE_LISTEN"] = address
	settings(t, env)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append([]string{"serve"}, args...), io.Discard) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("carafe ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("carafe does not end")
		}
	})
	url := "http://" + address
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if status(t, url+function.LivePath, "") == http.StatusOK {
			return url
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("carafe ended: %v", err)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("carafe does not answer")
		}
	}
}

// status is that of a GET, 0 if there is no answer.
func status(t *testing.T, url, userAgent string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if userAgent != "" {
		req.Header.Set("User-Agent", userAgent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestOneFunctionAsOnKnative(t *testing.T) {
	url := serving(t, map[string]string{"CARAFE_DATABASE_URL": pgtest.URL(t)}, "deadletter")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200} {
		if got := status(t, url+path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := status(t, url+"/", "kube-probe/1.34"); got != 200 {
		t.Errorf("the kubelet's probe: %d", got)
	}
	for _, tc := range []struct {
		name, contentType, body string
		want                    int
	}{
		{"Event", "application/cloudevents+json", `{"specversion":"1.0","id":"1","type":"a","source":"/b","data":{}}`, 204},
		{"NoEvent", "application/json", `{}`, 400},
		{"Batch", "application/cloudevents-batch+json", `[]`, 415},
		{"TwoMegabytes", "application/cloudevents+json", `{"specversion":"1.0","id":"1","type":"a","source":"/b","data":"` + strings.Repeat("x", 2<<20) + `"}`, 413},
	} {
		resp, err := http.Post(url, tc.contentType, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, resp.StatusCode, tc.want)
		}
	}
}

func TestReadinessTellsTheTruth(t *testing.T) {
	url := serving(t, map[string]string{"CARAFE_DATABASE_URL": pgtest.Empty(t)}, "deadletter")
	if live, ready := status(t, url+"/livez", ""), status(t, url+"/readyz", ""); live != 200 || ready != 503 {
		t.Errorf("without a schema: live %d, ready %d; want 200 and 503", live, ready)
	}
	if got := status(t, url+"/", "kube-probe/1.34"); got != 503 {
		t.Errorf("the kubelet's probe: %d, want 503", got)
	}
}

// TestWithABrokerOutside is all of Carafe in one process as on Knative: events
// leave for K_SINK, and come back by POST, as do the ticks.
func TestWithABrokerOutside(t *testing.T) {
	var url string
	var mu sync.Mutex
	sent := map[string]int{}
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		typ := r.Header.Get("Ce-Type")
		mu.Lock()
		sent[typ]++
		mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		if !strings.HasPrefix(typ, "magnum.conductor.") {
			return
		}
		event, err := http.NewRequest(http.MethodPost, url, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		event.Header = r.Header.Clone()
		resp, err := http.DefaultClient.Do(event)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s: answered %d", typ, resp.StatusCode)
		}
	}))
	defer broker.Close()
	url = serving(t, map[string]string{"CARAFE_DATABASE_URL": pgtest.URL(t), "K_SINK": broker.URL})

	call(t, "POST", url+"/v1/clustertemplates", `{"name":"small","coe":"kubernetes","image_id":"ubuntu","external_network_id":"public",
		"flavor_id":"m1.small","master_flavor_id":"m1.small","labels":{"kube_tag":"v1.34.1"}}`)
	call(t, "POST", url+"/v1/clusters", `{"name":"c1","cluster_template_id":"small","node_count":1}`)
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		tick, err := http.NewRequest(http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		tick.Header = http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Type": {events.Tick},
			"Ce-Source": {"/apis/v1/namespaces/clouds/pingsources/statussync"}}
		resp, err := http.DefaultClient.Do(tick)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Fatalf("tick: %d", resp.StatusCode)
		}
		cluster := call(t, "GET", url+"/v1/clusters/c1", "")
		if strings.Contains(cluster, `"CREATE_COMPLETE"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster does not get ready: %s", cluster)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if sent[events.ClusterCreate] != 1 || sent[events.NotifyClusterCreate] == 0 {
		t.Errorf("the broker got %v", sent)
	}
}

// call makes a request as a client does, and gives the answer's body.
func call(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "container-infra latest")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s (%v)", method, url, resp.StatusCode, answer, err)
	}
	return string(answer)
}

func TestFunctionsAreListed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := list(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.Contains(out.String(), fmt.Sprintf("\n%s ", f.Name)) {
			t.Errorf("%s is not listed:\n%s", f.Name, &out)
		}
	}
}
