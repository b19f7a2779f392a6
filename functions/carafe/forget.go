package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// forget records a delete that does not wait for the driver: for a cluster whose
// cloud is gone, so that its secrets and records go too (PB-29). The function
// clusterdelete does it, with the next tick at the latest.
func forget(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("carafe forget takes the uuid of one cluster")
	}
	uuid, ok := api.UUIDLike(args[0])
	if !ok {
		return fmt.Errorf("carafe forget takes a uuid, and %q is none: a name may be that of several clusters", args[0])
	}
	p, closeDatabase, err := openPlatform(ctx)
	if err != nil {
		return err
	}
	defer closeDatabase()
	operator := identity.Caller{UserID: "operator", IsAdmin: true}
	err = p.Conductor.Accept(ctx, operator, uuid, func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
		return conductor.WishDelete(ctx, tx, s, magnum.DeleteArguments{Force: true}, time.Now())
	})
	if err != nil {
		return oneLine(err)
	}
	_, err = fmt.Fprintf(out, "Cluster %s will be forgotten: its secrets and records go, whatever the driver can still do.\n", uuid)
	return err
}
