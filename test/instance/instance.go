// Package instance runs bin/carafe for a test as a user runs it: as a process
// with a database of its own, reached by HTTP and ended by signals. It knows
// nothing of what is inside.
package instance

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carafe/shared/certstore"
	"carafe/shared/pgtest"
)

// Config is what a test wants otherwise.
type Config struct {
	// Env are settings; an empty one is unset.
	Env map[string]string
	// DatabaseURL is a database that is there already; empty makes one.
	DatabaseURL string
}

// Instance is one Carafe. It may be ended and started again, on the same data
// and the same port.
type Instance struct {
	// URL is where it listens, without path.
	URL string

	t    testing.TB
	env  []string
	cmd  *exec.Cmd
	done chan struct{}
	log  lockedBuffer
}

var binary string

// Main runs a package's tests with a carafe built for them; TestMain calls it.
// CARAFE_BIN names one that is built already.
func Main(m *testing.M) {
	code, err := mainWith(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func mainWith(m *testing.M) (int, error) {
	if binary = os.Getenv("CARAFE_BIN"); binary == "" {
		dir, err := os.MkdirTemp("", "carafe-test-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "carafe")
		_, file, _, _ := runtime.Caller(0)
		build := exec.Command("go", "build", "-o", binary, "./functions/carafe")
		build.Dir = filepath.Dir(filepath.Dir(filepath.Dir(file)))
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build carafe: %w\n%s", err, out)
		}
	}
	return m.Run(), nil
}

// Start runs a Carafe until the test ends and returns when it answers.
func Start(t testing.TB, c Config) *Instance {
	t.Helper()
	address := free(t)
	database := c.DatabaseURL
	if database == "" {
		database = pgtest.URL(t)
	}
	i := &Instance{t: t, URL: "http://" + address}
	settings := map[string]string{
		"CARAFE_DATABASE_URL": database,
		"CARAFE_LISTEN":       address,
		"CARAFE_SEAL_KEYS":    string(certstore.NewKey()), // the same one at every start
		"PATH":                os.Getenv("PATH"),
		"HOME":                os.Getenv("HOME"),
		"XDG_CACHE_HOME":      os.Getenv("XDG_CACHE_HOME"),
	}
	for k, v := range c.Env {
		settings[k] = v
	}
	for k, v := range settings {
		if v != "" {
			i.env = append(i.env, k+"="+v)
		}
	}
	i.Run()
	t.Cleanup(func() {
		i.End(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("carafe wrote:\n%s", tail(i.log.String(), 200))
		}
	})
	return i
}

// Run starts the process (again) and waits until it answers.
func (i *Instance) Run() {
	i.t.Helper()
	cmd := exec.Command(binary, "serve")
	cmd.Dir = i.t.TempDir()
	cmd.Env = i.env
	cmd.Stdout, cmd.Stderr = &i.log, &i.log
	// It must not outlive the test, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	done := make(chan struct{})
	go func() {
		// Pdeathsig follows the thread that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is seen in its log
		}
		close(done)
	}()
	if err := <-started; err != nil {
		i.t.Fatal(err)
	}
	i.cmd, i.done = cmd, done
	deadline := time.Now().Add(30 * time.Second)
	for {
		if i.answers() {
			return
		}
		select {
		case <-done:
			i.t.Fatalf("carafe ended at once:\n%s", tail(i.log.String(), 50))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			i.t.Fatalf("carafe does not answer:\n%s", tail(i.log.String(), 50))
		}
	}
}

func (i *Instance) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL+"/healthcheck", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // read by nobody
	return resp.StatusCode == http.StatusOK
}

// End sends the signal and waits until the process is gone.
func (i *Instance) End(s syscall.Signal) {
	i.t.Helper()
	_ = i.cmd.Process.Signal(s) // it may have ended by itself
	select {
	case <-i.done:
	case <-time.After(30 * time.Second):
		i.t.Errorf("carafe does not end on %v", s)
		_ = i.cmd.Process.Kill()
		<-i.done
	}
}

// Send sends a signal that does not end the process.
func (i *Instance) Send(s syscall.Signal) {
	i.t.Helper()
	if err := i.cmd.Process.Signal(s); err != nil {
		i.t.Error(err)
	}
}

// Log is what the process wrote so far.
func (i *Instance) Log() string { return i.log.String() }

// Command is an operator's command with the settings of the instance.
func (i *Instance) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(i.t.Context(), binary, args...)
	cmd.Dir, cmd.Env = i.t.TempDir(), i.env
	return cmd
}

// free is an address that nobody listens on.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
