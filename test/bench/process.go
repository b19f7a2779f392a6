package main

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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running carafe.
type process struct {
	cmd     *exec.Cmd
	address string
	// answered is the wall time from before the exec to the first answer, and
	// answeredCPU what the process had used of a processor by then.
	answered, answeredCPU time.Duration
	ended                 chan struct{} // closed when it has, with err
	err                   error
	log                   *bytes.Buffer
}

// start runs carafe over a migrated database and waits until it answers a GET of
// path with anything. Settings are of the form NAME=value.
func (b *bench) start(database, path string, settings []string, functions ...string) (*process, error) {
	address, err := free()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "carafe-")
	if err != nil {
		return nil, err
	}
	p := &process{address: address, ended: make(chan struct{}), log: new(bytes.Buffer)}
	p.cmd = exec.Command(b.binary, append([]string{"serve"}, functions...)...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"CARAFE_DATABASE_URL=" + database, "CARAFE_LISTEN=" + address, "CARAFE_SEAL_KEYS=" + b.sealKeys,
		"CARAFE_LOG_LEVEL=error", "CARAFE_MAX_CLUSTERS_PER_PROJECT=10000000", "HOME=" + dir}, settings...)
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	running := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig follows the thread
		err := p.cmd.Start()
		running <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-running; err != nil {
		return nil, err
	}
	for {
		resp, err := http.Get("http://" + address + path)
		if err == nil {
			p.answered, p.answeredCPU = time.Since(began), threadsCPU(p.cmd.Process.Pid)
			_ = resp.Body.Close()
			return p, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("carafe ended: %w\n%s", p.err, p.log)
		case <-time.After(200 * time.Microsecond):
		}
		if time.Since(began) > 60*time.Second {
			return nil, fmt.Errorf("carafe does not answer: %w\n%s", err, p.log)
		}
	}
}

// stop ends the process in order. It may be called again.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("carafe ended with %w\n%s", p.err, p.log)
		}
		return nil
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("carafe does not stop")
	}
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (p *process) cpu() time.Duration { return processCPU(p.cmd.Process.Pid) }

// memory is what the process holds now, and what it held at most, in MiB.
func (p *process) memory() (now, peak float64) {
	return statusMiB(p.cmd.Process.Pid, "VmRSS"), statusMiB(p.cmd.Process.Pid, "VmHWM")
}

func statusMiB(pid int, name string) float64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

// stat gives the fields of /proc/<pid>/stat behind the name: state is 0, ppid 1,
// utime 11, stime 12, and cutime and cstime, of children that are gone, 13 and 14.
func stat(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(raw), ") ") // the name may hold spaces
	return strings.Fields(after)
}

// hertz is USER_HZ, the unit of times in /proc; it is 100 on all that Go runs on.
const hertz = 100

func ticks(fields []string, which ...int) time.Duration {
	var sum int64
	for _, i := range which {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * time.Second / hertz
}

func processCPU(pid int) time.Duration { return ticks(stat(pid), 11, 12) }

// threadsCPU is finer than processCPU, and forgets threads that have ended.
func threadsCPU(pid int) time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is well-formed
	var sum int64
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if fields := strings.Fields(string(raw)); err == nil && len(fields) > 0 {
			n, _ := strconv.ParseInt(fields[0], 10, 64)
			sum += n
		}
	}
	return time.Duration(sum)
}

// postgresCPU is the time of the server's processes, those that are gone included.
func (b *bench) postgresCPU() time.Duration { return treeCPU(b.postmaster) }

// treeCPU is the time of a process and of all that it has started.
func treeCPU(pid int) time.Duration {
	sum := ticks(stat(pid), 11, 12, 13, 14)
	for _, child := range children(pid) {
		sum += treeCPU(child)
	}
	return sum
}

func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		for _, child := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(child); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// facts are what a reader must know of the machine, and nothing that names it.
func (b *bench) facts(ctx context.Context) ([]string, error) {
	model, mem := "unknown", "unknown"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(raw)); len(fields) > 1 {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			mem = fmt.Sprintf("%.0f GiB", kib/(1<<20))
		}
	}
	var version string
	if err := b.admin.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return nil, err
	}
	version, _, _ = strings.Cut(version, " ")
	return []string{
		fmt.Sprintf("%d × %s, %s of memory", runtime.NumCPU(), model, mem),
		fmt.Sprintf("load average when it began: %s", b.busyness),
		fmt.Sprintf("%s, PostgreSQL %s (fsync on, shared_buffers 64 MB), clients, Carafe and PostgreSQL all on this machine", runtime.Version(), version),
	}, nil
}

func loadAverage() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
