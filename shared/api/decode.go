package api

import (
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"carafe/shared/fault"
)

// pattern is a regular expression and how Magnum writes it.
type pattern struct {
	shown string
	re    *regexp.Regexp
}

func newPattern(shown, goSyntax string) *pattern {
	return &pattern{shown: shown, re: regexp.MustCompile(goSyntax)}
}

const notJSON = "Request is not in valid JSON format"

// Decode reads the body of a request as the object that the route takes.
// Unknown keys are reported first, then the first field that is wrong, in the
// order of the table; every fault is of kind Invalid and names its field.
//
// Magnum reads the body before it asks the policy, so a handler decodes first.
func Decode(r *http.Request, body *Body) (Values, error) {
	raw := Raw(r)
	if len(raw) == 0 {
		return Values{}, MissingArgument(body.Argument)
	}
	root, err := parseBody(raw, body.Argument)
	if err != nil {
		return Values{}, err
	}
	return body.decode(root)
}

// parseBody reads JSON from the bytes of a request.
func parseBody(raw []byte, argument string) (any, error) {
	if !utf8.Valid(raw) {
		return nil, fault.New(fault.Invalid, "Request is not in valid JSON format: it is not UTF-8.")
	}
	root, err := parseJSON(string(raw))
	switch err {
	case nil:
		return root, nil
	case errDepth:
		return nil, fault.New(fault.Invalid, "Invalid input for field/attribute %s. Value nested deeper than %d levels.", argument, maxDepth)
	}
	return nil, fault.New(fault.Invalid, notJSON)
}

// decode checks a parsed body against the table.
func (b *Body) decode(root any) (Values, error) {
	o, ok := root.(*object)
	if !ok {
		return Values{}, invalid(b.Argument, pyStr(root), "Value not a valid dict: "+clip(pyStr(root))) // B19
	}
	// The framework takes a key that is called like the argument for the
	// argument itself, and cannot make an object of it.
	if v, ok := o.vals[b.Argument]; ok && b.Field(b.Argument) == nil {
		return Values{}, invalid(b.Argument, pyStr(v), cannotConvert(b.Name))
	}
	if err := unknownKeys(o, b.Argument, b.index); err != nil {
		return Values{}, err
	}
	vals := Values{body: b, have: make([]value, len(b.Fields))}
	for i := range b.Fields {
		f := &b.Fields[i]
		v, sent := o.vals[f.Name]
		if err := f.put(&vals.have[i], v, sent, b.Argument, root); err != nil {
			return Values{}, err
		}
	}
	return vals, nil
}

// cannotConvert is what the framework says of a value that it takes for the
// whole body argument (recorded from Magnum 23.0.0 for clusters and templates).
func cannotConvert(name string) string {
	return "unable to convert to " + name + ". Error: " + name + ".__init__() takes 1 positional argument but 2 were given"
}

func unknownKeys[T any](o *object, argument string, known map[string]T) error {
	var unknown []string
	for _, k := range o.keys {
		if _, ok := known[k]; !ok {
			unknown = append(unknown, k)
		}
	}
	if unknown == nil {
		return nil
	}
	text := "Unknown attribute for argument "
	if len(unknown) > 1 {
		text = "Unknown attributes for argument "
	}
	return &fault.Error{Kind: fault.Invalid, Text: text + argument + ": " + clip(joinSorted(unknown))}
}

// put checks one field of a body and keeps its value.
func (f *Field) put(to *value, v any, sent bool, argument string, root any) error {
	if !sent || v == nil && f.Null != NullNone {
		if f.Mandatory && !sent || f.Null == NullMandatory && sent {
			return invalid(f.Name, "None", "Mandatory field missing.")
		}
		if f.ReadOnly && sent {
			return invalid(f.Name, "None", "Cannot set read only field.")
		}
		if !f.Ignored {
			to.sent = sent
			to.v = f.Default
		}
		return nil
	}
	converted, ff := f.convert(v)
	if ff == nil && f.ReadOnly {
		ff = &fieldFault{value: converted, message: "Cannot set read only field."}
	}
	if ff == nil && converted != nil {
		converted, ff = f.check(converted)
	}
	if ff != nil {
		return ff.at(f.Name, argument, root)
	}
	if !f.Ignored {
		*to = value{sent: true, null: converted == nil, v: converted}
	}
	return nil
}

