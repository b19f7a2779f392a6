package events

import (
	"context"
	"errors"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/fault"
)

// Forward hands an event that came over the network to those functions of this
// process that the routes name for it: the compact profile, where one Service
// hosts many. Its error is what the caller's broker gets to hear: that of a
// function which may take it later before that of one which never will.
func Forward(ctx context.Context, routes *Routes, functions InProcess, e event.Event) error {
	var names []string
	for _, t := range routes.Match(e) {
		names = append(names, t.Function)
	}
	for _, s := range routes.Schedules {
		// The namespace is the installation's: the name says which one it is.
		if e.Type() == Tick && sourceName(e.Source()) == s.Name {
			names = append(names, s.Function)
		}
	}
	if len(names) == 0 {
		return fault.New(fault.Invalid, "no function takes events of type %q from %q", e.Type(), e.Source())
	}
	client := &http.Client{Transport: functions}
	var errs []error
	for _, name := range names {
		status, body, err := post(ctx, client, "http://"+name, e, "")
		if err != nil {
			return err // a panic
		}
		err = answer(status, body)
		if fault.Is(err, fault.Unavailable) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sourceName is the last part of a PingSource's source.
func sourceName(source string) string {
	for i := len(source) - 1; i >= 0; i-- {
		if source[i] == '/' {
			return source[i+1:]
		}
	}
	return source
}
