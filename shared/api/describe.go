package api

import "slices"

// What the description of the API (shared/api/openapi) needs to know of the
// tables.

// MaxEntries and MaxOperations are the limits of a map or list and of a patch.
const (
	MaxEntries    = maxEntries
	MaxOperations = maxOperations
)

// Shown is the pattern as the API writes it.
func (p *pattern) Shown() string { return p.shown }

// Bounds are the least and the largest value of an Int.
func (f *Field) Bounds() (low, high int) { return f.Min, f.top() }

// Internal are the paths that no patch may change.
func (b *PatchBody) Internal() []string { return slices.Clone(b.internal) }

// Fields are the attributes that a patch may name, also in vain.
func (b *PatchBody) Fields() []Field { return b.body.Fields }

// Has reports whether the route has a query parameter.
func (r *Route) Has(param string) bool {
	return slices.ContainsFunc(r.Query, func(p Param) bool { return p.Name == param })
}

// Resource is the schema of the objects that the route's function is about.
func (r *Route) Resource() string {
	return map[string]string{"clustertemplates": "ClusterTemplate", "clusters": "Cluster", "nodegroups": "NodeGroup", "federations": "Federation"}[r.Function]
}
