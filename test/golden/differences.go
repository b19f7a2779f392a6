package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Difference is a row of differences.yaml: where Carafe answers otherwise than
// the peer on purpose, and what it answers then.
type Difference struct {
	Box    string `yaml:"box"`    // the PEER BUG box, or the issue that asks for it
	Reason string `yaml:"reason"` // one sentence
	// Part is a part of the prober, as a pattern of path.Match; empty: all.
	Part string `yaml:"part"`
	// Case is a regular expression for the whole name of the case; empty: all.
	Case string `yaml:"case"`
	// Sometimes says that it depends on time whether there is a difference: else a
	// row that explains nothing fails the run.
	Sometimes bool `yaml:"sometimes"`
	// Recorded narrows the row to recordings of this kind; empty: any.
	Recorded struct {
		Status []int   `yaml:"status"`
		Error  bool    `yaml:"error"`  // the body is an error list
		Code   *string `yaml:"code"`   // the code of the error; that of a routing fault is empty
		Detail string  `yaml:"detail"` // a regular expression for its detail
		Path   string  `yaml:"path"`   // a regular expression for the path asked for
	} `yaml:"recorded"`
	// Answer is what Carafe answers.
	Answer struct {
		// Status, with Detail or DetailLike (a regular expression): an error
		// of this kind.
		Status     int     `yaml:"status"`
		Detail     *string `yaml:"detail"`
		DetailLike string  `yaml:"detail_like"`
		// Set puts values at paths such as errors.0.request_id; * is anything, ~x
		// a regular expression, $detail the detail of the error, $title its title
		// by the rule of box B12.
		Set map[string]any `yaml:"set"`
		// Lend takes what Carafe answers for these attributes: the recording
		// lacks them, or shows what could not be right.
		Lend []string `yaml:"lend"`
		// Drop removes attributes.
		Drop []string `yaml:"drop"`
		// Headers have these values; "<ANY>": any; empty: none.
		Headers map[string]string `yaml:"headers"`
		// Absent: the prober does not ask, because an answer before was another.
		Absent bool `yaml:"absent"`
		// Anything: the answer shows what another row has made different; only
		// the status is compared.
		Anything bool `yaml:"anything"`
	} `yaml:"answer"`

	cases, details, paths *regexp.Regexp
	// Used is how many cases the row explained.
	Used int `yaml:"-"`
}

// Differences reads rows.
func Differences(file string) ([]*Difference, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows []*Difference
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(&rows); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, r := range rows {
		if r.Box == "" || r.Reason == "" {
			return nil, fmt.Errorf("%s: a row without box or reason: %+v", file, r)
		}
		if r.cases, err = regexp.Compile(`^(?:` + r.Case + `)$`); err != nil {
			return nil, fmt.Errorf("%s: case of %s: %w", file, r.Box, err)
		}
		if r.details, err = regexp.Compile(r.Recorded.Detail); err != nil {
			return nil, fmt.Errorf("%s: detail of %s: %w", file, r.Box, err)
		}
		if r.paths, err = regexp.Compile(r.Recorded.Path); err != nil {
			return nil, fmt.Errorf("%s: path of %s: %w", file, r.Box, err)
		}
	}
	return rows, nil
}

func (d *Difference) String() string { return d.Box + " " + d.Part + " " + d.Case }

// applies says whether the row is about this recorded exchange.
func (d *Difference) applies(e Exchange) bool {
	if ok, _ := path.Match(d.Part, e.Part); d.Part != "" && !ok {
		return false
	}
	if d.Case != "" && !d.cases.MatchString(e.Case) {
		return false
	}
	if len(d.Recorded.Status) > 0 && !slices.Contains(d.Recorded.Status, e.Status) {
		return false
	}
	f := e.fault()
	if d.Recorded.Error && f == nil {
		return false
	}
	if d.Recorded.Code != nil && f["code"] != *d.Recorded.Code {
		return false
	}
	if !d.paths.MatchString(e.Path) {
		return false
	}
	return d.Recorded.Detail == "" || f != nil && d.details.MatchString(e.detail())
}

