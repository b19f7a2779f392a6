package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"

	"carafe/shared/fault"
)

// Fault classifies an error of a call to the service. What is the service's own
// trouble is Unavailable and names it (spec/api.md, PEER BUG B16); what it
// refused carries its words. A fault passes unchanged. The bodies of answers do
// not get into the cause, which is logged.
func Fault(s Service, err error) error {
	var f *fault.Error
	if err == nil || errors.As(err, &f) {
		return err
	}
	var renewal *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &renewal) {
		return loginFault(renewal.ErrReauth)
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return refusal(s, answer, err)
	}
	return failed(s, err, "%s", reason(err))
}

// Whole makes an error of an answer in which the thing itself is missing, which
// gophercloud gives as nil.
func Whole[T any](thing *T, err error) (*T, error) {
	if err == nil && thing == nil {
		return nil, errNotWhole
	}
	return thing, err
}

var errNotWhole = errors.New("the answer does not hold what was asked for")

// Status is the status of the answer that err tells of; 0 if there was none.
func Status(err error) int {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return answer.Actual
	}
	return 0
}

func failed(s Service, cause error, format string, args ...any) error {
	return fault.Wrap(fault.Unavailable, cause, "%s connection failed. %s", s.Name, fmt.Sprintf(format, args...)).
		WithReason(fault.ReasonDependency)
}

// reason says in words why there was no answer.
func reason(err error) string {
	var network net.Error
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, context.Canceled):
		return "The request was given up."
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "It did not answer in time."
	case errors.As(err, &syntax), errors.As(err, &kind), errors.As(err, &tooLarge), errors.Is(err, errNotWhole):
		return "Its answer cannot be understood."
	case errors.As(err, &network):
		return "It cannot be reached."
	}
	return "It did not give a whole answer."
}

func refusal(s Service, answer gophercloud.ErrUnexpectedResponseCode, err error) error {
	cause := fmt.Errorf("%s %s: status %d, their request id %q",
		answer.Method, answer.URL, answer.Actual, answer.ResponseHeader.Get("X-OpenStack-Request-Id"))
	words := message(answer.Body)
	say := func(kind fault.Kind, otherwise string) error {
		if words == "" {
			words = otherwise
		}
		return fault.Wrap(kind, cause, "%s: %s", s.Name, words)
	}
	var renewed *gophercloud.ErrErrorAfterReauthentication
	switch code := answer.Actual; {
	case code == http.StatusUnauthorized && errors.As(err, &renewed):
		return failed(s, cause, "It does not accept the service user's token.")
	case code == http.StatusUnauthorized:
		return unauthenticated(cause)
	case code == http.StatusForbidden:
		return say(fault.Forbidden, "Not authorized.")
	case code == http.StatusNotFound:
		return say(fault.NotFound, "Not found.")
	case code == http.StatusConflict:
		return say(fault.Conflict, "Conflict.")
	case code == http.StatusTooManyRequests || code == http.StatusRequestEntityTooLarge || code == http.StatusRequestTimeout:
		return failed(s, cause, "It has too much to do.")
	case code >= 400 && code < 500:
		return say(fault.Invalid, "The request was not accepted.")
	}
	return failed(s, cause, "It answered with status %d.", answer.Actual)
}

// message is what a service says of a refusal: each wraps it in its own way,
// {"error": {"message": …}}, {"forbidden": {"message": …}},
// {"NeutronError": {"message": …}} or {"description": …}.
func message(body []byte) string {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return ""
	}
	for _, key := range []string{"message", "description"} {
		var text string
		if json.Unmarshal(outer[key], &text) == nil && text != "" {
			return shorten(text)
		}
	}
	for _, inner := range outer {
		var words struct{ Message string }
		if json.Unmarshal(inner, &words) == nil && words.Message != "" {
			return shorten(words.Message)
		}
	}
	return ""
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 500 {
		return string(r[:500]) + "…"
	}
	return s
}

func unauthenticated(cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "The request you have made requires authentication.")
}

// loginFault is about the service user: none of the caller's business, and
// never a 401.
func loginFault(err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) && answer.Actual >= 400 && answer.Actual < 500 {
		slog.Error("Keystone refuses the service user: check CARAFE_KEYSTONE_USERNAME and its like", "status", answer.Actual)
		return fault.Wrap(fault.Unavailable, fmt.Errorf("login of the service user: status %d", answer.Actual),
			"Keystone connection failed. It refuses the service user.").WithReason(fault.ReasonConfiguration)
	}
	return Fault(Keystone, err)
}

func (c *Client) noEndpoint(s Service, cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "%s connection failed. The catalogue has no %s endpoint of type %s in region %q.",
		s.Name, c.cfg.Interface, s.Type, c.cfg.Region).WithReason(fault.ReasonConfiguration)
}

// momentary reports whether the same call may well succeed at once.
func momentary(err error) bool {
	switch Status(err) {
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	case 0:
		return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
	}
	return false
}
