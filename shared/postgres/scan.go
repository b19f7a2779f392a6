package postgres

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Targets for the columns of lists. pgx tries, at each statement anew, what fits a
// pointer to a pointer, a uuid that is to be text or a map; these say it themselves.

// uuidText reads a uuid.
type uuidText struct{ to *string }

// ScanUUID implements pgtype.UUIDScanner.
func (t uuidText) ScanUUID(v pgtype.UUID) error {
	*t.to = v.String()
	return nil
}

// nullText reads text; a null is nil.
type nullText struct{ to **string }

// ScanText implements pgtype.TextScanner.
func (t nullText) ScanText(v pgtype.Text) error {
	if *t.to = nil; v.Valid {
		*t.to = &v.String
	}
	return nil
}

// emptyText reads text; a null is empty.
type emptyText struct{ to *string }

// ScanText implements pgtype.TextScanner.
func (t emptyText) ScanText(v pgtype.Text) error {
	*t.to = v.String
	return nil
}

// nullInt reads an integer; a null is nil.
type nullInt struct{ to **int }

// ScanInt64 implements pgtype.Int64Scanner.
func (t nullInt) ScanInt64(v pgtype.Int8) error {
	if *t.to = nil; v.Valid {
		n := int(v.Int64)
		*t.to = &n
	}
	return nil
}

// intPair reads an array of two integers.
type intPair struct{ first, second *int }

// SetDimensions implements pgtype.ArraySetter.
func (t intPair) SetDimensions(dimensions []pgtype.ArrayDimension) error {
	if len(dimensions) != 1 || dimensions[0].Length != 2 {
		return errors.New("not a pair")
	}
	return nil
}

// ScanIndex implements pgtype.ArraySetter.
func (t intPair) ScanIndex(i int) any {
	if i == 0 {
		return t.first
	}
	return t.second
}

// ScanIndexType implements pgtype.ArraySetter.
func (t intPair) ScanIndexType() any { return t.first }

// nullTime reads a time; a null is nil.
type nullTime struct{ to **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t nullTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if *t.to = nil; v.Valid {
		*t.to = &v.Time
	}
	return nil
}

// textMap reads a JSON object of strings.
type textMap struct{ to *map[string]string }

// ScanBytes implements pgtype.BytesScanner.
func (t textMap) ScanBytes(src []byte) error {
	*t.to = nil
	if src == nil {
		return nil
	}
	if m, ok := parseTextMap(string(src)); ok {
		*t.to = m
		return nil
	}
	return json.Unmarshal(src, t.to)
}

// parseTextMap reads what jsonb prints of most labels: no escapes, nothing but
// strings. All of them are parts of text, so they take no memory of their own.
func parseTextMap(text string) (map[string]string, bool) {
	rest, ok := strings.CutPrefix(text, "{")
	if !ok || strings.IndexByte(text, '\\') >= 0 {
		return nil, false
	}
	m := make(map[string]string, strings.Count(text, `": "`))
	for rest != "}" {
		var key, value string
		if rest, ok = strings.CutPrefix(rest, `"`); !ok {
			return nil, false
		}
		if key, rest, ok = strings.Cut(rest, `": "`); !ok || strings.IndexByte(key, '"') >= 0 {
			return nil, false
		}
		if value, rest, ok = strings.Cut(rest, `"`); !ok {
			return nil, false
		}
		m[key] = value
		rest = strings.TrimPrefix(rest, ", ")
	}
	return m, true
}
