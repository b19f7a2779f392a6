// Package schema holds what is fixed on paper: the migrations of the database,
// the JSON Schemas of events and the OpenAPI document.
package schema

import "embed"

// Migrations are applied in order by goose (shared/postgres).
//
//go:embed *.sql
var Migrations embed.FS
