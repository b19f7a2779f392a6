package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/identity"
)

type demo struct{}

func (demo) Authenticate(*http.Request) (identity.Caller, error) {
	return identity.Caller{UserID: "u", ProjectID: "p", Roles: []string{"member", "reader"}}, nil
}

// A handler decodes, authorises, does one domain call and renders. Everything
// that it refuses is an error of shared/fault.
func Example() {
	resize := func(w http.ResponseWriter, r *http.Request) error {
		body, err := api.Decode(r, api.ResizeRequest)
		if err != nil {
			return err
		}
		if !identity.From(r.Context()).HasRole("member") {
			return fault.New(fault.Forbidden, "Policy doesn't allow cluster:resize to be performed.")
		}
		if api.Path(r, "cluster_ident") != "c1" {
			return fault.New(fault.NotFound, "Cluster %s could not be found.", api.Path(r, "cluster_ident"))
		}
		if *body.Int("node_count") == 0 && !api.VersionOf(r.Context()).AtLeast(10) {
			return fault.New(fault.Invalid, "Resizing a nodegroup to zero is not supported in the provided microversion.")
		}
		return api.WriteJSON(w, http.StatusAccepted, api.Accepted{UUID: "5d12f6fd-a196-4bf0-ae4c-1f639a523a53"})
	}
	router, err := api.NewRouter(api.Config{Authenticator: demo{}}, "actions",
		map[string]api.Handler{"cluster_resize": resize, "cluster_upgrade": resize})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, body := range []string{`{"node_count": "3"}`, `{"node_count": 0}`, `{"node_count": -1}`} {
		r := httptest.NewRequest(http.MethodPost, "/v1/clusters/c1/actions/resize", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("OpenStack-API-Version", "container-infra 1.9")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), "errors"))
	}
	// Output:
	// 202 false
	// 400 true
	// 400 true
}
