package postgres

import (
	"context"
	"time"

	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Functions are those that have been seen at work (spec/api.md §4.8).
type Functions struct{ s *sqlc.Queries }

// Seen notes that a function of this host works.
func (x Functions) Seen(ctx context.Context, host, name string, now time.Time) error {
	return classify(x.s.SeeFunction(ctx, sqlc.SeeFunctionParams{Host: host, BinaryName: name, Now: now}), "note function")
}

// List gives all that were seen and not forgotten.
func (x Functions) List(ctx context.Context) ([]magnum.Service, error) {
	rows, err := x.s.FunctionsSeen(ctx)
	list := make([]magnum.Service, len(rows))
	for i, r := range rows {
		list[i] = magnum.Service{ID: r.ID, Host: r.Host, Binary: r.Binary, ReportCount: r.ReportCount,
			LastSeenUp: r.LastSeenUp, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
	}
	return list, classify(err, "list functions")
}

// Forget removes those not seen since before.
func (x Functions) Forget(ctx context.Context, before time.Time) error {
	_, err := x.s.ForgetFunctions(ctx, before)
	return classify(err, "forget functions")
}