// wanted is the answer that the row wants instead of e. live lends it what a
// recording cannot know.
func (d *Difference) wanted(e, live Exchange) Exchange {
	a := d.Answer
	e.Headers = maps.Clone(e.Headers)
	e.Body = deepCopy(e.Body)
	if e.Status == 0 { // the peer sent no headers either
		for _, h := range comparedHeaders {
			e.Headers[h] = live.Headers[h]
		}
	}
	if a.Status != 0 {
		e.Status = a.Status
	}
	if e.Status >= 400 {
		delete(e.Headers, "location")
	}
	if a.Anything {
		e.Body, e.Headers = live.Body, live.Headers
		return e
	}
	if a.Detail != nil || a.DetailLike != "" {
		e.Body = faultBody(e.Status, a.Detail, a.DetailLike)
		e.Headers["content-type"] = "application/json"
	}
	for _, p := range a.Lend {
		lend(e.Body, live.Body, strings.Split(p, "."))
	}
	for _, p := range a.Drop {
		edit(&e.Body, strings.Split(p, "."), nil, true)
	}
	for _, p := range slices.Sorted(maps.Keys(a.Set)) {
		v := a.Set[p]
		switch x := v.(type) {
		case string:
			switch {
			case x == "$detail":
				v = e.fault()["detail"]
			case x == "$title":
				v = e.fault()["title"]
				if detail, ok := e.fault()["detail"].(string); ok {
					v = titleOf(detail)
				}
			case x == "*":
				v = anything{}
			case strings.HasPrefix(x, "~"):
				v = like{compiled(`(?s)` + x[1:])}
			}
		case int:
			v = json.Number(fmt.Sprint(x))
		}
		edit(&e.Body, strings.Split(p, "."), v, false)
	}
	for k, v := range a.Headers {
		if v == "" {
			delete(e.Headers, k)
		} else {
			e.Headers[k] = v
		}
	}
	return e
}

// faultBody is an error body as the peer writes it; the rows for all errors
// come after it.
func faultBody(status int, detail *string, detailLike string) any {
	f := map[string]any{"request_id": "", "code": "client", "status": json.Number(fmt.Sprint(status)), "links": []any{}}
	if status >= 500 {
		f["code"] = "server"
	}
	if detail != nil {
		f["detail"], f["title"] = *detail, titleOf(*detail)
	} else {
		f["detail"], f["title"] = like{compiled(`(?s)` + detailLike)}, like{compiled(`.`)}
	}
	return map[string]any{"errors": []any{f}}
}

var patterns sync.Map // compiled ones, by their text

func compiled(s string) *regexp.Regexp {
	if r, ok := patterns.Load(s); ok {
		return r.(*regexp.Regexp)
	}
	r := regexp.MustCompile(s)
	patterns.Store(s, r)
	return r
}

// titleOf is the rule of box B12: up to the full stop that ends a sentence.
func titleOf(detail string) string {
	if i := strings.Index(detail, ". "); i >= 0 {
		return detail[:i]
	}
	return strings.TrimSuffix(detail, ".")
}

// edit sets or removes what a path leads to; * is every item of a list. Where
// the path leads nowhere, nothing is done, but for the last key of an object.
func edit(x *any, path []string, value any, remove bool) {
	switch v := (*x).(type) {
	case map[string]any:
		if len(path) == 1 {
			if remove {
				delete(v, path[0])
			} else {
				v[path[0]] = value
			}
			return
		}
		if child, ok := v[path[0]]; ok {
			edit(&child, path[1:], value, remove)
			v[path[0]] = child
		}
	case []any:
		for i := range v {
			if path[0] != "*" && path[0] != fmt.Sprint(i) {
				continue
			}
			if len(path) == 1 {
				v[i] = value
			} else {
				edit(&v[i], path[1:], value, remove)
			}
		}
	}
}

// lend copies what a path leads to from one document into another that has
// the place for it, or removes it there if it leads nowhere.
func lend(to, from any, path []string) {
	switch t := to.(type) {
	case map[string]any:
		f, _ := from.(map[string]any)
		value, ok := f[path[0]]
		switch {
		case len(path) > 1:
			lend(t[path[0]], value, path[1:])
		case ok:
			t[path[0]] = value
		default:
			delete(t, path[0])
		}
	case []any:
		f, _ := from.([]any)
		for i := range min(len(t), len(f)) {
			lend(t[i], f[i], path[1:])
		}
	}
}

func deepCopy(x any) any {
	switch x := x.(type) {
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = deepCopy(v)
		}
		return m
	case []any:
		l := make([]any, len(x))
		for i, v := range x {
			l[i] = deepCopy(v)
		}
		return l
	}
	return x
}
