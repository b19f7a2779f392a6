//go:build clusterapi

// Package clusterapi drives the Cluster API driver against Cluster API's real
// controllers with machines in memory. run.sh builds what it needs.
package clusterapi

import (
	"context"
	"flag"
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
	if os.Getenv(victimVariable) != "" || os.Getenv(benchVariable) != "" {
		return m.Run() // a process of a test's own, which has a bed already
	}
	flag.Parse()
	bench := flag.Lookup("test.bench").Value.String() != ""
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	b, err := bed.Start(ctx, bed.Options{Controllers: !bench, WholeObjects: bench, Log: func(format string, args ...any) {
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
