package api

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Magnum's error texts print values in Python's notation, and a JSON-Patch may
// carry a map or a list as a string that holds a Python literal.

// pyStr is Python's str(v): a string as it is, all else as pyRepr.
func pyStr(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return pyRepr(v)
}

// pyRepr is Python's repr(v).
func pyRepr(v any) string { return string(appendRepr(nil, v)) }

func appendRepr(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "None"...)
	case bool:
		if v {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bigInt:
		return append(b, v...)
	case float64:
		return appendFloat(b, v)
	case string:
		return appendQuoted(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendRepr(b, e)
		}
		return append(b, ']')
	case *object:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendQuoted(b, k), ": "...)
			b = appendRepr(b, v.vals[k])
		}
		return append(b, '}')
	}
	if g := generic(v); g != nil {
		return appendRepr(b, g)
	}
	return append(b, "None"...)
}

// appendFloat is the shortest form that reads back, with an exponent outside
// of 1e-4 … 1e16.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if !strings.Contains(string(b[start:]), ".") {
		b = append(b, ".0"...)
	}
	return b
}

const hexDigits = "0123456789abcdef"

func appendQuoted(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20 || r == 0x7f:
			b = append(b, '\\', 'x', hexDigits[r>>4], hexDigits[r&15])
		case r < 0x7f || unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r <= 0xff:
			b = append(b, '\\', 'x', hexDigits[r>>4], hexDigits[r&15])
		case r <= 0xffff:
			b = append(b, '\\', 'u')
			for shift := 12; shift >= 0; shift -= 4 {
				b = append(b, hexDigits[r>>shift&15])
			}
		default:
			b = append(b, '\\', 'U')
			for shift := 28; shift >= 0; shift -= 4 {
				b = append(b, hexDigits[r>>shift&15])
			}
		}
	}
	return append(b, quote)
}

// pyType is the name of the value's class.
func pyType(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []any:
		return "list"
	}
	return "dict"
}

func pyClass(v any) string { return "<class '" + pyType(v) + "'>" }

// generic turns the domain's maps and lists into what parseJSON gives.
func generic(v any) any {
	switch v := v.(type) {
	case map[string]string:
		o := &object{vals: make(map[string]any, len(v))}
		for _, k := range sortedKeys(v) {
			o.set(k, v[k])
		}
		return o
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	case []map[string]string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = generic(v[i])
		}
		return list
	case int:
		return int64(v)
	case nil, bool, int64, bigInt, float64, string, []any, *object:
		return v
	}
	return nil
}

var errLiteral = errors.New("malformed value")

// parseLiteral reads a Python literal: strings in single or double quotes,
// numbers, True, False, None, lists, tuples and dicts with string keys,
// trailing commas allowed. It also takes JSON's true, false and null (B41).
// Nothing is ever evaluated.
func parseLiteral(s string) (any, error) {
	p := literalParser{s: s}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(p.s) {
		return nil, errLiteral
	}
	return v, nil
}

type literalParser struct {
	s  string
	at int
}

func (p *literalParser) space() {
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case ' ', '\t', '\n', '\r', '\f':
			p.at++
		default:
			return
		}
	}
}

func (p *literalParser) take(c byte) bool {
	p.space()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *literalParser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errLiteral
	}
	p.space()
	if p.at == len(p.s) {
		return nil, errLiteral
	}
	switch c := p.s[p.at]; {
	case c == '{':
		p.at++
		return p.dict(depth)
	case c == '[':
		p.at++
		return p.list(depth, ']')
	case c == '(':
		p.at++
		return p.list(depth, ')')
	case c == '\'' || c == '"':
		return p.strings()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return p.number()
	}
	start := p.at
	for p.at < len(p.s) && (p.s[p.at] >= 'a' && p.s[p.at] <= 'z' || p.s[p.at] >= 'A' && p.s[p.at] <= 'Z') {
		p.at++
	}
	switch p.s[start:p.at] {
	case "True", "true":
		return true, nil
	case "False", "false":
		return false, nil
	case "None", "null":
		return nil, nil
	}
	return nil, errLiteral
}

