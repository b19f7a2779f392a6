package kubeprobe

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"carafe/shared/driver"
)

// serverVariable makes the test binary into the probed clusters, so that a
// benchmark measures the probing process alone.
const serverVariable = "KUBEPROBE_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		serveUntilClosed()
		return
	}
	os.Exit(m.Run())
}

// scene is what the serving process tells the probing one.
type scene struct {
	Address, BlackHole string
	CA                 []byte
	Client             [2][]byte
}

// serveUntilClosed serves three nodes over mutual TLS, and a black hole, until
// its standard input ends.
func serveUntilClosed() {
	var t testing.B // only its cleanups and failures are used
	c := newCluster(&t, "rsa", time.Now())
	client, err := c.issuer.ClientPair(c.ca)
	if err != nil {
		panic(err)
	}
	hole := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		for {
			conn, err := hole.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn); conn.Close() }()
		}
	}()
	address := c.serve(&t, fleet(3, func(int) bool { return true }), c.serving(&t, "127.0.0.1"))
	_ = json.NewEncoder(os.Stdout).Encode(scene{Address: address, BlackHole: "https://" + hole.Addr().String(),
		CA: c.pair.Certificate, Client: [2][]byte{client.Certificate, client.Key}})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startScene(b *testing.B) scene {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	stdin := must(cmd.StdinPipe())
	stdout := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	var s scene
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkTenThousand probes ten thousand clusters, a tenth of them black
// holes, 256 at a time, with the key read anew for each, as healthmonitor does.
// Run it with -benchtime 1x.
func BenchmarkTenThousand(b *testing.B) {
	s := startScene(b)
	p := New(Settings{ConnectTimeout: 5 * time.Second, Timeout: 15 * time.Second, Path: "/healthz"})
	for b.Loop() {
		runtime.GC()
		debug.FreeOSMemory()
		cpu, began := cpuTime(), time.Now()
		var slowest time.Duration
		var healthy, missed int
		results := make(chan Result)
		counted := make(chan struct{})
		go func() {
			defer close(counted)
			for r := range results {
				if h, miss := Verdict(r, 3); miss {
					missed++
				} else if h.Status == "HEALTHY" {
					healthy++
				}
			}
		}()
		var group errgroup.Group
		group.SetLimit(256)
		last := make([]time.Time, 10000)
		for i := range 10000 {
			group.Go(func() error {
				target, err := s.target(i%10 == 9)
				if err != nil {
					return err
				}
				results <- p.Probe(b.Context(), target)
				if i%10 != 9 {
					last[i] = time.Now()
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		close(results)
		<-counted
		for _, at := range last {
			slowest = max(slowest, at.Sub(began))
		}
		if healthy < 8900 || healthy > 9000 {
			b.Fatalf("%d healthy, %d missed", healthy, missed)
		}
		b.ReportMetric(float64(missed-1000), "late") // on a machine with other work
		b.ReportMetric(time.Since(began).Seconds(), "s/10k")
		b.ReportMetric(slowest.Seconds(), "s-last-healthy")
		b.ReportMetric((cpuTime() - cpu).Seconds(), "cpu-s")
		b.ReportMetric(peakMiB(), "MiB-peak")
	}
}

func (s scene) target(hole bool) (Target, error) {
	pair := driver.KeyPair{Certificate: s.Client[0], Key: s.Client[1]}
	client, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	t := Target{Address: s.Address, CA: s.CA, Client: client}
	if hole {
		t.Address = s.BlackHole
	}
	return t, err
}

// BenchmarkProbe is one probe: connection, mutual TLS with RSA, two requests.
func BenchmarkProbe(b *testing.B) {
	s := startScene(b)
	p := New(Settings{ConnectTimeout: 5 * time.Second, Timeout: 15 * time.Second, Path: "/healthz"})
	target, err := s.target(false)
	if err != nil {
		b.Fatal(err)
	}
	cpu := cpuTime()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if r := p.Probe(b.Context(), target); !r.Listed {
			b.Fatal(r.Problem)
		}
		n++
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(n), "cpu-µs/op")
}

// BenchmarkKey is what it costs to read a client key for each probe.
func BenchmarkKey(b *testing.B) {
	s := startScene(b)
	for b.Loop() {
		if _, err := s.target(false); err != nil {
			b.Fatal(err)
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMiB is the most memory that the process has had resident.
func peakMiB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return 0
}
