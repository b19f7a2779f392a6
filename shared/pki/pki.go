// Package pki makes the certificate authorities of a cluster and signs what
// people and machines ask of them (spec/conductor.md §4). It keeps nothing and
// reaches nowhere: keys come in and certificates go out.
package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"carafe/shared/driver"
	"carafe/shared/fault"
)

// Kind names one of the four secrets of a cluster.
type Kind string

const (
	Kubernetes Kind = "kubernetes"
	Etcd       Kind = "etcd"
	FrontProxy Kind = "front_proxy"
	Client     Kind = "client" // admin of system:masters, signed by Kubernetes
)

// Kinds are all kinds in the order in which they are made: an authority before
// what it signs.
var Kinds = []Kind{Kubernetes, Etcd, FrontProxy, Client}

// Authority reports whether certificates are signed by this kind.
func (k Kind) Authority() bool { return k != Client }

// String is the kind as people write it.
func (k Kind) String() string { return strings.ReplaceAll(string(k), "_", "-") }

// caCertTypes are the values of ca_cert_type. The documentation of Magnum names
// kubelet, which has always meant the Kubernetes CA.
var caCertTypes = map[string]Kind{
	"":            Kubernetes,
	"kubernetes":  Kubernetes,
	"kubelet":     Kubernetes,
	"etcd":        Etcd,
	"front-proxy": FrontProxy,
	"front_proxy": FrontProxy,
}

// ParseCACertType gives the authority that ca_cert_type means; empty means
// Kubernetes. An unknown value is Invalid: Magnum took it for Kubernetes, so
// that a misspelt etcd got a certificate of the wrong authority (B75, PB-63).
func ParseCACertType(s string) (Kind, error) {
	kind, ok := caCertTypes[s]
	if !ok {
		return "", fault.New(fault.Invalid,
			"Invalid input for field/attribute ca_cert_type. Value: '%s'. Value should be one of: kubernetes, kubelet, etcd, front-proxy, front_proxy", s)
	}
	return kind, nil
}

// skew is how far a validity begins in the past, for nodes whose clocks are behind.
const skew = 24 * time.Hour

// Issuer makes authorities and signs requests by one set of rules. It is safe
// for concurrent use.
type Issuer struct {
	rules rules
	now   func() time.Time
	// making bounds the keys that are made at one time, so that one core is left to
	// those who wait for an answer: an RSA key takes a hundred times what a request does.
	making chan struct{}
}

// New checks the settings, all of them at once, and gives an Issuer.
func New(s Settings, now func() time.Time) (*Issuer, error) {
	r, err := s.compile()
	if err != nil {
		return nil, err
	}
	return &Issuer{rules: r, now: now, making: make(chan struct{}, max(runtime.GOMAXPROCS(0)-1, 1))}, nil
}

func (i *Issuer) key() (crypto.Signer, error) {
	i.making <- struct{}{}
	defer func() { <-i.making }()
	return i.rules.key()
}

// Authority makes a new self-signed authority of the cluster. Its common name
// tells kind, cluster and epoch apart (PB-65), and fits into the 64 characters
// of X.509 whatever the cluster's name (PB-18).
func (i *Issuer) Authority(kind Kind, clusterUUID string, epoch int) (driver.KeyPair, error) {
	if !kind.Authority() {
		return driver.KeyPair{}, fmt.Errorf("%s is no authority", kind)
	}
	key, err := i.key()
	if err != nil {
		return driver.KeyPair{}, err
	}
	id, err := keyID(key.Public())
	if err != nil {
		return driver.KeyPair{}, err
	}
	now := i.now().UTC()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s-ca-%s-%d", kind, clusterUUID, epoch)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(i.rules.caLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		SubjectKeyId:          id,
		AuthorityKeyId:        id,
	}
	return sign(template, template, key.Public(), key, key)
}

// ClientPair makes the key and the certificate with which Carafe itself enters
// the cluster: admin of system:masters.
func (i *Issuer) ClientPair(ca *Authority) (driver.KeyPair, error) {
	key, err := i.key()
	if err != nil {
		return driver.KeyPair{}, err
	}
	return i.clientFor(ca, key)
}

