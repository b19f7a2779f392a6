// Package openapi describes the API in OpenAPI 3.1, made from the tables that
// the API itself is made from: routes, query parameters and fields. Answers
// that have no field table are described here.
//
// The document holds for every microversion: what a version has, the
// description of a field or the pattern of the version header says.
package openapi

//go:generate go run ./gen ../../../schema/openapi.yaml

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/api"
)

type object = map[string]any

// Document is the whole description, ready to be encoded.
func Document() map[string]any {
	paths := object{}
	for i := range api.Routes {
		r := &api.Routes[i]
		path := r.Path
		if path != "/" && path != "/v1" {
			path = "/v1" + path
		}
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(r.Method)] = operation(r)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":       "Container infrastructure management API",
			"version":     api.MaxVersion.String(),
			"description": "The container-infra v1 API of OpenStack Magnum, microversions " + api.MinVersion.String() + " to " + api.MaxVersion.String() + ", as Carafe serves it.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas":         schemas(),
			"securitySchemes": object{"token": object{"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "A Keystone token."}},
			"headers":         headers,
			"responses":       errorResponses(),
			"parameters":      versionHeaders(),
		},
	}
}

var headers = object{
	"RequestId":  object{"required": true, "schema": object{"type": "string", "pattern": "^req-[0-9a-f-]{36}$"}},
	"Version":    object{"required": true, "schema": object{"type": "string"}, "description": "The microversion of this answer."},
	"MinVersion": object{"required": true, "schema": object{"type": "string"}},
	"MaxVersion": object{"required": true, "schema": object{"type": "string"}},
	"Etag":       object{"schema": object{"type": "string"}, "description": "The version of the object, for If-Match."},
	"Location":   object{"required": true, "schema": object{"type": "string"}},
}

func headerRef(name string) object { return object{"$ref": "#/components/headers/" + name} }

func schemaRef(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func operation(r *api.Route) object {
	op := object{
		"operationId": r.Operation,
		"summary":     r.Summary,
		"tags":        []any{r.Function},
		"responses":   responses(r),
	}
	if len(r.Rules) > 0 {
		op["x-policy-rules"] = anys(r.Rules)
	}
	if r.Min > 0 {
		op["description"] = "Since microversion 1." + strconv.Itoa(r.Min) + "."
	}
	if slices.Contains(public, r.Operation) {
		op["security"] = []any{}
	}
	if p := parameters(r); len(p) > 0 {
		op["parameters"] = p
	}
	if body := requestBody(r); body != nil {
		op["requestBody"] = body
	}
	return op
}

// public are the operations that need no token with the default settings.
var public = []string{"version_list", "version_show", "openapi_show"}

func parameters(r *api.Route) []any {
	var list []any
	for segment := range strings.SplitSeq(r.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			list = append(list, object{"name": strings.Trim(segment, "{}"), "in": "path", "required": true,
				"schema": object{"type": "string", "minLength": 1}})
		}
	}
	for i := range r.Query {
		list = append(list, query(r, &r.Query[i]))
	}
	if r.Operation != "version_list" {
		list = append(list, object{"$ref": "#/components/parameters/" + versionName(r.Min)})
	}
	if r.Idempotent {
		list = append(list, object{"name": "Idempotency-Key", "in": "header",
			"description": "The same key with the same body is answered once.",
			"schema":      object{"type": "string", "minLength": 1, "maxLength": 255, "pattern": `^[ -~]*[!-~][ -~]*$`}})
	}
	if conditional(r) {
		list = append(list, object{"name": "If-Match", "in": "header", "schema": object{"type": "string"},
			"description": "The ETag that the object must have, else 412."})
	}
	return list
}

// conditional routes change one object that has an ETag.
func conditional(r *api.Route) bool {
	return slices.Contains([]string{"clusters", "clustertemplates", "nodegroups"}, r.Function) &&
		(r.Method == http.MethodPatch || r.Method == http.MethodDelete)
}

func versionName(min int) string {
	if min <= api.MinVersion.Minor {
		return "Version"
	}
	return "VersionFrom1." + strconv.Itoa(min)
}

// versionHeaders are the parameters of the routes by the version that has them first.
func versionHeaders() object {
	all := object{}
	for i := range api.Routes {
		all[versionName(api.Routes[i].Min)] = versionHeader(api.Routes[i].Min)
	}
	return all
}

func versionHeader(min int) object {
	versions := []any{}
	for m := max(min, api.MinVersion.Minor); m <= api.MaxVersion.Minor; m++ {
		versions = append(versions, "container-infra 1."+strconv.Itoa(m))
	}
	h := object{"name": "OpenStack-API-Version", "in": "header",
		"description": "The microversion; 1.1 if absent. The service may also be called container-infrastructure or container-infrastructure-management, and the header may be a list for several services.",
		"schema":      object{"type": "string", "enum": append(versions, "container-infra latest")}}
	if min > api.MinVersion.Minor {
		h["required"] = true // 1.1 does not have the route
		return h
	}
	// A list without an entry for this service asks it for nothing (B05).
	h["schema"] = object{"anyOf": []any{h["schema"], object{"type": "string", "pattern": otherServices}}}
	return h
}

