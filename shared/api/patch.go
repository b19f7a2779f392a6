package api

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// JSON-Patch in Magnum's dialect (spec/api.md part 5). No library: the texts
// of its faults are what clients know, and of RFC 6902 only add, replace and
// remove are left.

// PatchBody is the JSON-Patch that a route takes.
type PatchBody struct {
	body      *Body
	internal  []string // paths that nobody may change
	mandatory []string // paths that cannot be removed
}

type patchRules struct{ internal, mandatory []string }

// internalPaths are those of every resource (magnum/api/controllers/v1/types.py).
var internalPaths = []string{"/created_at", "/id", "/links", "/updated_at", "/uuid", "/project_id", "/user_id"}

func newPatch(fields []Field, rules patchRules) *PatchBody {
	return &PatchBody{
		body:      newBody("patch", "JsonPatch", fields),
		internal:  append(slices.Clone(internalPaths), rules.internal...),
		mandatory: rules.mandatory,
	}
}

// Operation is one entry of a patch.
type Operation struct {
	Path string
	Op   string // add, replace, remove
	// Value is a string, an int64, a bool, or a map or list, which is only good
	// for Apply; nil if there is none. A handler may put a []string here.
	Value any
	noOp  bool // op was null
}

// Patch is a checked list of operations, to be applied.
type Patch struct {
	Operations []Operation
	spec       *PatchBody
	raw        any
}

const patchArgument = "patch"

var (
	opNames     = []string{"add", "remove", "replace"}
	patchKeys   = map[string]bool{"path": true, "op": true, "value": true}
	pathPattern = newPattern(`^(/[\w-]+)+$`, `^(/[\pL\pN_-]+)+$`)
)

// literalPaths are where a string is read as a Python literal.
var literalPaths = []string{"/labels", "/health_status_reason", "/node_labels", "/node_taints"}

// pointerRoots are the maps whose keys may be any RFC 6901 token (B80).
var pointerRoots = []string{"/labels/", "/node_labels/", "/health_status_reason/", "/properties/"}

var badEscape = regexp.MustCompile(`~([^01]|$)`)

// DecodePatch reads the body of a request as a patch. The first faulty entry
// wins, and in it the first faulty key.
func DecodePatch(r *http.Request, spec *PatchBody) (Patch, error) {
	raw := Raw(r)
	if len(raw) == 0 {
		return Patch{}, MissingArgument(patchArgument) // B48
	}
	root, err := parseBody(raw, patchArgument)
	if err != nil {
		return Patch{}, err
	}
	return spec.decode(root)
}

func (b *PatchBody) decode(root any) (Patch, error) {
	list, ok := root.([]any)
	if !ok {
		return Patch{}, invalid(patchArgument, pyStr(root), "Value not a valid list: "+clip(pyStr(root)))
	}
	if len(list) > maxOperations {
		return Patch{}, invalid(patchArgument, pyStr(root), "Value should have at most "+strconv.Itoa(maxOperations)+" entries")
	}
	p := Patch{Operations: make([]Operation, len(list)), spec: b, raw: root}
	for i, e := range list {
		o, ok := e.(*object)
		if !ok { // B19
			return Patch{}, invalid(patchArgument, pyStr(root), "Value not a valid dict: "+clip(pyStr(e)))
		}
		if err := b.operation(&p.Operations[i], o); err != nil {
			return Patch{}, err
		}
	}
	return p, nil
}

// operation checks one entry in the order of spec/api.md §5.1.
func (b *PatchBody) operation(to *Operation, o *object) error {
	if err := unknownKeys(o, patchArgument, patchKeys); err != nil {
		return err
	}
	path, ok := o.vals["path"]
	if !ok || path == nil {
		return invalid("path", "None", "Mandatory field missing.")
	}
	if to.Path, ok = path.(string); !ok {
		return invalid("path", pyStr(path), "Value should be string")
	}
	if !validPath(to.Path) {
		return invalid("path", to.Path, "Value should match the pattern "+pathPattern.shown)
	}
	op, ok := o.vals["op"]
	if !ok {
		return invalid("op", "None", "Mandatory field missing.")
	}
	if op == nil {
		to.noOp = true // refused when it is applied
	} else if to.Op, ok = op.(string); !ok || !slices.Contains(opNames, to.Op) {
		return invalid("op", pyStr(op), "Value should be one of: "+strings.Join(opNames, ", "))
	}
	to.Value = o.vals["value"]
	if err := b.value(to); err != nil {
		return err
	}
	if slices.Contains(b.internal, to.Path) {
		return fault.New(fault.Invalid, "'%s' is an internal attribute and can not be updated", to.Path)
	}
	switch to.Op {
	case "remove":
		if slices.Contains(b.mandatory, to.Path) {
			return fault.New(fault.Invalid, "'%s' is a mandatory attribute and can not be removed", to.Path)
		}
	case "add", "replace":
		if to.Value == nil {
			return fault.New(fault.Invalid, "'add' and 'replace' operations needs value")
		}
	}
	return nil
}