// convert is the first of two steps: numbers from strings, containers as such.
// What it gives is printed where the second step, check, fails.
func (f *Field) convert(v any) (any, *fieldFault) {
	if v == nil {
		return nil, nil
	}
	switch f.Type {
	case Int:
		return toInt(v)
	case Labels, StringMap:
		if _, ok := v.(*object); !ok {
			return nil, &fieldFault{value: v, whole: true, message: "Value not a valid dict: " + clip(pyStr(v))}
		}
	case StringList, LinkList, MapList:
		list, ok := v.([]any)
		if !ok {
			return nil, &fieldFault{value: v, whole: true, message: "Value not a valid list: " + clip(pyStr(v))}
		}
		if f.Type == MapList {
			for _, e := range list {
				if _, ok := e.(*object); !ok && e != nil {
					return nil, &fieldFault{value: v, whole: true, message: "Value not a valid dict: " + clip(pyStr(e))}
				}
			}
		}
	case Timestamp:
		if s, ok := v.(string); ok {
			t, ok := pyDatetime(s)
			if !ok {
				return nil, &fieldFault{value: v, whole: true, message: "Unknown string format: %s"} // verbatim
			}
			return t, nil
		}
	}
	return v, nil
}

// toInt is Python's int(v); the result is int64 or bigInt.
func toInt(v any) (any, *fieldFault) {
	switch v := v.(type) {
	case int64, bigInt:
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		switch {
		case math.IsNaN(v):
			return nil, &fieldFault{value: v, whole: true, message: "cannot convert float NaN to integer"}
		case math.IsInf(v, 0):
			return nil, &fieldFault{value: v, message: "cannot convert float infinity to integer"} // B19
		case math.Abs(v) < 1<<62:
			return int64(v), nil
		}
		return bigInt(strconv.FormatFloat(math.Trunc(v), 'f', 0, 64)), nil
	case string:
		if n, ok := pyInt(v); ok {
			return n, nil
		}
		return nil, &fieldFault{value: v, whole: true, message: "invalid literal for int() with base 10: " + clip(pyRepr(v))}
	}
	return nil, &fieldFault{value: v, // B19
		message: "int() argument must be a string, a bytes-like object or a real number, not '" + pyType(v) + "'"}
}

// check is the second step: limits, and the value as the domain wants it.
func (f *Field) check(v any) (any, *fieldFault) {
	switch f.Type {
	case Text, String:
		return f.checkString(v)
	case Int:
		return f.checkInt(v)
	case Bool:
		return checkBool(v)
	case Enum:
		switch s := v.(type) {
		case string:
			if slices.Contains(f.Enum, s) {
				return s, nil
			}
		case []any, *object:
			return nil, &fieldFault{value: v, message: "unhashable type: '" + pyType(v) + "'"}
		}
		return nil, &fieldFault{value: v, message: "Value should be one of: " + strings.Join(f.Enum, ", ")}
	case UUID:
		if s, ok := v.(string); ok {
			if uuid, ok := UUIDLike(s); ok {
				return uuid, nil
			}
		}
		return nil, &fieldFault{alone: true, message: "Expected a uuid but received " + clip(pyStr(v)) + "."}
	case DNS:
		return checkDNS(v)
	case Labels, StringMap:
		return f.checkMap(v)
	case StringList:
		return f.checkList(v)
	case MapList:
		return f.checkMaps(v)
	}
	return v, nil
}

const noNUL = "Value should not contain NUL characters" // PostgreSQL has no such text

func (f *Field) checkString(v any) (any, *fieldFault) {
	s, ok := v.(string)
	if !ok && f.Type == Text {
		return nil, wrongType(v, "<class 'str'>", v)
	}
	if !ok {
		return nil, &fieldFault{value: v, message: "Value should be string"}
	}
	if f.Min > 0 || f.Max > 0 {
		n := utf8.RuneCountInString(s)
		if n < f.Min {
			return nil, &fieldFault{value: v, message: "Value should have a minimum character requirement of " + strconv.Itoa(f.Min)}
		}
		if f.Max > 0 && n > f.Max {
			return nil, &fieldFault{value: v, message: "Value should have a maximum character requirement of " + strconv.Itoa(f.Max)}
		}
	}
	if f.Pattern != nil && !f.Pattern.re.MatchString(s) {
		return nil, &fieldFault{value: v, message: "Value should match the pattern " + f.Pattern.shown}
	}
	if strings.IndexByte(s, 0) >= 0 {
		return nil, &fieldFault{value: v, message: noNUL}
	}
	return s, nil
}

func wrongType(value any, expected string, got any) *fieldFault {
	return &fieldFault{value: value, message: "Wrong type. Expected '" + expected + "', got '" + pyClass(got) + "'"}
}

func (f *Field) checkInt(v any) (any, *fieldFault) {
	n, ok := v.(int64)
	if !ok { // a bigInt; its sign says on which side
		n = math.MaxInt64
		if big, _ := v.(bigInt); strings.HasPrefix(string(big), "-") {
			n = math.MinInt64
		}
	}
	if n < int64(f.Min) {
		return nil, &fieldFault{value: v, message: "Value should be greater or equal to " + strconv.Itoa(f.Min)}
	}
	if n > int64(f.top()) {
		return nil, &fieldFault{value: v, message: "Value should be lower or equal to " + strconv.Itoa(f.top())}
	}
	return int(n), nil
}

