// Package noauth believes what a request says of its sender. It is for one
// process on a loopback address, without Keystone; that nothing else is listened
// on is the host's to enforce.
package noauth

import (
	"net/http"
	"strings"

	"carafe/shared/identity"
)

// The project and user of a request that names none.
const (
	ProjectID = "0000000000000000000000000000de40"
	UserID    = "0000000000000000000000000000a11c"
	Project   = "demo"
	User      = "alice"
)

// Authenticator reads X-Project-Id, X-User-Id, their names and X-Roles.
type Authenticator struct{}

// Authenticate never refuses.
func (Authenticator) Authenticate(r *http.Request) (identity.Caller, error) {
	roles := []string{"member", "reader"}
	if r.Header.Get("X-Project-Id") == "" && r.Header.Get("X-User-Id") == "" {
		roles = append(roles, "admin") // alone on the machine: tenant and operator in one
	}
	if given := r.Header.Get("X-Roles"); given != "" {
		roles = nil
		for role := range strings.SplitSeq(given, ",") {
			if role = strings.TrimSpace(role); role != "" {
				roles = append(roles, role)
			}
		}
	}
	caller := identity.Caller{
		UserID: UserID, UserName: User,
		UserDomainID: "default", UserDomainName: "Default",
		ProjectID: ProjectID, ProjectName: Project, ProjectDomainID: "default",
		Roles: roles,
		Token: identity.Token(r.Header.Get("X-Auth-Token")),
	}
	if id := r.Header.Get("X-Project-Id"); id != "" {
		caller.ProjectID, caller.ProjectName = id, first(r.Header.Get("X-Project-Name"), id)
	}
	if id := r.Header.Get("X-User-Id"); id != "" {
		caller.UserID, caller.UserName = id, first(r.Header.Get("X-User-Name"), id)
	}
	return caller, nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
