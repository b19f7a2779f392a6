package conductor

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"carafe/shared/identity"
	"carafe/shared/postgres"
)

// takeBackTime bounds TakeBack: a caller waits for it.
const takeBackTime = 10 * time.Second

// TakeBack revokes a credential that was made for a wish which then could not be
// stored. One that is stored after all stays: of a commit only the answer may have
// been lost. It goes on when the caller has gone; what cannot be revoked is logged,
// for nothing else knows of it.
func (c *Conductor) TakeBack(ctx context.Context, caller identity.Caller, clusterID, credentialID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	stored, err := c.DB.Secrets.Credentials().Of(ctx, clusterID)
	if slices.ContainsFunc(stored, func(r postgres.CredentialRow) bool { return r.CredentialID != nil && *r.CredentialID == credentialID }) {
		return
	}
	if err == nil {
		err = c.Delegation.Revoke(ctx, caller.UserID, credentialID, clusterID)
	}
	if err != nil {
		slog.ErrorContext(ctx, "an unused application credential stays in Keystone", "cluster", clusterID,
			"credential", credentialID, "user", caller.UserID, "err", err)
	}
}
