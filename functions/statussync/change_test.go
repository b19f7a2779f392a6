package statussync

import (
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
)

// What Knative's ApiServerSource sends for a Cluster names ours by its label.
func TestChangeNamesItsCluster(t *testing.T) {
	for _, c := range []struct{ name, kind, data, want string }{
		{"ours", changeUpdate, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"prod-x","labels":{"magnum.openstack.org/cluster-uuid":"u"}},"status":{}}`, "u"},
		{"another's", changeAdd, `{"kind":"Cluster","metadata":{"name":"x"}}`, ""},
		{"no object", changeDelete, `[]`, ""},
	} {
		e := event.New()
		e.SetType(c.kind)
		if err := e.SetData(event.ApplicationJSON, []byte(c.data)); err != nil {
			t.Fatal(err)
		}
		if got := changed(e); !isChange(e) || got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