const boolWords = "acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"

func checkBool(v any) (any, *fieldFault) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	s := pyStr(v)
	if b, ok := parseBool(s); ok {
		return b, nil
	}
	return nil, &fieldFault{value: v, message: "Unrecognized value '" + clip(s) + "', " + boolWords} // B15
}

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}

func checkDNS(v any) (any, *fieldFault) {
	s, ok := v.(string)
	if !ok {
		return nil, wrongType(v, "<class 'str'>", v) // B19
	}
	for one := range strings.SplitSeq(s, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(one)); err != nil || !a.Is4() {
			return nil, &fieldFault{alone: true,
				message: "Expected a single dns address or comma separated dns list, but received " + clip(s) + "."}
		}
	}
	return s, nil
}

const labelTypes = "(<class 'str'>, <class 'int'>, <class 'bool'>, <class 'float'>)"

func (f *Field) checkMap(v any) (any, *fieldFault) {
	o, ok := v.(*object)
	if !ok {
		one := "<class 'str'>"
		if f.Type == Labels {
			one = labelTypes
		}
		return nil, wrongType(v, "{<class 'str'>: "+one+"}", v)
	}
	if len(o.keys) > maxEntries {
		return nil, tooMany(v)
	}
	m := make(map[string]string, len(o.keys))
	for _, k := range o.keys {
		e := o.vals[k]
		s, ok := e.(string)
		if !ok {
			switch e.(type) {
			case nil: // B31
				return nil, &fieldFault{value: v, message: "Field `" + f.Name + "[" + clip(k) + "]' cannot be None"}
			case bool, int64, bigInt, float64:
				if f.Type != Labels {
					return nil, wrongType(v, "<class 'str'>", e)
				}
				s = pyStr(e)
			default:
				if f.Type == Labels {
					return nil, wrongType(v, labelTypes, e)
				}
				return nil, wrongType(v, "<class 'str'>", e)
			}
		}
		if strings.IndexByte(k, 0) >= 0 || strings.IndexByte(s, 0) >= 0 {
			return nil, &fieldFault{value: v, message: noNUL}
		}
		m[k] = s
	}
	return m, nil
}

func tooMany(v any) *fieldFault {
	return &fieldFault{value: v, message: "Value should have at most " + strconv.Itoa(maxEntries) + " entries"}
}

func (f *Field) checkList(v any) (any, *fieldFault) {
	list, ok := v.([]any)
	if !ok {
		return nil, wrongType(v, "[<class 'str'>]", v)
	}
	if len(list) > maxEntries {
		return nil, tooMany(v)
	}
	out := make([]string, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, wrongType(v, "<class 'str'>", e)
		}
		if strings.IndexByte(s, 0) >= 0 {
			return nil, &fieldFault{value: v, message: noNUL}
		}
		out[i] = s
	}
	return out, nil
}

func (f *Field) checkMaps(v any) (any, *fieldFault) {
	list, ok := v.([]any)
	if !ok {
		return nil, wrongType(v, "[{<class 'str'>: <class 'str'>}]", v)
	}
	if len(list) > maxEntries {
		return nil, tooMany(v)
	}
	out := make([]map[string]string, len(list))
	for i, e := range list {
		if e == nil {
			continue // the rules of the domain refuse it, in their own words
		}
		o, ok := e.(*object)
		if !ok {
			return nil, wrongType(v, "{<class 'str'>: <class 'str'>}", e)
		}
		out[i] = make(map[string]string, len(o.keys))
		for _, k := range o.keys {
			s, ok := o.vals[k].(string)
			switch {
			case !ok && o.vals[k] == nil:
				continue // an optional key that is null is absent
			case !ok:
				return nil, wrongType(v, "<class 'str'>", o.vals[k])
			case strings.IndexByte(k, 0) >= 0 || strings.IndexByte(s, 0) >= 0:
				return nil, &fieldFault{value: v, message: noNUL}
			}
			out[i][k] = s
		}
	}
	return out, nil
}

// pyDatetime prints a time as Python's str does; only a read-only field that a
// client sends back is ever read so.
func pyDatetime(s string) (string, bool) {
	for _, layout := range [...]string{
		"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		out := "2006-01-02 15:04:05"
		if t.Nanosecond()/1000 != 0 {
			out += ".000000"
		}
		if strings.Contains(layout, "07") {
			out += "-07:00"
		}
		return t.Format(out), true
	}
	return "", false
}
