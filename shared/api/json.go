package api

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A body is read as Magnum's Python reads it, which encoding/json cannot do:
// the order of keys and the difference between 1 and 1.0 show in error texts,
// of a repeated key the last counts, NaN and Infinity are numbers.
//
// Values are nil, bool, int64, bigInt, float64, string, []any and *object.

// bigInt is an integer that does not fit into int64, as its digits.
type bigInt string

// object is a JSON object in the order of its keys.
type object struct {
	keys []string
	vals map[string]any
}

func (o *object) set(key string, v any) {
	if _, ok := o.vals[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.vals[key] = v
}

// maxDepth is far beyond any body of the API and far below any stack.
const maxDepth = 32

var (
	errSyntax = errors.New("not JSON")
	errDepth  = errors.New("nested too deep")
)

// parseJSON reads one JSON value and nothing behind it.
func parseJSON(s string) (any, error) {
	p := jsonParser{s: s}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(p.s) {
		return nil, errSyntax
	}
	return v, nil
}

type jsonParser struct {
	s  string
	at int
}

func (p *jsonParser) space() {
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take consumes c if it is next after white space.
func (p *jsonParser) take(c byte) bool {
	p.space()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) word(w string) bool {
	if strings.HasPrefix(p.s[p.at:], w) {
		p.at += len(w)
		return true
	}
	return false
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	p.space()
	if p.at == len(p.s) {
		return nil, errSyntax
	}
	switch c := p.s[p.at]; {
	case c == '{':
		p.at++
		return p.object(depth)
	case c == '[':
		p.at++
		return p.array(depth)
	case c == '"':
		p.at++
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("null"):
		return nil, nil
	case p.word("NaN"):
		return math.NaN(), nil
	case p.word("Infinity"):
		return math.Inf(1), nil
	}
	return nil, errSyntax
}

func (p *jsonParser) object(depth int) (any, error) {
	o := &object{vals: map[string]any{}}
	if p.take('}') {
		return o, nil
	}
	for {
		if !p.take('"') {
			return nil, errSyntax
		}
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, errSyntax
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
		if p.take('}') {
			return o, nil
		}
		if !p.take(',') {
			return nil, errSyntax
		}
	}
}

func (p *jsonParser) array(depth int) (any, error) {
	list := []any{}
	if p.take(']') {
		return list, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if p.take(']') {
			return list, nil
		}
		if !p.take(',') {
			return nil, errSyntax
		}
	}
}

// str reads up to the closing quote; the opening one is consumed.
func (p *jsonParser) str() (string, error) {
	start := p.at
	for i := start; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.at = i + 1
			return p.s[start:i], nil
		case c == '\\':
			return p.escaped(start, i)
		case c < 0x20:
			return "", errSyntax
		}
	}
	return "", errSyntax
}

// escaped goes on with str from the first backslash.
func (p *jsonParser) escaped(start, at int) (string, error) {
	b := append(make([]byte, 0, at-start+32), p.s[start:at]...)
	for i := at; i < len(p.s); {
		c := p.s[i]
		switch {
		case c == '"':
			p.at = i + 1
			return string(b), nil
		case c < 0x20:
			return "", errSyntax
		case c != '\\':
			b = append(b, c)
			i++
			continue
		}
		if i+1 == len(p.s) {
			return "", errSyntax
		}
		switch p.s[i+1] {
		case '"', '\\', '/':
			b = append(b, p.s[i+1])
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := hex4(p.s[i+2:])
			if !ok {
				return "", errSyntax
			}
			i += 4
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if strings.HasPrefix(p.s[i+2:], `\u`) {
					low, ok = hex4(p.s[i+4:])
				}
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r = pair
					i += 6
				} else {
					r = utf8.RuneError // half a pair cannot be stored
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			return "", errSyntax
		}
		i += 2
	}
	return "", errSyntax
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil || s[0] == '+' {
		return 0, false
	}
	return rune(n), true
}

func (p *jsonParser) digits() int {
	start := p.at
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		p.at++
	}
	return p.at - start
}

func (p *jsonParser) number() (any, error) {
	start := p.at
	if p.s[p.at] == '-' {
		p.at++
		if p.word("Infinity") {
			return math.Inf(-1), nil
		}
	}
	whole := p.at
	if n := p.digits(); n == 0 || n > 1 && p.s[whole] == '0' || n > 4300 { // 4300: as Python
		return nil, errSyntax
	}
	integer := true
	if p.at < len(p.s) && p.s[p.at] == '.' {
		integer = false
		p.at++
		if p.digits() == 0 {
			return nil, errSyntax
		}
	}
	if p.at < len(p.s) && (p.s[p.at] == 'e' || p.s[p.at] == 'E') {
		integer = false
		p.at++
		if p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return nil, errSyntax
		}
	}
	text := p.s[start:p.at]
	if !integer {
		f, _ := strconv.ParseFloat(text, 64) // out of range is an infinity, as in Python
		return f, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return bigInt(text), nil
	}
	return n, nil
}