func validPath(path string) bool {
	if pathPattern.re.MatchString(path) {
		return true
	}
	for _, root := range pointerRoots {
		if rest, ok := strings.CutPrefix(path, root); ok {
			return rest != "" && !badEscape.MatchString(rest) && strings.IndexByte(rest, 0) < 0
		}
	}
	return false
}

// value allows scalars, and where the attribute is a map or a list also JSON
// objects and arrays (B41).
func (b *PatchBody) value(op *Operation) error {
	switch op.Value.(type) {
	case nil, string, int64, bigInt, bool:
		return nil
	case *object, []any:
		if size(op.Value) > maxValue { // each operation copies what it changes
			return invalid("value", pyStr(op.Value), tooLarge)
		}
	}
	switch op.Value.(type) {
	case *object:
		if f := b.body.Field(op.Path[1:]); f != nil && (f.Type == Labels || f.Type == StringMap) {
			return nil
		}
	case []any:
		if f := b.body.Field(op.Path[1:]); f != nil && (f.Type == StringList || f.Type == MapList) {
			return nil
		}
	}
	return invalid("value", pyStr(op.Value),
		"Wrong type. Expected '(<class 'str'>, <class 'int'>)', got '"+pyClass(op.Value)+"'")
}

const (
	maxValue = 10 * maxEntries // all elements of a map or list, also nested ones
	tooLarge = "Value has too many entries"
)

// size counts the elements of a value.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += size(e)
		}
	case *object:
		for _, e := range v.vals {
			n += size(e)
		}
	}
	return n
}

// Document is the stored attributes that a patch is applied to: every column
// by its name, as string, int, bool, a pointer to one of these, a map of
// strings, a list of strings or of string maps, or nil. What is not in it
// does not exist for the patch; a nil map or list is a null.
type Document map[string]any

// Patched is the outcome of a patch.
type Patched struct {
	// Values are the attributes after the patch; Has says which the patch
	// touched at all.
	Values
	// Changed are the attributes whose value is another than before, Removed
	// those that a remove named, whatever they had; both sorted.
	Changed, Removed []string
}

// Beyond lists, sorted and joined, what the patch changes or removes other
// than allowed; empty if nothing (B46: to remove what is null is a change).
func (p Patched) Beyond(allowed ...string) string {
	var names []string
	for _, n := range append(slices.Clone(p.Changed), p.Removed...) {
		if !slices.Contains(allowed, n) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return joinSorted(names)
}

// Value is the value of the last operation on exactly this path; nil if there
// is none.
func (p Patch) Value(path string) any {
	for i := len(p.Operations) - 1; i >= 0; i-- {
		if p.Operations[i].Path == path {
			return p.Operations[i].Value
		}
	}
	return nil
}

// Only reports whether all operations are about these attributes, or below
// them. A patch without operations is about none.
func (p Patch) Only(names ...string) bool {
	for i := range p.Operations {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.Operations[i].Path, "/"), "/")
		if !slices.Contains(names, name) {
			return false
		}
	}
	return len(p.Operations) > 0
}

// failed is PatchError: the whole patch, then the reason.
func (p Patch) failed(reason string) error {
	list := make([]any, len(p.Operations))
	for i := range p.Operations {
		op := &p.Operations[i]
		o := &object{vals: map[string]any{}}
		o.set("path", op.Path)
		if op.noOp {
			o.set("op", nil)
		} else {
			o.set("op", op.Op)
		}
		if op.Value != nil {
			o.set("value", generic(op.Value))
		}
		list[i] = o
	}
	return &fault.Error{Kind: fault.Invalid,
		Text: "Couldn't apply patch '" + clip(pyRepr(list)) + "'. Reason: " + clip(reason)}
}

