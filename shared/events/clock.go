package events

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"github.com/robfig/cron/v3"
)

// Clock delivers the ticks of the PingSources to functions of the same process.
// A tick that would overtake the one before it is left out.
type Clock struct {
	schedules []Schedule
	client    *http.Client
}

// NewClock makes a clock of the schedules in the routes.
func NewClock(routes *Routes, functions InProcess) *Clock {
	return &Clock{schedules: routes.Schedules, client: &http.Client{Transport: functions}}
}

// Run ticks until the context ends, then waits for the ticks in flight.
func (c *Clock) Run(ctx context.Context) {
	ticks, stop := drainable(ctx)
	defer stop()
	log := cronLog{}
	runner := cron.New(cron.WithLogger(log), cron.WithChain(cron.Recover(log), cron.SkipIfStillRunning(log)))
	for _, s := range c.schedules {
		runner.Schedule(s.Cron, cron.FuncJob(func() { c.tick(ticks, s) }))
	}
	runner.Start()
	<-ctx.Done()
	<-runner.Stop().Done()
}

// tick delivers one tick once. If it is not taken, the next one comes soon:
// what is due is a matter of rows, not of ticks.
func (c *Clock) tick(ctx context.Context, s Schedule) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	status, body, err := post(ctx, c.client, "http://"+s.Function, s.event(), "")
	if err == nil {
		err = answer(status, body)
	}
	if err != nil {
		slog.WarnContext(ctx, "tick not taken", "function", s.Function, "err", err)
	}
}

// event is what the PingSource sends (knative/eventing pkg/adapter/mtping).
func (s Schedule) event() event.Event {
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetType(Tick)
	e.SetSource(s.Source)
	return e
}

// cronLog passes on what cron reports; that it woke up is of no interest.
type cronLog struct{}

func (cronLog) Info(msg string, args ...any) { slog.Debug("cron "+msg, args...) }

func (cronLog) Error(err error, msg string, args ...any) {
	slog.Error("cron "+msg, append(args, "err", err)...)
}
