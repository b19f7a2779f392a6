// Command bench measures Carafe as it runs: a process over a real PostgreSQL,
// asked through HTTP, beside what the machine can do at most. It prints its
// figures and writes them, with plots, to test/bench/results. It judges nothing:
// what the figures mean is in README.md.
//
// BENCH=quick measures each thing once and briefly; BENCH=requests, or any other
// parts' names separated by commas, measures those parts only and writes nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/certstore"
)

// bench is one run of everything, and what it has found.
type bench struct {
	binary   string
	dir      string // of the run's own, removed at its end
	sealKeys string
	busyness string // of the machine, before

	server     string // the database server's address
	admin      *pgx.Conn
	postmaster int // its process
	databases  []string

	clients  []int
	runs     int
	length   time.Duration // of one run of one work
	watch    time.Duration // of the idle process
	creating time.Duration // of creates at a steady rate
	starting int           // cold starts of each kind
	many     int           // clusters of the largest project
	busy     int           // clusters in progress, or watched

	began      time.Time
	rows       []row
	bounds     []limit
	allocated  []figure
	operations []figure
	standing   []figure
	cold       []figure
	memory     []figure
}

// figure is a finding in words.
type figure struct{ name, value string }

func main() {
	if len(os.Args) == 3 && os.Args[1] == bareCommand {
		fmt.Fprintln(os.Stderr, serveBare(os.Args[2]))
		os.Exit(1)
	}
	binary := flag.String("carafe", "bin/carafe", "the program to measure")
	out := flag.String("out", "test/bench/results", "the folder for the results")
	peer := flag.Bool("peer", false, "measure beside the peer, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *out, os.Getenv("BENCH"), *peer); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, out, what string, peer bool) error {
	b := &bench{
		clients: []int{1, 8, 32, 128}, runs: 3, length: time.Second, watch: 20 * time.Second,
		creating: 20 * time.Second, starting: 15, many: 100000, busy: 10000,
		sealKeys: string(certstore.NewKey()), busyness: loadAverage(), began: time.Now(),
	}
	parts := strings.Split(what, ",")
	if what == "quick" {
		b.clients, b.runs, b.length, b.watch = []int{1, limitClients}, 1, 500*time.Millisecond, 12*time.Second
		b.creating, b.starting, b.many, b.busy = 4*time.Second, 3, 20000, 1000
	}
	if what == "quick" || what == "" {
		parts = nil
	}
	var err error
	if b.binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "carafe-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.Chmod(b.dir, 0o755); err != nil { // PostgreSQL may have a user of its own
		return err
	}
	stop, err := b.connect(ctx)
	defer stop()
	if err != nil {
		return err
	}
	defer b.admin.Close(context.WithoutCancel(ctx))
	defer b.dropDatabases(context.WithoutCancel(ctx))
	facts, err := b.facts(ctx)
	if err != nil {
		return err
	}
	for _, fact := range facts {
		b.say("%s", fact)
	}
	if peer {
		return b.besidePeer(ctx, out, facts, what == "quick")
	}
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"start", b.starts},
		{"requests", b.requests},
		{"writes", b.writes},
		{"operations", b.operationsAtRates},
		{"sync", b.sync},
		{"health", b.health},
		{"capi", b.clusterAPI},
	} {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if parts != nil && !slices.Contains(parts, part.name) || what == "quick" && part.name == "capi" {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if what != "" {
		return nil
	}
	return b.report(out, facts)
}

// operationsAtRates has creates come at rates that the machine can bear: each
// makes four keys, and RSA keys take long.
func (b *bench) operationsAtRates(ctx context.Context) error {
	if err := b.accepted(ctx, "ecdsa", 50, b.creating); err != nil {
		return err
	}
	return b.accepted(ctx, "rsa", 2, b.creating)
}

// say prints a line with the time since the beginning.
func (b *bench) say(format string, args ...any) {
	fmt.Printf("%5.0f s  "+format+"\n", append([]any{time.Since(b.began).Seconds()}, args...)...)
}

// add keeps a figure and prints it.
func (b *bench) add(list *[]figure, f figure) {
	*list = append(*list, f)
	b.say("%s: %s", f.name, f.value)
}
