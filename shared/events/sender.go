package events

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"carafe/shared/fault"
)

// Sink is where a SinkBinding, or an operator, says that events go. The names
// are Knative's (knative/eventing pkg/apis/sources/v1/sinkbinding_lifecycle.go).
type Sink struct {
	// URL of the broker; empty means that this process has none to send to.
	URL string `envconfig:"K_SINK"`
	// Overrides are extensions to set on every event: {"extensions": {"name": "value"}}.
	Overrides string `envconfig:"K_CE_OVERRIDES"`
	// CACerts are PEM certificates to trust for an https sink, beside the system's
	// and those that the SinkBinding mounts.
	CACerts string `envconfig:"K_CA_CERTS"`
}

// Where a SinkBinding mounts what goes with the sink: the same for all programs
// (sinkbinding_lifecycle.go; pkg/eventingtls/trust_bundle.go, TrustBundleMountPath).
const (
	tokenFile   = "/oidc/token"
	trustBundle = "/knative-custom-certs/*.pem"
)

// Sender posts events to one address.
type Sender struct {
	url        string
	client     *http.Client
	extensions map[string]string
	tokenFile  string
}

// NewSender makes a Sender to the sink.
func NewSender(s Sink) (*Sender, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.New(fault.Invalid, "K_SINK is %q: it takes an http or https URL", s.URL)
	}
	var overrides struct {
		Extensions map[string]string `json:"extensions"`
	}
	if s.Overrides != "" {
		if err := json.Unmarshal([]byte(s.Overrides), &overrides); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "K_CE_OVERRIDES is not the JSON that a SinkBinding gives")
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = publishAtOne
	if u.Scheme == "https" {
		pool, err := trusted(s.CACerts)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Sender{
		url:        s.URL,
		client:     &http.Client{Transport: transport, Timeout: sendTimeout},
		extensions: overrides.Extensions,
		tokenFile:  tokenFile,
	}, nil
}

// trusted is the system's certificates, those given and those mounted.
func trusted(pem string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without any
	}
	if pem != "" && !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, fault.New(fault.Invalid, "K_CA_CERTS holds no certificate")
	}
	files, _ := filepath.Glob(trustBundle) // the pattern is well-formed
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("trust bundle of the sink: %w", err)
		}
		pool.AppendCertsFromPEM(raw)
	}
	return pool, nil
}

// Send posts the event once, in binary mode. Its error is transient
// (fault.Transient) if sending again can help. The event arrives at least once,
// not exactly once: a lost answer is sent again.
func (s *Sender) Send(ctx context.Context, e event.Event) error {
	e = e.Clone()
	for name, value := range s.extensions {
		e.SetExtension(name, value)
	}
	status, body, err := post(ctx, s.client, s.url, e, s.authorization())
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the broker cannot be reached")
	}
	if err := answer(status, body); err != nil {
		return fmt.Errorf("the broker %w", err)
	}
	return nil
}

// authorization is the token that a SinkBinding with an audience mounts, read
// each time: the kubelet renews it.
func (s *Sender) authorization() string {
	token, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return "" // this sink wants none
	}
	return "Bearer " + strings.TrimSpace(string(token))
}

// post sends the event and returns the answer's status and the beginning of its
// body. The trace travels in the event and, for the hop, in the HTTP header.
func post(ctx context.Context, client *http.Client, url string, e event.Event, authorization string) (int, string, error) {
	if err := e.Validate(); err != nil {
		return http.StatusBadRequest, err.Error(), nil // what any receiver would say
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, "", err
	}
	if err := cehttp.WriteRequest(binding.WithForceBinary(ctx), binding.ToMessage(&e), req); err != nil {
		return 0, "", fmt.Errorf("encode event %s: %w", e.ID(), err)
	}
	if tp, ok := e.Extensions()[ExtensionTraceparent].(string); ok {
		req.Header.Set("traceparent", tp)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorDataLength))
	if err != nil {
		return 0, "", fmt.Errorf("read the answer: %w", err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	return resp.StatusCode, strings.TrimSpace(string(body)), nil
}