// otherServices is a list of versions for other services, of two at least.
const otherServices = `^[!-+\--~]+[ \t]+[!-+\--~]+([ \t]*,[ \t]*[!-+\--~]+[ \t]+[!-+\--~]+)+$`

func query(r *api.Route, p *api.Param) object {
	q := object{"name": p.Name, "in": "query", "schema": querySchema(r, p)}
	doc := p.Doc
	if p.Since > 0 {
		doc = strings.TrimSpace(doc + " Since microversion 1." + strconv.Itoa(p.Since) + ".")
	}
	if doc != "" {
		q["description"] = doc
	}
	if p.Mandatory {
		q["required"] = true
	}
	return q
}

func querySchema(r *api.Route, p *api.Param) object {
	switch {
	case p.Name == "sort_key":
		return object{"type": "string", "enum": append(anys(r.SortKeys), ""), "default": "id"}
	case p.Name == "sort_dir":
		return object{"type": "string", "enum": []any{"asc", "desc"}, "default": "asc"}
	case p.Name == "type":
		return object{"type": "string", "enum": []any{"cluster"}, "default": "cluster"}
	case p.Name == "ca_cert_type":
		return object{"type": "string", "enum": append(anys(api.CACertTypes), "")}
	}
	switch p.Type {
	case api.Int:
		if p.Name == "limit" {
			return object{"type": "integer", "minimum": 1}
		}
		return object{"type": "integer"}
	case api.Bool:
		return object{"type": "boolean"}
	case api.UUID:
		return object{"type": "string", "format": "uuid"}
	case api.Enum:
		return object{"type": "string", "enum": anys(p.Enum)}
	case api.Timestamp:
		return object{"type": "string", "format": "date-time"}
	}
	if p.Min > 0 {
		return object{"type": "string", "minLength": p.Min, "pattern": noNUL}
	}
	return text()
}

func requestBody(r *api.Route) object {
	name := ""
	switch {
	case r.Body != nil:
		name = requestName(r.Body)
	case r.Patch != nil:
		name = patchName(r)
	default:
		return nil
	}
	return object{"required": true, "content": object{"application/json": object{"schema": schemaRef(name)}}}
}

func requestName(b *api.Body) string {
	if strings.HasSuffix(b.Name, "Request") {
		return b.Name
	}
	return b.Name + "Request"
}

func patchName(r *api.Route) string { return r.Resource() + "Patch" }

// errorStatuses are those that any operation may answer with, as the kinds of
// faults have them; 406 and 413 come from the request alone.
var errorStatuses = []int{400, 401, 403, 404, 406, 409, 412, 413, 415, 422, 500, 501, 503}

func responses(r *api.Route) object {
	all := object{strconv.Itoa(r.Status): success(r, r.Status, r.Answer)}
	if r.Has("dry_run") {
		all["200"] = success(r, 200, r.Resource()+"Preview")
	}
	for _, s := range errorStatuses {
		all[strconv.Itoa(s)] = object{"$ref": "#/components/responses/" + errorName(s)}
	}
	return all
}

func errorName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// errorResponses are the answers that every operation may give.
func errorResponses() object {
	id := object{"x-openstack-request-id": headerRef("RequestId")}
	all := object{}
	for _, s := range errorStatuses {
		schema := schemaRef("Error")
		switch s {
		case http.StatusUnauthorized:
			schema = schemaRef("TokenError")
		case http.StatusServiceUnavailable: // of Keystone, or of what an operation needs
			schema = object{"anyOf": []any{schemaRef("Error"), schemaRef("TokenError")}}
		}
		all[errorName(s)] = object{"description": http.StatusText(s), "headers": id, "content": object{"application/json": object{"schema": schema}}}
	}
	return all
}

func jsonOf(schema string) object {
	return object{"application/json": object{"schema": schemaRef(schema)}}
}

func success(r *api.Route, status int, schema string) object {
	resp := response(r, http.StatusText(status), schema)
	h := resp["headers"].(object)
	if r.Operation == "clustertemplate_create" {
		h["Location"] = headerRef("Location")
	}
	if conditional(r) || strings.HasSuffix(r.Operation, "_show") {
		h["ETag"] = headerRef("Etag")
	}
	return resp
}

func response(r *api.Route, description, schema string) object {
	h := object{"x-openstack-request-id": headerRef("RequestId")}
	if r.Operation != "version_list" {
		h["OpenStack-API-Version"] = headerRef("Version")
		h["OpenStack-API-Minimum-Version"] = headerRef("MinVersion")
		h["OpenStack-API-Maximum-Version"] = headerRef("MaxVersion")
	}
	resp := object{"description": description, "headers": h}
	if schema != "" {
		resp["content"] = jsonOf(schema)
	}
	return resp
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func text() object { return object{"type": "string", "pattern": noNUL} }

// noNUL: PostgreSQL cannot store it.
const noNUL = `^[^\x00]*$`
