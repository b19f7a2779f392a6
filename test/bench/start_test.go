// Package bench measures Carafe as a process: how soon it answers, what it costs
// to have it. The figures are printed; nothing fails for being slow.
package bench

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"carafe/shared/pgtest"
)

// binary is bin/carafe, which make bench has just built.
func binary(b *testing.B) string {
	b.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "carafe"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		b.Fatalf("%v: run make build", err)
	}
	return path
}

// started is a process that has answered once.
type started struct {
	cmd *exec.Cmd
	url string
	// answered is the wall time from before the exec to the first answer.
	answered time.Duration
	ended    chan error
}

// start runs carafe over a migrated database and waits for GET /livez, or any
// other path, to be answered with 200.
func start(b *testing.B, database, path string, args ...string) *started {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	cmd := exec.Command(binary(b), append([]string{"serve"}, args...)...)
	cmd.Env = []string{"CARAFE_DATABASE_URL=" + database, "CARAFE_LISTEN=" + address, "CARAFE_LOG_LEVEL=warn", "HOME=" + b.TempDir()}
	cmd.Dir = b.TempDir()
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &started{cmd: cmd, url: "http://" + address, ended: make(chan error, 1)}
	began := time.Now()
	running := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig follows the thread
		err := cmd.Start()
		running <- err
		if err == nil {
			p.ended <- cmd.Wait()
		}
	}()
	if err := <-running; err != nil {
		b.Fatal(err)
	}
	for {
		resp, err := http.Get(p.url + path)
		if err == nil {
			p.answered = time.Since(began)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Fatalf("GET %s: %s\n%s", path, resp.Status, &log)
			}
			return p
		}
		select {
		case err := <-p.ended:
			b.Fatalf("carafe ended: %v\n%s", err, &log)
		case <-time.After(200 * time.Microsecond):
		}
		if time.Since(began) > 30*time.Second {
			b.Fatalf("no answer: %v", err)
		}
	}
}

// stop ends the process and gives the CPU time that it took in all.
func (p *started) stop(b *testing.B) time.Duration {
	b.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		b.Errorf("carafe ended with %v", err)
	}
	return p.cmd.ProcessState.SystemTime() + p.cmd.ProcessState.UserTime()
}

// resident is the process's memory in MiB.
func (p *started) resident(b *testing.B) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Skip("memory is read from /proc")
	}
	for line := range strings.Lines(string(raw)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkStart is a cold start with the database up and migrated: one HTTP
// function, as on Knative, and all of Carafe.
func BenchmarkStart(b *testing.B) {
	for _, bench := range []struct {
		name string
		path string
		args []string
	}{
		{"Discovery", "/", []string{"discovery"}},
		{"Clusters", "/v1/clusters", []string{"clusters"}},
		{"Whole", "/v1/clusters", nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			database := pgtest.URL(b)
			var wall, cpu time.Duration
			for b.Loop() {
				p := start(b, database, bench.path, bench.args...)
				wall += p.answered
				cpu += p.stop(b)
			}
			b.ReportMetric(0, "ns/op") // it would count the stop too
			b.ReportMetric(float64(wall.Microseconds())/1000/float64(b.N), "ms-to-answer")
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms")
		})
	}
}

// BenchmarkIdle is what a process holds and does when nobody wants anything.
func BenchmarkIdle(b *testing.B) {
	const watch = 15 * time.Second // a tick of each kind but the slowest
	p := start(b, pgtest.URL(b), "/v1/clusters")
	before := ticks(b, p)
	for b.Loop() {
		time.Sleep(watch)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p.resident(b), "MiB")
	b.ReportMetric(100*(ticks(b, p)-before).Seconds()/(watch*time.Duration(b.N)).Seconds(), "%-of-a-core")
	p.stop(b)
}

// ticks is the CPU time of the process so far.
func ticks(b *testing.B, p *started) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Skip("CPU time is read from /proc")
	}
	_, after, _ := strings.Cut(string(raw), ") ") // the name may hold spaces
	fields := strings.Fields(after)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}
