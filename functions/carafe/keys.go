package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"carafe/shared/certstore"
)

// newKey prints a key for CARAFE_SEAL_KEYS.
func newKey(_ context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("carafe newkey takes no arguments")
	}
	_, err := fmt.Fprintln(out, string(certstore.NewKey())) // the one place that shows a key
	return err
}

// rekeyBatch bounds the secrets that are read at one time.
const rekeyBatch = 200

// rekey seals with the first key of CARAFE_SEAL_KEYS what another key has sealed.
// Functions may run meanwhile, as long as they have both keys.
func rekey(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("carafe rekey takes no arguments")
	}
	p, closeDatabase, err := openPlatform(ctx)
	if err != nil {
		return err
	}
	defer closeDatabase()
	total := 0
	for {
		n, err := p.Secrets.Reseal(ctx, rekeyBatch)
		total += n
		switch {
		case err != nil && n == 0:
			return fmt.Errorf("secrets sealed again: %d; these were not:\n%w", total, err)
		case n == 0:
			_, err := fmt.Fprintf(out, "Secrets sealed again: %d. All are sealed with the first key of CARAFE_SEAL_KEYS; the others can go.\n", total)
			return err
		}
	}
}
