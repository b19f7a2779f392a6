package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// A Keystone that misbehaves on purpose; how the real one behaves, the tests
// behind the build tag openstack say.
type badKeystone struct {
	*httptest.Server
	mu        sync.Mutex
	tokens    map[string]string                             // X-Subject-Token: the document's "token"
	answer    func(http.ResponseWriter, *http.Request) bool // true: it has answered
	asked     atomic.Int32
	logins    atomic.Int32
	life      time.Duration // of the service user's token
	lastQuery atomic.Value
}

func newBadKeystone(t *testing.T) *badKeystone {
	t.Helper()
	k := &badKeystone{tokens: map[string]string{}, life: time.Hour}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	return k
}

func (k *badKeystone) fails(answer func(http.ResponseWriter, *http.Request) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answer = answer
}

func (k *badKeystone) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	answer := k.answer
	k.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	switch {
	case r.URL.Path != "/v3/auth/tokens":
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		n := k.logins.Add(1)
		w.Header().Set("X-Subject-Token", fmt.Sprint("service-", n))
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
			"expires_at": time.Now().Add(k.life).UTC().Format(time.RFC3339), "user": map[string]any{"id": "carafe"},
		}})
	default:
		k.asked.Add(1)
		k.lastQuery.Store(r.URL.RawQuery)
		if r.Header.Get("X-Auth-Token") != fmt.Sprint("service-", k.logins.Load()) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		k.mu.Lock()
		doc, ok := k.tokens[r.Header.Get("X-Subject-Token")]
		k.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"token": %s}`, doc)
	}
}

func (k *badKeystone) knows(token, roles string, life time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[token] = fmt.Sprintf(`{"expires_at": %q, "user": {"id": "u1", "name": "alice", "domain": {"id": "default", "name": "Default"}},
		"project": {"id": "p1", "name": "demo", "domain": {"id": "default", "name": "Default"}}, "roles": [%s],
		"catalog": [{"type": "compute", "endpoints": [
			{"interface": "internal", "region": "R", "region_id": "R", "url": "http://internal/v2.1"},
			{"interface": "public", "region": "R", "region_id": "R", "url": "http://nova/v2.1"},
			{"interface": "public", "region": "Q", "region_id": "Q", "url": "http://elsewhere/v2.1"}]}]}`,
		time.Now().Add(life).UTC().Format(time.RFC3339Nano), roles)
}

func testConfig(address string) Config {
	return Config{
		URL: address, Username: "carafe", Password: "secret", UserDomainName: "Default",
		ProjectName: "service", ProjectDomainName: "Default", Region: "R", Interface: "public",
		Timeout: 5 * time.Second, TokenCacheTime: 300 * time.Second, TokenCacheSize: 100,
		ServiceTokenRoles: []string{"service"}, ServiceTokenRolesRequired: true,
	}
}

func newTestClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/clusters", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func wantKind(t *testing.T, err error, want fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != want {
		t.Errorf("error is %v of kind %d, want kind %d", err, fault.KindOf(err), want)
	}
}

const member = `{"id": "r1", "name": "member"}`

func TestAuthenticateBelievesOnlyTheToken(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("good", member, time.Hour)
	c := newTestClient(t, testConfig(k.URL))
	got, err := c.Authenticate(request("X-Auth-Token", "good",
		"X-Roles", "admin", "X-User-Id", "root", "X-Project-Id", "p0", "X-Is-Admin", "true"))
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Caller{
		UserID: "u1", UserName: "alice", UserDomainID: "default", UserDomainName: "Default",
		ProjectID: "p1", ProjectName: "demo", ProjectDomainID: "default",
		Roles: []string{"member"}, Token: "good",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, r := range []*http.Request{
		request(), request("X-Auth-Token", "unknown"), request("X-Auth-Token", strings.Repeat("x", 20000)),
		request("X-User-Id", "u1", "X-Roles", "member"),
	} {
		_, err := c.Authenticate(r)
		wantKind(t, err, fault.Unauthenticated)
	}
}

func TestManyRequestsWithOneTokenAskOnce(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("good", member, time.Hour)
	c := newTestClient(t, testConfig(k.URL))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := c.Authenticate(request("X-Auth-Token", "good")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 3 {
		_, err := c.Authenticate(request("X-Auth-Token", "bad"))
		wantKind(t, err, fault.Unauthenticated)
	}
	if n := k.asked.Load(); n != 2 {
		t.Errorf("Keystone was asked %d times about two tokens", n)
	}
}

func TestCacheEndsWithItsTimeAndWithTheToken(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("long", member, time.Hour)
	k.knows("short", member, 100*time.Second)
	c := newTestClient(t, testConfig(k.URL))
	var passed atomic.Int64
	c.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	check := func(token string, asked int32) {
		t.Helper()
		if _, err := c.Authenticate(request("X-Auth-Token", token)); err != nil {
			t.Error(err)
		}
		if n := k.asked.Load(); n != asked {
			t.Errorf("asked %d times, want %d", n, asked)
		}
	}
	check("long", 1)
	check("short", 2)
	passed.Store(int64(99 * time.Second))
	check("short", 2)
	passed.Store(int64(101 * time.Second))
	_, err := c.Authenticate(request("X-Auth-Token", "short"))
	wantKind(t, err, fault.Unauthenticated)
	check("long", 3)
	passed.Store(int64(301 * time.Second))
	check("long", 4)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	cfg := testConfig(k.URL)
	cfg.TokenCacheSize = 10
	c := newTestClient(t, cfg)
	for i := range 40 {
		_, _ = c.Authenticate(request("X-Auth-Token", fmt.Sprint("no", i)))
	}
	if n := c.known.Len(); n != 10 {
		t.Errorf("%d tokens remembered", n)
	}
}

func TestAnOutageIsNot401AndSparesCachedTokens(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"500":     func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true },
		"503":     func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true },
		"429":     func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(429); return true },
		"garbage": func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true },
		"empty":   func(http.ResponseWriter, *http.Request) bool { return true },
		"null":    func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("null")); return true },
		"object": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"token": {}}`))
			return true
		},
		"kind": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"token": [1]}`))
			return true
		},
		"truncated": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"token": {"user"`))
			return true
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"token": "` + strings.Repeat("x", maxAnswer+1) + `"}`))
			return true
		},
		"cut":  func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"slow": func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		// the service user may not validate tokens: our trouble, not the caller's
		"403": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(403); return true },
		"401": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(401); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newBadKeystone(t)
			k.knows("cached", member, time.Hour)
			k.knows("fresh", member, time.Hour)
			cfg := testConfig(k.URL)
			cfg.Timeout = 300 * time.Millisecond
			c := newTestClient(t, cfg)
			if _, err := c.Authenticate(request("X-Auth-Token", "cached")); err != nil {
				t.Fatal(err)
			}
			k.fails(answer)
			_, err := c.Authenticate(request("X-Auth-Token", "fresh"))
			wantKind(t, err, fault.Unavailable)
			if text := fault.Text(err); text != "The Keystone service is temporarily unavailable." {
				t.Errorf("text is %q", text)
			}
			if strings.Contains(err.Error(), "fresh") || strings.Contains(err.Error(), "service-1") {
				t.Errorf("a token is in the error: %v", err)
			}
			if _, err := c.Authenticate(request("X-Auth-Token", "cached")); err != nil {
				t.Errorf("a cached token fails: %v", err)
			}
			k.fails(nil)
			if _, err := c.Authenticate(request("X-Auth-Token", "fresh")); err != nil {
				t.Errorf("after the outage: %v", err)
			}
		})
	}
}

func TestStartsWhileKeystoneIsDown(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("good", member, time.Hour)
	for _, status := range []int{500, 401, 404} {
		c := newTestClient(t, testConfig(k.URL))
		k.fails(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
		_, err := c.Authenticate(request("X-Auth-Token", "good"))
		wantKind(t, err, fault.Unavailable)
		k.fails(nil)
		if _, err := c.Authenticate(request("X-Auth-Token", "good")); err != nil {
			t.Errorf("after %d: %v", status, err)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	_, err := newTestClient(t, testConfig(gone.URL)).Authenticate(request("X-Auth-Token", "good"))
	wantKind(t, err, fault.Unavailable)
}

func TestServiceTokenIsRenewed(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	cfg := testConfig(k.URL)
	c := newTestClient(t, cfg)
	k.life = 8 * time.Second // renewed in its last 2 s
	_, _ = c.Authenticate(request("X-Auth-Token", "a"))
	_, _ = c.Authenticate(request("X-Auth-Token", "b"))
	if n := k.logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
	time.Sleep(6500 * time.Millisecond) // gophercloud looks at the wall clock
	_, _ = c.Authenticate(request("X-Auth-Token", "c"))
	if n := k.logins.Load(); n != 2 {
		t.Errorf("%d logins when the token is about to end", n)
	}
	k.logins.Add(1) // Keystone has forgotten it
	k.knows("d", member, time.Hour)
	if _, err := c.Authenticate(request("X-Auth-Token", "d")); err != nil {
		t.Errorf("with a revoked service token: %v", err)
	}
	if n := k.logins.Load(); n != 4 {
		t.Errorf("%d logins after the token was refused", n)
	}
}

func TestServiceTokenVouchesForAnExpiredOne(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("expired", member, -time.Minute)
	k.knows("service", `{"name": "Service"}`, time.Hour)
	k.knows("user", member, time.Hour)
	c := newTestClient(t, testConfig(k.URL))
	_, err := c.Authenticate(request("X-Auth-Token", "expired"))
	wantKind(t, err, fault.Unauthenticated)
	if _, err := c.Authenticate(request("X-Auth-Token", "expired", "X-Service-Token", "service")); err != nil {
		t.Errorf("vouched for: %v", err)
	}
	if q := k.lastQuery.Load(); q != "allow_expired=1" {
		t.Errorf("query is %q", q)
	}
	// What the service may do is not lent to those who come without it.
	_, err = c.Authenticate(request("X-Auth-Token", "expired"))
	wantKind(t, err, fault.Unauthenticated)
	_, err = c.Authenticate(request("X-Auth-Token", "expired", "X-Service-Token", "user"))
	wantKind(t, err, fault.Unauthenticated)
	_, err = c.Authenticate(request("X-Auth-Token", "user", "X-Service-Token", "unknown"))
	wantKind(t, err, fault.Unauthenticated)

	cfg := testConfig(k.URL)
	cfg.ServiceTokenRolesRequired = false
	c = newTestClient(t, cfg)
	if _, err := c.Authenticate(request("X-Auth-Token", "user", "X-Service-Token", "user")); err != nil {
		t.Errorf("a service token without the role, where that is all right: %v", err)
	}
	_, err = c.Authenticate(request("X-Auth-Token", "expired", "X-Service-Token", "user"))
	wantKind(t, err, fault.Unauthenticated)
}

func TestOneWhoGoesAwayDoesNotTakeTheAnswerFromOthers(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("warm", member, time.Hour)
	k.knows("good", member, time.Hour)
	c := newTestClient(t, testConfig(k.URL))
	if _, err := c.Authenticate(request("X-Auth-Token", "warm")); err != nil {
		t.Fatal(err)
	}
	asked, release := make(chan struct{}), make(chan struct{})
	k.fails(func(http.ResponseWriter, *http.Request) bool { close(asked); <-release; return false })
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error)
	go func() {
		_, err := c.Authenticate(request("X-Auth-Token", "good").WithContext(ctx))
		first <- err
	}()
	<-asked
	second := make(chan error)
	go func() {
		_, err := c.Authenticate(request("X-Auth-Token", "good"))
		second <- err
	}()
	cancel()
	wantKind(t, <-first, fault.Unavailable)
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.tokens["system"] = `{"expires_at": "2999-01-01T00:00:00.000000Z", "user": {"id": "u"}, "system": {"all": true}, "roles": [{"name": "admin"}]}`
	k.tokens["domain"] = `{"expires_at": "2999-01-01T00:00:00.000000Z", "user": {"id": "u"}, "domain": {"id": "d"}, "roles": []}`
	c := newTestClient(t, testConfig(k.URL))
	if got, err := c.Authenticate(request("X-Auth-Token", "system")); err != nil || !got.SystemScope || got.ProjectID != "" {
		t.Errorf("system: %+v, %v", got, err)
	}
	if got, err := c.Authenticate(request("X-Auth-Token", "domain")); err != nil || got.SystemScope || got.DomainID != "d" {
		t.Errorf("domain: %+v, %v", got, err)
	}
}

func TestCallsCarryWhoAsksAndFindTheEndpoint(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("good", member, time.Hour)
	headers := make(chan http.Header, 10)
	k.fails(func(_ http.ResponseWriter, r *http.Request) bool { headers <- r.Header; return false })
	c := newTestClient(t, testConfig(k.URL))
	r := request("X-Auth-Token", "good")
	r = r.WithContext(identity.WithRequestID(r.Context(), "req-1234"))
	caller, err := c.Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	<-headers // the login
	h := <-headers
	if h.Get("X-OpenStack-Request-Id") != "req-1234" || !strings.HasPrefix(h.Get("User-Agent"), "carafe ") {
		t.Errorf("headers are %v", h)
	}
	sc, err := c.ForCaller(r.Context(), caller, Nova)
	if err != nil || sc.Endpoint != "http://nova/v2.1/" || sc.Token() != "good" {
		t.Errorf("%+v, %v", sc, err)
	}
	_, err = c.ForCaller(r.Context(), caller, Glance)
	wantKind(t, err, fault.Unavailable)
	if !strings.Contains(fault.Text(err), `Glance connection failed. The catalogue has no public endpoint of type image in region "R".`) {
		t.Errorf("text is %q", fault.Text(err))
	}
}

func TestConfigIsRefusedWithAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(Config{URL: "keystone:5000", Interface: "secret", TokenCacheTime: time.Hour})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"CARAFE_KEYSTONE_URL", "CARAFE_KEYSTONE_USERNAME", "CARAFE_OPENSTACK_INTERFACE", "CARAFE_TOKEN_CACHE_TIME", "CARAFE_OPENSTACK_TIMEOUT"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("no word of %s in %v", name, err)
		}
	}
	cfg := testConfig("http://127.0.0.1:1")
	cfg.CAFile = "/dev/null"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Errorf("an empty CA file: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(text, `secret`) && strings.Contains(text, `"secret"`) {
		t.Errorf("the password is printed: %s", text)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	k := newBadKeystone(t)
	k.knows("good", member, time.Hour)
	secure := httptest.NewTLSServer(http.HandlerFunc(k.serve))
	t.Cleanup(secure.Close)
	_, err := newTestClient(t, testConfig(secure.URL)).Authenticate(request("X-Auth-Token", "good"))
	wantKind(t, err, fault.Unavailable)
	cfg := testConfig(secure.URL)
	cfg.CAFile = writeCertificate(t, secure)
	if _, err := newTestClient(t, cfg).Authenticate(request("X-Auth-Token", "good")); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	cfg.CAFile, cfg.Insecure = "", true
	if _, err := newTestClient(t, cfg).Authenticate(request("X-Auth-Token", "good")); err != nil {
		t.Errorf("insecure: %v", err)
	}
}

func TestFaultKeepsFaults(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.Conflict, "mine")
	if got := Fault(Nova, fmt.Errorf("around: %w", f)); !errors.Is(got, f) || fault.KindOf(got) != fault.Conflict {
		t.Errorf("got %v", got)
	}
	if Fault(Nova, nil) != nil {
		t.Error("nil became an error")
	}
}
