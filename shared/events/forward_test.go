package events

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/fault"
	"carafe/triggers"
)

func TestForwardGoesByTheRoutes(t *testing.T) {
	t.Parallel()
	routes, err := ReadRoutes(triggers.FS)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	functions := InProcess{}
	for _, name := range routes.Functions() {
		functions[name] = Handler(func(context.Context, event.Event) error {
			got = append(got, name)
			if name == "clusterdelete" {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		})
	}
	all := Handler(func(ctx context.Context, e event.Event) error { return Forward(ctx, routes, functions, e) })
	for _, tc := range []struct {
		typ, source string
		status      int
		want        string
	}{
		{ClusterCreate, "/container-infra/here", 204, "clustercreate"},
		{ClusterDelete, "/container-infra/here", 503, "clusterdelete"},
		{Tick, "/apis/v1/namespaces/clouds/pingsources/relay", 204, "relay"},
		{Tick, "/apis/v1/namespaces/clouds/pingsources/other", 422, ""},
		{"magnum.conductor.cluster.explode", "/container-infra/here", 422, ""},
	} {
		got = nil
		r := httptest.NewRequest("POST", "/", nil)
		r.Header = binary("ce-type", tc.typ, "ce-source", tc.source)
		w := httptest.NewRecorder()
		all.ServeHTTP(w, r)
		if w.Code != tc.status || strings.Join(got, " ") != tc.want {
			t.Errorf("%s from %s: %d, went to %q; want %d and %q", tc.typ, tc.source, w.Code, got, tc.status, tc.want)
		}
	}
}
