package openapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/api"
	"carafe/shared/magnum"
)

func schemas() object {
	all := object{}
	for name, s := range fixed {
		all[name] = s
	}
	for i := range api.Routes {
		r := &api.Routes[i]
		if r.Body != nil {
			all[requestName(r.Body)] = request(r.Body.Fields)
		}
		if r.Patch != nil {
			all[patchName(r)] = patch(r.Patch)
		}
	}
	for _, res := range []struct {
		name, collection string
		fields           []api.Field
		detailOnly       bool     // the list shows the whole object
		optional         []string // not in every answer
	}{
		{name: "ClusterTemplate", collection: "clustertemplates", fields: api.ClusterTemplateCreate.Fields, detailOnly: true},
		{name: "Cluster", collection: "clusters", fields: api.ClusterCreate.Fields, optional: []string{"faults"}},
		{name: "NodeGroup", collection: "nodegroups", fields: api.NodeGroupCreate.Fields},
		{name: "Certificate", fields: api.CertificateCreate.Fields, optional: []string{"csr", "ca_cert_type"}},
		{name: "Quota", collection: "quotas", fields: api.QuotaCreate.Fields, detailOnly: true, optional: []string{"id", "created_at", "updated_at"}},
		{name: "Federation", collection: "federations", fields: api.FederationCreate.Fields},
	} {
		all[res.name] = answer(res.fields, false, res.optional)
		switch {
		case res.collection == "":
		case res.detailOnly:
			all[res.name+"List"] = collection(res.collection, res.name)
		default:
			all[res.name+"Summary"] = answer(res.fields, true, res.optional)
			all[res.name+"List"] = collection(res.collection, res.name+"Summary")
			all[res.name+"DetailList"] = collection(res.collection, res.name)
		}
	}
	for _, name := range []string{"Cluster", "NodeGroup"} {
		all[name+"Preview"] = preview(all[name].(object))
	}
	return all
}

// preview is an object that was not stored: all of its attributes are optional.
func preview(of object) object {
	return object{"type": "object", "properties": of["properties"], "additionalProperties": false,
		"description": "What would be applied."}
}

func collection(name, item string) object {
	return object{
		"type": "object", "required": []any{name}, "additionalProperties": false,
		"properties": object{
			name:   object{"type": "array", "items": schemaRef(item)},
			"next": object{"type": "string", "description": "The address of the next page; absent on the last."},
		},
	}
}

