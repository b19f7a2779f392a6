package cloud

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

const tokenLife = time.Hour

// identity is what is asked of Keystone.
func (c *Cloud) identity(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusMultipleChoices, object{"versions": object{"values": []object{c.version()}}})
	})
	one := func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, object{"version": c.version()}) }
	mux.HandleFunc("GET /v3/{$}", one)
	mux.HandleFunc("GET /v3", one)
	mux.HandleFunc("POST /v3/auth/tokens", c.issue)
	mux.HandleFunc("GET /v3/auth/tokens", c.validate) // HEAD too
	mux.HandleFunc("DELETE /v3/auth/tokens", c.revoke)
	mux.HandleFunc("GET /v3/projects/{id}", c.showProject)
	mux.HandleFunc("POST /v3/users/{user}/application_credentials", c.createCredential)
	mux.HandleFunc("GET /v3/users/{user}/application_credentials/{id}", c.showCredential)
	mux.HandleFunc("DELETE /v3/users/{user}/application_credentials/{id}", c.deleteCredential)
}

func (c *Cloud) version() object {
	return object{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": c.AuthURL() + "/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}}}
}

// issue is POST /v3/auth/tokens: by password, token or application credential.
func (c *Cloud) issue(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct{ ID, Name, Password string }
				}
				Token                 struct{ ID string }
				ApplicationCredential struct{ ID, Secret string } `json:"application_credential"`
			}
			Scope struct {
				Project *struct{ ID, Name string }
				System  map[string]bool
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		fail(w, http.StatusBadRequest, "Bad Request", err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	refuse := func() {
		fail(w, http.StatusUnauthorized, "Unauthorized", "The request you have made requires authentication.")
	}
	now := time.Now()
	t := &token{id: "gAAAAA-" + hexID() + hexID(), issued: now, expires: now.Add(tokenLife)}
	id := req.Auth.Identity
	switch {
	case slices.Contains(id.Methods, "password"):
		for _, u := range c.users {
			if u.id == id.Password.User.ID || u.name == id.Password.User.Name {
				t.user = u
			}
		}
		if t.user == nil || id.Password.User.Password != Password {
			refuse()
			return
		}
	case slices.Contains(id.Methods, "token"):
		from := c.tokens[id.Token.ID]
		if from == nil || now.After(from.expires) {
			refuse()
			return
		}
		t.user = from.user
	case slices.Contains(id.Methods, "application_credential"):
		a := c.credentials[id.ApplicationCredential.ID]
		if a == nil || a.secret != id.ApplicationCredential.Secret {
			refuse()
			return
		}
		t.user, t.project, t.roles = a.user, a.project, a.roles
	default:
		refuse()
		return
	}
	if want := req.Auth.Scope.Project; want != nil {
		for _, p := range c.projects {
			if p.id == want.ID || p.name == want.Name {
				t.project = p
			}
		}
		if t.project == nil || len(t.user.roles[t.project.name]) == 0 {
			refuse()
			return
		}
		t.roles = t.user.roles[t.project.name]
	}
	if req.Auth.Scope.System != nil {
		if len(t.user.system) == 0 {
			refuse()
			return
		}
		t.system, t.roles = true, t.user.system
	}
	c.tokens[t.id] = t
	w.Header().Set("X-Subject-Token", t.id)
	answer(w, http.StatusCreated, object{"token": c.document(t)})
}

// document is what Keystone says of a token.
func (c *Cloud) document(t *token) object {
	const stamp = "2006-01-02T15:04:05.000000Z"
	domain := object{"id": "default", "name": "Default"}
	d := object{
		"methods": []string{"password"}, "audit_ids": []string{"audit"},
		"issued_at": t.issued.UTC().Format(stamp), "expires_at": t.expires.UTC().Format(stamp),
		"user": object{"id": t.user.id, "name": t.user.name, "domain": domain, "password_expires_at": nil},
	}
	if len(t.roles) > 0 {
		var roles []object
		for _, r := range t.roles {
			roles = append(roles, object{"id": "role-" + r, "name": r})
		}
		d["roles"] = roles
	}
	if t.system {
		d["system"] = object{"all": true}
	}
	if t.project != nil {
		d["project"] = object{"id": t.project.id, "name": t.project.name, "domain": domain}
		d["is_domain"] = false
	}
	if t.project != nil || t.system { // an unscoped token has no catalogue
		var catalogue []object
		for _, s := range append([][3]string{
			{"identity", "keystone", c.server.URL + "/v3"}, {"image", "glance", c.server.URL + "/image"},
			{"compute", "nova", c.server.URL + "/compute/v2.1"}, {"network", "neutron", c.server.URL + "/network"},
		}, c.registered...) {
			var endpoints []object
			for _, i := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, object{"id": "endpoint-" + s[1] + "-" + i, "interface": i, "region": "RegionOne",
					"region_id": "RegionOne", "url": s[2]})
			}
			catalogue = append(catalogue, object{"id": "service-" + s[1], "type": s[0], "name": s[1], "endpoints": endpoints})
		}
		d["catalog"] = catalogue
	}
	return d
}

