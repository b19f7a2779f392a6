package conductor

import (
	"context"
	"log/slog"
	"time"

	"carafe/shared/identity"
)

// takeBackTime bounds TakeBack: a caller waits for it.
const takeBackTime = 10 * time.Second

// TakeBack revokes a credential that was made for a wish which then could not be
// stored. It goes on when the caller has gone; what cannot be revoked is logged,
// for nothing else knows of it.
func (c *Conductor) TakeBack(ctx context.Context, caller identity.Caller, clusterID, credentialID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	if err := c.Delegation.Revoke(ctx, caller.UserID, credentialID, clusterID); err != nil {
		slog.ErrorContext(ctx, "an unused application credential stays in Keystone", "cluster", clusterID,
			"credential", credentialID, "user", caller.UserID, "err", err)
	}
}
