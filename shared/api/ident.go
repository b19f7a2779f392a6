package api

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Ident is what a client calls an object by (spec/api.md §4.0.4): a UUID in
// any spelling, else a name. B22: a number is a name; only of node groups it
// may also be the row id, after the name was not found.
type Ident struct {
	Text string // as given, for the text of a 404
	UUID string // in canonical spelling; empty if it is none
	ID   int64  // the row id that Text may be; 0 if it is no number
}

// ParseIdent sorts an ident of a path or of a body.
func ParseIdent(s string) Ident {
	id := Ident{Text: s}
	if uuid, ok := UUIDLike(s); ok {
		id.UUID = uuid
	} else if n, err := strconv.ParseInt(s, 10, 32); err == nil && n > 0 && strconv.FormatInt(n, 10) == s {
		id.ID = n
	}
	return id
}

// Impossible reports whether nothing can be called that: PostgreSQL stores
// neither NUL nor broken UTF-8, and refuses to compare with them.
func (i Ident) Impossible() bool {
	return i.UUID == "" && (i.Text == "" || strings.IndexByte(i.Text, 0) >= 0 || !utf8.ValidString(i.Text))
}

// UUIDLike reports whether s is a UUID once urn:, uuid:, braces, hyphens and
// case are taken away, and gives its canonical spelling.
func UUIDLike(s string) (string, bool) {
	if len(s) < 32 || len(s) > 64 {
		return "", false
	}
	if isCanonicalUUID(s) {
		return s, true
	}
	s = strings.ReplaceAll(strings.ReplaceAll(s, "urn:", ""), "uuid:", "")
	s = strings.ReplaceAll(strings.Trim(s, "{}"), "-", "")
	if len(s) != 32 {
		return "", false
	}
	var b [36]byte
	at := 0
	for i := range 32 {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'F':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'f', c >= '0' && c <= '9':
		default:
			return "", false
		}
		if i == 8 || i == 12 || i == 16 || i == 20 {
			b[at] = '-'
			at++
		}
		b[at] = c
		at++
	}
	return string(b[:]), true
}

func isCanonicalUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range 36 {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
