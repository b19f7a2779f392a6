package openstack_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"carafe/shared/fault"
	"carafe/shared/glance"
	"carafe/shared/neutron"
	"carafe/shared/nova"
)

// TestNonsenseIsAnOutageOrNothingFound: whatever a service answers, nothing
// crashes, and nothing is found that is not there.
func TestNonsenseIsAnOutageOrNothingFound(t *testing.T) {
	t.Parallel()
	bodies := []string{
		"", "null", "{}", "[]", "7", `"x"`, "<html>", `{"`, `{"flavor": null, "flavors": null}`,
		`{"flavors": {}, "networks": 3, "images": "x", "subnets": [1]}`, `{"flavors": [null], "networks": [null], "images": [null], "subnets": [null]}`,
		`{"keypair": null}`, `{"keypair": []}`, `{"id": 5, "name": []}`, strings.Repeat("[", 100000),
	}
	calls := map[string]func(context.Context, *gophercloud.ServiceClient) error{
		"Flavor": func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			_, err := nova.FindFlavor(ctx, sc, "x")
			return err
		},
		"Keypair": func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			_, err := nova.FindKeypair(ctx, sc, "x")
			return err
		},
		"Network": func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			_, err := neutron.FindNetwork(ctx, sc, "x")
			return err
		},
		"Subnet": func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			_, err := neutron.FindSubnet(ctx, sc, "x")
			return err
		},
		"Image": func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			_, err := glance.FindImage(ctx, sc, "x")
			return err
		},
	}
	for _, status := range []int{200, 201, 204, 300, 302, 400, 404, 409, 413, 418, 429, 500, 503, 599} {
		for _, body := range bodies {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				if status != 204 {
					_, _ = w.Write([]byte(body)) // the client may be gone
				}
			}))
			for name, call := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				err := call(ctx, &gophercloud.ServiceClient{
					ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/",
				})
				cancel()
				switch kind := fault.KindOf(err); {
				case err == nil:
					t.Errorf("%s found x in %d %.40q", name, status, body)
				case kind == fault.Internal:
					t.Errorf("%s: %d %.40q: %v is nobody's", name, status, body, err)
				case status >= 500 && kind != fault.Unavailable:
					t.Errorf("%s: %d %.40q: %v is not an outage", name, status, body, err)
				}
			}
			server.Close()
		}
	}
}
