package kubeprobe

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"carafe/shared/driver"
	"carafe/shared/pki"
)

// cluster is what the tests know of a probed cluster: its authority, and a
// client certificate by it.
type cluster struct {
	issuer *pki.Issuer
	pair   driver.KeyPair
	ca     *pki.Authority
	client tls.Certificate
}

func newCluster(t testing.TB, algorithm string, now time.Time) *cluster {
	t.Helper()
	settings := pki.DefaultSettings()
	settings.KeyAlgorithm = algorithm
	issuer, err := pki.New(settings, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{issuer: issuer}
	if c.pair, err = issuer.Authority(pki.Kubernetes, "c1", 1); err != nil {
		t.Fatal(err)
	}
	if c.ca, err = pki.LoadAuthority(c.pair); err != nil {
		t.Fatal(err)
	}
	client, err := issuer.ClientPair(c.ca)
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = tls.X509KeyPair(client.Certificate, client.Key); err != nil {
		t.Fatal(err)
	}
	return c
}

// serving gives a server certificate for the address.
func (c *cluster) serving(t testing.TB, ip string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.ParseIP(ip)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := c.issuer.Sign(c.ca, pki.Kubernetes, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(issued.PEM))
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// serve starts an API server that only lets clients of the cluster in.
func (c *cluster) serve(t testing.TB, h http.Handler, serving tls.Certificate) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	clients := x509.NewCertPool()
	clients.AddCert(c.ca.Certificate)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func (c *cluster) target(address string) Target {
	return Target{Address: address, CA: c.pair.Certificate, Client: c.client}
}

// api answers as an API server with these nodes does.
func api(nodes ...string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(nodes, ","))
	})
	return mux
}

