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

// WithRequestID puts the request's id (req-…) into its context.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID is the request's id, empty outside of one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
