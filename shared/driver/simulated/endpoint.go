package simulated

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"carafe/shared/fault"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// Authorities are the certificate authorities of clusters.
type Authorities interface {
	// CA gives the certificate in force, in PEM.
	CA(ctx context.Context, clusterID string, kind pki.Kind) (string, error)
	// Sign answers a certificate signing request.
	Sign(ctx context.Context, clusterID string, kind pki.Kind, csr string) (pki.Issued, error)
}

// Endpoint serves the Kubernetes API of every simulated cluster, as much as it
// takes to ask for health and nodes, over mutual TLS by the cluster's own CA.
//
// All clusters share one port. Each has a loopback address of its own by its
// number in the database, 127.1.0.1 and so on, which Linux has without being
// told, so an address leads to the same cluster for as long as that lives. No
// other machine gets there.
type Endpoint struct {
	driver      *Driver
	authorities Authorities
	listener    net.Listener
	port        int
	key         *ecdsa.PrivateKey
	configs     *lru.Cache[string, *tlsConfig] // by cluster uuid
}

// tlsConfig is how a cluster's API server shows itself, while its CA is this one.
type tlsConfig struct {
	ca     string
	until  time.Time
	config *tls.Config
}

// Cached certificates of API servers, and a time before their end at which they
// are made anew.
const (
	cachedConfigs = 20000
	renewBefore   = 24 * time.Hour
)

// Ports that are tried if no cluster has one yet, beside 6443: below those that
// systems give to outgoing connections.
const (
	usualPort              = 6443
	lowestPort, otherPorts = 20000, 10000
	attempts               = 20
)

// Host makes the endpoint of the driver's clusters: from now on they are told
// its address. Call it before the driver is used. It is nil without an error
// where the settings give clusters another address, or where the system has no
// loopback addresses to give.
func (d *Driver) Host(ctx context.Context, authorities Authorities) (*Endpoint, error) {
	if d.config.Address != "" {
		return nil, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	configs, err := lru.New[string, *tlsConfig](cachedConfigs)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	addresses, err := d.db.Simulations.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{driver: d, authorities: authorities, key: key, configs: configs}
	if e.listener, err = listen(ctx, d.config.Port, addresses); errors.Is(err, errors.ErrUnsupported) {
		slog.InfoContext(ctx, "the APIs of simulated clusters are not served here", "why", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.port = e.listener.Addr().(*net.TCPAddr).Port
	if err := e.move(ctx, addresses); err != nil {
		return nil, errors.Join(err, e.listener.Close())
	}
	d.endpoint = e
	return e, nil
}

// listen takes the port that is wanted or, if it is 0, the one that clusters
// have, else one that is free.
func listen(ctx context.Context, wanted int, addresses []postgres.SimulatedAddress) (net.Listener, error) {
	if wanted != 0 {
		l, err := listenOnLoopback(ctx, wanted)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d is in use, so the APIs of simulated clusters cannot be served there: stop what listens, or set CARAFE_SIMULATED_PORT to another port, or to 0", wanted)
		}
		return l, err
	}
	port := usualPort
	for _, a := range addresses {
		if u, err := url.Parse(a.APIAddress); err == nil && net.ParseIP(u.Hostname()).IsLoopback() {
			if p, err := strconv.Atoi(u.Port()); err == nil {
				port = p
				break
			}
		}
	}
	for attempt := 1; ; attempt++ {
		l, err := listenOnLoopback(ctx, port)
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == attempts {
			return l, err
		}
		n, err := rand.Int(rand.Reader, big.NewInt(otherPorts))
		if err != nil {
			return nil, fmt.Errorf("pick a port: %w", err)
		}
		port = lowestPort + int(n.Int64())
	}
}

// move tells clusters that were served elsewhere where they are now.
func (e *Endpoint) move(ctx context.Context, addresses []postgres.SimulatedAddress) error {
	for _, a := range addresses {
		now := e.address(a.Number)
		if a.APIAddress == now {
			continue
		}
		slog.InfoContext(ctx, "simulated cluster moved", "cluster", a.ClusterID, "from", a.APIAddress, "to", now)
		if err := e.driver.db.Simulations.Move(ctx, a.ClusterID, now); err != nil {
			return err
		}
	}
	return nil
}

// address is the api_address of the cluster with the number.
func (e *Endpoint) address(number int) string {
	return "https://" + net.JoinHostPort(loopback(number).String(), strconv.Itoa(e.port))
}

func loopback(number int) net.IP {
	return net.IPv4(127, byte(number>>16), byte(number>>8), byte(number)).To4()
}

// numberOf is the number of the cluster that an address of this machine is for.
func numberOf(local net.Addr) (int, bool) {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return 0, false
	}
	ip := tcp.IP.To4()
	if ip == nil || !ip.IsLoopback() {
		return 0, false
	}
	return int(ip[1])<<16 | int(ip[2])<<8 | int(ip[3]), true
}

// Limits of one connection and request.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 30 * time.Second
	shutdownGrace  = 2 * time.Second
)

// Serve answers until the context ends.
func (e *Endpoint) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           (&kubernetes{driver: e.driver}).routes(),
		TLSConfig:         &tls.Config{GetConfigForClient: e.configFor, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		// A port scanner is no news.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(e.listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the APIs of simulated clusters: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // nothing is lost: clients ask again
	}
	<-served
	return nil
}

// configFor is how the cluster that a client has called shows itself.
func (e *Endpoint) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	number, ok := numberOf(hello.Conn.LocalAddr())
	if !ok {
		return nil, fmt.Errorf("no cluster is at %s", hello.Conn.LocalAddr())
	}
	ctx := hello.Context()
	state, err := e.driver.db.Simulations.ByNumber(ctx, number)
	if err != nil {
		return nil, err
	}
	ca, err := e.authorities.CA(ctx, state.ClusterID, pki.Kubernetes)
	if err != nil {
		return nil, err
	}
	if cached, ok := e.configs.Get(state.ClusterID); ok && cached.ca == ca && e.driver.now().Before(cached.until) {
		return cached.config, nil
	}
	made, err := e.make(ctx, state, ca)
	if err != nil {
		return nil, err
	}
	e.configs.Add(state.ClusterID, made)
	return made.config, nil
}

// make lets the cluster's CA sign a certificate for its API server.
func (e *Endpoint) make(ctx context.Context, state postgres.Simulation, ca string) (*tlsConfig, error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		DNSNames:    []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{loopback(state.Number)},
	}, e.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	issued, err := e.authorities.Sign(ctx, state.ClusterID, pki.Kubernetes, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})))
	if err != nil {
		return nil, err
	}
	certificate, err := pki.ParseCertificate([]byte(issued.PEM))
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM([]byte(ca)) {
		return nil, fault.New(fault.Internal, "the CA of cluster %s is no certificate", state.ClusterID)
	}
	return &tlsConfig{ca: ca, until: certificate.NotAfter.Add(-renewBefore), config: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: e.key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}}, nil
}
