package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"carafe/shared/fault"
)

// Page is what a client wants to see of a list (spec/api.md §4.0.5).
type Page struct {
	Limit    int
	Marker   string // the uuid of the last object of the page before; empty: from the start
	MarkerID int64  // the same for quotas, whose markers are row ids
	SortKey  string
	Desc     bool
	sortErr  error
}

// ParsePage reads limit, sort_dir, marker and sort_key of a list. sortKeys are
// the columns that one may sort by; nil where the order is fixed.
//
// Magnum looks for the marker before it looks at sort_key: with a marker, a
// bad sort_key is only told by WritePage, behind the look-up.
func ParsePage(r *http.Request, sortKeys []string) (Page, error) {
	q := QueryOf(r)
	p := Page{SortKey: "id", Limit: maxLimit(r)}
	marked := false
	for i := range q.args {
		a := &q.args[i]
		if !a.given {
			continue
		}
		switch a.param.Name {
		case "limit":
			n, _ := a.v.(int64)
			if big, ok := a.v.(bigInt); ok && !strings.HasPrefix(string(big), "-") {
				n = int64(p.Limit)
			}
			if n <= 0 {
				return Page{}, fault.New(fault.Invalid, "Limit must be positive")
			}
			p.Limit = min(p.Limit, int(min(n, int64(p.Limit))))
		case "marker":
			marked = true
			switch v := a.v.(type) {
			case int64:
				p.MarkerID = v
			case bigInt:
				p.MarkerID = -1 // no row has it
			}
			p.Marker = a.text
		case "sort_key":
			if a.text != "" {
				p.SortKey = a.text
			}
		case "sort_dir":
			switch a.text {
			case "asc":
			case "desc":
				p.Desc = true
			default:
				// Looked at below, since a bad limit is told first.
				p.sortErr = fault.New(fault.Invalid, "Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", clip(a.text))
			}
		}
	}
	if p.sortErr != nil {
		return Page{}, p.sortErr
	}
	if sortKeys != nil && p.SortKey != "id" && !slices.Contains(sortKeys, p.SortKey) {
		p.sortErr = fault.New(fault.Invalid, `The sort_key value "%s" is an invalid field for sorting`, clip(p.SortKey))
		if !marked {
			return Page{}, p.sortErr
		}
	}
	return p, nil
}

func maxLimit(r *http.Request) int {
	if rq := requestOf(r.Context()); rq != nil {
		return rq.cfg.MaxLimit
	}
	return 1000
}

// List is one page as it was read.
type List[Row, Shown any] struct {
	Name string // of the list in the body
	Path string // behind /v1/
	Rows []Row  // one more than the page holds, if there are more
	ID   func(*Row) string
	Show func(*Row) Shown
}

// WritePage answers with a page of a list, and with the address of the next one
// if there are more rows.
func WritePage[Row, Shown any](w http.ResponseWriter, r *http.Request, p Page, l List[Row, Shown]) error {
	if p.sortErr != nil {
		return p.sortErr
	}
	body := make(map[string]any, 2)
	if len(l.Rows) > p.Limit {
		l.Rows = l.Rows[:p.Limit]
		body["next"] = next(r, l.Path, p, l.ID(&l.Rows[p.Limit-1]))
	}
	shown := make([]Shown, len(l.Rows))
	for i := range l.Rows {
		shown[i] = l.Show(&l.Rows[i])
	}
	body[l.Name] = shown
	return WriteJSON(w, http.StatusOK, body)
}

// next is the address of the page behind this one; last is the uuid (of a quota:
// the id) of its last object. All filters are carried on (B21).
func next(r *http.Request, path string, p Page, last string) string {
	dir := "asc"
	if p.Desc {
		dir = "desc"
	}
	var b strings.Builder
	b.WriteString(URL(r.Context()))
	b.WriteString("/v1/")
	b.WriteString(path)
	b.WriteByte('?')
	if RouteOf(r.Context()).sortable() {
		b.WriteString("sort_key=" + p.SortKey + "&sort_dir=" + dir + "&")
	}
	b.WriteString("limit=" + strconv.Itoa(p.Limit) + "&marker=" + last)
	for _, a := range QueryOf(r).args {
		switch a.param.Name {
		case "sort_key", "sort_dir", "limit", "marker":
			continue
		}
		if a.given {
			b.WriteString("&" + a.param.Name + "=" + url.QueryEscape(a.text))
		}
	}
	return b.String()
}

func (r *Route) sortable() bool {
	return r == nil || slices.ContainsFunc(r.Query, func(p Param) bool { return p.Name == "sort_key" })
}
