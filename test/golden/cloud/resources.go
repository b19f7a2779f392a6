package cloud

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// resources is what is asked of Glance, Nova and Neutron.
func (c *Cloud) resources(mux *http.ServeMux) {
	// Clients that find no version in an address ask for a document of versions.
	document := func(path, id string) {
		mux.HandleFunc("GET "+path+"/{$}", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusMultipleChoices, object{"versions": []object{{"id": id, "status": "CURRENT",
				"links": []object{{"rel": "self", "href": c.server.URL + path + "/" + id[:2]}}}}})
		})
	}
	document("/image", "v2.17")
	document("/network", "v2.0")

	scoped := func(t *token) bool { return t.project != nil } // Glance refuses a token without project
	anyone := func(*token) bool { return true }
	all := func(*token, object) bool { return true }
	c.collection(mux, "/image/v2/images", "images", "", &c.images, scoped, all)
	c.collection(mux, "/network/v2.0/networks", "networks", "network", &c.networks, anyone, visible)
	c.collection(mux, "/network/v2.0/subnets", "subnets", "subnet", &c.subnets, anyone, visible)
	c.collection(mux, "/compute/v2.1/flavors", "flavors", "flavor", &c.flavors, anyone, all)
	mux.HandleFunc("GET /compute/v2.1/{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{"version": object{"id": "v2.1", "status": "CURRENT", "version": "2.100", "min_version": "2.1", "links": []object{}}})
	})
	mux.HandleFunc("GET /compute/v2.1/os-keypairs/{name}", func(w http.ResponseWriter, r *http.Request) {
		t := c.caller(w, r)
		if t == nil {
			return
		}
		name := r.PathValue("name")
		c.mu.Lock()
		owned := c.keypairs[t.user.id+"/"+name]
		c.mu.Unlock()
		if !owned {
			answer(w, http.StatusNotFound, object{"itemNotFound": object{"code": 404,
				"message": fmt.Sprintf("Keypair %s not found for user %s", name, t.user.id)}})
			return
		}
		answer(w, http.StatusOK, object{"keypair": object{"name": name, "user_id": t.user.id, "type": "ssh",
			"public_key": "ssh-ed25519 AAAA test", "fingerprint": "00:00", "id": 1, "deleted": false}})
	})
}

// visible: one's own, the shared, the external; an admin sees all.
func visible(t *token, o object) bool {
	return slices.Contains(t.roles, "admin") || o["shared"] == true || o["router:external"] == true ||
		t.project != nil && o["project_id"] == t.project.id
}

// collection serves a list, with filters on equality, and its single objects.
func (c *Cloud) collection(mux *http.ServeMux, path, plural, singular string, from *[]object,
	may func(*token) bool, see func(*token, object) bool,
) {
	enter := func(w http.ResponseWriter, r *http.Request) *token {
		t := c.caller(w, r)
		if t != nil && !may(t) {
			fail(w, http.StatusForbidden, "Forbidden", "You are not authorized to complete this action.")
			return nil
		}
		return t
	}
	list := func(w http.ResponseWriter, r *http.Request) {
		t := enter(w, r)
		if t == nil {
			return
		}
		found := []object{}
		if r.URL.Query().Get("marker") == "" { // everything is on the first page
			for _, o := range *from {
				if see(t, o) && matches(o, r.URL.Query()) {
					found = append(found, o)
				}
			}
		}
		answer(w, http.StatusOK, object{plural: found})
	}
	mux.HandleFunc("GET "+path, list)
	mux.HandleFunc("GET "+path+"/{$}", list)
	mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if id == "detail" && plural == "flavors" {
			list(w, r)
			return
		}
		t := enter(w, r)
		if t == nil {
			return
		}
		for _, o := range *from {
			if o["id"] != id || !see(t, o) {
				continue
			}
			if singular == "" { // Glance has no envelope
				answer(w, http.StatusOK, o)
			} else {
				answer(w, http.StatusOK, object{singular: o})
			}
			return
		}
		fail(w, http.StatusNotFound, "Not Found", fmt.Sprintf("%s %s could not be found.", plural, id))
	})
}

func matches(o object, q url.Values) bool {
	for key, values := range q {
		have, known := o[key]
		if !known { // limit, sort_key and the like
			continue
		}
		if !slices.ContainsFunc(values, func(v string) bool {
			return strings.EqualFold(fmt.Sprint(have), strings.Trim(strings.TrimPrefix(v, "in:"), `"`))
		}) {
			return false
		}
	}
	return true
}
