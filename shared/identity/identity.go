// Package identity says on whose behalf a request is made.
package identity

import (
	"context"
	"slices"
	"strings"
)

// Caller is who a request comes from, as the token (or noauth) says
// (spec/api.md §2.3). The zero Caller is nobody.
type Caller struct {
	UserID, UserName             string
	UserDomainID, UserDomainName string
	ProjectID, ProjectName       string
	ProjectDomainID              string
	DomainID                     string // of a domain-scoped token
	SystemScope                  bool
	Roles                        []string
	IsAdmin                      bool // the rule context_is_admin said so
	Token                        Token
}

// Token is a Keystone token. It prints as ***, so that no log line can hold one.
type Token string

// String hides the token.
func (Token) String() string { return "***" }

// GoString hides the token from %#v too.
func (Token) GoString() string { return "***" }

// MarshalText hides the token from encoders.
func (Token) MarshalText() ([]byte, error) { return []byte("***"), nil }

// HasRole compares ignoring case, as oslo.policy does.
func (c Caller) HasRole(name string) bool {
	return slices.ContainsFunc(c.Roles, func(r string) bool { return strings.EqualFold(r, name) })
}

type callerKey struct{}

// With puts the caller into the context of a request.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the caller of the request; nobody if none was put there.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type requestKey struct{}

// request is what a request is called, by us and by whoever made it.
type request struct{ id, global string }

// WithRequestID puts the request's id (req-…) into its context.
func WithRequestID(ctx context.Context, id string) context.Context {
	return WithRequestIDs(ctx, id, "")
}

// WithRequestIDs is WithRequestID for a request that its caller has given an id
// too; empty if it has not.
func WithRequestIDs(ctx context.Context, id, global string) context.Context {
	return context.WithValue(ctx, requestKey{}, request{id, global})
}

// RequestID is the request's id, empty outside of one.
func RequestID(ctx context.Context) string {
	r, _ := ctx.Value(requestKey{}).(request)
	return r.id
}

// GlobalRequestID is what other services are told: the caller's id, which all
// services share, else ours. Never show it as ours.
func GlobalRequestID(ctx context.Context) string {
	r, _ := ctx.Value(requestKey{}).(request)
	if r.global != "" {
		return r.global
	}
	return r.id
}
