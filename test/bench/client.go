package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// request is what a client sends, ready to be written.
type request struct {
	method, path, project, body string
	token                       string // Keystone's; without one the headers of noauth name the project
	want                        int    // status
}

// wire is the request as it goes over a connection that is kept.
func (r request) wire() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nOpenStack-API-Version: container-infra 1.14\r\n", r.method, r.path)
	if r.token != "" {
		fmt.Fprintf(&b, "X-Auth-Token: %s\r\n", r.token)
	} else {
		fmt.Fprintf(&b, "X-Project-Id: %s\r\nX-User-Id: %s-user\r\n", r.project, r.project)
	}
	if r.body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(r.body))
	}
	b.WriteString("\r\n")
	b.WriteString(r.body)
	return []byte(b.String())
}

// connection is one client. It does as little as a client can, since it has to
// share the machine with what it measures.
type connection struct {
	net.Conn
	in   *bufio.Reader
	gone bool // the server has ended it with its last answer
}

func dial(address string) (*connection, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, in: bufio.NewReaderSize(c, 32<<10)}, nil
}

// redial is for servers that answer one request on each connection.
func (c *connection) redial() error {
	again, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		return err
	}
	c.Close()
	c.Conn, c.gone = again, false
	c.in.Reset(again)
	return nil
}

// ask sends the request and reads the answer; the body is read into keep, if given.
func (c *connection) ask(wire []byte, want int, keep *[]byte) error {
	if c.gone {
		if err := c.redial(); err != nil {
			return err
		}
	}
	if _, err := c.Write(wire); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	c.gone = resp.Close
	if keep == nil && resp.StatusCode == want {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	if keep != nil {
		*keep = body
	}
	return err
}

// result is what clients saw in one run.
type result struct {
	n        int
	took     time.Duration
	p50, p99 time.Duration
}

func (r result) perSecond() float64 { return float64(r.n) / r.took.Seconds() }

// press has clients send requests for a while, each the next one when its last is
// answered. next gives the i-th request of all.
func press(address string, clients int, length time.Duration, next func(i int) request) (result, error) {
	conns := make([]*connection, clients)
	for i := range conns {
		c, err := dial(address)
		if err != nil {
			return result{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	latencies := make([][]time.Duration, clients)
	errs := make([]error, clients)
	var running sync.WaitGroup
	began := time.Now()
	for i, c := range conns {
		running.Go(func() {
			var wire []byte
			var last request
			for n := i; time.Since(began) < length; n += clients {
				if r := next(n); wire == nil || r != last {
					wire, last = r.wire(), r
				}
				sent := time.Now()
				if errs[i] = c.ask(wire, last.want, nil); errs[i] != nil {
					errs[i] = fmt.Errorf("%s %s: %w", last.method, last.path, errs[i])
					return
				}
				latencies[i] = append(latencies[i], time.Since(sent))
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return result{}, err
		}
	}
	all := slices.Concat(latencies...)
	return result{n: len(all), took: took, p50: quantile(all, 0.50), p99: quantile(all, 0.99)}, nil
}

// quantile is the value that the share q of all are not above. It sorts them.
func quantile[T int | float64 | time.Duration](all []T, q float64) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func median[T int | float64 | time.Duration](all []T) T { return quantile(slices.Clone(all), 0.5) }
