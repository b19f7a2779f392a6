package api

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"carafe/shared/identity"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// What every request pays before and after its handler.
func BenchmarkMiddleware(b *testing.B) {
	handlers := map[string]Handler{}
	for _, r := range Routes {
		handlers[r.Operation] = func(w http.ResponseWriter, _ *http.Request) error { return NoContent(w) }
	}
	rt, err := NewRouter(Config{Authenticator: tokens{"demo": {ProjectID: "p"}}}, All, handlers)
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"/v1/clusters", "/v1/clusters?limit=10&sort_key=name", "/v1/clusters/5d12f6fd-a196-4bf0-ae4c-1f639a523a53"} {
		b.Run(path, func(b *testing.B) {
			r := httptest.NewRequest("GET", "http://h"+path, nil)
			r.Header.Set("X-Auth-Token", "demo")
			r.Header.Set("OpenStack-API-Version", "container-infra latest")
			r.Header.Set("Accept", "application/json")
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				rt.ServeHTTP(w, r)
			}
		})
	}
}

type benchCluster struct {
	UUID      string            `json:"uuid"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
	Links     []Link            `json:"links"`
	Status    string            `json:"status"`
	NodeCount int               `json:"node_count"`
	Flavor    *string           `json:"flavor_id"`
	CreatedAt Time              `json:"created_at"`
}

// A page of ten clusters with their labels and links.
func BenchmarkPageOfTen(b *testing.B) {
	labels := map[string]string{}
	for i := range 10 {
		labels["label_"+strconv.Itoa(i)] = "value"
	}
	now := time.Now()
	list := func(w http.ResponseWriter, r *http.Request) error {
		page := struct {
			Clusters []benchCluster `json:"clusters"`
			Next     string         `json:"next,omitempty"`
		}{Clusters: make([]benchCluster, 10)}
		for i := range page.Clusters {
			page.Clusters[i] = benchCluster{UUID: "5d12f6fd-a196-4bf0-ae4c-1f639a523a53", Name: "c1", Labels: labels,
				Links: Links(r.Context(), "clusters", "5d12f6fd-a196-4bf0-ae4c-1f639a523a53"), Status: "CREATE_COMPLETE", CreatedAt: Time(now)}
		}
		return WriteJSON(w, 200, page)
	}
	handlers := map[string]Handler{}
	for _, r := range Routes {
		handlers[r.Operation] = list
	}
	rt, err := NewRouter(Config{Authenticator: tokens{"demo": identity.Caller{ProjectID: "p"}}}, All, handlers)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", "http://h/v1/clusters", nil)
	r.Header.Set("X-Auth-Token", "demo")
	w := &discard{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		rt.ServeHTTP(w, r)
	}
}

func BenchmarkDecodeCluster(b *testing.B) {
	raw := []byte(`{"cluster_template_id": "ct", "name": "c1", "node_count": 3, "labels": {` +
		strings.Repeat(`"a": "b", `, 20) + `"z": 1}, "master_count": 1}`)
	b.ReportAllocs()
	for b.Loop() {
		root, err := parseBody(raw, "cluster")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ClusterCreate.decode(root); err != nil {
			b.Fatal(err)
		}
	}
}
