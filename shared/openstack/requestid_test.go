package openstack_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"carafe/shared/barbican"
	"carafe/shared/identity"
	"carafe/shared/keystone"
	"carafe/shared/openstack"
)

// TestEveryServiceIsToldTheCallersRequestID: B02. The services answer that
// nothing is there; what matters is what they were asked with.
func TestEveryServiceIsToldTheCallersRequestID(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[string]map[string]bool{} // service: request ids
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service, _, _ := strings.Cut(r.URL.Path[1:], "/")
		mu.Lock()
		if told[service] == nil {
			told[service] = map[string]bool{}
		}
		told[service][r.Header.Get("X-OpenStack-Request-Id")] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v3/auth/tokens" {
			http.NotFound(w, r)
			return
		}
		var catalog []any
		for _, s := range []keystone.Service{keystone.Barbican, keystone.Glance, keystone.Neutron, keystone.Nova} {
			catalog = append(catalog, map[string]any{"type": s.Type, "endpoints": []any{
				map[string]any{"interface": "public", "region": "R", "region_id": "R", "url": server.URL + "/" + s.Name}}})
		}
		w.Header().Set("X-Subject-Token", "service")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{ // the client may be gone
			"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "user": map[string]any{"id": "u1"},
			"project": map[string]any{"id": "p1"}, "roles": []any{map[string]any{"name": "member"}}, "catalog": catalog}})
	}))
	t.Cleanup(server.Close)
	k, err := keystone.New(keystone.Config{URL: server.URL, Username: "carafe", Password: "x", UserDomainName: "Default", ProjectName: "service", ProjectDomainName: "Default",
		Region: "R", Interface: "public", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	const global = "req-11111111-2222-3333-4444-555555555555"
	ctx := identity.WithRequestIDs(t.Context(), "req-ours", global)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/clusters", nil)
	r.Header.Set("X-Auth-Token", "user")
	caller, err := k.Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openstack.Checks{Cloud: openstack.New(k)}.Cluster(ctx, caller, openstack.Names{Image: "i", Flavor: ptr("f"),
		MasterFlavor: ptr("g"), ExternalNetwork: ptr("e"), FixedNetwork: ptr("n"), FixedSubnet: ptr("s"), Keypair: ptr("k")})
	if err == nil {
		t.Error("everything is there")
	}
	if _, err := k.CreateApplicationCredential(ctx, caller, "c1", "c1"); err == nil {
		t.Error("a credential out of nowhere")
	}
	if _, err := barbican.New(k).Store(ctx, "n", []byte("c"), []byte("k")); err == nil {
		t.Error("stored in nothing")
	}
	for _, service := range []string{"v3", "Barbican", "Glance", "Neutron", "Nova"} {
		if ids := told[service]; len(ids) != 1 || !ids[global] {
			t.Errorf("%s was told %v", service, ids)
		}
	}
}
