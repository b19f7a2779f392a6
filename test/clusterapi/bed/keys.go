//go:build clusterapi

package bed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// keys are the bed's own certificates: one authority, a pair for every server,
// one for the admin, and the service accounts' key.
type keys struct {
	folder, ca, cert, key, adminCert, adminKey, account, accountPublic string
	caPEM                                                              []byte
}

func makeKeys(folder string) (*keys, error) {
	dir := filepath.Join(folder, "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	k := &keys{
		folder: dir, ca: in("ca.crt"), cert: in("tls.crt"), key: in("tls.key"), adminCert: in("admin.crt"), adminKey: in("admin.key"),
		account: in("sa.key"), accountPublic: in("sa.pub"),
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bed"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	k.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	if err := os.WriteFile(k.ca, k.caPEM, 0o600); err != nil {
		return nil, err
	}
	leaf := func(cert, key string, subject pkix.Name, usage x509.ExtKeyUsage) error {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		}
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, template, authority, private.Public(), caKey)
		if err != nil {
			return err
		}
		if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			return err
		}
		return writeKey(key, private)
	}
	if err := leaf(k.cert, k.key, pkix.Name{CommonName: "bed"}, x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if err := leaf(k.adminCert, k.adminKey, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(k.accountPublic, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		return nil, err
	}
	return k, writeKey(k.account, account)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func writeKubeconfig(path, server string, k *keys) error {
	var parts []any
	parts = append(parts, server)
	for _, f := range []string{k.ca, k.adminCert, k.adminKey} {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		parts = append(parts, base64.StdEncoding.EncodeToString(data))
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: bed, cluster: {server: "%s", certificate-authority-data: "%s"}}]
users: [{name: admin, user: {client-certificate-data: "%s", client-key-data: "%s"}}]
contexts: [{name: bed, context: {cluster: bed, user: admin}}]
current-context: bed
`, parts...)
	return os.WriteFile(path, []byte(text), 0o600)
}
