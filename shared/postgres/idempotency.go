package postgres

import (
	"context"
	"time"

	"carafe/shared/postgres/internal/sqlc"
)

// Idempotency keeps the first answers to requests with an Idempotency-Key.
type Idempotency struct{ s *sqlc.Queries }

// Answer is what the first request was answered.
type Answer struct {
	RequestHash []byte
	Status      int
	Body        []byte
	CreatedAt   time.Time
}

// Find gives the answer kept under the project's key, if there is one.
func (x Idempotency) Find(ctx context.Context, projectID, key string) (Answer, bool, error) {
	r, err := x.s.IdempotencyKey(ctx, sqlc.IdempotencyKeyParams{ProjectID: projectID, Key: key})
	if noRows(err) {
		return Answer{}, false, nil
	}
	return Answer{RequestHash: r.RequestHash, Status: r.Status, Body: r.Body, CreatedAt: r.CreatedAt}, err == nil, classify(err, "find idempotency key")
}

// Keep stores an answer in the transaction that does the work. False: another
// request with the key was first, and this one must not commit.
func (x Idempotency) Keep(ctx context.Context, projectID, key string, a Answer) (bool, error) {
	n, err := x.s.InsertIdempotencyKey(ctx, sqlc.InsertIdempotencyKeyParams{ProjectID: projectID, Key: key,
		RequestHash: a.RequestHash, Status: a.Status, Body: a.Body, CreatedAt: a.CreatedAt})
	return n == 1, classify(err, "keep idempotency key")
}

// Forget removes keys older than before.
func (x Idempotency) Forget(ctx context.Context, before time.Time) error {
	_, err := x.s.ForgetIdempotencyKeys(ctx, before)
	return classify(err, "forget idempotency keys")
}
