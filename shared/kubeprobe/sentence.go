package kubeprobe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// sentence says in one sentence, for the owner of the cluster, why the API
// server could not be asked.
func (c *connection) sentence(err error) string {
	var broken *url.Error
	if errors.As(err, &broken) {
		err = broken.Err // without the URL
	}
	for _, explain := range []func(error) string{c.certificate, c.alert, c.network} {
		if s := explain(err); s != "" {
			return s
		}
	}
	return "The connection to the API server broke: " + clean(err.Error()) + "."
}

// certificate explains why we do not trust the server.
func (c *connection) certificate(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		host     x509.HostnameError
		invalid  x509.CertificateInvalidError
		noRecord tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "The API server's certificate is not signed by the cluster's CA."
	case errors.As(err, &host):
		return "The API server's certificate is not for " + c.base.Hostname() + "."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The API server's certificate has expired or is not valid yet."
	case errors.As(err, &invalid):
		return "The API server's certificate is not valid: " + clean(invalid.Error()) + "."
	case errors.As(err, &noRecord), errors.Is(err, http.ErrSchemeMismatch):
		return "The API server's address does not speak TLS."
	}
	return ""
}

// Alerts of RFC 8446 §6 with which a server refuses a client's certificate.
const (
	alertBadCertificate      = tls.AlertError(42)
	alertCertificateExpired  = tls.AlertError(45)
	alertCertificateUnknown  = tls.AlertError(46)
	alertUnknownCA           = tls.AlertError(48)
	alertCertificateRequired = tls.AlertError(116)
)

// alert explains why the server does not trust us. The type of an alert that
// came over TCP is crypto/tls's own; its text is that of an AlertError.
func (c *connection) alert(err error) string {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return ""
	}
	switch text := remote.Err.Error(); text {
	case alertCertificateExpired.Error():
		return "The API server does not let us in: our client certificate has expired."
	case alertUnknownCA.Error(), alertBadCertificate.Error(), alertCertificateUnknown.Error(), alertCertificateRequired.Error():
		return "The API server does not let us in: it does not accept our client certificate."
	default:
		return "The TLS handshake with the API server failed: " + text + "."
	}
}

// network explains why there was no connection, or no longer one.
func (c *connection) network(err error) string {
	var (
		dial *net.OpError
		dns  *net.DNSError
	)
	dialled := !errors.As(err, &dial) || dial.Op != "dial"
	switch {
	case errors.As(err, &dns):
		return "The name " + c.base.Hostname() + " of the API server is not known."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The API server at " + c.base.Host + " refuses the connection."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "The API server at " + c.base.Host + " cannot be reached: no route."
	case !dialled && isTimeout(err), strings.Contains(err.Error(), "TLS handshake timeout"):
		return "The API server at " + c.base.Host + " cannot be reached: no answer within " + c.settings.ConnectTimeout.String() + "."
	case isTimeout(err), errors.Is(err, net.ErrClosed): // it is the end of the time that closes our side
		return "The API server did not answer within " + c.settings.Timeout.String() + "."
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "The API server closed the connection."
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "The API server's address does not speak HTTP."
	}
	return ""
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || func() bool {
		var n net.Error
		return errors.As(err, &n) && n.Timeout()
	}()
}
