// Package kubeprobe looks at the health of a cluster from outside, as an
// administrator would: it asks the Kubernetes API server how it is and which
// nodes are ready (spec/conductor.md §3.4). It needs no Kubernetes client: two
// GETs over mutual TLS, of which only names and conditions are decoded.
//
// Probe reaches out and gives a Result; Verdict judges a Result; Decide says
// which clusters are probed at all. The latter two are pure.
package kubeprobe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"carafe/shared/fault"
)

// Settings are the probe's part of the environment.
type Settings struct {
	// ConnectTimeout bounds the connection, and after it the TLS handshake.
	ConnectTimeout time.Duration `envconfig:"CARAFE_HEALTH_CONNECT_TIMEOUT" default:"5s"`
	// Timeout bounds a whole probe, whatever the API server does (PB-50).
	Timeout time.Duration `envconfig:"CARAFE_HEALTH_TIMEOUT" default:"15s"`
	// Path is what the API server answers with ok: /healthz, or /readyz where
	// a proxy hides the former.
	Path string `envconfig:"CARAFE_HEALTH_PATH" default:"/healthz"`
}

const (
	// pageSize is how many nodes are asked for at a time.
	pageSize = 500
	// maxNodes ends the reading of a list that has no end.
	maxNodes = 20000
	// maxPage bounds the bytes of one page: a node has ten to twenty thousand.
	maxPage = 32 << 20
	// maxText bounds what is read of an answer that is shown to people.
	maxText = 4 << 10
	// shown bounds what is shown of it.
	shown = 200
)

// Target is where a cluster is, whom to trust there, and who we are.
type Target struct {
	Address string // api_address
	CA      []byte // PEM
	Client  tls.Certificate
}

// Node is what counts of a node.
type Node struct {
	Name  string
	Ready bool
}

// Result is what a probe has seen.
type Result struct {
	// Reached says that an API server answered for this cluster. If not, Problem
	// says why, and the cluster's health is not known.
	Reached bool
	// OK says that the API server calls itself healthy.
	OK bool
	// Listed says that Nodes are all nodes.
	Listed bool
	Nodes  []Node
	// Problem is one sentence about what went wrong; empty: nothing.
	Problem string
}

// Prober probes. It keeps no connection and no state, and is safe for concurrent use.
type Prober struct {
	settings Settings
	dialer   net.Dialer
}

// New gives a Prober.
func New(s Settings) *Prober {
	return &Prober{settings: s, dialer: net.Dialer{Timeout: s.ConnectTimeout, KeepAlive: -1}}
}

// Probe asks one cluster. It always comes back within the timeout, and the
// Result says what happened: there is no error.
func (p *Prober) Probe(ctx context.Context, t Target) Result {
	ctx, cancel := context.WithTimeout(ctx, p.settings.Timeout)
	defer cancel()
	base, err := url.Parse(t.Address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return Result{Problem: "The address of the API server is not a URL."}
	}
	transport, err := p.transport(t)
	if err != nil {
		return Result{Problem: err.Error()}
	}
	defer transport.CloseIdleConnections()
	c := &connection{client: &http.Client{Transport: transport, CheckRedirect: stay}, base: base, settings: p.settings}
	return c.probe(ctx)
}

// stay follows no redirect: the cluster's credentials are for its API server.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport serves the two or more requests of one probe over one connection.
func (p *Prober) transport(t Target) (*http.Transport, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(t.CA) {
		return nil, fault.New(fault.Invalid, "The CA of the cluster is no certificate.")
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         p.dialer.DialContext,
		TLSHandshakeTimeout: p.settings.ConnectTimeout,
		MaxConnsPerHost:     1,
		DisableCompression:  true, // the time of our processor is scarcer than bytes
		TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{t.Client},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"http/1.1"},
		},
	}, nil
}

// connection is one probe at work.
type connection struct {
	client   *http.Client
	base     *url.URL
	settings Settings
}

func (c *connection) probe(ctx context.Context) Result {
	status, text, err := c.text(ctx, c.settings.Path)
	switch {
	case err != nil:
		return Result{Problem: c.sentence(err)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return Result{Problem: fmt.Sprintf("The API server does not let us in (HTTP %d).", status)}
	case status != http.StatusOK:
		return Result{Reached: true, Problem: said(status, text)}
	case strings.TrimSpace(text) != "ok":
		return Result{Reached: true, Problem: clean(text)}
	}
	r := Result{Reached: true, OK: true}
	if r.Nodes, err = c.nodes(ctx); err != nil {
		var answered *answeredError
		if !errors.As(err, &answered) {
			return Result{Problem: c.sentence(err)}
		}
		r.Problem = answered.text
		return r
	}
	r.Listed = true
	return r
}

func (c *connection) get(ctx context.Context, path, query string) (*http.Response, error) {
	u := *c.base
	u.Path, u.RawQuery = strings.TrimSuffix(u.Path, "/")+path, query
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "carafe")
	return c.client.Do(r)
}

// text reads an answer that is meant for people.
func (c *connection) text(ctx context.Context, path string) (int, string, error) {
	resp, err := c.get(ctx, path, "")
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxText))
	return resp.StatusCode, string(text), inTime(ctx, err)
}

// inTime is err, or that the time is over: a server that sees us go away may end
// its answer in good order, and that end must not count.
func inTime(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return err
}

// answeredError is a fault of an API server that answers.
type answeredError struct{ text string }

func (e *answeredError) Error() string { return e.text }

// nodes reads all nodes, page by page.
func (c *connection) nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		page, next, err := c.page(ctx, query.Encode())
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		if len(all) > maxNodes {
			return nil, &answeredError{fmt.Sprintf("The list of nodes does not end after %d.", maxNodes)}
		}
		query.Set("continue", next)
	}
}

func (c *connection) page(ctx context.Context, query string) (page []Node, next string, err error) {
	resp, err := c.get(ctx, "/api/v1/nodes", query)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxText))
		if err := inTime(ctx, err); err != nil {
			return nil, "", err
		}
		return nil, "", &answeredError{"The nodes cannot be listed. " + said(resp.StatusCode, string(text))}
	}
	body := &counted{r: resp.Body, left: maxPage}
	page, next, err = decodeNodes(body)
	switch {
	case err == nil:
		return page, next, nil
	case body.err != nil: // the connection, not the content
		return nil, "", body.err
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	default:
		return nil, "", &answeredError{"The list of nodes cannot be read: " + err.Error() + "."}
	}
}

// counted reads up to a limit, and remembers what went wrong with the reading
// itself.
type counted struct {
	r    io.Reader
	left int
	err  error
}

var errTooLong = &answeredError{"The list of nodes is too long."}

func (c *counted) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.err = errTooLong
		return 0, c.err
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// said makes a sentence of an answer that is not 200. Of Kubernetes' own list of
// checks only the failed ones are of interest.
func said(status int, text string) string {
	sentence := fmt.Sprintf("The API server answers HTTP %d", status)
	var failed []string
	for line := range strings.Lines(text) {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(check), " ")
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		return sentence + ": failed checks " + clean(strings.Join(failed, ", ")) + "."
	}
	if message := messageOf(text); message != "" {
		return sentence + ": " + message
	}
	return sentence + "."
}

// clean makes one short line of what a stranger sent.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > shown {
		text = string(runes[:shown]) + "…"
	}
	if text == "" {
		return "The API server's answer is empty."
	}
	return text
}
