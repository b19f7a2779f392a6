package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"carafe/shared/fault"
)

// arg is a query parameter as converted.
type arg struct {
	param *Param
	given bool
	text  string
	v     any // int64, bool, time.Time; for UUID the canonical text
}

// Query are the query parameters of a request, checked against its route. A
// name that the route does not have is an error of the program: it panics.
type Query struct{ args []arg }

// QueryOf are the query parameters of the request.
func QueryOf(r *http.Request) Query {
	if rq := requestOf(r.Context()); rq != nil {
		return Query{rq.args}
	}
	return Query{}
}

func (q Query) get(name string) *arg {
	for i := range q.args {
		if q.args[i].param.Name == name {
			return &q.args[i]
		}
	}
	panic("api: the route has no parameter " + name)
}

// Has reports whether the parameter was given, also if it is empty.
func (q Query) Has(name string) bool { return q.get(name).given }

// Text is the parameter as given; a UUID in canonical spelling.
func (q Query) Text(name string) string { return q.get(name).text }

// Bool is the parameter, or false.
func (q Query) Bool(name string) bool {
	b, _ := q.get(name).v.(bool)
	return b
}

// Time is the parameter, or the zero time.
func (q Query) Time(name string) time.Time {
	t, _ := q.get(name).v.(time.Time)
	return t
}

// pair is a key and a value of a query or a form.
type pair struct{ key, value string }

// parsePairs reads a query as Python does: nothing is ever an error, and a
// value may be empty.
func parsePairs(s string) []pair {
	if s == "" {
		return nil
	}
	pairs := make([]pair, 0, 8)
	for part := range strings.SplitSeq(s, "&") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{unescape(key), unescape(value)})
	}
	return pairs
}

func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	u, err := url.QueryUnescape(s)
	if err != nil {
		u = s
	}
	return strings.ToValidUTF8(u, "\uFFFD")
}

// parseArgs converts the parameters in the order of the table, then reports
// those that the route does not have.
func (rq *request) parseArgs(pairs []pair) error {
	route := rq.endpoint.route
	if len(route.Query) == 0 && len(pairs) == 0 {
		return nil
	}
	rq.args = make([]arg, len(route.Query))
	for i := range route.Query {
		p := &route.Query[i]
		a := &rq.args[i]
		a.param = p
		if p.Since > rq.version.Minor {
			continue
		}
		if err := a.read(rq, pairs); err != nil {
			return err
		}
	}
	var unknown map[string]bool
	for _, kv := range pairs {
		if !rq.knows(kv.key) {
			if unknown == nil {
				unknown = map[string]bool{}
			}
			unknown[kv.key] = true
		}
	}
	if unknown != nil {
		return unknownArgument(joinSorted(slices.Collect(maps.Keys(unknown)))) // B20: sorted
	}
	for i := range rq.args {
		if a := &rq.args[i]; a.param.Mandatory && !a.given {
			return MissingArgument(a.param.Name)
		}
	}
	return nil
}

func (rq *request) knows(name string) bool {
	for i := range rq.args {
		if p := rq.args[i].param; p.Name == name {
			return p.Since <= rq.version.Minor
		}
	}
	return false
}

func (a *arg) read(rq *request, pairs []pair) error {
	count := 0
	for _, kv := range pairs {
		if kv.key == a.param.Name {
			a.text = kv.value
			count++
		}
	}
	if rq.endpoint.last == a.param.Name {
		a.text = rq.params[len(rq.endpoint.keys)-1]
		count++
	}
	switch {
	case count == 0:
		return nil
	case count > 1:
		return repeated(a.param, pairs)
	}
	a.given = true
	return a.convert()
}

func repeated(p *Param, pairs []pair) error {
	var all []any
	for _, kv := range pairs {
		if kv.key == p.Name {
			all = append(all, kv.value)
		}
	}
	message := "Value should be given once"
	if p.Type == Int {
		message = "unable to convert to int. Error: int() argument must be a string, a bytes-like object or a real number, not 'list'"
	}
	return invalid(p.Name, pyStr(all), message)
}

func (a *arg) convert() error {
	name := a.param.Name
	switch a.param.Type {
	case Int:
		n, ok := pyInt(a.text)
		if !ok {
			return invalid(name, a.text, "unable to convert to int. Error: invalid literal for int() with base 10: "+clip(pyRepr(a.text)))
		}
		a.v = n
	case UUID:
		uuid, ok := UUIDLike(a.text)
		if !ok {
			return invalid(name, a.text, "unable to convert to uuid. Error: Expected a uuid but received "+clip(a.text)+".")
		}
		a.text = uuid
	case Bool:
		b, ok := parseBool(a.text)
		if !ok { // B15
			return invalid(name, a.text, "unable to convert to bool. Error: Unrecognized value '"+clip(a.text)+"', "+boolWords)
		}
		a.v = b
	case Enum:
		if !slices.Contains(a.param.Enum, a.text) {
			return invalid(name, a.text, "Value should be one of: "+strings.Join(a.param.Enum, ", "))
		}
	case Timestamp:
		t, ok := parseTime(a.text)
		if !ok {
			return invalid(name, a.text, "Value should be an ISO 8601 time like 2026-12-01T00:00:00+00:00")
		}
		a.v = t
	default:
		if strings.IndexByte(a.text, 0) >= 0 {
			return invalid(name, a.text, noNUL)
		}
		if utf8.RuneCountInString(a.text) < a.param.Min {
			return invalid(name, a.text, "Value should have a minimum character requirement of "+strconv.Itoa(a.param.Min))
		}
	}
	return nil
}

func parseTime(s string) (time.Time, bool) {
	// A + that was not escaped in the query has become a space.
	if i := len(s) - len(" 00:00"); i > 0 && s[i] == ' ' && strings.IndexByte(s, 'T') > 0 {
		s = s[:i] + "+" + s[i+1:]
	}
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// bodyPairs reads the body of a route that takes none: a form adds to the
// query, a JSON object may only hold what the query could.
func bodyPairs(contentType string, raw []byte) ([]pair, error) {
	if contentType == formType {
		return parsePairs(string(raw)), nil
	}
	root, err := parseBody(raw, "body")
	if err != nil {
		return nil, err
	}
	o, ok := root.(*object)
	if !ok {
		return nil, fault.New(fault.Invalid, "Request must be a JSON dict")
	}
	pairs := make([]pair, 0, len(o.keys))
	for _, k := range o.keys {
		pairs = append(pairs, pair{k, pyStr(o.vals[k])})
	}
	return pairs, nil
}
