package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// status is the only place where a kind of fault becomes an HTTP status.
var status = [...]int{
	fault.Internal:             http.StatusInternalServerError,
	fault.Invalid:              http.StatusBadRequest,
	fault.Unauthenticated:      http.StatusUnauthorized,
	fault.Forbidden:            http.StatusForbidden,
	fault.NotFound:             http.StatusNotFound,
	fault.MethodNotAllowed:     http.StatusMethodNotAllowed,
	fault.NotAcceptable:        http.StatusNotAcceptable,
	fault.Conflict:             http.StatusConflict,
	fault.PreconditionFailed:   http.StatusPreconditionFailed,
	fault.TooLarge:             http.StatusRequestEntityTooLarge,
	fault.UnsupportedMediaType: http.StatusUnsupportedMediaType,
	fault.Unprocessable:        http.StatusUnprocessableEntity,
	fault.NotImplemented:       http.StatusNotImplemented,
	fault.Unavailable:          http.StatusServiceUnavailable,
}

// Status is the HTTP status of a kind of fault.
func Status(k fault.Kind) int {
	if int(k) < 0 || int(k) >= len(status) {
		return http.StatusInternalServerError
	}
	return status[k]
}

// ErrorBody is the body of every answer outside of 2xx and 3xx, save 401 and
// 503 of the token layer. Faultstring repeats the detail where openstacksdk
// looks for it; every other client ignores it.
type ErrorBody struct {
	Errors      []ErrorObject `json:"errors"`
	Faultstring string        `json:"faultstring"`
}

// ErrorObject is one error (spec/api.md §3.1).
type ErrorObject struct {
	RequestID string `json:"request_id"`
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	// Description, MaxVersion and MinVersion only stand in the 406 for an
	// unknown microversion (§1.5).
	Description string      `json:"description,omitempty"`
	MaxVersion  string      `json:"max_version,omitempty"`
	MinVersion  string      `json:"min_version,omitempty"`
	Links       []ErrorLink `json:"links"`
}

// ErrorLink points to help.
type ErrorLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// routeFault is a fault of routing: it has no code, and its title is the
// status' own phrase (§3.2).
type routeFault struct {
	status int
	text   string
	allow  string // of a 405
}

func (f *routeFault) Error() string { return f.text }

// versionFault is T3 or T4.
type versionFault struct{ format, asked string }

func (f *versionFault) Error() string {
	return fmt.Sprintf(f.format, f.asked, ServiceType+" "+MinVersion.String(), ServiceType+" "+MaxVersion.String())
}

// errorBody turns any error into status and body.
func errorBody(ctx context.Context, err error) (int, ErrorBody) {
	o := ErrorObject{RequestID: identity.RequestID(ctx), Links: []ErrorLink{}}
	var rf *routeFault
	var vf *versionFault
	switch {
	case errors.As(err, &rf):
		o.Status, o.Title, o.Detail = rf.status, http.StatusText(rf.status), rf.text
	case errors.As(err, &vf):
		o.Code, o.Status = "magnum.microversion-unsupported", http.StatusNotAcceptable
		o.Title, o.Detail = "Requested microversion is unsupported", vf.Error()
		o.Description = o.Detail // B06: python-magnumclient reads either
		o.MaxVersion, o.MinVersion = MaxVersion.String(), MinVersion.String()
		o.Links = append(o.Links, ErrorLink{Rel: "help", Href: "http://docs.openstack.org/api-guide/compute/microversions.html"})
	default:
		o.Status, o.Detail = Status(fault.KindOf(err)), fault.Text(err)
		o.Title = title(o.Detail)
		o.Code = "client"
		if o.Status >= 500 {
			o.Code = "server"
		}
	}
	return o.Status, ErrorBody{Errors: []ErrorObject{o}, Faultstring: o.Detail}
}

// title is the detail's first sentence without its full stop. Magnum cuts at
// any full stop, also inside of an address or a name (B12).
func title(detail string) string {
	if i := strings.Index(detail, ". "); i >= 0 {
		return detail[:i]
	}
	return strings.TrimSuffix(detail, ".")
}

// invalid is INV(field, value, message) of the spec.
func invalid(field, value, message string) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Text: "Invalid input for field/attribute " + field +
		". Value: '" + clip(value) + "'. " + message}
}

// clip bounds what is repeated of a request in an error.
func clip(s string) string {
	const most = 8192
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// MissingArgument is the fault for a part of the path or a body that is not there.
func MissingArgument(name string) error {
	return &fault.Error{Kind: fault.Invalid, Text: `Missing argument: "` + name + `"`}
}

func unknownArgument(names string) error {
	return &fault.Error{Kind: fault.Invalid, Text: `Unknown argument: "` + clip(names) + `"`}
}

// Invalid is the fault of a field that a handler checks itself:
// Invalid input for field/attribute FIELD. Value: 'VALUE'. MESSAGE. The value
// is printed as Magnum does, in Python's notation.
func Invalid(field string, value any, message string) error {
	return invalid(field, pyStr(value), message)
}
