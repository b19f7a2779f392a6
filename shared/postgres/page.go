package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Page asks for one page of a list (spec/api.md §4.0.5).
type Page struct {
	Limit int
	// Marker is the uuid (of a quota: the id) of the row before the page; empty for the first.
	Marker string
	// SortKey is one of the list's sort keys; the row's id decides among equals.
	SortKey string
	Desc    bool
}

// order is how a list can be sorted: column by sort key. A key that Magnum has
// and we do not (a certificate's reference) sorts as if it were null everywhere.
type order struct {
	columns map[string]string // sort key → SQL expression over the table's alias
	id      string            // the column behind sort_key=id
}

// keys are the sort keys, id apart.
func (o order) keys() []string { return slices.Sorted(maps.Keys(o.columns)) }

// clauses gives the condition that begins after the marker and the ORDER BY.
// The marker's row is m in a CTE of the same table under the alias t. Nulls come
// first, as MariaDB has them, so that pages come in the order that clients know.
func (o order) clauses(p Page) (after, orderBy string) {
	dir, cmp, nulls := "ASC", ">", "NULLS FIRST"
	if p.Desc {
		dir, cmp, nulls = "DESC", "<", "NULLS LAST"
	}
	column := o.columns[p.SortKey]
	if p.SortKey == "" || p.SortKey == "id" || column == "" {
		return fmt.Sprintf("t.%s %s (SELECT m.id FROM m)", o.id, cmp), fmt.Sprintf("t.%s %s", o.id, dir)
	}
	// Over rows with a value: after the marker's value. Then the nulls: with
	// NULLS FIRST they are before every value, with NULLS LAST behind.
	beyondNull := fmt.Sprintf("(%s IS NOT NULL AND (SELECT m.k FROM m) IS NULL)", column)
	if p.Desc {
		beyondNull = fmt.Sprintf("(%s IS NULL AND (SELECT m.k FROM m) IS NOT NULL)", column)
	}
	after = fmt.Sprintf("(%s %s (SELECT m.k FROM m) OR %s OR (%s IS NOT DISTINCT FROM (SELECT m.k FROM m) AND t.%s %s (SELECT m.id FROM m)))",
		column, cmp, beyondNull, column, o.id, cmp)
	return after, fmt.Sprintf("%s %s %s, t.%s %s", column, dir, nulls, o.id, dir)
}

// list puts a page's statement together. The conditions hold for the rows and
// for the marker, which must be visible too; args are theirs.
func (o order) list(table, uuid, sel string, conditions []string, args []any, p Page) (string, []any) {
	var b strings.Builder
	where := strings.Join(conditions, " AND ")
	after, orderBy := o.clauses(p)
	if p.Marker != "" {
		column := o.columns[p.SortKey]
		if column == "" {
			column = "NULL::text"
		}
		args = append(args, p.Marker)
		fmt.Fprintf(&b, "WITH m AS (SELECT t.%s AS id, %s AS k FROM %s t WHERE t.%s = $%d AND %s) ",
			o.id, column, table, uuid, len(args), where)
	}
	fmt.Fprintf(&b, "SELECT %s FROM %s t WHERE %s", sel, table, where)
	if p.Marker != "" {
		fmt.Fprintf(&b, " AND %s", after)
	}
	args = append(args, p.Limit)
	fmt.Fprintf(&b, " ORDER BY %s LIMIT $%d", orderBy, len(args))
	return b.String(), args
}

// columnsOf makes an order whose keys are the columns of the same names.
func columnsOf(id string, names ...string) order {
	o := order{columns: map[string]string{}, id: id}
	for _, n := range names {
		o.columns[n] = "t." + n
	}
	return o
}

func (o order) with(key, expression string) order {
	o.columns[key] = expression
	return o
}
