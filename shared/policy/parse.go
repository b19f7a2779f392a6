package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// parse understands oslo.policy's language:
//
//	rule := check | 'not' rule | rule 'and' rule | rule 'or' rule | '(' rule ')'
//
// with not before and before or. The empty text lets everybody pass.
func parse(text string) (check, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return constant(true), nil
	}
	p := &parser{tokens: tokens}
	c, err := p.or()
	if err != nil {
		return nil, err
	}
	if t, more := p.peek(); more {
		return nil, fmt.Errorf("unexpected %q", t.text)
	}
	return c, nil
}

// mustParse is for the defaults, which are part of the program.
func mustParse(text string) check {
	c, err := parse(text)
	if err != nil {
		panic("default policy rule " + text + ": " + err.Error())
	}
	return c
}

type token struct {
	kind  string // ( ) and or not check
	text  string
	check check
}

// tokenize splits at white space; parentheses cling to the words beside them.
func tokenize(text string) ([]token, error) {
	var tokens []token
	for _, word := range strings.Fields(text) {
		rest := strings.TrimLeft(word, "(")
		for range len(word) - len(rest) {
			tokens = append(tokens, token{kind: "(", text: "("})
		}
		core := strings.TrimRight(rest, ")")
		switch lower := strings.ToLower(core); lower {
		case "":
		case "and", "or", "not":
			tokens = append(tokens, token{kind: lower, text: core})
		default:
			c, err := parseCheck(core)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token{kind: "check", text: core, check: c})
		}
		for range len(rest) - len(core) {
			tokens = append(tokens, token{kind: ")", text: ")"})
		}
	}
	return tokens, nil
}

type parser struct {
	tokens []token
	next   int
	depth  int
}

// maxDepth bounds nesting, so that no file can exhaust the stack.
const maxDepth = 100

func (p *parser) peek() (token, bool) {
	if p.next == len(p.tokens) {
		return token{}, false
	}
	return p.tokens[p.next], true
}

func (p *parser) take(kind string) bool {
	if t, ok := p.peek(); !ok || t.kind != kind {
		return false
	}
	p.next++
	return true
}

func (p *parser) or() (check, error) {
	c, err := p.and()
	if err != nil {
		return nil, err
	}
	parts := anyOf{c}
	for p.take("or") {
		c, err := p.and()
		if err != nil {
			return nil, err
		}
		parts = append(parts, c)
	}
	if len(parts) == 1 {
		return c, nil
	}
	return parts, nil
}

func (p *parser) and() (check, error) {
	c, err := p.not()
	if err != nil {
		return nil, err
	}
	parts := allOf{c}
	for p.take("and") {
		c, err := p.not()
		if err != nil {
			return nil, err
		}
		parts = append(parts, c)
	}
	if len(parts) == 1 {
		return c, nil
	}
	return parts, nil
}

func (p *parser) not() (check, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	defer func() { p.depth-- }()
	if p.take("not") {
		c, err := p.not()
		if err != nil {
			return nil, err
		}
		return not{c}, nil
	}
	return p.atom()
}

func (p *parser) atom() (check, error) {
	t, ok := p.peek()
	if !ok {
		return nil, errors.New("ends where a check is expected")
	}
	p.next++
	switch t.kind {
	case "check":
		return t.check, nil
	case "(":
		c, err := p.or()
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, errors.New("a ( is not closed")
		}
		return c, nil
	}
	return nil, fmt.Errorf("%q where a check is expected", t.text)
}

// parseCheck understands one KIND:VALUE, @ or !.
func parseCheck(text string) (check, error) {
	switch text {
	case "@":
		return constant(true), nil
	case "!":
		return constant(false), nil
	}
	kind, value, ok := strings.Cut(text, ":")
	if !ok || kind == "" {
		return nil, fmt.Errorf("%q is not a check: @, ! or KIND:VALUE", text)
	}
	if kind == "rule" {
		return &reference{name: value}, nil
	}
	t, err := parseTemplate(value)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "role":
		return role{t}, nil
	case "http", "https":
		return remote{scheme: kind, rest: t}, nil
	}
	if lit, ok := pythonLiteral(kind); ok {
		return literal{lit, t}, nil
	}
	return credential{kind, t}, nil
}

var number = regexp.MustCompile(`^[+-]?(\d+|\d+\.\d*|\.\d+)$`)

// pythonLiteral gives the text that a Python literal prints as.
func pythonLiteral(s string) (string, bool) {
	if s == "True" || s == "False" || s == "None" || number.MatchString(s) {
		return s, true
	}
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1], true
	}
	return "", false
}

// parseTemplate understands Python's %(key)s and %%, nothing else.
func parseTemplate(s string) (template, error) {
	var t template
	var text strings.Builder
	for {
		before, after, found := strings.Cut(s, "%")
		text.WriteString(before)
		if !found {
			break
		}
		if rest, ok := strings.CutPrefix(after, "%"); ok {
			text.WriteByte('%')
			s = rest
			continue
		}
		key, rest, ok := strings.Cut(after, ")s")
		if !ok || !strings.HasPrefix(key, "(") || strings.ContainsAny(key[1:], "()%") {
			return template{}, fmt.Errorf("%q: a %% must begin a %%(name)s or be written %%%%", s)
		}
		t.text = append(t.text, text.String())
		t.slots = append(t.slots, key[1:])
		text.Reset()
		s = rest
	}
	t.text = append(t.text, text.String())
	return t, nil
}
