package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// nobody is the uuid that the prober means to be nobody's.
const nobody = "11111111-2222-3333-4444-555555555555"

// The rules of the reference rig's diff.py: what may differ between two runs
// against the same server is replaced by a word before it is compared.
var (
	anyUUID = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

	words = []struct {
		pattern *regexp.Regexp
		word    string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]+)-----.*?-----END [A-Z ]+-----\n?`), "<PEM $1>"},
		{regexp.MustCompile(`\breq-<UUID>`), "<REQ>"},
		{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<HEX>"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z|\+0000)?`), "<TIME>"},
		{regexp.MustCompile(`https?://[A-Za-z0-9.\-]+(:\d+)?`), "<URL>"},
		{regexp.MustCompile(`\b[a-z]+-\d+-(cluster|template|federation)\b`), "<NAME>-$1"},
		{regexp.MustCompile(`0x[0-9a-f]{6,}`), "<ADDR>"},
		{regexp.MustCompile(`\b(rig|simulated) driver: `), "<DRIVER>: "}, // its own words
		{regexp.MustCompile(`the requested API \w+ is not`), "the requested API <ONE OF THEM> is not"},
	}

	// Lists that the peer writes in the order of a set, another in each process.
	unordered = regexp.MustCompile(`(cannot change (?:cluster|federation) property\(ies\) |Value should be one of: )([A-Za-z_, ]+)`)

	// What a driver chooses freely: only that it is there is compared.
	chosenByDriver = []string{"stack_id", "cluster_id", "api_address", "container_version"}

	comparedHeaders = []string{
		"content-type", "openstack-api-version", "openstack-api-minimum-version",
		"openstack-api-maximum-version", "vary", "location", "www-authenticate", "allow",
	}

	// An admin's lists hold other projects' objects, of which there may be any
	// number; an order by uuid is another in each run.
	wide = regexp.MustCompile(`^(list|detail)\b.*\bby (admin|system)|sort_key=uuid`)

	// Looked at half a second after an operation began: it may be over or not.
	transient = regexp.MustCompile(`^(after|patched|created|get while|get after|cluster while|cluster of|nodegroups after)\b|at once$|after the operation$`)
)

func text(s string) string {
	s = anyUUID.ReplaceAllStringFunc(s, func(u string) string {
		if u == nobody {
			return u
		}
		return "<UUID>"
	})
	for _, w := range words {
		s = w.pattern.ReplaceAllString(s, w.word)
	}
	return unordered.ReplaceAllStringFunc(s, func(m string) string {
		g := unordered.FindStringSubmatch(m)
		items := strings.Split(g[2], ", ")
		slices.Sort(items)
		return g[1] + strings.Join(items, ", ")
	})
}

// normal replaces what may differ. key is the attribute that x stands in.
func normal(x any, key string) any {
	switch x := x.(type) {
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[text(k)] = normal(v, k)
		}
		return m
	case []any:
		l := make([]any, len(x))
		for i, v := range x {
			l[i] = normal(v, key)
		}
		return l
	case string:
		switch {
		case key == "cluster_id" && anyUUID.FindString(x) == x: // a node group's cluster, not a stack
			return text(x)
		case slices.Contains(chosenByDriver, key):
			return "<DRIVER>"
		case key == "node_addresses" || key == "master_addresses":
			return "<IP>"
		case key == "host":
			return "<HOST>"
		}
		return text(x)
	case json.Number:
		if key == "id" || key == "report_count" {
			return "<NUMBER>"
		}
	}
	return x
}

// calm is x without what tells a running operation from one that is over.
func calm(x any, key string) any {
	switch x := x.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, v := range x {
			switch k {
			case "updated_at", "coe_version", "node_addresses", "master_addresses", "status_reason", "faults":
			default:
				if !slices.Contains(chosenByDriver, k) {
					m[k] = calm(v, k)
				}
			}
		}
		return m
	case []any:
		l := make([]any, len(x))
		for i, v := range x {
			l[i] = calm(v, "")
		}
		return l
	case string:
		if key == "status" {
			verb, _, _ := strings.Cut(x, "_")
			return verb
		}
	}
	return x
}

// trim leaves of each list in a collection the first item.
func trim(x any) any {
	m, ok := x.(map[string]any)
	if !ok {
		return x
	}
	short := map[string]any{}
	for k, v := range m {
		if l, ok := v.([]any); ok && len(l) > 1 {
			v = l[:1]
		}
		if k != "next" {
			short[k] = v
		}
	}
	return short
}

// shape is the attributes of a list's objects: which of them comes first, and so
// what it holds, is another in each run.
func shape(x any) any {
	document, ok := x.(map[string]any)
	if !ok {
		return x
	}
	m := map[string]any{}
	for k, v := range document {
		m[k] = nil
		list, ok := v.([]any)
		if !ok {
			continue
		}
		objects := make([]any, len(list))
		for i, v := range list {
			object, _ := v.(map[string]any)
			names := slices.Sorted(maps.Keys(object))
			objects[i] = strings.Join(names, ", ")
		}
		m[k] = objects
	}
	return m
}

