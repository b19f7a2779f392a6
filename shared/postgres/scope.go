package postgres

import (
	"fmt"

	"carafe/shared/identity"
)

// Scope says whose rows a caller may see: the tenant filter of spec/api.md §2.3.
type Scope struct {
	AllProjects       bool
	ProjectID, UserID string
	// Admin sees hidden public templates too.
	Admin bool
}

// ScopeOf is the scope of a caller in its own project, or in all.
func ScopeOf(c identity.Caller, allProjects bool) Scope {
	return Scope{AllProjects: allProjects && c.IsAdmin, ProjectID: c.ProjectID, UserID: c.UserID, Admin: c.IsAdmin}
}

// Everything is the scope of Carafe's own work.
var Everything = Scope{AllProjects: true, Admin: true}

// where is the condition on a table with project_id and user_id, with its
// argument, which becomes $n. Each scope has a text of its own, so that the
// planner sees an equality that an index serves.
func (s Scope) where(alias string, n int) (string, []any) {
	switch {
	case s.AllProjects:
		return "true", nil
	case s.ProjectID != "":
		return fmt.Sprintf("%s.project_id = $%d", alias, n), []any{s.ProjectID}
	default:
		return fmt.Sprintf("%s.user_id = $%d", alias, n), []any{s.UserID}
	}
}

// whereVisible is where for templates, which may also be public (spec/api.md §4.1.3).
func (s Scope) whereVisible(alias string, n int) (string, []any) {
	own, args := s.where(alias, n)
	switch {
	case s.AllProjects:
		return own, args
	case s.Admin:
		return fmt.Sprintf("(%s OR %s.public)", own, alias), args
	default:
		return fmt.Sprintf("(%s OR (%s.public AND NOT %s.hidden))", own, alias, alias), args
	}
}
