// Package capitest has an OpenStack for tests of the Cluster API driver: the
// few answers of Keystone, Nova, Glance, Neutron, Octavia and Cinder that the
// driver reads. It checks nothing and builds nothing.
package capitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// OpenStack answers as Keystone, Nova, Glance, Neutron, Octavia and Cinder
// do, with the few things that a test puts there.
type OpenStack struct {
	*httptest.Server
	mu      sync.Mutex
	things  map[string][]map[string]any
	deleted []string
	refuses bool
}

// New serves one until the test ends.
func New(t testing.TB) *OpenStack {
	t.Helper()
	o := &OpenStack{things: map[string][]map[string]any{}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	return o
}

// Put says what there is at a place: a path and the key in its answer, such as
// "/lb/v2.0/lbaas/loadbalancers loadbalancers"; behind a key with = stands one
// thing, no list.
func (o *OpenStack) Put(place string, list ...map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.things[place] = list
}

// Forget takes everything away.
func (o *OpenStack) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.things = map[string][]map[string]any{}
}

// Refuse makes Keystone refuse the credential, or take it again.
func (o *OpenStack) Refuse(yes bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses = yes
}

// Deleted are the things that were deleted, as <key>/<id>, sorted.
func (o *OpenStack) Deleted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.deleted))
}

func (o *OpenStack) serve(w http.ResponseWriter, q *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	path := strings.TrimSuffix(q.URL.Path, "/")
	if path == "/v3/auth/tokens" {
		if o.refuses {
			answer(401, map[string]any{"error": map[string]any{"code": 401, "message": "Could not find Application Credential: f1d2."}})
			return
		}
		var catalog []any
		for kind, at := range map[string]string{"compute": "/compute/v2.1", "image": "/image/v2", "network": "/network/v2.0", "load-balancer": "/lb/v2.0", "block-storage": "/volume/v3"} {
			catalog = append(catalog, map[string]any{"type": kind, "name": kind, "endpoints": []any{
				map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": o.URL + at},
			}})
		}
		w.Header().Set("X-Subject-Token", "token")
		answer(201, map[string]any{"token": map[string]any{"catalog": catalog, "expires_at": "2099-01-01T00:00:00.000000Z", "methods": []any{"application_credential"}}})
		return
	}
	for place, list := range o.things {
		at, key, _ := strings.Cut(place, " ")
		base := strings.TrimSuffix(at, "/detail")
		switch {
		case path == at && strings.HasPrefix(key, "="):
			answer(200, map[string]any{key[1:]: list[0]})
			return
		case path == at && q.Method == http.MethodGet:
			var out []map[string]any
			for _, x := range list {
				if name := q.URL.Query().Get("name"); name == "" || x["name"] == name {
					out = append(out, x)
				}
			}
			answer(200, map[string]any{key: out})
			return
		case path == base && q.Method == http.MethodPost:
			var body map[string]map[string]any
			_ = json.NewDecoder(q.Body).Decode(&body)
			one := strings.TrimSuffix(key, "s")
			made := body[one]
			made["id"] = uuid.NewString()
			o.things[place] = append(list, made)
			answer(200, map[string]any{one: made})
			return
		case strings.HasPrefix(path, base+"/"):
			id := path[strings.LastIndex(path, "/")+1:]
			i := slices.IndexFunc(list, func(x map[string]any) bool { return x["id"] == id })
			if i < 0 {
				continue
			}
			if q.Method == http.MethodDelete {
				o.deleted = append(o.deleted, key+"/"+id)
				o.things[place] = slices.Delete(list, i, i+1)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			if strings.HasPrefix(path, "/image") {
				answer(200, list[i])
				return
			}
			answer(200, map[string]any{strings.TrimSuffix(key, "s"): list[i]})
			return
		}
	}
	answer(404, map[string]any{"itemNotFound": map[string]any{"code": 404, "message": "nothing at " + path}})
}
