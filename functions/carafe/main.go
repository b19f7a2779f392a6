// Command carafe hosts Carafe's functions, all of them in one process or the one
// that it is told to, and has the operator's commands. It is the only main: the
// same image is every Knative Service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"knative.dev/pkg/signals"

	"carafe/shared/function"
)

// command is one word behind carafe.
type command struct {
	name, arguments, about string
	run                    func(ctx context.Context, args []string, out io.Writer) error
}

func commands() []command {
	return []command{
		{"serve", "[NAME...]", "host the functions named; without a name all of them, with a broker and a clock of their own", serve},
		{"migrate", "up|status", "bring the database's schema up to date, or list its migrations", migrate},
		{"newkey", "", "print a new key for CARAFE_SEAL_KEYS", newKey},
		{"rekey", "", "seal all secrets with the first key of CARAFE_SEAL_KEYS, so that the others can go", rekey},
		{"forget", "CLUSTER", "remove the secrets and records of a cluster whose cloud is gone", forget},
		{"doctor", "", "look at the database, the outbox, Keystone and the management cluster, and say what is missing", doctor},
		{"labels", "", "print the attributes and labels that a cluster can have, with types, defaults and effects", labels},
		{"addons", "verify FOLDER", "check a folder of add-on manifests", addons},
		{"functions", "", "list the functions: name, kind and what they take", list},
	}
}

func main() {
	// The first SIGINT or SIGTERM ends this context; a second one ends the process.
	ctx := signals.NewContext()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, "carafe:", strings.TrimSpace(line))
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		help(out)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out)
		}
	}
	return fmt.Errorf("there is no command %q: carafe help lists those there are", args[0])
}

func help(out io.Writer) {
	fmt.Fprintln(out, "Carafe serves OpenStack's container-infra API. Settings come from the environment.")
	fmt.Fprintln(out)
	for _, c := range commands() {
		fmt.Fprintf(out, "  carafe %-21s %s\n", strings.TrimSpace(c.name+" "+c.arguments), c.about)
	}
	fmt.Fprintf(out, "  carafe %-21s %s\n", "help", "print this")
}

// environment reads what all commands share.
func environment() (*function.Env, error) {
	var env function.Env
	if err := function.ReadConfig(&env); err != nil {
		return nil, err
	}
	return &env, nil
}

// oneLine makes an error fit for a person at a terminal.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
