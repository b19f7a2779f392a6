package policy

import (
	"slices"
	"strings"

	"carafe/shared/identity"
)

// request is what a check is evaluated on.
type request struct {
	caller *identity.Caller
	rule   string
	target map[string]string // nil: the default target
	cfg    *Config
}

// attribute gives the target's value of a %(key)s.
func (r *request) attribute(key string) (string, bool) {
	if r.target != nil {
		v, ok := r.target[key]
		return v, ok
	}
	switch key {
	case "project_id":
		return orNone(r.caller.ProjectID), true
	case "user_id":
		return orNone(r.caller.UserID), true
	}
	return "", false
}

// orNone prints a missing value as Python does, which rules may compare with.
func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

// check is a parsed rule or a part of one.
type check interface {
	allows(r *request) bool
}

type constant bool

func (c constant) allows(*request) bool { return bool(c) }

type not struct{ check }

func (n not) allows(r *request) bool { return !n.check.allows(r) }

type allOf []check

func (a allOf) allows(r *request) bool {
	for _, c := range a {
		if !c.allows(r) {
			return false
		}
	}
	return true
}

type anyOf []check

func (a anyOf) allows(r *request) bool {
	for _, c := range a {
		if c.allows(r) {
			return true
		}
	}
	return false
}

// reference is rule:NAME. Its rule is set by ruleSet.link, nil if there is none.
type reference struct {
	name string
	rule *rule
}

func (f *reference) allows(r *request) bool {
	return f.rule != nil && f.rule.check.allows(r)
}

// references calls f for each reference in c.
func references(c check, f func(*reference) error) error {
	var parts []check
	switch c := c.(type) {
	case *reference:
		return f(c)
	case not:
		parts = []check{c.check}
	case allOf:
		parts = c
	case anyOf:
		parts = c
	}
	for _, p := range parts {
		if err := references(p, f); err != nil {
			return err
		}
	}
	return nil
}

// role is role:NAME; names compare ignoring case.
type role struct{ name template }

func (c role) allows(r *request) bool {
	name, ok := c.name.expand(r)
	return ok && r.caller.HasRole(name)
}

// literal compares a Python literal on the left with a value: 'a':%(b)s.
type literal struct {
	text  string
	value template
}

func (c literal) allows(r *request) bool {
	v, ok := c.value.expand(r)
	return ok && v == c.text
}

// credential compares an attribute of the caller with a value: user_id:%(user_id)s.
type credential struct {
	key   string
	value template
}

func (c credential) allows(r *request) bool {
	v, ok := c.value.expand(r)
	if !ok {
		return false
	}
	if c.key == "roles" {
		return slices.Contains(r.caller.Roles, v)
	}
	have, ok := credentials[c.key]
	return ok && have(r.caller) == v
}

// credentials are the attributes of a caller that a rule may name. A missing
// one prints as None (oslo_policy/_checks.py, GenericCheck).
var credentials = map[string]func(*identity.Caller) string{
	"user_id":           func(c *identity.Caller) string { return orNone(c.UserID) },
	"user_name":         func(c *identity.Caller) string { return orNone(c.UserName) },
	"user_domain_id":    func(c *identity.Caller) string { return orNone(c.UserDomainID) },
	"user_domain_name":  func(c *identity.Caller) string { return orNone(c.UserDomainName) },
	"project_id":        func(c *identity.Caller) string { return orNone(c.ProjectID) },
	"project_name":      func(c *identity.Caller) string { return orNone(c.ProjectName) },
	"project_domain_id": func(c *identity.Caller) string { return orNone(c.ProjectDomainID) },
	"domain_id":         func(c *identity.Caller) string { return orNone(c.DomainID) },
	"system_scope": func(c *identity.Caller) string {
		if c.SystemScope {
			return "all"
		}
		return "None"
	},
	"is_admin": func(c *identity.Caller) string {
		if c.IsAdmin {
			return "True"
		}
		return "False"
	},
}

// template is a text with %(key)s slots: text[0] slot[0] text[1] slot[1] … text[n].
type template struct {
	text  []string
	slots []string
}

// expand fills the slots; false if the target lacks one of them.
func (t template) expand(r *request) (string, bool) {
	if len(t.slots) == 0 {
		return t.text[0], true
	}
	if len(t.slots) == 1 && t.text[0] == "" && t.text[1] == "" {
		return r.attribute(t.slots[0]) // the usual case, without a copy
	}
	var b strings.Builder
	for i, slot := range t.slots {
		v, ok := r.attribute(slot)
		if !ok {
			return "", false
		}
		b.WriteString(t.text[i])
		b.WriteString(v)
	}
	b.WriteString(t.text[len(t.slots)])
	return b.String(), true
}