// Result counts the cases of one recording.
type Result struct {
	Equal, Deliberate int
	Unexplained       []string
	// Unrecorded were answered and are not in the recording.
	Unrecorded []Exchange
}

// Compare holds the answers against the recording, case by case.
func Compare(recorded, answered []Exchange, rows []*Difference) Result {
	byCase := map[string]Exchange{}
	for _, e := range answered {
		byCase[e.Case] = e
	}
	var r Result
	ids := &identifiers{live: map[string]string{}}
	known := map[string]bool{}
	for _, want := range recorded {
		known[want.Case] = true
		got, ok := byCase[want.Case]
		if !ok && absent(want, rows) {
			r.Deliberate++
			continue
		}
		if !ok {
			r.Unexplained = append(r.Unexplained, want.Case+": the prober did not get to it")
			continue
		}
		plain := difference(want, got, ids)
		if plain == "" {
			r.Equal++
			continue
		}
		var used []*Difference
		for _, d := range rows {
			if d.applies(want) {
				want = d.wanted(want, got)
				used = append(used, d)
			}
		}
		if d := difference(want, got, nil); d != "" {
			if len(used) == 0 {
				d = plain
			}
			r.Unexplained = append(r.Unexplained, fmt.Sprintf("%s: %s (rows: %v)", want.Case, d, used))
			continue
		}
		r.Deliberate++
		for _, d := range used {
			d.Used++
		}
	}
	for _, e := range answered {
		if !known[e.Case] {
			r.Unrecorded = append(r.Unrecorded, e)
		}
	}
	return r
}

// absent says whether a row knows that a case is not asked.
func absent(want Exchange, rows []*Difference) bool {
	for _, d := range rows {
		if d.Answer.Absent && d.applies(want) {
			d.Used++
			return true
		}
	}
	return false
}

// anything is a wanted value of which nothing is known.
type anything struct{}

// like is a wanted string of which only the form is known.
type like struct{ *regexp.Regexp }

// difference says where an answer is not as wanted; empty: nowhere. The
// identifiers of both must belong together, if ids is not nil.
func difference(want, got Exchange, ids *identifiers) string {
	if want.Status != got.Status {
		return fmt.Sprintf("status %d, not %d: %s", got.Status, want.Status, got.detail())
	}
	for _, h := range comparedHeaders {
		if w, g := text(want.Headers[h]), text(got.Headers[h]); w != g && w != "<ANY>" {
			return fmt.Sprintf("header %s is %q, not %q", h, g, w)
		}
	}
	a, b := normal(want.Body, ""), normal(got.Body, "")
	if transient.MatchString(want.Case) {
		a, b = calm(a, ""), calm(b, "")
	}
	if wide.MatchString(want.Case) {
		a, b = shape(trim(a)), shape(trim(b))
		ids = nil
	}
	if d := first(a, b, ""); d != "" {
		return d
	}
	return ids.match(want, got)
}

// first is the first difference of two documents.
func first(want, got any, at string) string {
	unequal := func() string { return fmt.Sprintf("body%s is %s, not %s", at, show(got), show(want)) }
	switch w := want.(type) {
	case anything:
		return ""
	case like:
		if s, ok := got.(string); ok && w.MatchString(s) {
			return ""
		}
		return unequal()
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return unequal()
		}
		for _, k := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[k]; !ok {
				return fmt.Sprintf("body%s.%s is %s, and not in the recording", at, k, show(g[k]))
			}
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if _, ok := g[k]; !ok {
				return fmt.Sprintf("body%s.%s is missing; it was %s", at, k, show(w[k]))
			}
			if d := first(w[k], g[k], at+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok {
			return unequal()
		}
		if len(w) != len(g) {
			return fmt.Sprintf("body%s has %d items, not %d", at, len(g), len(w))
		}
		for i := range w {
			if d := first(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	}
	switch got.(type) {
	case map[string]any, []any: // cannot be compared with ==
		return unequal()
	}
	if want != got {
		return unequal()
	}
	return ""
}

func show(x any) string {
	if l, ok := x.(like); ok {
		return "like " + l.String()
	}
	s := dump(x)
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// identifiers is which live uuid stands for which recorded one, learnt from
// the answers as they come.
type identifiers struct{ live map[string]string }

// match holds the uuids of a request and its answer against those of their
// recording, where both write the same number of them.
func (ids *identifiers) match(want, got Exchange) string {
	if ids == nil {
		return ""
	}
	for _, pair := range [][2]string{{want.Path, got.Path}, {dump(want.Body), dump(got.Body)}} {
		a, b := anyUUID.FindAllString(pair[0], -1), anyUUID.FindAllString(pair[1], -1)
		if len(a) != len(b) {
			continue
		}
		for i := range a {
			if known, ok := ids.live[a[i]]; ok && known != b[i] {
				return fmt.Sprintf("uuid %s stands where %s is meant", b[i], known)
			}
		}
		for i := range a {
			ids.live[a[i]] = b[i]
		}
	}
	return ""
}

// dump is x as JSON, keys in order.
func dump(x any) string {
	b, _ := json.Marshal(x) // it came from JSON
	return string(b)
}
