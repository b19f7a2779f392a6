package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"carafe/functions/clusters"
	"carafe/functions/clustertemplates"
	"carafe/shared/api"
	"carafe/shared/function"
	"carafe/shared/functiontest"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// answer is a ResponseWriter that keeps nothing.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// BenchmarkHandlers is a request from the router to the database and back, without
// net/http: for -benchmem, and for -cpuprofile and -memprofile.
func BenchmarkHandlers(b *testing.B) {
	bed := functiontest.New(b)
	url := pgtest.URL(b)
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for project, n := range map[string]int{"p10": 10, "p1000": 1000} {
		if err := fill(b.Context(), conn, project, 10, n); err != nil {
			b.Fatal(err)
		}
	}
	if err := settle(b.Context(), conn); err != nil {
		b.Fatal(err)
	}
	var one string
	if err := conn.QueryRow(b.Context(), "SELECT uuid::text FROM clusters WHERE project_id = 'p10' LIMIT 1").Scan(&one); err != nil {
		b.Fatal(err)
	}
	if bed.DB, err = postgres.Open(b.Context(), postgres.Config{URL: url}); err != nil {
		b.Fatal(err)
	}
	defer bed.DB.Close()
	for _, bench := range []struct {
		name          string
		function      function.Function
		project, path string
	}{
		{"List10", clusters.Function(), "p10", "/v1/clusters"},
		{"List20Of1000", clusters.Function(), "p1000", "/v1/clusters?limit=20"},
		{"Detail10", clusters.Function(), "p10", "/v1/clusters/detail"},
		{"Show", clusters.Function(), "p10", "/v1/clusters/" + one},
		{"Templates10", clustertemplates.Function(), "p10", "/v1/clustertemplates"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			handlers, err := bench.function.Handlers(b.Context(), bed.Platform)
			if err != nil {
				b.Fatal(err)
			}
			router, err := api.NewRouter(bed.API, bench.function.Name, handlers)
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, bench.path, nil)
			r.Header.Set("X-Project-Id", bench.project)
			r.Header.Set("X-User-Id", "u1")
			r.Header.Set("OpenStack-API-Version", "container-infra 1.14")
			b.ReportAllocs()
			cpu := threadsCPU(pid)
			for b.Loop() {
				w := answer{header: http.Header{}}
				router.ServeHTTP(&w, r)
				if w.status != http.StatusOK {
					b.Fatal(fmt.Errorf("status %d", w.status))
				}
			}
			b.ReportMetric(float64((threadsCPU(pid)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

var pid = os.Getpid()
