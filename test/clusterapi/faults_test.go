//go:build clusterapi

package clusterapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// setFault tells memstack what to get wrong; an empty text takes it back.
func setFault(t *testing.T, key, text string) {
	t.Helper()
	patch(t, "/api/v1/namespaces/capi-system/configmaps/memstack", types.ApplyYAMLPatchType,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"memstack","namespace":"capi-system","labels":{"bed":"yes"}}}`)
	value := fmt.Sprintf("%q", text)
	if text == "" {
		value = "null"
	}
	patch(t, "/api/v1/namespaces/capi-system/configmaps/memstack", types.MergePatchType, fmt.Sprintf(`{"data":{%q:%s}}`, key, value))
}

const nova = "Expected HTTP response code [201 202] when accessing [POST https://nova.example.org/v2.1/servers], but got "

// The faults of spec/capi-driver.md §10.2, shown by the provider's objects:
// the sentence, the code, and whether the operation ends.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key, text string
		want            string // in the reason
		code            fault.Reason
		ends            bool
	}{
		{"Quota", "server.%[1]s", "refuse:" + nova + `403 instead: {"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 4, but already used 18 of 20 cores"}}`,
			"1 of 1 control plane machines cannot be made: Quota exceeded for cores: Requested 4, but already used 18 of 20 cores (", fault.ReasonQuota, false},
		{"Flavor", "server.%[1]s", "refuse:" + nova + `400 instead: {"badRequest": {"code": 400, "message": "Flavor's disk is too small for requested image."}}`,
			"cannot be made: Flavor's disk is too small for requested image (", fault.ReasonConfiguration, true},
		{"ServerInError", "server.%[1]s", "error", "the server went into ERROR", fault.ReasonDependency, false},
		{"NoAddress", "server.%[1]s", `port:Expected HTTP response code [201 202] when accessing [POST https://neutron/ports], but got 409 instead: {"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network x.", "detail": ""}}`,
			"No more IP addresses available on network x", fault.ReasonQuota, false},
		{"Network", "network.%[2]s", "failed to reconcile network: " + strings.Replace(nova, "nova", "neutron", 1) + `503 instead: `, "Network: ", fault.ReasonDependency, false},
		{"LoadBalancer", "endpoint.%[2]s", `Expected HTTP response code [201 202] when accessing [POST https://octavia/lbaas/loadbalancers], but got 400 instead: {"faultcode": "Client", "faultstring": "Provider 'f5' is not enabled.", "debuginfo": null}`,
			"Load balancer of the API: Provider 'f5' is not enabled.", fault.ReasonConfiguration, true},
		{"Credential", "credential.%[2]s", "Could not find Application Credential: 818a68654b65417396f29f9c1fa9cd24.", "Keystone refuses this cluster's application credential: rotate it with PATCH /v1/credentials/", fault.ReasonCredential, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, newDriver(t))
			flavor := "bad-" + uuid.NewString()[:8]
			s.Template.MasterFlavorID = &flavor
			key := fmt.Sprintf(strings.ReplaceAll(c.key, "%[1]s", flavor)+"%[1]s", "")
			if strings.Contains(c.key, "%[2]s") {
				key = strings.ReplaceAll(c.key, "%[2]s", capi.ClusterName(s.Cluster.Cluster))
			}
			setFault(t, key, c.text)
			defer setFault(t, key, "")
			s.begin(magnum.ClusterCreate, nil, "")
			s.apply()
			want := driver.InProgress
			if c.ends {
				want = driver.Failed
			}
			o := s.until("the fault shows", 8*time.Minute, func(o driver.Observation) bool {
				return strings.Contains(o.Reason, c.want) && o.Progress == want
			})
			if o.ErrorCode != string(c.code) {
				t.Errorf("code %q, want %q", o.ErrorCode, c.code)
			}
			for _, secret := range []string{"http://", "https://", "please check", "req-"} {
				if strings.Contains(o.Reason, secret) {
					t.Errorf("the reason has %q in it: %s", secret, o.Reason)
				}
			}
			setFault(t, key, "")
			if !c.ends {
				s.until("the fault has passed", 8*time.Minute, func(o driver.Observation) bool { return !strings.Contains(o.Reason, c.want) })
			}
			s.delete()
			s.leftNothing()
		})
	}
}

// A deletion that hangs says why, and goes on when it can.
func TestDeletionThatHangs(t *testing.T) {
	t.Parallel()
	s := newSubject(t, newDriver(t))
	s.begin(magnum.ClusterCreate, nil, "")
	s.apply()
	s.until("the network is up", 8*time.Minute, func(o driver.Observation) bool { return o.APIAddress != "" })
	key := "delete." + *s.StackID
	setFault(t, key, "Unable to complete operation on network: one or more ports still in use")
	s.begin(magnum.ClusterDelete, nil, "")
	s.Status = magnum.DeleteInProgress
	if err := s.d.Delete(t.Context(), s.ref()); err != nil {
		t.Fatal(err)
	}
	s.until("the reason", 8*time.Minute, func(o driver.Observation) bool { return strings.Contains(o.Reason, "one or more ports still in use") })
	setFault(t, key, "")
	s.until("gone", 8*time.Minute, func(o driver.Observation) bool { return o.Progress == driver.Gone })
	s.leftNothing()
}
