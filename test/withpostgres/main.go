// Command withpostgres runs a command with a throwaway PostgreSQL server:
//
//	go run ./test/withpostgres go test ./...
//
// The command finds the server's URL in CARAFE_TEST_DATABASE_URL. If that is
// set already, its server is used and none is started.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"carafe/shared/postgres/server"
)

const variable = "CARAFE_TEST_DATABASE_URL"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
	os.Exit(code)
}

// run returns the command's exit code.
func run(args []string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("give the command to run")
	}
	// ctrl-C reaches the command by itself; we stay to stop the server after it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)

	env := os.Environ()
	if os.Getenv(variable) == "" {
		s, err := server.Start(context.Background(), server.Config{
			Binaries: os.Getenv("CARAFE_POSTGRES_BIN"),
			Notice:   func(format string, args ...any) { fmt.Fprintf(os.Stderr, "withpostgres: "+format+"\n", args...) },
		})
		if err != nil {
			return 1, err
		}
		defer func() { _ = s.Stop() }() // nothing is lost with a throwaway server
		env = append(env, variable+"="+s.URL())
	}

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-interrupts:
				if s == syscall.SIGTERM { // sent to us alone
					_ = cmd.Process.Signal(s) // it may have ended
				}
			case <-ended:
				return
			}
		}
	}()
	err := cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
