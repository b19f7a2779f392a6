package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// oldest is the first major version that Carafe's statements run on.
const oldest = 14

// fetched is what is fetched if the machine has no PostgreSQL.
const fetched = embedded.V17

const fetchTimeout = 5 * time.Minute

// usual are the places where packages put PostgreSQL's server binaries.
var usual = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own RPMs
	"/usr/libexec/postgresql*",           // Alpine
	"/usr/local/pgsql/bin",               // from source
	"/usr/local/lib/postgresql/bin",      // from source, the manual's other prefix
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// binaries is a directory with postgres and initdb of one version.
type binaries struct {
	dir     string
	version string // "17.6"
	major   int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// find gives the newest binaries that the user o can run, of the major version
// that made the data if there is data (major not 0). It fetches some if the
// machine has none.
func find(ctx context.Context, c Config, o owner, major int) (binaries, error) {
	if c.Binaries != "" {
		b, ok := probe(c.Binaries, o)
		if !ok {
			return binaries{}, fmt.Errorf("no PostgreSQL that runs in %s: it must hold postgres and initdb, version %d or newer", c.Binaries, oldest)
		}
		if major != 0 && b.major != major {
			return binaries{}, mismatch(major, []binaries{b})
		}
		return b, nil
	}

	// The machine's own come first: its packages get security updates.
	var all []binaries
	for _, dirs := range [][]string{installed(), kept(caches(c))} {
		var some []binaries
		for _, dir := range dirs {
			if b, ok := probe(dir, o); ok {
				some = append(some, b)
			}
		}
		slices.SortStableFunc(some, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
		for _, b := range some {
			if major == 0 || b.major == major {
				return b, nil
			}
		}
		all = append(all, some...)
	}
	if major != 0 && !strings.HasPrefix(string(fetched), strconv.Itoa(major)+".") {
		return binaries{}, mismatch(major, all)
	}

	c.Notice("no PostgreSQL on this machine: fetching %s once (about 10 MB)", fetched)
	dir, err := fetch(ctx, caches(c), o)
	if err != nil {
		return binaries{}, fmt.Errorf("no PostgreSQL on this machine, and fetching one did not work: %w; install one (Debian, Ubuntu: apt-get install postgresql), or set CARAFE_DATABASE_URL", err)
	}
	b, ok := probe(dir, o)
	if !ok {
		return binaries{}, fmt.Errorf("the PostgreSQL fetched to %s does not run here: install one (Debian, Ubuntu: apt-get install postgresql), or set CARAFE_DATABASE_URL", dir)
	}
	return b, nil
}

func mismatch(major int, have []binaries) error {
	var versions []string
	for _, b := range have {
		versions = append(versions, b.version)
	}
	if versions == nil {
		versions = []string{"none"}
	}
	return fmt.Errorf("the data was made by PostgreSQL %d, this machine has %s: install version %d, or move the data away to begin anew",
		major, strings.Join(versions, ", "), major)
}

// installed are the directories of the machine that may hold binaries.
func installed() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	dirs = append(dirs, matching(usual)...)
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// kept are the directories of binaries that were fetched earlier.
func kept(caches []string) []string {
	var patterns []string
	for _, cache := range caches {
		patterns = append(patterns, filepath.Join(cache, "postgresql-*", "bin"))
	}
	return matching(patterns)
}

func matching(patterns []string) []string {
	var dirs []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		dirs = append(dirs, found...)
	}
	return dirs
}

// probe asks the binaries for their version, as the user who will run them.
func probe(dir string, o owner) (binaries, bool) {
	b := binaries{dir: dir}
	if _, err := os.Stat(b.path("initdb")); err != nil {
		return b, false
	}
	cmd := exec.Command(b.path("postgres"), "--version")
	o.apply(cmd)
	out, err := cmd.Output()
	if err != nil {
		return b, false
	}
	// postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)
	words := strings.Fields(string(out))
	if len(words) < 3 {
		return b, false
	}
	b.version = words[2]
	digits := b.version
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	b.major, err = strconv.Atoi(digits)
	return b, err == nil && b.major >= oldest
}

// caches are the directories for fetched binaries, the preferred one first.
// The second is for root, whose own directory is closed to the server's user.
func caches(c Config) []string {
	if c.Cache != "" {
		return []string{c.Cache}
	}
	var dirs []string
	if home, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, "carafe"))
	}
	return append(dirs, "/var/cache/carafe")
}

// fetch gets PostgreSQL's binaries and keeps them, by version, in the first of
// the caches that the server's user can enter. It returns their directory.
func fetch(ctx context.Context, caches []string, o owner) (string, error) {
	cache, err := firstUsable(caches, o)
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", fetched, runtime.GOOS, runtime.GOARCH))
	half, err := os.MkdirTemp(cache, "fetching-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	// MkdirTemp makes it for us alone; the server's user must read it later.
	unpacked := filepath.Join(half, "unpacked")

	// The library has no call that only fetches. An encoding that initdb refuses
	// ends its Start right after the unpacking, before any server is started.
	library := embedded.NewDatabase(embedded.DefaultConfig().
		Version(fetched).
		CachePath(filepath.Join(half, "archive")).
		RuntimePath(filepath.Join(half, "runtime")).
		DataPath(filepath.Join(half, "data")).
		BinariesPath(unpacked).
		Port(freePort()).
		Encoding("none").
		Logger(io.Discard))
	result := make(chan error, 1)
	go func() { result <- library.Start() }()
	select {
	case err = <-result:
	case <-time.After(fetchTimeout):
		return "", errors.New("it took too long")
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err == nil {
		_ = library.Stop()
	} else if _, missing := os.Stat(filepath.Join(unpacked, "bin", "postgres")); missing != nil {
		return "", err
	}
	if err := os.Chmod(unpacked, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(unpacked, final); err != nil {
		if _, missing := os.Stat(filepath.Join(final, "bin", "postgres")); missing != nil {
			return "", err
		}
		// Another process was quicker.
	}
	return filepath.Join(final, "bin"), nil
}

// freePort satisfies the library, which wants one although it starts no server.
func freePort() uint32 {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 5432
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port)
}

func firstUsable(dirs []string, o owner) (string, error) {
	var problem error
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			problem = err
			continue
		}
		if o.canEnter(dir) {
			return dir, nil
		}
		problem = fmt.Errorf("the user that runs PostgreSQL cannot enter %s", dir)
	}
	return "", problem
}
