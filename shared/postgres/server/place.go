package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sharedDir is where a server that root starts lives if its user cannot enter
// the directory that was asked for: /root, for one, is closed to all others.
const sharedDir = "/var/lib/carafe"

// place is the directory of one server: data/, log, lock and, if the path is
// short enough for one, the directory of the socket.
type place struct {
	dir       string
	socket    string // directory of the Unix socket
	throwaway bool
	owner     owner
	lock      *os.File
}

func (p *place) data() string { return filepath.Join(p.dir, "data") }
func (p *place) log() string  { return filepath.Join(p.dir, "log") }

// prepare makes or finds the place and locks it for this process.
func prepare(c Config) (*place, error) {
	o, err := serverUser()
	if err != nil {
		return nil, err
	}
	p := &place{owner: o, throwaway: c.Dir == ""}
	if p.throwaway {
		p.dir, err = temporary(o)
	} else {
		p.dir, err = permanent(c, o)
	}
	if err != nil {
		return nil, fmt.Errorf("a place for PostgreSQL's data: %w", err)
	}
	// Data that an ordinary user left is served as that user.
	if info, err := os.Stat(p.data()); err == nil && os.Geteuid() == 0 {
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != 0 {
			p.owner = owner{uid: st.Uid, gid: st.Gid, change: true}
		}
	}
	if err := p.acquire(); err != nil {
		return nil, err
	}
	if err := p.makeSocketDir(); err != nil {
		p.release()
		return nil, fmt.Errorf("a place for PostgreSQL's socket: %w", err)
	}
	return p, nil
}

// permanent is the directory that outlives the process: "postgres" in the directory
// asked for, or a link there to a place that the server's user can enter.
func permanent(c Config, o owner) (string, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", err
	}
	root, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "postgres")
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real, nil
	}
	if !o.canEnter(root) {
		if err := os.MkdirAll(sharedDir, 0o755); err != nil {
			return "", err
		}
		elsewhere, err := os.MkdirTemp(sharedDir, "postgres-")
		if err != nil {
			return "", err
		}
		c.Notice("PostgreSQL's data is in %s (linked from %s): the user that runs it cannot enter %s", elsewhere, dir, root)
		_ = os.Remove(dir) // a link whose target has gone
		if err := os.Symlink(elsewhere, dir); err != nil {
			return "", err
		}
		return elsewhere, o.own(elsewhere)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, o.own(dir)
}

// temporary is a new directory for a server whose data nobody will miss.
func temporary(o owner) (string, error) {
	parent := os.TempDir()
	if !o.canEnter(parent) {
		parent = "/tmp"
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, "carafe-postgres-")
	if err != nil {
		return "", err
	}
	return dir, o.own(dir)
}

// sweep removes what killed processes left: temporary directories of ours
// whose lock nobody holds.
func sweep(parent string) {
	old, _ := filepath.Glob(filepath.Join(parent, "carafe-postgres-*", "lock")) // the pattern is well-formed
	for _, path := range old {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path)) // the next sweep tries again
		}
		f.Close()
	}
}

// acquire locks the place. The kernel takes the lock back when the process
// ends, however it ends.
func (p *place) acquire() error {
	path := filepath.Join(p.dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the data in %s belongs to another user: run as that user or as root, or move the directory away", p.dir)
	}
	if err != nil {
		return fmt.Errorf("lock PostgreSQL's directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path) // a number to be kind; the lock is what counts
		f.Close()
		return fmt.Errorf("another carafe (process %s) uses the data in %s: stop it, or run in another directory", strings.TrimSpace(string(holder)), p.dir)
	}
	p.lock = f
	_ = f.Truncate(0)
	_, _ = fmt.Fprintln(f, os.Getpid())
	return nil
}

// release gives the place up and removes what nobody will miss.
func (p *place) release() {
	if p.lock == nil {
		return
	}
	if filepath.Dir(p.socket) != p.dir {
		_ = os.RemoveAll(p.socket)
	}
	if p.throwaway {
		_ = os.RemoveAll(p.dir)
	}
	p.lock.Close()
	p.lock = nil
}

// makeSocketDir makes a directory that only the server's user may enter.
func (p *place) makeSocketDir() error {
	const longest = 107 - len("/.s.PGSQL.5432.lock") // sun_path, with its final zero
	p.socket = filepath.Join(p.dir, "run")
	if len(p.socket) > longest {
		short, err := os.MkdirTemp("/tmp", "carafe-")
		if err != nil {
			return err
		}
		p.socket = short
		return p.owner.own(short)
	}
	if err := os.MkdirAll(p.socket, 0o700); err != nil {
		return err
	}
	return p.owner.own(p.socket)
}

// endOrphan sees to it that no server runs on the data. We hold the lock, so
// one that runs has lost its parent and is on its way out; a pid file without
// a server is what a power cut, or a killed container, leaves.
func (p *place) endOrphan(ctx context.Context) error {
	path := filepath.Join(p.data(), "postmaster.pid")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("PostgreSQL's data directory: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || !p.serves(pid) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("PostgreSQL's data directory: %w", err)
		}
		return nil
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		_ = syscall.Kill(pid, sig) // it may have ended meanwhile
		for end := time.Now().Add(orphanGrace); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if !p.serves(pid) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("PostgreSQL (process %d) still runs on %s and does not stop: end it first", pid, p.data())
}

// serves reports whether the process is a server on this data: a server's
// working directory is its data directory. Where /proc does not tell, a living
// process is taken for one.
func (p *place) serves(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if errors.Is(err, os.ErrNotExist) {
		_, err := os.Stat("/proc/self")
		return err != nil // a zombie has no cwd
	}
	return err != nil || cwd == p.data()
}

// owner is the user that the server runs as.
type owner struct {
	uid, gid uint32
	change   bool // we are root, and PostgreSQL refuses to be
}

// serverUser is who we are, or for root one that PostgreSQL agrees to run as.
func serverUser() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil {
			return owner{uid: uint32(uid), gid: uint32(gid), change: true}, nil
		}
	}
	return owner{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as: run carafe as an ordinary user, or set CARAFE_DATABASE_URL")
}

// own gives a file or directory to the server's user.
func (o owner) own(path string) error {
	if !o.change {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}

// apply makes the command run as the server's user, in a process group of its
// own: ctrl-C is for us, and we stop the server after our own last statement.
func (o owner) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o.change {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
}

// canEnter reports whether the server's user may enter the directory: the
// kernel is asked, by a child of that user that does nothing there.
func (o owner) canEnter(dir string) bool {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir = dir
	o.apply(cmd)
	return cmd.Run() == nil
}
