// Package statussync is the function that looks at clusters in progress: every
// tick those that are due, in bounded batches, and at once those that an event
// names.
package statussync

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/conductor"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Config is the environment of statussync.
type Config struct {
	// Batch is how many clusters are read and observed together.
	Batch int32 `envconfig:"CARAFE_SYNC_BATCH" default:"500"`
	// FanOut is how many due clusters one tick looks at itself; beyond them the
	// rest leaves as magnum.conductor.sync events, one for each batch, for other
	// instances. 0: never.
	FanOut int `envconfig:"CARAFE_SYNC_FAN_OUT" default:"0"`
}

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "statussync", Kind: function.Cron, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil {
		return nil, err
	}
	h := &handler{config: c, conductor: p.Conductor, db: p.DB, now: p.Now, newID: p.NewID}
	return events.Handler(h.handle, events.Tick, events.Sync, changeAdd, changeUpdate, changeDelete), nil
}

type handler struct {
	config    Config
	conductor *conductor.Conductor
	db        *postgres.DB
	now       func() time.Time
	newID     func() string
}

// Batch is the data of a magnum.conductor.sync event.
type Batch struct {
	ClusterIDs []string `json:"cluster_uuids"`
}

func (h *handler) handle(ctx context.Context, e event.Event) error {
	if e.Type() == events.Tick {
		return h.tick(ctx)
	}
	if isChange(e) {
		if id := changed(e); id != "" {
			return h.conductor.Sync(ctx, []string{id})
		}
		return nil // an object that is no cluster's of ours
	}
	var b Batch
	if err := e.DataAs(&b); err != nil || len(b.ClusterIDs) == 0 {
		return fault.Wrap(fault.Invalid, err, "the data of a %s event must be {cluster_uuids: [...]}", e.Type())
	}
	return h.conductor.Sync(ctx, b.ClusterIDs)
}

// margin is what a tick keeps of its time for what it has claimed last.
const margin = 5 * time.Second

// tick takes batch after batch of what was due when it began, until nothing is
// or its time is over; the next tick takes the rest.
func (h *handler) tick(ctx context.Context) error {
	now := h.now()
	// A tick that comes a moment early must not leave everything to the next one.
	due := now.Add(h.conductor.Settings.SyncInterval / 2)
	done := 0
	for {
		if d, ok := ctx.Deadline(); ok && time.Until(d) < margin {
			return nil
		}
		ids, err := h.db.Ticks.ClaimSync(ctx, due, now.Add(h.conductor.Settings.SyncInterval), h.config.Batch)
		if err != nil || len(ids) == 0 {
			return err
		}
		if h.config.FanOut > 0 && done >= h.config.FanOut {
			err = h.fanOut(ctx, ids, now)
		} else {
			err = h.conductor.Sync(ctx, ids)
		}
		if err != nil {
			return err
		}
		done += len(ids)
	}
}

// fanOut leaves a batch to whoever gets its event. Should it get lost, the
// clusters are due again one interval later.
func (h *handler) fanOut(ctx context.Context, ids []string, now time.Time) error {
	data, err := json.Marshal(Batch{ClusterIDs: ids})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "encode a batch")
	}
	err = h.db.Events.Add(ctx, magnum.Event{ID: h.newID(), Type: events.Sync, Source: h.conductor.Source(),
		Subject: ids[0], Data: data, CreatedAt: now})
	if err == nil {
		h.conductor.Published(ctx)
	}
	return err
}
