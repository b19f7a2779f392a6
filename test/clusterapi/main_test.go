//go:build clusterapi

// Package clusterapi drives the Cluster API driver against Cluster API's real
// controllers with machines in memory. run.sh builds what it needs.
package clusterapi

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"carafe/test/clusterapi/bed"
)

var theBed *bed.Bed

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(victimVariable) != "" {
		return m.Run() // a process that is to be killed brings no bed of its own
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	b, err := bed.Start(ctx, bed.Options{Controllers: true, Log: func(format string, args ...any) {
		fmt.Printf("bed: "+format+"\n", args...)
	}})
	defer b.Stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bed:", err)
		return 1
	}
	if !b.RealProvider {
		fmt.Println("bed: the OpenStack provider's schemas are not at hand (CARAFE_CAPO_CRDS): its objects are not validated")
	}
	theBed = b
	return m.Run()
}
