package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"carafe/functions/clusters"
	"carafe/functions/clustertemplates"
	"carafe/functions/nodegroups"
	"carafe/shared/function"
	"carafe/shared/functiontest"
	"carafe/shared/openstack"
	"carafe/shared/openstack/named"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// tracer keeps the trips to PostgreSQL, each named by what it brings.
type tracer struct {
	mu    sync.Mutex
	trips []string
}

func (t *tracer) note(trip string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trips = append(t.trips, trip)
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	t.note(nameOf(q.SQL))
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer: a batch is one trip.
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	t.note(fmt.Sprintf("batch of %d", b.Batch.Len()))
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// nameOf is the name that sqlc gave a statement, else its first word.
func nameOf(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToLower(word)
}

// What a request costs in trips to PostgreSQL is a promise: reads take one, and a
// write is one transaction.
func TestTripsToPostgres(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	var seen tracer
	db, err := postgres.OpenTraced(t.Context(), postgres.Config{URL: pgtest.URL(t), MaxConns: 4}, &seen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b.DB, b.Conductor.DB = db, db
	b.Checks = openstack.Checks{Cloud: named.Cloud{}}
	b.Cluster = b.NewCluster(t, nil, nil)
	second := b.NewCluster(t, nil, nil)
	template, err := db.Templates.ByUUID(t.Context(), b.Cluster.ClusterTemplateID)
	if err != nil {
		t.Fatal(err)
	}

	read := []string{"select"}
	for _, tc := range []struct {
		name     string
		function function.Function
		request  functiontest.Request
		status   int
		want     []string
	}{
		{"List", clusters.Function(), functiontest.Request{Path: "/v1/clusters"}, 200, read},
		{"ListWithMarker", clusters.Function(), functiontest.Request{Path: "/v1/clusters?limit=1&marker=" + b.Cluster.UUID}, 200, []string{"with"}},
		{"ListSortedByName", clusters.Function(), functiontest.Request{Path: "/v1/clusters?sort_key=name&sort_dir=desc"}, 200, read},
		{"ListFiltered", clusters.Function(), functiontest.Request{Path: "/v1/clusters?status=CREATE_COMPLETE"}, 200, read},
		{"Detail", clusters.Function(), functiontest.Request{Path: "/v1/clusters/detail"}, 200, read},
		{"Show", clusters.Function(), functiontest.Request{Path: "/v1/clusters/" + second.UUID}, 200, read},
		{"Templates", clustertemplates.Function(), functiontest.Request{Path: "/v1/clustertemplates"}, 200, read},
		{"Template", clustertemplates.Function(), functiontest.Request{Path: "/v1/clustertemplates/" + template.UUID}, 200, read},
		{"NodeGroups", nodegroups.Function(), functiontest.Request{Path: "/v1/clusters/" + second.UUID + "/nodegroups"}, 200, []string{"select", "select"}},
		{"Create", clusters.Function(), functiontest.Request{Method: http.MethodPost, Path: "/v1/clusters",
			Body: `{"name":"c","cluster_template_id":"` + template.UUID + `","keypair":"k","master_flavor_id":"m","flavor_id":"m"}`}, 202, nil},
	} {
		if tc.request.Method == "" {
			tc.request.Method = http.MethodGet
		}
		t.Run(tc.name, func(t *testing.T) {
			seen.trips = nil
			if a := b.Call(t, tc.function, tc.request); a.Status != tc.status {
				t.Fatalf("status %d: %s", a.Status, a.Text)
			}
			if tc.want == nil {
				begun, committed := 0, 0
				for _, trip := range seen.trips {
					switch trip {
					case "begin;": // with a setting of the transaction's
						begun++
					case "commit":
						committed++
					}
				}
				if begun != 1 || committed != 1 || len(seen.trips) > mostTripsOfCreate {
					t.Errorf("%d transactions, %d trips, of at most %d: %q", begun, len(seen.trips), mostTripsOfCreate, seen.trips)
				}
				t.Logf("%q", seen.trips)
				return
			}
			if d := cmp.Diff(tc.want, seen.trips); d != "" {
				t.Errorf("trips (-want +got):\n%s", d)
			}
		})
	}
}

// mostTripsOfCreate are the look-up of the template and the quota, begin, lock,
// quota, the three rows, the operation with its two events, and commit.
const mostTripsOfCreate = 10
