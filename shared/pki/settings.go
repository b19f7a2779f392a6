package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Settings are the rules of signing. The names and values are those of
// magnum.conf [x509], where there is one (spec/conductor.md §4.5).
type Settings struct {
	// KeyAlgorithm of new authorities and client certificates: rsa, or ecdsa for P-256.
	KeyAlgorithm string `envconfig:"CARAFE_X509_KEY_ALGORITHM" default:"rsa"`
	// RSAKeySize is the size of new RSA keys in bits. magnum.conf: rsa_key_size.
	RSAKeySize int `envconfig:"CARAFE_X509_RSA_KEY_SIZE" default:"2048"`
	// CALifetimeDays is how long an authority lasts. magnum.conf: term_of_validity,
	// there for authorities and certificates alike.
	CALifetimeDays int `envconfig:"CARAFE_X509_CA_LIFETIME_DAYS" default:"3650"`
	// LeafLifetimeDays is how long a signed certificate lasts, at most as long as
	// its authority.
	LeafLifetimeDays int `envconfig:"CARAFE_X509_LEAF_LIFETIME_DAYS" default:"365"`
	// AllowCA lets a request ask for an authority of its own. magnum.conf: allow_ca.
	AllowCA bool `envconfig:"CARAFE_X509_ALLOW_CA" default:"false"`
	// AllowedExtensions are taken over from a request; others are dropped, or
	// refused if they are critical. magnum.conf: allowed_extensions.
	AllowedExtensions []string `envconfig:"CARAFE_X509_ALLOWED_EXTENSIONS" default:"keyUsage,extendedKeyUsage,subjectAltName,basicConstraints,subjectKeyIdentifier"`
	// AllowedKeyUsage are the bits of keyUsage that a request may ask for.
	// magnum.conf: allowed_key_usage.
	AllowedKeyUsage []string `envconfig:"CARAFE_X509_ALLOWED_KEY_USAGE" default:"Digital Signature,Key Encipherment,Non Repudiation"`
	// The purposes that a request may ask for, by the authority that it asks
	// (names as openssl has them, or dotted OIDs; PB-61).
	KubernetesExtendedKeyUsage []string `envconfig:"CARAFE_X509_KUBERNETES_EXTENDED_KEY_USAGE" default:"clientAuth,serverAuth"`
	EtcdExtendedKeyUsage       []string `envconfig:"CARAFE_X509_ETCD_EXTENDED_KEY_USAGE" default:"clientAuth,serverAuth"`
	FrontProxyExtendedKeyUsage []string `envconfig:"CARAFE_X509_FRONT_PROXY_EXTENDED_KEY_USAGE" default:"clientAuth,serverAuth"`
}

// DefaultSettings are what an empty environment gives.
func DefaultSettings() Settings {
	purposes := []string{"clientAuth", "serverAuth"}
	return Settings{
		KeyAlgorithm:     "rsa",
		RSAKeySize:       2048,
		CALifetimeDays:   3650,
		LeafLifetimeDays: 365,
		AllowedExtensions: []string{
			"keyUsage", "extendedKeyUsage", "subjectAltName", "basicConstraints", "subjectKeyIdentifier",
		},
		AllowedKeyUsage:            []string{"Digital Signature", "Key Encipherment", "Non Repudiation"},
		KubernetesExtendedKeyUsage: purposes,
		EtcdExtendedKeyUsage:       purposes,
		FrontProxyExtendedKeyUsage: purposes,
	}
}

// Bounds of what is reasonable: a certificate of a hundred years is a typing error.
const (
	maxLifetimeDays = 36500
	minRSABits      = 2048
	maxRSABits      = 8192
)

// rules are checked settings in the form in which signing needs them.
type rules struct {
	key          func() (crypto.Signer, error)
	caLifetime   time.Duration
	leafLifetime time.Duration
	allowCA      bool
	extensions   map[string]bool // by dotted OID
	keyUsage     uint16          // bit n: the usage n of keyUsages
	purposes     map[Kind]map[string]bool
}

func (s Settings) compile() (rules, error) {
	var errs []error
	wrong := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	}
	r := rules{
		allowCA:    s.AllowCA,
		extensions: map[string]bool{},
		purposes:   map[Kind]map[string]bool{},
	}
	switch s.KeyAlgorithm {
	case "rsa":
		if s.RSAKeySize < minRSABits || s.RSAKeySize > maxRSABits || s.RSAKeySize%8 != 0 {
			wrong("CARAFE_X509_RSA_KEY_SIZE", "%d is not between %d and %d", s.RSAKeySize, minRSABits, maxRSABits)
		}
		r.key = func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, s.RSAKeySize) }
	case "ecdsa":
		r.key = func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }
	default:
		wrong("CARAFE_X509_KEY_ALGORITHM", "%q is neither rsa nor ecdsa", s.KeyAlgorithm)
	}
	days := func(setting string, n int) time.Duration {
		if n < 1 || n > maxLifetimeDays {
			wrong(setting, "%d is not between 1 and %d", n, maxLifetimeDays)
		}
		return time.Duration(n) * 24 * time.Hour
	}
	r.caLifetime = days("CARAFE_X509_CA_LIFETIME_DAYS", s.CALifetimeDays)
	r.leafLifetime = days("CARAFE_X509_LEAF_LIFETIME_DAYS", s.LeafLifetimeDays)

	for _, name := range trimmed(s.AllowedExtensions) {
		oid, ok := extensionOIDs[name]
		if !ok {
			wrong("CARAFE_X509_ALLOWED_EXTENSIONS", "%q is not known", name)
		}
		r.extensions[oid.String()] = true
	}
	for _, name := range trimmed(s.AllowedKeyUsage) {
		bit := slices.Index(keyUsages, name)
		if bit < 0 {
			wrong("CARAFE_X509_ALLOWED_KEY_USAGE", "%q is not known", name)
			continue
		}
		if !s.AllowCA && (bit == keyCertSign || bit == cRLSign) {
			continue // magnum/conductor/handlers/common/x509_operations.py: only with allow_ca
		}
		r.keyUsage |= 1 << bit
	}
	for _, p := range []struct {
		kind    Kind
		setting string
		names   []string
	}{
		{Kubernetes, "CARAFE_X509_KUBERNETES_EXTENDED_KEY_USAGE", s.KubernetesExtendedKeyUsage},
		{Etcd, "CARAFE_X509_ETCD_EXTENDED_KEY_USAGE", s.EtcdExtendedKeyUsage},
		{FrontProxy, "CARAFE_X509_FRONT_PROXY_EXTENDED_KEY_USAGE", s.FrontProxyExtendedKeyUsage},
	} {
		r.purposes[p.kind] = map[string]bool{}
		for _, name := range trimmed(p.names) {
			oid, err := purposeOID(name)
			if err != nil {
				wrong(p.setting, "%v", err)
				continue
			}
			r.purposes[p.kind][oid] = true
		}
	}
	return r, errors.Join(errs...)
}

// trimmed cuts what a line of an environment file leaves around the commas.
func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
