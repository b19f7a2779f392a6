package conductor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"carafe/shared/fault"
	"carafe/shared/postgres"
)

// idempotencyLife is how long the answer to a request with an Idempotency-Key is
// given again.
const idempotencyLife = 24 * time.Hour

// RequestHash tells requests apart that carry the same Idempotency-Key.
func RequestHash(method, path string, body []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		h.Write(part)
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// recall gives the answer to the first request with the key, if there was one
// within a day. Fault Unprocessable: that one had another body.
func (c *Conductor) recall(ctx context.Context, projectID, key string, hash []byte) (postgres.Answer, bool, error) {
	a, ok, err := c.DB.Idempotency.Find(ctx, projectID, key)
	if err != nil || !ok {
		return a, false, err
	}
	if expired := c.Now().Add(-idempotencyLife); a.CreatedAt.Before(expired) {
		return a, false, c.DB.Idempotency.Forget(ctx, expired) // else it would be in the new one's way
	}
	if !bytes.Equal(a.RequestHash, hash) {
		return a, false, fault.New(fault.Unprocessable, "The Idempotency-Key %q was used with another request.", key)
	}
	return a, true, nil
}
