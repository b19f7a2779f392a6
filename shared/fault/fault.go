// Package fault is the one vocabulary of errors that someone up the stack must
// decide on by kind, or that a user will read.
package fault

import (
	"errors"
	"fmt"
)

// Kind says who can do what about an error. The zero Kind is Internal, so an
// error nobody classified is never shown to a user and is always retried.
type Kind int

const (
	Internal             Kind = iota // a bug or a broken invariant: log, hide, retry
	Invalid                          // the request can never work
	Unauthenticated                  // nobody vouches for the caller
	Forbidden                        // the policy or a quota says no
	NotFound                         // no such resource among those that the caller may see
	MethodNotAllowed                 // the path exists, the method does not
	NotAcceptable                    // version or media type that we cannot answer in
	Conflict                         // the state does not allow it now
	PreconditionFailed               // If-Match named another version
	TooLarge                         // the body is over the limit
	UnsupportedMediaType             // a body that is not JSON
	Unprocessable                    // an Idempotency-Key used again with another body
	NotImplemented                   // the installation lacks what this needs
	Unavailable                      // a dependency asks to wait: retry
)

// Reason is a stable code for programs, shown beside the text of a failed
// operation and in its notification.
type Reason string

const (
	ReasonQuota         Reason = "quota"
	ReasonDependency    Reason = "dependency"
	ReasonConfiguration Reason = "configuration"
	ReasonTimeout       Reason = "timeout"
	ReasonCredential    Reason = "credential"
)

// Error is a classified error. Text is for the user; Cause is for the log.
type Error struct {
	Kind   Kind
	Reason Reason
	Text   string
	Cause  error
}

// Error gives the text and, behind it, the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return e.Text + ": " + e.Cause.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an Error whose text a user may read.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error with a text for the user and a cause for the log.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...), Cause: cause}
}

// WithReason sets the stable code and returns the same error.
func (e *Error) WithReason(r Reason) *Error {
	e.Reason = r
	return e
}

// KindOf is the kind of the first Error in err's chain, else Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// ReasonOf is the stable code of the first Error in err's chain that has one.
func ReasonOf(err error) Reason {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Reason != "" {
			return e.Reason
		}
		err = e.Cause
	}
	return ""
}

// Text is what a user may read of err: the text of the first Error in its
// chain, or a fixed sentence for an error that nobody classified.
func Text(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Kind != Internal {
		return e.Text
	}
	return "Internal server error"
}

// Transient reports whether trying again later can help: true for Unavailable
// and for what nobody classified, false for everything that is the caller's.
func Transient(err error) bool {
	k := KindOf(err)
	return k == Internal || k == Unavailable
}
