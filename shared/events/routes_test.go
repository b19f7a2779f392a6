package events

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"carafe/shared/magnum"
	"carafe/triggers"
)

func made(t *testing.T, typ string, extensions map[string]any) event.Event {
	t.Helper()
	e := event.New()
	e.SetID("1")
	e.SetType(typ)
	e.SetSource("/container-infra/here")
	e.SetSubject("c1")
	for k, v := range extensions {
		e.SetExtension(k, v)
	}
	return e
}

func TestEveryCommandHasOneFunction(t *testing.T) {
	t.Parallel()
	routes, err := ReadRoutes(triggers.FS)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	types := []string{Sync, Health, NotifyClusterCreate}
	for _, kind := range magnum.OperationKinds {
		types = append(types, CommandFor(kind))
	}
	for _, typ := range types {
		for _, tr := range routes.Match(made(t, typ, nil)) {
			if got[typ] != "" {
				t.Errorf("%s goes to %s and %s", typ, got[typ], tr.Function)
			}
			got[typ] = tr.Function
			want := Delivery{Retry: 6, Backoff: 500 * time.Millisecond, Exponential: true, DeadLetterSink: "deadletter"}
			if diff := cmp.Diff(want, tr.Delivery); diff != "" {
				t.Errorf("%s: delivery (-want +got):\n%s", tr.Name, diff)
			}
		}
	}
	want := map[string]string{
		ClusterCreate: "clustercreate", ClusterUpdate: "clusterupdate", ClusterResize: "clusterresize",
		ClusterUpgrade: "clusterupgrade", ClusterDelete: "clusterdelete",
		NodeGroupCreate: "nodegroupcreate", NodeGroupUpdate: "nodegroupupdate", NodeGroupDelete: "nodegroupdelete",
		CARotate: "carotate", CredentialRotate: "credentialrotate",
		FederationCreate: "federationcreate", FederationUpdate: "federationupdate", FederationDelete: "federationdelete",
		Sync: "statussync", Health: "healthmonitor",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	routes, err := ReadRoutes(triggers.FS)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]time.Duration{}
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for _, s := range routes.Schedules {
		first := s.Cron.Next(at)
		got[s.Function] = s.Cron.Next(first).Sub(first)
	}
	want := map[string]time.Duration{"statussync": 10 * time.Second, "healthmonitor": time.Minute, "relay": 10 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
}

const testBroker = `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: carafe}
spec: {delivery: {retry: 2, backoffPolicy: linear, backoffDelay: PT1M, deadLetterSink: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: dead}}}}
---
`

func testTrigger(spec string) string {
	return testBroker + `
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: t}
spec:
  broker: carafe
  subscriber: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: f}}
` + spec
}

func parse(t *testing.T, manifest string) (*Routes, error) {
	t.Helper()
	return ReadRoutes(fstest.MapFS{"test.yaml": {Data: []byte(manifest)}})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	e := made(t, NotifyClusterCreate, map[string]any{"outcome": "success", "number": 7})
	for _, tc := range []struct {
		name, spec string
		want       bool
	}{
		{"None", "", true},
		{"Attributes", "  filter: {attributes: {type: magnum.cluster.create, outcome: success}}", true},
		{"AttributesOneDiffers", "  filter: {attributes: {type: magnum.cluster.create, outcome: failure}}", false},
		{"AttributesAny", "  filter: {attributes: {outcome: ''}}", true},
		{"AttributesAnyButAbsent", "  filter: {attributes: {priority: ''}}", false},
		{"Exact", "  filters: [{exact: {subject: c1}}]", true},
		{"ExactNumber", "  filters: [{exact: {number: '7'}}]", true},
		{"Prefix", "  filters: [{prefix: {type: magnum.cluster.}}]", true},
		{"PrefixDiffers", "  filters: [{prefix: {type: magnum.conductor.}}]", false},
		{"Suffix", "  filters: [{suffix: {type: .create}}]", true},
		{"AllOfTheList", "  filters: [{suffix: {type: .create}}, {exact: {outcome: failure}}]", false},
		{"Any", "  filters: [{any: [{exact: {outcome: failure}}, {exact: {outcome: success}}]}]", true},
		{"All", "  filters: [{all: [{exact: {outcome: failure}}, {exact: {outcome: success}}]}]", false},
		{"Not", "  filters: [{not: {exact: {outcome: pending}}}]", true},
		{"FiltersWin", "  filter: {attributes: {type: other}}\n  filters: [{suffix: {type: .create}}]", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			routes, err := parse(t, testTrigger(tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(routes.Match(e)) == 1; got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestManifestsRefused(t *testing.T) {
	t.Parallel()
	ping := func(spec string) string {
		return "apiVersion: sources.knative.dev/v1\nkind: PingSource\nmetadata: {name: p}\nspec:\n" +
			"  sink: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: f}}\n" + spec
	}
	for _, tc := range []struct{ name, manifest, want string }{
		{"MisspeltFilter", testTrigger("  filtr: {}"), "filtr"},
		{"CESQL", testTrigger("  filters: [{cesql: 'true'}]"), "cesql"},
		{"TwoDialects", testTrigger("  filters: [{exact: {a: b}, prefix: {a: b}}]"), "one dialect"},
		{"EmptyValue", testTrigger("  filters: [{exact: {a: ''}}]"), "one attribute and one value"},
		{"OtherBroker", strings.Replace(testTrigger(""), "broker: carafe", "broker: tea", 1), `no broker "tea"`},
		{"SubscriberByURI", strings.Replace(testTrigger(""), "subscriber: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: f}}", "subscriber: {}", 1), "ref to a"},
		{"Backoff", testTrigger("  delivery: {backoffDelay: 5s}"), "ISO 8601"},
		{"Policy", testTrigger("  delivery: {backoffPolicy: random}"), "linear or exponential"},
		{"Retry", testTrigger("  delivery: {retry: -1}"), "negative"},
		{"Every", ping("  schedule: '@every 1s'"), "@every"},
		{"Schedule", ping("  schedule: '61 * * * *'"), "schedule"},
		{"Zone", ping("  schedule: '* * * * *'\n  timezone: Nowhere/Else"), "schedule"},
		{"OtherKind", "apiVersion: v1\nkind: Pod", "not among the triggers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := parse(t, tc.manifest); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTriggerHasItsBrokersDelivery(t *testing.T) {
	t.Parallel()
	routes, err := parse(t, testTrigger(""))
	if err != nil {
		t.Fatal(err)
	}
	want := Delivery{Retry: 2, Backoff: time.Minute, DeadLetterSink: "dead"}
	if diff := cmp.Diff(want, routes.Triggers[0].Delivery); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	exponential := Delivery{Backoff: time.Second, Exponential: true}
	linear := Delivery{Backoff: time.Second}
	for retry, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if got := exponential.wait(retry); got != want {
			t.Errorf("exponential, retry %d: %s, want %s", retry, got, want)
		}
		if got, want := linear.wait(retry), time.Duration(retry)*time.Second; got != want {
			t.Errorf("linear, retry %d: %s, want %s", retry, got, want)
		}
	}
	if got := exponential.wait(1000); got != 10*time.Minute {
		t.Errorf("the longest wait is %s", got)
	}
}

func TestISODurations(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"PT0.5S": 500 * time.Millisecond, "PT1M": time.Minute, "P1DT2H3M4S": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"P1D": 24 * time.Hour, "": -1, "P": -1, "PT": -1, "P1DT": -1, "5s": -1, "PT1.5M": -1, "P1M": -1,
	} {
		got, err := isoDuration(in)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}
