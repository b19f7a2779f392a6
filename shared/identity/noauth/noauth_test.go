package noauth

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carafe/shared/identity"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	demo := identity.Caller{
		UserID: UserID, UserName: User, UserDomainID: "default", UserDomainName: "Default",
		ProjectID: ProjectID, ProjectName: Project, ProjectDomainID: "default",
		Roles: []string{"member", "reader", "admin"},
	}
	tenant := demo
	tenant.ProjectID, tenant.ProjectName, tenant.Roles = "p1", "p1", []string{"member", "reader"}
	other := demo
	other.ProjectID, other.ProjectName = "p2", "second"
	other.UserID, other.UserName = "u2", "u2"
	other.Roles = []string{"admin", "reader"}
	for name, tc := range map[string]struct {
		headers map[string]string
		want    identity.Caller
	}{
		"nothing said":     {nil, demo},
		"only the project": {map[string]string{"X-Project-Id": "p1"}, tenant},
		"all said": {map[string]string{
			"X-Project-Id": "p2", "X-Project-Name": "second", "X-User-Id": "u2", "X-Roles": "admin, reader,",
		}, other},
	} {
		r := httptest.NewRequest("GET", "/v1/clusters", nil)
		for k, v := range tc.headers {
			r.Header.Set(k, v)
		}
		got, err := Authenticator{}.Authenticate(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