func (p *literalParser) dict(depth int) (any, error) {
	o := &object{vals: map[string]any{}}
	for !p.take('}') {
		p.space()
		if p.at == len(p.s) || p.s[p.at] != '\'' && p.s[p.at] != '"' {
			return nil, errLiteral
		}
		key, err := p.strings()
		if err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, errLiteral
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
		if !p.take(',') {
			if !p.take('}') {
				return nil, errLiteral
			}
			break
		}
	}
	return o, nil
}

// list reads a list, or a tuple: ('a') is the string itself, ('a',) a tuple.
func (p *literalParser) list(depth int, closing byte) (any, error) {
	list := []any{}
	comma := false
	for !p.take(closing) {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if !p.take(',') {
			if !p.take(closing) {
				return nil, errLiteral
			}
			if closing == ')' && len(list) == 1 && !comma {
				return list[0], nil
			}
			break
		}
		comma = true
	}
	return list, nil
}

// strings reads string literals; ones that follow each other are joined.
func (p *literalParser) strings() (string, error) {
	first, err := p.str()
	if err != nil {
		return "", err
	}
	var all strings.Builder
	all.WriteString(first)
	for {
		p.space()
		if p.at == len(p.s) || p.s[p.at] != '\'' && p.s[p.at] != '"' {
			return all.String(), nil
		}
		next, err := p.str()
		if err != nil {
			return "", err
		}
		all.WriteString(next)
	}
}

func (p *literalParser) str() (string, error) {
	quote := p.s[p.at]
	p.at++
	start := p.at
	if i := strings.IndexAny(p.s[start:], `\`+string(quote)+"\n"); i >= 0 && p.s[start+i] == quote {
		p.at = start + i + 1
		return p.s[start : start+i], nil
	}
	var b []byte
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		switch {
		case c == quote:
			return string(b), nil
		case c == '\n':
			return "", errLiteral
		case c != '\\':
			b = append(b, c)
			continue
		}
		if p.at == len(p.s) {
			return "", errLiteral
		}
		c = p.s[p.at]
		p.at++
		switch c {
		case '\n':
		case '\\', '\'', '"', '/': // \/ is JSON's
			b = append(b, c)
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'a':
			b = append(b, '\a')
		case 'v':
			b = append(b, '\v')
		case 'x', 'u', 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if p.at+n > len(p.s) {
				return "", errLiteral
			}
			r, err := strconv.ParseUint(p.s[p.at:p.at+n], 16, 32)
			if err != nil {
				return "", errLiteral
			}
			p.at += n
			b = utf8.AppendRune(b, rune(r))
		default: // Python keeps an escape that it does not know
			b = append(b, '\\', c)
		}
	}
	return "", errLiteral
}

func (p *literalParser) number() (any, error) {
	start := p.at
	for p.at < len(p.s) && strings.IndexByte("+-.0123456789eE_", p.s[p.at]) >= 0 {
		p.at++
	}
	text := p.s[start:p.at]
	if n, ok := pyInt(text); ok && (len(text) < 2 || text[0] != '0' || strings.Trim(text, "0") == "") {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !strings.ContainsAny(text, ".eE") || strings.Contains(text, "_") {
		return nil, errLiteral
	}
	return f, nil
}

// pyInt is Python's int(s, 10): white space around, a sign, digits that may be
// grouped with underscores.
func pyInt(s string) (any, bool) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	digits := strings.TrimPrefix(s, "-")
	if digits == s {
		digits = strings.TrimPrefix(s, "+")
	}
	last := byte('_')
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (c != '_' || last == '_') {
			return nil, false
		}
		last = c
	}
	if last == '_' || len(digits) > 4300 {
		return nil, false
	}
	digits = strings.TrimLeft(strings.ReplaceAll(digits, "_", ""), "0")
	if digits == "" {
		return int64(0), true
	}
	if s[0] == '-' {
		digits = "-" + digits
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return bigInt(digits), true
	}
	return n, true
}
