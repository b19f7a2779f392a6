package api

import (
	"maps"
	"math"
	"slices"
	"strings"

	"carafe/shared/fault"
)

// Type is what a field holds (spec/api.md §4.0.1).
type Type int

const (
	Text       Type = iota // any string
	String                 // a string with limits
	Int                    // a 32-bit integer with limits
	Bool                   // true, false and their many spellings
	Enum                   // one of a few strings
	UUID                   // anything UUID-like
	DNS                    // IPv4 addresses with commas between
	Labels                 // string, integer, boolean or float by name; kept as strings
	StringMap              // string by name
	StringList             // strings
	MapList                // string maps
	Timestamp              // only ever read-only
	LinkList               // only ever read-only
)

// Null says what an explicit null means; the zero value is "none".
type Null int

const (
	NullNone      Null = iota // explicitly no value: no default applies
	NullDefault               // as if the field were absent
	NullMandatory             // refused as missing
)

// Field is one attribute of a resource: the only place where its name, limits
// and defaults stand. Decoder, JSON-Patch and the OpenAPI document read it.
type Field struct {
	Name string
	Type Type
	// Min and Max limit the characters of a String (Max 0: no limit) and the
	// value of an Int (Max 0: what 32 bits hold).
	Min, Max int
	// Pattern is shown in the fault and must match all of a String.
	Pattern *pattern
	// Enum are the values in the order in which they are shown.
	Enum      []string
	Mandatory bool
	// ReadOnly fields are refused, even as null.
	ReadOnly bool
	// Ignored fields are checked and then forgotten, since clients send back
	// what they were given (B27, B35, B58).
	Ignored bool
	Null    Null
	// Default is what an absent field has: string, int, bool.
	Default any
	// RequestOnly fields are in no answer.
	RequestOnly bool
	// Short fields are in the objects of a list that has a detail variant.
	Short bool
	// Since and Until bound the microversions whose answers carry the field.
	Since, Until int
	Doc          string
}

// Body is the JSON object that a route takes.
type Body struct {
	Argument string // how texts call it
	Name     string // the name of its schema
	Fields   []Field
	index    map[string]int
}

func newBody(argument, name string, fields []Field) *Body {
	b := &Body{Argument: argument, Name: name, Fields: fields, index: make(map[string]int, len(fields))}
	for i := range fields {
		b.index[fields[i].Name] = i
	}
	return b
}

// Field is the field of that name; nil if there is none.
func (b *Body) Field(name string) *Field {
	if i, ok := b.index[name]; ok {
		return &b.Fields[i]
	}
	return nil
}

// Values are the fields of a body, checked and converted. A name that the body
// does not have is an error of the program: it panics.
type Values struct {
	body *Body
	have []value
}

type value struct {
	sent bool
	null bool
	v    any // string, int, bool, map[string]string, []string, []map[string]string
}

func (v Values) get(name string) *value {
	i, ok := v.body.index[name]
	if !ok {
		panic("api: " + v.body.Name + " has no field " + name)
	}
	return &v.have[i]
}

// Has reports whether the client sent the field, also as null.
func (v Values) Has(name string) bool { return v.get(name).sent }

// IsNull reports whether the client sent null and that means "none".
func (v Values) IsNull(name string) bool { return v.get(name).null }

// String is the value or default of a text; nil if there is none.
func (v Values) String(name string) *string {
	if s, ok := v.get(name).v.(string); ok {
		return &s
	}
	return nil
}

// Int is the value or default of an integer; nil if there is none.
func (v Values) Int(name string) *int {
	if n, ok := v.get(name).v.(int); ok {
		return &n
	}
	return nil
}

// Bool is the value or default of a boolean; nil if there is none.
func (v Values) Bool(name string) *bool {
	if b, ok := v.get(name).v.(bool); ok {
		return &b
	}
	return nil
}

// Map is a map of strings; nil if absent or null.
func (v Values) Map(name string) map[string]string {
	m, _ := v.get(name).v.(map[string]string)
	return m
}

// List is a list of strings; nil if absent or null.
func (v Values) List(name string) []string {
	l, _ := v.get(name).v.([]string)
	return l
}

// Maps is a list of string maps; nil if absent or null. An entry is nil where
// the client sent null.
func (v Values) Maps(name string) []map[string]string {
	l, _ := v.get(name).v.([]map[string]string)
	return l
}

// Limits of one body, so that no request costs more than it is worth.
const (
	maxEntries    = 1000 // of a map or a list
	maxOperations = 1000 // of a patch
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// top is the largest value of an Int: the columns have 32 bits.
func (f *Field) top() int {
	if f.Max == 0 {
		return math.MaxInt32
	}
	return f.Max
}

// fieldFault is why a value does not fit its field. whole: Magnum finds it
// while it reads the body, and names the body instead of the field.
type fieldFault struct {
	value   any
	message string
	whole   bool
	alone   bool // the message is the whole text
}

func (f *fieldFault) at(name, argument string, body any) error {
	switch {
	case f.alone:
		return &fault.Error{Kind: fault.Invalid, Text: f.message}
	case f.whole:
		return invalid(argument, pyStr(body), f.message)
	}
	return invalid(name, pyStr(f.value), f.message)
}

func joinSorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}