// request is what a client may send: all spellings that the decoder takes.
func request(fields []api.Field) object {
	properties, required := object{}, []any{}
	for i := range fields {
		f := &fields[i]
		if f.ReadOnly {
			continue // refused, even as null
		}
		s := input(f)
		if f.Null != api.NullMandatory {
			s = nullable(s)
		}
		if f.Doc != "" {
			s["description"] = f.Doc
		}
		if f.Default != nil && !f.Ignored {
			s["default"] = f.Default
		}
		if f.Ignored {
			s["description"] = strings.TrimSpace(f.Doc + " Accepted and not used.")
		}
		properties[f.Name] = s
		if f.Mandatory {
			required = append(required, f.Name)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func nullable(s object) object {
	if any, ok := s["anyOf"].([]any); ok {
		s["anyOf"] = append(any, object{"type": "null"})
		return s
	}
	if enum, ok := s["enum"].([]any); ok {
		s["enum"] = append(enum, nil)
	}
	s["type"] = []any{s["type"], "null"}
	return s
}

// integer is a number, or a text or a boolean that counts as one.
func integer(low, high int) object {
	number := object{"type": "number", "minimum": low, "exclusiveMaximum": high + 1, "description": "A fraction is cut off."}
	if low == 0 {
		delete(number, "minimum")
		number["exclusiveMinimum"] = -1
	}
	spellings := []any{number}
	digits := map[int]string{0: `0*[0-9]{1,9}`, 1: `0*[1-9][0-9]{0,8}`}[low]
	if digits == "" {
		digits = `0*(102[4-9]|10[3-9]\d|1[1-9]\d\d|[2-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])` // ports
	}
	spellings = append(spellings, object{"type": "string", "pattern": `^\s*\+?` + digits + `\s*$`})
	switch low {
	case 0:
		spellings = append(spellings, object{"type": "boolean"})
	case 1:
		spellings = append(spellings, object{"type": "boolean", "enum": []any{true}})
	}
	return object{"anyOf": spellings}
}

const (
	booleanText = `^\s*(0|1|[tT]|[fF]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[oO][nN]|[oO][fF][fF]|[yY]|[nN]|[yY][eE][sS]|[nN][oO])\s*$`
	uuidText    = `^(urn:)?(uuid:)?\{?([0-9a-fA-F]-?){32}\}?$`
	dnsText     = `^\s*(\d{1,3}\.){3}\d{1,3}\s*(,\s*(\d{1,3}\.){3}\d{1,3}\s*)*$`
)

// input is one field as it may be written.
func input(f *api.Field) object {
	switch f.Type {
	case api.String:
		s := object{"type": "string", "minLength": f.Min, "pattern": noNUL}
		if f.Max > 0 {
			s["maxLength"] = f.Max
		}
		if f.Pattern != nil {
			s["pattern"] = f.Pattern.Shown()
		}
		return s
	case api.Int:
		return integer(f.Bounds())
	case api.Bool:
		return object{"anyOf": []any{
			object{"type": "boolean"},
			object{"type": "integer", "enum": []any{0, 1}},
			object{"type": "string", "pattern": booleanText},
		}}
	case api.Enum:
		return object{"type": "string", "enum": anys(f.Enum)}
	case api.UUID:
		return object{"type": "string", "pattern": uuidText}
	case api.DNS:
		return object{"type": "string", "pattern": dnsText}
	case api.Labels:
		return object{"type": "object", "maxProperties": api.MaxEntries, "propertyNames": object{"pattern": noNUL},
			"additionalProperties": object{"type": []any{"string", "number", "boolean"}, "pattern": noNUL}}
	case api.StringMap:
		return object{"type": "object", "maxProperties": api.MaxEntries, "propertyNames": object{"pattern": noNUL}, "additionalProperties": text()}
	case api.StringList:
		return object{"type": "array", "maxItems": api.MaxEntries, "items": text()}
	case api.MapList:
		return object{"type": "array", "maxItems": api.MaxEntries, "items": object{"type": "object", "required": []any{"key", "effect"},
			"additionalProperties": false, "properties": object{
				"key":    object{"type": "string", "minLength": 1, "pattern": noNUL},
				"value":  object{"type": []any{"string", "null"}, "pattern": noNUL},
				"effect": object{"type": "string", "enum": []any{"NoSchedule", "PreferNoSchedule", "NoExecute"}},
			}}}
	}
	return text()
}

// answer is an object as it is shown, whole or in a list.
func answer(fields []api.Field, short bool, optional []string) object {
	properties, required := object{}, []any{}
	var either []any // fields of which each version has one
	for i := range fields {
		f := &fields[i]
		if f.RequestOnly || short && !f.Short {
			continue
		}
		s := output(f)
		doc := f.Doc
		switch {
		case f.Until > 0:
			doc += " Until microversion 1." + strconv.Itoa(f.Until) + "."
		case f.Since > 0:
			doc += " Since microversion 1." + strconv.Itoa(f.Since) + "."
		}
		if doc = strings.TrimSpace(doc); doc != "" {
			s["description"] = doc
		}
		properties[f.Name] = s
		switch {
		case f.Until > 0 || f.Since > 0 && hasUntil(fields, f.Since-1):
			either = append(either, object{"required": []any{f.Name}})
		case f.Since > 0, slices.Contains(optional, f.Name):
		default:
			required = append(required, f.Name)
		}
	}
	o := object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	if either != nil {
		o["oneOf"] = either
	}
	return o
}

func hasUntil(fields []api.Field, minor int) bool {
	return slices.ContainsFunc(fields, func(f api.Field) bool { return f.Until == minor })
}

// output is one field in an answer. Clients decode strictly: a count is an
// integer, a label is a string.
func output(f *api.Field) object {
	or := func(typ string) object { return object{"type": []any{typ, "null"}} }
	stringMap := func() object {
		return object{"type": []any{"object", "null"}, "additionalProperties": object{"type": []any{"string", "null"}}}
	}
	switch f.Type {
	case api.Int:
		return or("integer")
	case api.Bool:
		return or("boolean")
	case api.Enum:
		return object{"type": []any{"string", "null"}, "enum": append(anys(f.Enum), nil)}
	case api.UUID:
		return object{"type": "string", "format": "uuid"}
	case api.Labels, api.StringMap:
		return stringMap()
	case api.StringList:
		return object{"type": []any{"array", "null"}, "items": object{"type": "string"}}
	case api.MapList:
		return object{"type": []any{"array", "null"}, "items": stringMap()}
	case api.Timestamp:
		return object{"type": []any{"string", "null"}, "pattern": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00$`}
	case api.LinkList:
		return object{"type": "array", "items": schemaRef("Link")}
	}
	return or("string")
}

// patch is a list of operations.
func patch(p *api.PatchBody) object {
	internal := p.Internal()
	slices.Sort(internal)
	return object{
		"type": "array", "maxItems": api.MaxOperations,
		"items": object{
			"type": "object", "required": []any{"path", "op"}, "additionalProperties": false,
			"properties": object{
				"op": object{"type": "string", "enum": []any{"add", "remove", "replace"}},
				"path": object{"type": "string", "not": object{"enum": anys(internal)}, "anyOf": []any{
					object{"pattern": `^(/[A-Za-z0-9_-]+)+$`},
					object{"pattern": `^/(labels|node_labels|health_status_reason|properties)/([^~\x00]|~[01])+$`},
				}, "description": "A JSON pointer to an attribute, to a key of a map, or into a list."},
				"value": object{"type": []any{"string", "integer", "boolean", "null", "object", "array"},
					"description": "A scalar; for a map or a list also the text that holds it, as JSON or as a Python literal."},
			},
			"allOf": []any{
				object{"anyOf": []any{ // add and replace need a value
					object{"properties": object{"op": object{"enum": []any{"remove"}}}},
					object{"properties": object{"value": object{"not": object{"type": "null"}}}, "required": []any{"value"}},
				}},
				object{"anyOf": []any{ // maps and lists only where the attribute is one
					object{"properties": object{"value": object{"type": []any{"string", "integer", "boolean", "null"}}}},
					object{"properties": object{"value": object{"type": "object"}, "path": object{"enum": paths(p, api.Labels, api.StringMap)}}},
					object{"properties": object{"value": object{"type": "array"}, "path": object{"enum": paths(p, api.StringList, api.MapList)}}},
				}},
			},
		},
	}
}

// paths are those of the attributes of these types.
func paths(p *api.PatchBody, types ...api.Type) []any {
	list := []any{}
	for _, f := range p.Fields() {
		if slices.Contains(types, f.Type) {
			list = append(list, "/"+f.Name)
		}
	}
	return list
}

// fixed are the schemas that no table of fields gives.
var fixed = object{
	"Any":      object{"type": "object"},
	"Accepted": closed(object{"uuid": object{"type": "string", "format": "uuid"}}, "uuid"),
	"Link": closed(object{"href": object{"type": "string"}, "rel": object{"type": "string"}, "type": object{"type": "string"}},
		"href", "rel"),
	"Error": closed(object{
		"faultstring": object{"type": "string", "description": "The detail again."},
		"errors": object{"type": "array", "minItems": 1, "maxItems": 1, "items": closed(object{
			"request_id":  object{"type": "string"},
			"code":        object{"type": "string", "enum": []any{"", "client", "server", "magnum.microversion-unsupported"}},
			"status":      object{"type": "integer", "minimum": 400, "maximum": 599},
			"title":       object{"type": "string", "minLength": 1, "description": "The first sentence of the detail."},
			"detail":      object{"type": "string", "minLength": 1},
			"description": object{"type": "string", "description": "The detail of an unsupported microversion again."},
			"max_version": object{"type": "string"},
			"min_version": object{"type": "string"},
			"links":       object{"type": "array", "items": schemaRef("Link")},
		}, "request_id", "code", "status", "title", "detail", "links")},
	}, "errors", "faultstring"),
	"TokenError": closed(object{"error": closed(object{
		"code": object{"type": "integer"}, "title": object{"type": "string"}, "message": object{"type": "string"},
	}, "code", "title", "message")}, "error"),
	"VersionList": closed(object{
		"name": object{"type": "string"}, "description": object{"type": "string"},
		"versions": object{"type": "array", "items": closed(object{
			"id": object{"type": "string"}, "status": object{"type": "string", "enum": []any{"CURRENT"}},
			"min_version": object{"type": "string"}, "max_version": object{"type": "string"},
			"links": object{"type": "array", "items": schemaRef("Link")},
		}, "id", "links", "status", "max_version", "min_version")},
	}, "name", "description", "versions"),
	"V1": v1(),
	"Stats": closed(object{"clusters": object{"type": "integer", "minimum": 0}, "nodes": object{"type": "integer", "minimum": 0}},
		"clusters", "nodes"),
	"ServiceList": closed(object{"mservices": object{"type": "array", "items": closed(object{
		"host": nullableString, "binary": nullableString, "state": object{"type": "string", "enum": []any{"up", "down"}},
		"id": object{"type": "integer"}, "report_count": object{"type": "integer"}, "disabled": object{"type": []any{"boolean", "null"}},
		"disabled_reason": nullableString, "created_at": nullableString, "updated_at": nullableString,
	}, "host", "binary", "state", "id", "report_count", "disabled", "disabled_reason", "created_at", "updated_at")}}, "mservices"),
	// These two are Carafe's own: what was done to a cluster, and what was told of it.
	"OperationList": history("operations", object{
		"id": uuid, "kind": object{"type": "string", "enum": kinds()}, "nodegroup_id": nullableString,
		"state":     object{"type": "string", "enum": states()},
		"arguments": object{"description": "What the kind of operation needs."},
		"error":     nullableString, "error_code": nullableString, "attempt": object{"type": "integer"},
		"steps":         object{"type": []any{"array", "null"}, "items": object{"type": "string"}},
		"superseded_by": nullableString, "user_id": object{"type": "string"}, "project_id": object{"type": "string"},
		"request_id": object{"type": "string"}, "created_at": object{"type": "string"}, "started_at": nullableString,
		"finished_at": nullableString, "deadline_at": nullableString,
	}),
	"EventList": history("events", object{
		"id": object{"type": "string"}, "type": object{"type": "string"}, "outcome": object{"type": "string"},
		"priority": object{"type": "string"}, "operation_id": nullableString, "request_id": object{"type": "string"},
		"time": object{"type": "string"}, "published_at": nullableString, "data": object{"description": "The CADF payload."},
	}),
}

var uuid = object{"type": "string", "format": "uuid"}

func kinds() []any { return anys(magnum.OperationKinds) }

func states() []any {
	return []any{magnum.Pending, magnum.Running, magnum.Waiting, magnum.Succeeded, magnum.FailedOp, magnum.Superseded}
}

var nullableString = object{"type": []any{"string", "null"}}

func closed(properties object, required ...string) object {
	return object{"type": "object", "properties": properties, "required": anys(required), "additionalProperties": false}
}

// history is a list of objects that have all of their properties.
func history(name string, properties object) object {
	required := slices.Sorted(maps.Keys(properties))
	return closed(object{
		name:   object{"type": "array", "items": closed(properties, required...)},
		"next": object{"type": "string"},
	}, name)
}

func v1() object {
	properties := object{"id": object{"type": "string", "enum": []any{"v1"}},
		"media_types": object{"type": "array", "items": closed(object{"base": object{"type": "string"}, "type": object{"type": "string"}}, "base", "type")}}
	names := []string{"id", "media_types", "links"}
	names = append(names, "clustertemplates", "clusters", "quotas", "certificates", "mservices", "stats", "federations", "nodegroups", "credentials")
	for _, n := range names[2:] {
		properties[n] = object{"type": "array", "items": schemaRef("Link")}
	}
	return closed(properties, names...)
}
