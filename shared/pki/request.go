package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"carafe/shared/fault"
)

// maxRequestBytes bounds the text of a request; real ones have two kilobytes.
const maxRequestBytes = 64 << 10

// Issued is a signed certificate and what to record of it.
type Issued struct {
	PEM       string
	Serial    string // hexadecimal
	Subject   string
	NotBefore time.Time
	NotAfter  time.Time
}

// Sign answers a certificate signing request by the authority of that kind: the
// subject and the key are the request's, the rest follows the rules of
// spec/conductor.md §4.6. Every fault of the request is Invalid, and its text
// never quotes the request (PB-62).
func (i *Issuer) Sign(ca *Authority, kind Kind, csr string) (Issued, error) {
	request, err := parseRequest(csr)
	if err != nil {
		return Issued{}, err
	}
	extensions, err := i.rules.filter(kind, request.Extensions)
	if err != nil {
		return Issued{}, err
	}
	notBefore, notAfter, err := i.leafValidity(ca)
	if err != nil {
		return Issued{}, err
	}
	id, err := keyID(request.PublicKey)
	if err != nil {
		return Issued{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		RawSubject:      request.RawSubject,
		NotBefore:       notBefore,
		NotAfter:        notAfter,
		SubjectKeyId:    id,
		AuthorityKeyId:  ca.Certificate.SubjectKeyId,
		ExtraExtensions: extensions,
	}, ca.Certificate, request.PublicKey, ca.key)
	if err != nil {
		return Issued{}, fmt.Errorf("sign request: %w", err)
	}
	// What x509 cannot read, Kubernetes cannot either: extensions are copied as
	// they came, and a broken one shows here.
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return Issued{}, invalidRequest("a requested extension is malformed", err)
	}
	return Issued{
		PEM:       string(encodeCertificate(der)),
		Serial:    c.SerialNumber.Text(16),
		Subject:   c.Subject.String(),
		NotBefore: c.NotBefore,
		NotAfter:  c.NotAfter,
	}, nil
}

// parseRequest reads one PKCS#10 request out of a PEM text, with whatever
// openssl or a mail wrote around it.
func parseRequest(text string) (*x509.CertificateRequest, error) {
	if len(text) > maxRequestBytes {
		return nil, invalidRequest("it is longer than 64 KiB", nil)
	}
	var der []byte
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return nil, invalidRequest("it holds a private key: keep that to yourself and send the request only", nil)
		case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
			continue
		case der != nil:
			return nil, invalidRequest("it holds more than one request", nil)
		}
		der = block.Bytes
	}
	if der == nil {
		return nil, invalidRequest("no PEM block CERTIFICATE REQUEST found", nil)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, invalidRequest("it is malformed", err)
	}
	if err := checkStrength(request); err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, invalidRequest("signature check failed", err) // PB-59
	}
	return request, nil
}

// checkStrength refuses keys that a certificate authority should not vouch for
// (PB-61), and such that would only cost us time.
func checkStrength(request *x509.CertificateRequest) error {
	switch key := request.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fault.New(fault.Invalid, "Received invalid csr: its RSA key has %d bits, allowed are %d to %d.",
				bits, minRSABits, maxRSABits)
		}
	case *ecdsa.PublicKey:
		if key.Params().BitSize < 256 {
			return fault.New(fault.Invalid, "Received invalid csr: its curve %s is too weak, P-256 or more is needed.",
				key.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return invalidRequest("its kind of key is not supported, use RSA, ECDSA or Ed25519", nil)
	}
	return nil
}

func invalidRequest(why string, cause error) error {
	return fault.Wrap(fault.Invalid, cause, "Received invalid csr: %s.", why)
}
