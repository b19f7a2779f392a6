package events

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

func TestClockLeavesOutTicksThatWouldOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule, err := parser.Parse("CRON_TZ=UTC */10 * * * * *")
		if err != nil {
			t.Fatal(err)
		}
		quick, slow, inSlow := 0, 0, 0
		functions := InProcess{
			"quick": Handler(func(_ context.Context, e event.Event) error {
				quick++
				if e.Source() != "/apis/v1/namespaces/default/pingsources/quick" {
					t.Errorf("source %s", e.Source())
				}
				return nil
			}, Tick),
			"slow": Handler(func(context.Context, event.Event) error {
				slow++
				if inSlow++; inSlow > 1 {
					t.Error("two ticks at once")
				}
				time.Sleep(25 * time.Second)
				inSlow--
				return nil
			}, Tick),
			"broken": Handler(func(context.Context, event.Event) error { panic("boom") }),
		}
		routes := &Routes{}
		for _, f := range []string{"quick", "slow", "broken", "absent"} {
			routes.Schedules = append(routes.Schedules, Schedule{Name: f, Function: f, Cron: schedule,
				Source: "/apis/v1/namespaces/default/pingsources/" + f})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		NewClock(routes, functions).Run(ctx)
		if quick != 6 || slow != 2 {
			t.Errorf("in 61 s: %d quick and %d slow ticks, want 6 and 2", quick, slow)
		}
		if inSlow != 0 {
			t.Error("Run returned with a tick in flight")
		}
	})
}