// caller is whose token a request brings; it has answered 401 if that is nil.
func (c *Cloud) caller(w http.ResponseWriter, r *http.Request) *token {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tokens[r.Header.Get("X-Auth-Token")]
	if t == nil || time.Now().After(t.expires) {
		w.Header().Set("WWW-Authenticate", `Keystone uri="`+c.AuthURL()+`"`)
		fail(w, http.StatusUnauthorized, "Unauthorized", "The request you have made requires authentication.")
		return nil
	}
	return t
}

func (c *Cloud) validate(w http.ResponseWriter, r *http.Request) {
	if c.caller(w, r) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tokens[r.Header.Get("X-Subject-Token")]
	if t == nil || time.Now().After(t.expires) {
		fail(w, http.StatusNotFound, "Not Found", "Could not find token.")
		return
	}
	w.Header().Set("X-Subject-Token", t.id)
	answer(w, http.StatusOK, object{"token": c.document(t)})
}

func (c *Cloud) revoke(w http.ResponseWriter, r *http.Request) {
	if c.caller(w, r) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, r.Header.Get("X-Subject-Token"))
	w.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) showProject(w http.ResponseWriter, r *http.Request) {
	t := c.caller(w, r)
	if t == nil {
		return
	}
	id := r.PathValue("id")
	if !slices.Contains(t.roles, "admin") && (t.project == nil || t.project.id != id) {
		fail(w, http.StatusForbidden, "Forbidden", "You are not authorized to perform the requested action: identity:get_project.")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.projects {
		if p.id == id {
			answer(w, http.StatusOK, object{"project": object{"id": p.id, "name": p.name, "domain_id": "default", "enabled": true,
				"description": "", "is_domain": false, "parent_id": "default", "tags": []string{}, "options": object{}}})
			return
		}
	}
	fail(w, http.StatusNotFound, "Not Found", "Could not find project: "+id+".")
}

// createCredential gives the roles of the token, as Keystone does when none are asked for.
func (c *Cloud) createCredential(w http.ResponseWriter, r *http.Request) {
	t := c.caller(w, r)
	if t == nil {
		return
	}
	if t.project == nil || t.user.id != r.PathValue("user") {
		fail(w, http.StatusForbidden, "Forbidden", "You are not authorized to perform the requested action: identity:create_application_credential.")
		return
	}
	var req struct {
		ApplicationCredential struct{ Name, Secret string } `json:"application_credential"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		fail(w, http.StatusBadRequest, "Bad Request", err.Error())
		return
	}
	a := &credential{id: hexID(), name: req.ApplicationCredential.Name, secret: req.ApplicationCredential.Secret,
		user: t.user, project: t.project, roles: t.roles}
	if a.secret == "" {
		a.secret = hexID() + hexID()
	}
	c.mu.Lock()
	c.credentials[a.id] = a
	c.mu.Unlock()
	d := a.document()
	d["secret"] = a.secret
	answer(w, http.StatusCreated, object{"application_credential": d})
}

func (a *credential) document() object {
	var roles []object
	for _, r := range a.roles {
		roles = append(roles, object{"id": "role-" + r, "name": r})
	}
	return object{"id": a.id, "name": a.name, "description": nil, "project_id": a.project.id, "user_id": a.user.id,
		"roles": roles, "expires_at": nil, "unrestricted": false}
}

func (c *Cloud) showCredential(w http.ResponseWriter, r *http.Request) {
	if c.caller(w, r) == nil {
		return
	}
	c.mu.Lock()
	a := c.credentials[r.PathValue("id")]
	c.mu.Unlock()
	if a == nil {
		fail(w, http.StatusNotFound, "Not Found", "Could not find Application Credential: "+r.PathValue("id")+".")
		return
	}
	answer(w, http.StatusOK, object{"application_credential": a.document()})
}

func (c *Cloud) deleteCredential(w http.ResponseWriter, r *http.Request) {
	if c.caller(w, r) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := r.PathValue("id")
	if c.credentials[id] == nil {
		fail(w, http.StatusNotFound, "Not Found", "Could not find Application Credential: "+id+".")
		return
	}
	delete(c.credentials, id)
	w.WriteHeader(http.StatusNoContent)
}
