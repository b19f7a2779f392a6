package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carafe/shared/postgres"
)

// limit is what the machine can do at most, beside what Carafe does.
type limit struct {
	what         string
	of           string        // the work that it bounds, at limitClients clients
	ours, theirs float64       // each second
	carafe, cpu  time.Duration // of one, in the process and in PostgreSQL
}

// limitClients is how many clients limits are measured with.
const limitClients = 32

// limits measures the machine: a bare HTTP server, the same rows through bare
// pgx, and RSA.
func (b *bench) limits(ctx context.Context, database string) error {
	for _, q := range []struct {
		of  string
		ask func(*postgres.DB) error
	}{
		{"list of 10", func(db *postgres.DB) error {
			_, err := db.Clusters.List(ctx, postgres.Scope{ProjectID: "p10"}, postgres.ClusterFilter{}, postgres.Page{Limit: 1001}, false)
			return err
		}},
		{"list 20 of 1,000", func(db *postgres.DB) error {
			_, err := db.Clusters.List(ctx, postgres.Scope{ProjectID: "p1000"}, postgres.ClusterFilter{}, postgres.Page{Limit: 21}, false)
			return err
		}},
		{"show", func(db *postgres.DB) error {
			list, err := db.Clusters.List(ctx, postgres.Scope{ProjectID: "p10"}, postgres.ClusterFilter{}, postgres.Page{Limit: 1}, false)
			if err == nil {
				_, err = db.Clusters.Get(ctx, postgres.Scope{ProjectID: "p10"}, postgres.Ident{UUID: list[0].UUID})
			}
			return err
		}},
	} {
		var last statement
		db, err := postgres.OpenTraced(ctx, postgres.Config{URL: database}, &last)
		if err != nil {
			return err
		}
		err = q.ask(db)
		db.Close()
		if err != nil {
			return err
		}
		before, own := b.postgresCPU(), processCPU(os.Getpid())
		n, took, err := bareQueries(ctx, database, last, b.length*2)
		if err != nil {
			return err
		}
		b.limit("the same statement through bare pgx, rows not decoded", q.of, float64(n)/took.Seconds(),
			(b.postgresCPU()-before+processCPU(os.Getpid())-own)/time.Duration(n))
	}
	if err := b.bareHTTP(); err != nil {
		return err
	}
	signs, err := signatures(b.length * 2)
	if err != nil {
		return err
	}
	b.limit("RSA-2048 signatures, on all cores", "sign certificate", signs, time.Duration(float64(time.Second)*float64(runtime.NumCPU())/signs))
	return nil
}

func (b *bench) limit(what, of string, perSecond float64, cpu time.Duration) {
	l := limit{what: what, of: of, theirs: perSecond, cpu: cpu}
	for _, r := range b.rows {
		if r.name == of && r.clients == limitClients {
			l.ours, l.carafe = r.perSecond, r.carafe+r.postgres
		}
	}
	b.bounds = append(b.bounds, l)
	b.say("%-60s %9.0f/s: %s is %.0f %% of it", what, perSecond, of, 100*l.ours/perSecond)
}

// statement remembers what was sent last.
type statement struct {
	sql  string
	args []any
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statement) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.sql, s.args = q.SQL, q.Args
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// bareQueries sends one statement over and over, and reads the rows as they come.
func bareQueries(ctx context.Context, database string, s statement, length time.Duration) (int64, time.Duration, error) {
	pool, err := pgxpool.New(ctx, database+poolSize(database))
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	var n atomic.Int64
	var failed atomic.Value
	var running sync.WaitGroup
	began := time.Now()
	for range limitClients {
		running.Go(func() {
			for time.Since(began) < length {
				rows, err := pool.Query(ctx, s.sql, s.args...)
				if err == nil {
					for rows.Next() {
						_ = rows.RawValues()
					}
					err = rows.Err()
				}
				if err != nil {
					failed.Store(err)
					return
				}
				n.Add(1)
			}
		})
	}
	running.Wait()
	err, _ = failed.Load().(error)
	return n.Load(), time.Since(began), err
}

// poolSize asks for as many connections as Carafe has by default.
func poolSize(database string) string {
	if len(database) > 8 && database[:8] == "postgres" {
		return "&pool_max_conns=16"
	}
	return " pool_max_conns=16"
}

// bareCommand, as the first argument, makes this program the bare HTTP server.
const bareCommand = "bare-http"

// bareBody is as long as a list of ten clusters.
const bareBody = 6000

func serveBare(address string) error {
	body := make([]byte, bareBody)
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // a client that has gone needs nothing
	}))
}

// bareHTTP measures net/http in a process of its own, as Carafe is.
func (b *bench) bareHTTP() error {
	address, err := free()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, bareCommand, address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for range 100 {
		if c, err := dial(address); err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	before := processCPU(cmd.Process.Pid)
	r, err := press(address, limitClients, b.length*2, constant(request{method: http.MethodGet, path: "/", want: http.StatusOK}))
	if err != nil {
		return err
	}
	b.limit(fmt.Sprintf("a bare net/http handler that answers %d bytes", bareBody), "list of 10", r.perSecond(), (processCPU(cmd.Process.Pid)-before)/time.Duration(r.n))
	return nil
}

// signatures is how many RSA-2048 signatures all cores make in a second.
func signatures(length time.Duration) (float64, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return 0, err
	}
	digest := sha256.Sum256([]byte("a certificate"))
	var n atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for range runtime.NumCPU() {
		running.Go(func() {
			for time.Since(began) < length {
				if _, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:]); err != nil {
					return // not with a good key
				}
				n.Add(1)
			}
		})
	}
	running.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), nil
}
