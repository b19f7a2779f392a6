// Package server runs a PostgreSQL server as a child of this process, for the
// one-process host and for tests. It uses the binaries that it finds on the
// machine, or fetches some once; it dies with its parent, however that dies.
//
// It is for one machine and one user: the server listens on a Unix socket in a
// directory that only its own user (and root) may enter, on no TCP port, so no
// password is needed and no other local user can connect. An installation that
// others use brings a PostgreSQL of its own.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// name is that of the database and of the role that owns it.
	name = "carafe"

	startTimeout = 60 * time.Second // crash recovery included
	stopTimeout  = 10 * time.Second // for each of the two ways to stop
	orphanGrace  = 15 * time.Second // for a server whose parent was killed
)

// Config says where a server lives and from what it is started.
type Config struct {
	// Dir is where the data is kept, in a folder "postgres" of its own. Empty
	// makes a throwaway server: in a temporary directory that Stop removes, and
	// without the waits that make data survive a power cut.
	Dir string
	// Binaries is a directory with postgres and initdb; empty looks for one.
	Binaries string
	// Cache is where fetched binaries are kept; empty is carafe's own directory
	// in the user's cache directory.
	Cache string
	// Notice gets a sentence on what takes long or may surprise; may be nil.
	Notice func(format string, args ...any)
}

// Server is a running PostgreSQL server.
type Server struct {
	// Version is what the binary says of itself, such as "17.6".
	Version string
	// Data is the directory of its data.
	Data string

	place   *place
	process *os.Process
	done    chan struct{} // closed when the process has ended
}

// Start brings up a server and returns when it takes connections. Every error
// is one line that says what to do. The context ends the start, not the server;
// Stop ends the server.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	if c.Notice == nil {
		c.Notice = func(string, ...any) {}
	}
	p, err := prepare(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.release()
		}
	}()

	major, err := p.dataVersion()
	if err != nil {
		return nil, err
	}
	b, err := find(ctx, c, p.owner, major)
	if err != nil {
		return nil, err
	}
	if err := p.endOrphan(ctx); err != nil {
		return nil, err
	}
	if major == 0 {
		if err := p.initdb(ctx, b); err != nil {
			return nil, err
		}
	}

	s := &Server{Version: b.version, Data: p.data(), place: p}
	for range 50 {
		err = s.start(ctx, b)
		if !errors.Is(err, errMemoryInUse) || ctx.Err() != nil {
			break
		}
		// The backends of a killed postmaster notice within a moment.
		time.Sleep(300 * time.Millisecond)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// URL is the connection string of the server's database.
func (s *Server) URL() string { return s.place.url(name) }

// Done is closed when the server has ended, asked to or not.
func (s *Server) Done() <-chan struct{} { return s.done }

// Log is the file that the server writes its log to.
func (s *Server) Log() string { return s.place.log() }

// Stop ends the server in order: connections are cut, data is written. A
// throwaway server takes its data along. Stop may be called twice.
func (s *Server) Stop() error {
	defer s.place.release()
	// Fast shutdown; if that hangs, immediate shutdown, which recovers at the
	// next start (PostgreSQL manual, "Shutting Down the Server").
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if s.place.throwaway && sig == syscall.SIGINT {
			continue
		}
		_ = s.process.Signal(sig) // it may have ended by itself
		select {
		case <-s.done:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("PostgreSQL (process %d) does not stop", s.process.Pid)
}

var errMemoryInUse = errors.New("memory of a killed server is still in use")

func (s *Server) start(ctx context.Context, b binaries) error {
	p := s.place
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("PostgreSQL's log: %w", err)
	}
	defer log.Close()

	cmd := exec.Command(b.path("postgres"), append([]string{"-D", p.data()}, p.settings()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	p.owner.apply(cmd)
	if err := s.run(cmd); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		_ = s.process.Signal(syscall.SIGQUIT)
		<-s.done
		fatal := p.lastFatal()
		if strings.Contains(fatal, "pre-existing shared memory block") {
			return errMemoryInUse
		}
		if fatal != "" {
			return fmt.Errorf("PostgreSQL %s does not start on %s: %s (log: %s; to begin anew, move the directory away)",
				b.version, p.data(), fatal, p.log())
		}
		return fmt.Errorf("PostgreSQL %s does not start on %s: %w (log: %s)", b.version, p.data(), err, p.log())
	}
	return nil
}

// run starts the command and waits for it in a goroutine of its own, bound to
// its thread: the kernel sends the parent-death signal when the *thread* that
// started the child ends (prctl(2), PR_SET_PDEATHSIG).
func (s *Server) run(cmd *exec.Cmd) error {
	dieWithParent(cmd.SysProcAttr, syscall.SIGINT)
	s.done = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log says more than the exit code
		}
		close(s.done)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = cmd.Process
	return nil
}

// ready waits until the server takes connections and has its database.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ensureDatabase(ctx, s.place.url)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ensureDatabase connects, and makes the database if there is none yet.
func ensureDatabase(ctx context.Context, urlOf func(database string) string) error {
	conn, err := pgx.Connect(ctx, urlOf(name))
	if err == nil {
		return conn.Close(ctx)
	}
	const invalidCatalogName = "3D000"
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != invalidCatalogName {
		return err
	}
	if conn, err = pgx.Connect(ctx, urlOf("postgres")); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	return errors.Join(err, conn.Close(ctx))
}

// url names a database of the server that lives here.
func (p *place) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(name), Path: "/" + database}
	u.RawQuery = url.Values{"host": {p.socket}, "sslmode": {"disable"}}.Encode()
	return u.String()
}