// Apply applies the operations in order and checks what they touched against
// the limits of the fields. The document is left as it is.
func (p Patch) Apply(doc Document) (Patched, error) {
	w := working{patch: p, doc: doc, now: map[string]any{}, gone: map[string]bool{}}
	for i := range p.Operations {
		if err := w.apply(&p.Operations[i]); err != nil {
			return Patched{}, err
		}
	}
	return w.result()
}

// working is a document while a patch is applied: now holds what the patch has
// touched, gone what it has removed.
type working struct {
	patch Patch
	doc   Document
	now   map[string]any
	gone  map[string]bool
}

// root is the present value of an attribute.
func (w *working) root(name string) (any, bool) {
	if v, ok := w.now[name]; ok {
		return v, true
	}
	if w.gone[name] {
		return nil, false
	}
	v, ok := w.doc[name]
	if !ok {
		return nil, false
	}
	return generic(native(v)), true
}

func (w *working) apply(op *Operation) error {
	if op.noOp {
		return w.patch.failed("Operation's op must be a string")
	}
	tokens := strings.Split(op.Path[1:], "/")
	for i, t := range tokens {
		if strings.IndexByte(t, '~') >= 0 {
			tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		}
	}
	name := tokens[0]
	v := generic(op.Value)
	// B81: looked at when the operation's turn comes, not before the first.
	if op.Op == "add" && len(tokens) == 1 {
		now, ok := w.root(name)
		if !ok && !w.gone[name] {
			return fault.New(fault.Invalid, "Adding a new attribute %s to the root of the resource is not allowed.", op.Path)
		}
		if now != nil {
			return fault.New(fault.Invalid, "The attribute %s has existed, please use 'replace' operation instead.", op.Path)
		}
	}
	if op.Op != "remove" && slices.Contains(literalPaths, op.Path) {
		switch s := v.(type) {
		case string:
			parsed, err := parseValue(s)
			if err != nil {
				return w.patch.failed(err.Error())
			}
			v = parsed
			if size(v) > maxValue {
				return invalid(name, op.Path, tooLarge)
			}
		case int64, bigInt, bool:
			return w.patch.failed(errLiteral.Error())
		}
	}
	now, ok := w.root(name)
	if len(tokens) == 1 {
		switch {
		case op.Op == "remove" && !ok:
			return w.patch.failed("can't remove a non-existent object '" + name + "'")
		case op.Op == "replace" && !ok:
			return w.patch.failed("can't replace a non-existent object '" + name + "'")
		case op.Op == "remove":
			delete(w.now, name)
			w.gone[name] = true
		default:
			w.now[name] = v
			delete(w.gone, name)
		}
		return nil
	}
	if !ok {
		return w.patch.failed("member '" + name + "' not found in the resource")
	}
	changed, reason := edit(now, tokens[1:], op.Op, v)
	if reason != "" {
		return w.patch.failed(reason)
	}
	w.now[name] = changed
	return nil
}

// parseValue reads a map or a list from a string: JSON or a Python literal.
func parseValue(s string) (any, error) {
	if v, err := parseJSON(s); err == nil {
		return v, nil
	}
	return parseLiteral(s)
}

// edit applies one operation below a value and gives the new value; the old
// one stays as it is. A reason is why it cannot be done.
func edit(in any, tokens []string, op string, v any) (out any, reason string) {
	token, last := tokens[0], len(tokens) == 1
	switch in := in.(type) {
	case *object:
		old, ok := in.vals[token]
		switch {
		case last && op != "add" && !ok:
			return nil, "can't " + op + " a non-existent object '" + token + "'"
		case !last && !ok:
			return nil, "member '" + token + "' not found in " + pyRepr(in)
		}
		copied := &object{vals: make(map[string]any, len(in.keys)+1)}
		for _, k := range in.keys {
			if k != token || !last || op != "remove" {
				copied.set(k, in.vals[k])
			}
		}
		if !last {
			if old, reason = edit(old, tokens[1:], op, v); reason != "" {
				return nil, reason
			}
			v = old
		}
		if !last || op != "remove" {
			copied.set(token, v)
		}
		return copied, ""
	case []any:
		return editList(in, tokens, op, v)
	case string:
		return nil, "'" + token + "' is not a valid sequence index"
	}
	return nil, "Document '" + pyClass(in) + "' does not support indexing, must be mapping/sequence or support __getitem__"
}

var listIndex = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

