package conductor

import (
	"context"
	"encoding/json"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/postgres"
)

// Answered lets an answer that has been written leave, and then the events of
// its request: a broker may take its time, and the user must not.
func (c *Conductor) Answered(w http.ResponseWriter, r *http.Request) error {
	if err := api.Flush(w); err != nil {
		return err
	}
	c.Publisher.Publish(r.Context())
	return nil
}

// Accepted answers 202 with the resource's uuid, and lets the events leave.
func (c *Conductor) Accepted(w http.ResponseWriter, r *http.Request, uuid string) error {
	if err := api.WriteJSON(w, http.StatusAccepted, api.Accepted{UUID: uuid}); err != nil {
		return err
	}
	return c.Answered(w, r)
}

// Replay answers a request whose Idempotency-Key was used before with the first
// answer (then done is true), and else says what to keep with this one's answer;
// nil without a key. Fault Unprocessable: the key came with another request.
func (c *Conductor) Replay(w http.ResponseWriter, r *http.Request, caller identity.Caller) (keep *Remember, done bool, err error) {
	key, err := api.IdempotencyKey(r)
	if err != nil || key == "" {
		return nil, false, err
	}
	hash := RequestHash(r.Method, r.URL.RequestURI(), api.Raw(r))
	first, found, err := c.recall(r.Context(), caller.ProjectID, key, hash)
	if err != nil {
		return nil, false, err
	}
	if found {
		return nil, true, api.WriteJSON(w, first.Status, json.RawMessage(first.Body))
	}
	return &Remember{ProjectID: caller.ProjectID, Key: key, Hash: hash, Status: http.StatusAccepted}, false, nil
}

// With gives the answer to keep; nothing is kept without a key.
func (k *Remember) With(answer any) (*Remember, error) {
	if k == nil {
		return nil, nil
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encode the answer")
	}
	kept := *k
	kept.Body = body
	return &kept, nil
}

// errTried takes a transaction back that was only to be tried.
var errTried = fault.New(fault.Conflict, "dry run")

// Try lets decide do everything that it would for Accept, and takes it all back.
func (c *Conductor) Try(ctx context.Context, caller identity.Caller, clusterID string, decide Decide) error {
	err := c.Accept(ctx, caller, clusterID, func(ctx context.Context, tx *postgres.Store, s *Subject) (*Wish, error) {
		if _, err := decide(ctx, tx, s); err != nil {
			return nil, err
		}
		return nil, errTried
	})
	if err == errTried {
		return nil
	}
	return err
}
