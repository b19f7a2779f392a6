// Package discovery is the function that says what the API is: its versions,
// its resources, its OpenAPI document, and whether it is up. All of it is
// public, and none of it needs a database.
package discovery

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"carafe/shared/api"
	"carafe/shared/api/openapi"
	"carafe/shared/function"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "discovery", Kind: function.HTTP,
		Handlers: func(context.Context, *function.Platform) (map[string]api.Handler, error) { return Routes(nil), nil }}
}

// Routes are the operations of this function. unhealthy says why the service
// must be taken out of rotation; nil and an empty answer mean that it need not.
func Routes(unhealthy func() string) map[string]api.Handler {
	return map[string]api.Handler{
		"version_list": versionList,
		"version_show": versionShow,
		"openapi_show": openapiShow,
		"healthcheck":  healthcheck(unhealthy),
	}
}

type versions struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Versions    []version `json:"versions"`
}

type version struct {
	ID         string     `json:"id"`
	Links      []api.Link `json:"links"`
	Status     string     `json:"status"`
	MaxVersion string     `json:"max_version"`
	MinVersion string     `json:"min_version"`
}

// versionList serves GET /.
func versionList(w http.ResponseWriter, r *http.Request) error {
	return api.WriteJSON(w, http.StatusOK, versions{
		Name:        "OpenStack Magnum API",
		Description: "Magnum is an OpenStack project which aims to provide container cluster management.",
		Versions: []version{{
			ID:         "v1",
			Links:      []api.Link{{Href: api.URL(r.Context()) + "/v1/", Rel: "self"}},
			Status:     "CURRENT",
			MaxVersion: api.MaxVersion.String(),
			MinVersion: api.MinVersion.String(),
		}},
	})
}

type v1 struct {
	ID               string      `json:"id"`
	MediaTypes       []mediaType `json:"media_types"`
	Links            []api.Link  `json:"links"`
	ClusterTemplates []api.Link  `json:"clustertemplates"`
	Clusters         []api.Link  `json:"clusters"`
	Quotas           []api.Link  `json:"quotas"`
	Certificates     []api.Link  `json:"certificates"`
	MServices        []api.Link  `json:"mservices"`
	Stats            []api.Link  `json:"stats"`
	Federations      []api.Link  `json:"federations"`
	NodeGroups       []api.Link  `json:"nodegroups"`
	Credentials      []api.Link  `json:"credentials"`
}

type mediaType struct {
	Base string `json:"base"`
	Type string `json:"type"`
}

// versionShow serves GET /v1: the same document in every microversion.
func versionShow(w http.ResponseWriter, r *http.Request) error {
	app := api.URL(r.Context())
	links := func(path string) []api.Link {
		return []api.Link{{Href: app + "/v1/" + path, Rel: "self"}, {Href: app + "/" + path, Rel: "bookmark"}}
	}
	return api.WriteJSON(w, http.StatusOK, v1{
		ID:         "v1",
		MediaTypes: []mediaType{{Base: "application/json", Type: "application/vnd.openstack.magnum.v1+json"}},
		Links: []api.Link{
			{Href: app + "/v1/", Rel: "self"},
			{Href: "http://docs.openstack.org/developer/magnum/dev/api-spec-v1.html", Rel: "describedby", Type: "text/html"},
		},
		ClusterTemplates: links("clustertemplates/"),
		Clusters:         links("clusters/"),
		Quotas:           links("quotas/"),
		Certificates:     links("certificates/"),
		MServices:        links("mservices/"),
		Stats:            links("stats/"),
		Federations:      links("federations/"),
		NodeGroups:       links("clusters/{cluster_id}/nodegroups"), // literal braces, no slash behind
		Credentials:      links("credentials/"),
	})
}

// document is the OpenAPI document as JSON; it is the same for everybody.
var document = sync.OnceValues(func() ([]byte, error) { return json.Marshal(openapi.Document()) })

// openapiShow serves GET /v1/openapi.json.
func openapiShow(w http.ResponseWriter, _ *http.Request) error {
	body, err := document()
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, json.RawMessage(body))
}

type health struct {
	Detailed bool     `json:"detailed"`
	Reasons  []string `json:"reasons"`
}

// healthcheck serves /healthcheck, outside of everything else: no token, no
// request id, no version (oslo.middleware healthcheck).
func healthcheck(unhealthy func() string) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		reason, status := "", http.StatusOK
		if unhealthy != nil {
			reason = unhealthy()
		}
		if reason == "" {
			reason = "OK"
		} else {
			status = http.StatusServiceUnavailable
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return nil
		case r.Method == http.MethodHead:
			if status == http.StatusOK {
				status = http.StatusNoContent
			}
			w.WriteHeader(status)
			return nil
		case strings.Contains(r.Header.Get("Accept"), "application/json"):
			body, err := json.MarshalIndent(health{Reasons: []string{reason}}, "", "    ")
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, err = w.Write(body)
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		w.WriteHeader(status)
		_, err := w.Write([]byte(reason))
		return err
	}
}