func editList(in []any, tokens []string, op string, v any) (any, string) {
	token, last := tokens[0], len(tokens) == 1
	if token == "-" {
		switch {
		case last && op == "add":
			return append(slices.Clone(in), v), ""
		case last && op == "replace":
			return nil, "'path' with '-' can't be applied to 'replace' operation"
		}
		return nil, "invalid array index '-'"
	}
	i, err := strconv.Atoi(token)
	if !listIndex.MatchString(token) {
		return nil, "'" + token + "' is not a valid sequence index"
	}
	if err != nil { // longer than any list
		i = len(in) + 1
	}
	if !last {
		if i >= len(in) {
			return nil, "index '" + token + "' is out of bounds"
		}
		below, reason := edit(in[i], tokens[1:], op, v)
		if reason != "" {
			return nil, reason
		}
		out := slices.Clone(in)
		out[i] = below
		return out, ""
	}
	switch {
	case op == "add" && i > len(in):
		return nil, "can't insert outside of list"
	case op == "add":
		return slices.Insert(slices.Clone(in), i, v), ""
	case op == "remove" && i >= len(in):
		return nil, "can't remove a non-existent object '" + token + "'"
	case op == "remove":
		return slices.Delete(slices.Clone(in), i, i+1), ""
	case i >= len(in):
		return nil, "can't replace outside of list"
	}
	out := slices.Clone(in)
	out[i] = v
	return out, ""
}

// result checks what was touched, in the order of the fields, and compares it
// with what was stored.
func (w *working) result() (Patched, error) {
	b := w.patch.spec.body
	p := Patched{Values: Values{body: b, have: make([]value, len(b.Fields))}}
	for i := range b.Fields {
		f := &b.Fields[i]
		to := &p.have[i]
		before, known := w.doc[f.Name]
		v, touched := w.now[f.Name]
		switch {
		case touched:
			checked, err := f.assign(v)
			if err != nil {
				return Patched{}, err
			}
			*to = value{sent: true, null: checked == nil, v: checked}
		case w.gone[f.Name]:
			*to = value{sent: true, null: f.Default == nil, v: f.Default}
			p.Removed = append(p.Removed, f.Name)
		case known:
			to.v = native(before)
			to.null = to.v == nil
			continue
		default:
			continue
		}
		if !equal(native(before), to.v) {
			p.Changed = append(p.Changed, f.Name)
		}
	}
	slices.Sort(p.Changed)
	slices.Sort(p.Removed)
	return p, nil
}

// assign checks one value as POST would (B43: also a number in a string), but
// the fault always names the field.
func (f *Field) assign(v any) (any, error) {
	if v == nil {
		if f.Null != NullNone {
			return f.Default, nil
		}
		return nil, nil
	}
	var ff *fieldFault
	if f.Type == Int {
		v, ff = toInt(v)
	}
	if ff == nil {
		v, ff = f.check(v)
	}
	if ff != nil {
		ff.whole = false
		return nil, ff.at(f.Name, "", nil)
	}
	return v, nil
}

// native takes the pointers from a stored attribute.
func native(v any) any {
	switch v := v.(type) {
	case *string:
		if v != nil {
			return *v
		}
		return nil
	case *int:
		if v != nil {
			return *v
		}
		return nil
	case *bool:
		if v != nil {
			return *v
		}
		return nil
	case magnum.Status:
		if v != "" {
			return string(v)
		}
		return nil
	case magnum.HealthStatus:
		if v != "" {
			return string(v)
		}
		return nil
	case map[string]string:
		if v == nil {
			return nil
		}
	case []string:
		if v == nil {
			return nil
		}
	case []map[string]string:
		if v == nil {
			return nil
		}
	}
	return v
}

// equal compares two native values; a null and an empty map or list are alike,
// since the API shows both as empty.
func equal(a, b any) bool {
	if emptyContainer(a) && emptyContainer(b) {
		return true
	}
	switch a := a.(type) {
	case map[string]string:
		b, ok := b.(map[string]string)
		return ok && pyRepr(a) == pyRepr(b)
	case []string:
		b, ok := b.([]string)
		return ok && slices.Equal(a, b)
	case []map[string]string:
		b, ok := b.([]map[string]string)
		return ok && pyRepr(a) == pyRepr(b)
	}
	switch b.(type) {
	case map[string]string, []string, []map[string]string:
		return false
	}
	return a == b
}

func emptyContainer(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]string:
		return len(v) == 0
	case []string:
		return len(v) == 0
	case []map[string]string:
		return len(v) == 0
	}
	return false
}