// node is a Kubernetes node with so much more than what counts.
func nodeJSON(name, ready string) string {
	condition := ""
	if ready != "" {
		condition = fmt.Sprintf(`,{"type":"Ready","status":%q,"reason":"KubeletReady"}`, ready)
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"a":"b"}},"spec":{},"status":{"conditions":[{"type":"DiskPressure","status":"False"}%s],"images":[{"names":["x"]}]}}`, name, condition)
}

func text(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func nodesAnswer(status int, body string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", text(200, "ok"))
	mux.Handle("/api/v1/nodes", text(status, body))
	return mux
}

func quick() *Prober {
	return New(Settings{ConnectTimeout: 300 * time.Millisecond, Timeout: time.Second, Path: "/healthz"})
}

// patient is for a machine with other work, where time is not the subject.
func patient() *Prober {
	return New(Settings{ConnectTimeout: time.Minute, Timeout: 5 * time.Minute, Path: "/healthz"})
}

func TestProbeOfAServerThatAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ecdsa", time.Now())
	serving := c.serving(t, "127.0.0.1")
	ready := []Node{{"n1", true}, {"n2", true}}
	for _, tc := range []struct {
		name string
		api  http.Handler
		want Result
	}{
		{"Ready", api(nodeJSON("n1", "True"), nodeJSON("n2", "True")), Result{Reached: true, OK: true, Listed: true, Nodes: ready}},
		{"NotReady", api(nodeJSON("n1", "True"), nodeJSON("n2", "False")), Result{Reached: true, OK: true, Listed: true, Nodes: []Node{{"n1", true}, {"n2", false}}}},
		{"Unknown", api(nodeJSON("n1", "Unknown")), Result{Reached: true, OK: true, Listed: true, Nodes: []Node{{"n1", false}}}},
		{"NoCondition", api(nodeJSON("n1", "")), Result{Reached: true, OK: true, Listed: true, Nodes: []Node{{"n1", false}}}},
		{"NoNodes", api(), Result{Reached: true, OK: true, Listed: true}},
		{"NullItems", nodesAnswer(200, `{"items":null}`), Result{Reached: true, OK: true, Listed: true}},
		{"NotOK", text(200, "etcd is\nslow"), Result{Reached: true, Problem: "etcd is slow"}},
		{"NotOKAndLong", text(200, strings.Repeat("x", 1<<20)), Result{Reached: true, Problem: strings.Repeat("x", 200) + "…"}},
		{"Binary", text(200, "\x00\x01\xff"), Result{Reached: true, Problem: "The API server's answer is empty."}},
		{"Checks", text(500, "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n[-]poststarthook/x failed: reason withheld\nhealthz check failed\n"),
			Result{Reached: true, Problem: "The API server answers HTTP 500: failed checks etcd, poststarthook/x."}},
		{"Unauthorized", text(401, `{"kind":"Status","message":"Unauthorized"}`), Result{Problem: "The API server does not let us in (HTTP 401)."}},
		{"Forbidden", text(403, ""), Result{Problem: "The API server does not let us in (HTTP 403)."}},
		{"Redirect", http.RedirectHandler("https://elsewhere.example/", http.StatusFound), Result{Reached: true, Problem: "The API server answers HTTP 302."}},
		{"NodesFail", nodesAnswer(500, `{"kind":"Status","message":"etcdserver: leader changed"}`),
			Result{Reached: true, OK: true, Problem: "The nodes cannot be listed. The API server answers HTTP 500: etcdserver: leader changed"}},
		{"Garbage", nodesAnswer(200, "<html>"), Result{Reached: true, OK: true, Problem: "The list of nodes cannot be read: it is no JSON list of nodes."}},
		{"OtherObject", nodesAnswer(200, `{"kind":"Status"}`), Result{Reached: true, OK: true, Problem: "The list of nodes cannot be read: it is no JSON list of nodes."}},
		{"Truncated", nodesAnswer(200, `{"items":[`+nodeJSON("n1", "True")), Result{Reached: true, OK: true, Problem: "The list of nodes cannot be read: it is no JSON list of nodes."}},
		{"MalformedNode", api(nodeJSON("n1", "True"), `{"metadata":{}}`), Result{Reached: true, OK: true, Problem: "The list of nodes cannot be read: a node has no name."}},
		{"NodeIsNoObject", api(`7`), Result{Reached: true, OK: true, Problem: "The list of nodes cannot be read: it is no JSON list of nodes."}},
		{"ConnectionClosed", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			Result{Problem: "The API server closed the connection."}},
		{"ClosedInTheList", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				fmt.Fprint(w, "ok")
				return
			}
			fmt.Fprint(w, `{"items":[`, nodeJSON("n1", "True"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}), Result{Problem: "The API server closed the connection."}},
		{"Drip", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 100 {
				fmt.Fprint(w, "o")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}), Result{Problem: "The API server did not answer within 1s."}},
		{"DripInTheList", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				fmt.Fprint(w, "ok")
				return
			}
			fmt.Fprint(w, `{"items":[`)
			for range 100 {
				fmt.Fprint(w, nodeJSON("n1", "True"), ",")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}), Result{Problem: "The API server did not answer within 1s."}},
		{"Silent", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			Result{Problem: "The API server did not answer within 1s."}},
		{"EndlessList", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				fmt.Fprint(w, "ok")
				return
			}
			fmt.Fprintf(w, `{"metadata":{"continue":"more"},"items":[%s]}`, strings.TrimSuffix(strings.Repeat(`{"metadata":{"name":"n"}},`, pageSize*10), ","))
		}), Result{Reached: true, OK: true, Problem: "The list of nodes does not end after 20000."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := quick()
			if !strings.Contains(tc.want.Problem, "did not answer") {
				p = patient()
			}
			got := p.Probe(t.Context(), c.target(c.serve(t, tc.api, serving)))
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestProbeOfAServerThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c, other := newCluster(t, "ecdsa", now), newCluster(t, "ecdsa", now)
	serving := c.serving(t, "127.0.0.1")
	healthy := api(nodeJSON("n1", "True"))

	old := newCluster(t, "ecdsa", now.AddDate(-2, 0, 0)) // certificates of a year, long over
	expiredServer := old.serve(t, healthy, old.serving(t, "127.0.0.1"))
	expiredClient := c.target(c.serve(t, healthy, serving))
	stale, err := c.issuer.ClientPair(c.ca)
	if err != nil {
		t.Fatal(err)
	}
	if past, err := pki.New(func() pki.Settings { s := pki.DefaultSettings(); s.LeafLifetimeDays = 1; return s }(),
		func() time.Time { return now.Add(-24*time.Hour + time.Second) }); err != nil {
		t.Fatal(err)
	} else if stale, err = past.RenewClient(c.ca, stale); err != nil {
		t.Fatal(err)
	}
	if expiredClient.Client, err = tls.X509KeyPair(stale.Certificate, stale.Key); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the certificate's last second

	foreign := c.target(c.serve(t, healthy, serving))
	foreign.Client = other.client
	plain := httptest.NewServer(healthy)
	t.Cleanup(plain.Close)

	// listen gives the address of something that is no HTTPS server.
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					serve(conn)
				}()
			}
		}()
		return l.Addr().String()
	}
	blackHole := listen(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	garbage := listen(func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadByte()
		fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.9\r\n")
	})
	noHTTP := func() string {
		l := tls.NewListener(must(net.Listen("tcp", "127.0.0.1:0")), &tls.Config{Certificates: []tls.Certificate{serving}})
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = conn.Read(make([]byte, 1))
					fmt.Fprint(conn, "220 mail.example ESMTP\r\n")
				}()
			}
		}()
		return l.Addr().String()
	}()
	refused := func() string {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close()
		return l.Addr().String()
	}()
	wrongHost := c.serve(t, healthy, c.serving(t, "192.0.2.1"))

	for _, tc := range []struct {
		name   string
		target Target
		want   string
	}{
		{"WrongCA", Target{Address: c.serve(t, healthy, serving), CA: other.pair.Certificate, Client: c.client}, "The API server's certificate is not signed by the cluster's CA."},
		{"WrongHost", c.target(wrongHost), "The API server's certificate is not for 127.0.0.1."},
		{"ExpiredServer", old.target(expiredServer), "The API server's certificate has expired or is not valid yet."},
		{"ExpiredClient", expiredClient, "The API server does not let us in: our client certificate has expired."},
		{"ForeignClient", foreign, "The API server does not let us in: it does not accept our client certificate."},
		{"NoClient", Target{Address: c.serve(t, healthy, serving), CA: c.pair.Certificate}, "The API server does not let us in: it does not accept our client certificate."},
		{"PlainHTTP", c.target("https://" + plain.Listener.Addr().String()), "The API server's address does not speak TLS."},
		{"NoTLS", c.target("https://" + garbage), "The API server's address does not speak TLS."},
		{"NoHTTP", c.target("https://" + noHTTP), "The API server's address does not speak HTTP."},
		{"BlackHole", c.target("https://" + blackHole), "The API server at " + blackHole + " cannot be reached: no answer within 300ms."},
		{"Refused", c.target("https://" + refused), "The API server at " + refused + " refuses the connection."},
		{"NoName", c.target("https://nowhere.invalid:6443"), "The name nowhere.invalid of the API server is not known."},
		{"NoURL", c.target("10.0.0.1:6443"), "The address of the API server is not a URL."},
		{"BrokenURL", c.target("https://[::1"), "The address of the API server is not a URL."},
		{"NoCA", Target{Address: plain.URL, CA: []byte("x")}, "The CA of the cluster is no certificate."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			got := quick().Probe(t.Context(), tc.target)
			if got.Reached || got.Problem != tc.want {
				t.Errorf("\n got %+v\nwant %s", got, tc.want)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fleet serves n nodes in the pages that are asked for, each of the size of a
// real one: twelve thousand bytes.
func fleet(n int, ready func(int) bool) http.Handler {
	padding := strings.Repeat(`{"names":["registry.example/some/image@sha256:0123456789abcdef0123456789abcdef"],"sizeBytes":123456789},`, 110)
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		from, _ := strconv.Atoi(r.FormValue("continue"))
		to, next := min(from+limit, n), ""
		if to < n {
			next = strconv.Itoa(to)
		}
		out := bufio.NewWriterSize(w, 64<<10)
		defer out.Flush()
		fmt.Fprintf(out, `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":%q},"items":[`, next)
		for i := from; i < to; i++ {
			status := "True"
			if !ready(i) {
				status = "False"
			}
			if i > from {
				fmt.Fprint(out, ",")
			}
			fmt.Fprintf(out, `{"metadata":{"name":"node-%d"},"status":{"images":[%s{}],"conditions":[{"type":"Ready","status":%q}]}}`, i, padding, status)
		}
		fmt.Fprint(out, `]}`)
	})
	return mux
}

func TestFiveThousandNodes(t *testing.T) {
	c := newCluster(t, "ecdsa", time.Now())
	address := c.serve(t, fleet(5000, func(i int) bool { return i != 4321 }), c.serving(t, "127.0.0.1"))
	p := patient()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	r := p.Probe(t.Context(), c.target(address))
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if !r.Listed || len(r.Nodes) != 5000 {
		t.Fatalf("%d nodes, listed %v: %s", len(r.Nodes), r.Listed, r.Problem)
	}
	h, _ := Verdict(r, 5000)
	if h.Status != "UNHEALTHY" || h.Reasons["node-4321.Ready"] != "False" || len(h.Reasons) != 3 || h.Reasons["nodes"] != "4999 of 5000 nodes are Ready." {
		t.Errorf("%s %v", h.Status, h.Reasons)
	}
	t.Logf("%v, %d MiB allocated in all", took, (after.TotalAlloc-before.TotalAlloc)>>20)
}