// settings are the command line's: they win over the file in the data.
func (p *place) settings() []string {
	settings := []string{
		"listen_addresses=", // the socket only
		"unix_socket_directories=" + p.socket,
		"unix_socket_permissions=0700",
		"timezone=UTC",
		"log_timezone=UTC",
		"lc_messages=C", // lastFatal reads the log
		"logging_collector=off",
		"jit=off", // short statements only
		"shared_buffers=64MB",
		"max_connections=100",
	}
	if p.throwaway {
		settings = append(settings,
			"fsync=off", "full_page_writes=off", "synchronous_commit=off",
			"wal_level=minimal", "max_wal_senders=0",
			"shared_buffers=128MB",
			"max_connections=300", // many tests at once, a pool each
		)
	}
	var args []string
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

// initdb makes the data directory, all of it or nothing: a process killed half
// way leaves nothing that looks like data.
func (p *place) initdb(ctx context.Context, b binaries) error {
	half := p.data() + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("PostgreSQL's data directory: %w", err)
	}
	args := []string{"--pgdata", half, "--username", name, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C"}
	if p.throwaway {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, b.path("initdb"), args...)
	p.owner.apply(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb of PostgreSQL %s in %s: %s", b.version, half, lastLine(string(out), err))
	}
	if err := os.Rename(half, p.data()); err != nil {
		return fmt.Errorf("PostgreSQL's data directory: %w", err)
	}
	return nil
}

// lastLine is the last line that a command printed on what went wrong.
func lastLine(out string, err error) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if _, text, ok := strings.Cut(lines[i], "error: "); ok {
			return text
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

// dataVersion is the major version that made the data; 0 if there is no data.
func (p *place) dataVersion() (int, error) {
	raw, err := os.ReadFile(filepath.Join(p.data(), "PG_VERSION"))
	switch {
	case err == nil:
		major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil {
			return 0, p.broken("PG_VERSION is not a number")
		}
		return major, nil
	case errors.Is(err, os.ErrPermission):
		return 0, fmt.Errorf("the data in %s belongs to another user: run as that user or as root, or move the directory away", p.dir)
	case !errors.Is(err, os.ErrNotExist):
		return 0, fmt.Errorf("PostgreSQL's data directory: %w", err)
	}
	entries, err := os.ReadDir(p.data())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("PostgreSQL's data directory: %w", err)
	}
	if len(entries) > 0 {
		return 0, p.broken("PG_VERSION is missing")
	}
	return 0, os.Remove(p.data()) // initdb's result is renamed to it
}

func (p *place) broken(what string) error {
	return fmt.Errorf("%s is not a PostgreSQL data directory (%s): restore it, or move it away to begin anew", p.data(), what)
}

// lastFatal is the last thing that the server's log calls fatal.
func (p *place) lastFatal() string {
	raw, err := os.ReadFile(p.log())
	if err != nil {
		return ""
	}
	lines := strings.Split(string(raw), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		for _, level := range []string{"FATAL:", "PANIC:"} {
			if _, text, ok := strings.Cut(lines[i], level); ok {
				return strings.TrimSpace(text)
			}
		}
	}
	return ""
}
