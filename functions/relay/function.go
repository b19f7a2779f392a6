// Package relay is the function that finds what got stuck: events that did not
// leave, operations that nobody works on, deadlines that have passed, secrets
// and history past their time. Everything it does is safe to do twice.
package relay

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "relay", Kind: function.Cron, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	h := &handler{conductor: p.Conductor, db: p.DB, secrets: p.Secrets, now: p.Now}
	h.host, _, _ = strings.Cut(p.Owner, "/") // of the process only its host
	return events.Handler(h.tick, events.Tick), nil
}

type handler struct {
	conductor *conductor.Conductor
	db        *postgres.DB
	secrets   *certstore.Store
	host      string
	now       func() time.Time
}

const (
	// sweepBatch bounds the retired epochs that one tick deletes.
	sweepBatch = 50
	// forgottenAfter is when /v1/mservices no longer lists a host that is gone.
	forgottenAfter = time.Hour
)

// tick does all its parts, whatever becomes of one of them.
func (h *handler) tick(ctx context.Context, _ event.Event) error {
	_, reposted := h.conductor.Repost(ctx)
	_, expired := h.conductor.Expire(ctx)
	_, swept := h.secrets.Sweep(ctx, sweepBatch)
	seen := h.db.Functions.Seen(ctx, h.host, "magnum-conductor", h.now())
	forgotten := h.db.Functions.Forget(ctx, h.now().Add(-forgottenAfter))
	old := h.conductor.Forget(ctx)
	h.conductor.Published(ctx)
	return errors.Join(reposted, expired, swept, seen, forgotten, old)
}
