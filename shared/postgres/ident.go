package postgres

import (
	"strings"
	"unicode/utf8"
)

// Ident is how a request names a resource: by uuid if it looks like one, else by
// name (spec/api.md §4.0.4). Text is what the caller wrote, for messages.
type Ident struct {
	UUID string // canonical; empty: by name
	Text string
}

func (i Ident) where() string {
	if i.UUID != "" {
		return "t.uuid = $1"
	}
	return "t.name = $1"
}

func (i Ident) value() string {
	if i.UUID != "" {
		return i.UUID
	}
	if strings.IndexByte(i.Text, 0) >= 0 || !utf8.ValidString(i.Text) {
		return "" // PostgreSQL has no such text, so nothing has that name; nor this one
	}
	return i.Text
}