// RenewClient signs a new client certificate for the key of an old one. The key
// stays, because a cluster may use it as its service account key.
func (i *Issuer) RenewClient(ca *Authority, old driver.KeyPair) (driver.KeyPair, error) {
	key, err := ParseKey(old.Key)
	if err != nil {
		return driver.KeyPair{}, err
	}
	return i.clientFor(ca, key)
}

func (i *Issuer) clientFor(ca *Authority, key crypto.Signer) (driver.KeyPair, error) {
	// Marshalled by hand because pkix.Name would put O before CN.
	subject, err := asn1.Marshal(pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "system:masters"}},
	})
	if err != nil {
		return driver.KeyPair{}, fmt.Errorf("marshal subject: %w", err)
	}
	notBefore, notAfter, err := i.leafValidity(ca)
	if err != nil {
		return driver.KeyPair{}, err
	}
	id, err := keyID(key.Public())
	if err != nil {
		return driver.KeyPair{}, err
	}
	return sign(&x509.Certificate{
		RawSubject:            subject,
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          id,
		AuthorityKeyId:        ca.Certificate.SubjectKeyId,
	}, ca.Certificate, key.Public(), ca.key, key)
}

// leafValidity is the span of a certificate signed now. It lies within the
// authority's own: a longer one would outlive what it is checked against (PB-61).
func (i *Issuer) leafValidity(ca *Authority) (notBefore, notAfter time.Time, err error) {
	now := i.now().UTC()
	if !now.Before(ca.Certificate.NotAfter) {
		return notBefore, notAfter, fault.New(fault.Conflict,
			"The CA of the cluster has expired on %s: rotate it first.", ca.Certificate.NotAfter.Format(time.DateOnly))
	}
	notBefore, notAfter = now.Add(-skew), now.Add(i.rules.leafLifetime)
	if notBefore.Before(ca.Certificate.NotBefore) {
		notBefore = ca.Certificate.NotBefore
	}
	if notAfter.After(ca.Certificate.NotAfter) {
		notAfter = ca.Certificate.NotAfter
	}
	return notBefore, notAfter, nil
}

// Authority is a certificate authority with its key, ready to sign.
type Authority struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// LoadAuthority reads a pair that Authority made, or that Magnum made and
// somebody decrypted (DecryptKey).
func LoadAuthority(pair driver.KeyPair) (*Authority, error) {
	certificate, key, err := load(pair)
	if err != nil {
		return nil, err
	}
	return &Authority{Certificate: certificate, key: key}, nil
}

// CheckPair says what is wrong with a pair: that it cannot be read, or that the
// key is not the certificate's.
func CheckPair(pair driver.KeyPair) error {
	_, _, err := load(pair)
	return err
}

func load(pair driver.KeyPair) (*x509.Certificate, crypto.Signer, error) {
	certificate, err := ParseCertificate(pair.Certificate)
	if err != nil {
		return nil, nil, err
	}
	key, err := ParseKey(pair.Key)
	if err != nil {
		return nil, nil, err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("the key does not belong to the certificate")
	}
	return certificate, key, nil
}

// keyID is the subject key identifier of a key: the first 160 bits of the
// SHA-256 of its bit string (RFC 7093, method 1).
func keyID(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("marshal public key: %w", err)
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, fmt.Errorf("unmarshal public key: %w", err)
	}
	sum := sha256.Sum256(info.Key.Bytes)
	return sum[:20], nil
}

// sign issues a certificate and gives it with the subject's own key. The serial
// number is left to x509: 20 random bytes.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer, own crypto.Signer) (driver.KeyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return driver.KeyPair{}, fmt.Errorf("sign certificate: %w", err)
	}
	key, err := encodeKey(own)
	if err != nil {
		return driver.KeyPair{}, err
	}
	return driver.KeyPair{Certificate: encodeCertificate(der), Key: key}, nil
}
