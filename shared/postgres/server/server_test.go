package server

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestMain lets the test binary play the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SERVER_TEST_PARENT"); dir != "" {
		s, err := Start(context.Background(), Config{Dir: dir})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.process.Pid)
		select {}
	}
	os.Exit(m.Run())
}

// start is a server for the test. With -short only the first test has one.
func start(t *testing.T, c Config) *Server {
	t.Helper()
	if testing.Short() && t.Name() != "TestDataOutlivesTheServer" {
		t.Skip("starting servers is slow")
	}
	c.Notice = t.Logf
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// scratch is a directory that every user can enter; t.TempDir is closed.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "server-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestDataOutlivesTheServer(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	s := start(t, Config{Dir: dir})
	query(t, s, "CREATE TABLE kept AS SELECT 'yes' AS v")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, start(t, Config{Dir: dir}), "SELECT v FROM kept"); got != "yes" {
		t.Errorf("after a restart: %q", got)
	}
}

func TestThrowawayLeavesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(s.Data)); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", filepath.Dir(s.Data), err)
	}
}

func TestOnlyItsOwnUserGetsIn(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Dir: scratch(t)})
	if got := query(t, s, "SHOW listen_addresses"); got != "" {
		t.Errorf("listens on %q", got)
	}
	info, err := os.Stat(s.place.socket)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the socket's directory has mode %o", got)
	}
}

func TestKilledParentTakesTheServerAlong(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	for range 3 {
		parent := exec.Command("/proc/self/exe")
		parent.Env = append(os.Environ(), "SERVER_TEST_PARENT="+dir)
		out, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		var pid int
		if _, scan := fmt.Sscan(line, &pid); err != nil || scan != nil {
			t.Fatalf("the parent said %q (%v)", line, err)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait() // "killed" is no news
		// At once, while the old server may still be on its way out.
		s := start(t, Config{Dir: dir})
		if syscall.Kill(pid, 0) == nil && s.place.serves(pid) {
			t.Errorf("the server of the killed process (%d) still runs", pid)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStalePidFileOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	s := start(t, Config{Dir: dir})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// The pid file names a living process that is no server: ourselves.
	pid := fmt.Sprintf("%d\n%s\n", os.Getpid(), s.Data)
	if err := os.WriteFile(filepath.Join(s.Data, "postmaster.pid"), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, s *Server)
		want   string
	}{
		{"NotAData", func(t *testing.T, s *Server) {
			remove(t, filepath.Join(s.Data, "PG_VERSION"))
		}, "is not a PostgreSQL data directory"},
		{"OtherVersion", func(t *testing.T, s *Server) {
			write(t, filepath.Join(s.Data, "PG_VERSION"), "9\n")
		}, "was made by PostgreSQL 9, this machine has "},
		{"Damaged", func(t *testing.T, s *Server) {
			remove(t, filepath.Join(s.Data, "global", "pg_control"))
		}, "does not start on"},
		{"Interrupted", func(t *testing.T, s *Server) {
			if err := os.Rename(s.Data, s.Data+".new"); err != nil { // as initdb leaves it half way
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := scratch(t)
			s := start(t, Config{Dir: dir})
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, s)
			s, err := Start(t.Context(), Config{Dir: dir})
			if err == nil {
				s.Stop()
			}
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tc.want)
			}
		})
	}
}

func TestTwoProcessesOneDirectory(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	start(t, Config{Dir: dir})
	_, err := Start(t.Context(), Config{Dir: dir})
	want := fmt.Sprintf("another carafe (process %d) uses the data in", os.Getpid())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestRootOnlyParent(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory that the server's user cannot enter")
	}
	closed := scratch(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "clone", ".carafe")
	s := start(t, Config{Dir: dir})
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(s.Data)) })
	query(t, s, "CREATE TABLE kept AS SELECT 'yes' AS v")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	if got := query(t, s, "SELECT v FROM kept"); got != "yes" {
		t.Errorf("after a restart: %q", got)
	}
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(scratch(t), strings.Repeat("long", 30))
	s := start(t, Config{Dir: dir})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.place.socket); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", s.place.socket, err)
	}
}

func TestFetchedBinariesRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	o, err := serverUser()
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	for _, d := range kept(caches(Config{})) {
		if strings.Contains(d, "postgresql-"+string(fetched)) {
			dir = d // by an earlier run
		}
	}
	if dir == "" {
		if dir, err = fetch(ctx, caches(Config{}), o); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, Config{Dir: scratch(t), Binaries: dir})
	if !strings.HasPrefix(string(fetched), s.Version) {
		t.Errorf("version %s, want %s", s.Version, fetched)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
