package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kelseyhightower/envconfig"

	"carafe/shared/driver"
	"carafe/shared/fault"
)

const cluster = "28ce9b72-2324-415d-abc0-503233dd9fc2"

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.FixedZone("UTC+9", 9*3600)) // 03:00 UTC

func issuer(t testing.TB, change func(*Settings)) *Issuer {
	t.Helper()
	s := DefaultSettings()
	s.KeyAlgorithm = "ecdsa" // quick; RSA has its own tests
	if change != nil {
		change(&s)
	}
	i, err := New(s, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func authority(t testing.TB, i *Issuer, kind Kind) (*Authority, driver.KeyPair) {
	t.Helper()
	pair, err := i.Authority(kind, cluster, 1)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := LoadAuthority(pair)
	if err != nil {
		t.Fatal(err)
	}
	return ca, pair
}

// openssl runs the real tool in a folder of the test.
func openssl(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := opensslTry(t, dir, args...)
	if err != nil {
		t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func opensslTry(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAuthorityIsWhatTheSpecificationSays(t *testing.T) {
	for _, algorithm := range []string{"rsa", "ecdsa"} {
		t.Run(algorithm, func(t *testing.T) {
			i := issuer(t, func(s *Settings) { s.KeyAlgorithm = algorithm })
			ca, pair := authority(t, i, FrontProxy)
			c := ca.Certificate
			if got, want := c.Subject.String(), "CN=front-proxy-ca-"+cluster+"-1"; got != want {
				t.Errorf("subject %q, want %q", got, want)
			}
			if !bytes.Equal(c.RawIssuer, c.RawSubject) {
				t.Error("not self-issued")
			}
			if got, want := c.NotBefore, noon.UTC().Add(-24*time.Hour); !got.Equal(want) {
				t.Errorf("not before %v, want %v", got, want)
			}
			if got, want := c.NotAfter, noon.UTC().Add(3650*24*time.Hour); !got.Equal(want) {
				t.Errorf("not after %v, want %v", got, want)
			}
			if !c.IsCA || !c.MaxPathLenZero || c.MaxPathLen != 0 || !c.BasicConstraintsValid {
				t.Error("basic constraints are not CA with path length 0")
			}
			if c.KeyUsage != x509.KeyUsageCertSign {
				t.Errorf("key usage %b", c.KeyUsage)
			}
			if len(c.SubjectKeyId) != 20 || !bytes.Equal(c.SubjectKeyId, c.AuthorityKeyId) {
				t.Errorf("subject key id %x, authority key id %x", c.SubjectKeyId, c.AuthorityKeyId)
			}
			if bytes.HasSuffix(pair.Certificate, []byte("\n")) {
				t.Error("the PEM ends with a newline, unlike Magnum's")
			}
			if !bytes.HasPrefix(pair.Key, []byte("-----BEGIN PRIVATE KEY-----\n")) {
				t.Error("the key is not plain PKCS#8")
			}
			switch key := c.PublicKey.(type) {
			case *rsa.PublicKey:
				if algorithm != "rsa" || key.N.BitLen() != 2048 || key.E != 65537 || c.SignatureAlgorithm != x509.SHA256WithRSA {
					t.Errorf("key of %d bits, signature %v", key.N.BitLen(), c.SignatureAlgorithm)
				}
			case *ecdsa.PublicKey:
				if algorithm != "ecdsa" || key.Params().Name != "P-256" {
					t.Errorf("curve %s", key.Params().Name)
				}
			}
			dir := t.TempDir()
			write(t, dir, "ca.pem", pair.Certificate)
			openssl(t, dir, "verify", "-x509_strict", "-check_ss_sig", "-CAfile", "ca.pem", "ca.pem")
		})
	}
}

func TestSameTimeAndRandomnessGiveTheSameAuthority(t *testing.T) {
	i := issuer(t, func(s *Settings) { s.KeyAlgorithm = "rsa" })
	cryptotest.SetGlobalRandom(t, 7)
	_, first := authority(t, i, Etcd)
	cryptotest.SetGlobalRandom(t, 7)
	_, again := authority(t, i, Etcd)
	cryptotest.SetGlobalRandom(t, 8)
	_, other := authority(t, i, Etcd)
	if !bytes.Equal(first.Certificate, again.Certificate) || !bytes.Equal(first.Key, again.Key) {
		t.Error("not deterministic")
	}
	if bytes.Equal(first.Key, other.Key) {
		t.Error("other randomness, same key")
	}
}

func TestAuthoritiesOfAClusterDifferInName(t *testing.T) {
	i := issuer(t, nil)
	seen := map[string]bool{}
	for epoch := 1; epoch <= 2; epoch++ {
		for _, kind := range []Kind{Kubernetes, Etcd, FrontProxy} {
			pair, err := i.Authority(kind, cluster, epoch)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ParseCertificate(pair.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			seen[c.Subject.CommonName] = true
			if len(c.Subject.CommonName) > 64 {
				t.Errorf("common name of %d characters", len(c.Subject.CommonName))
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d names for 6 authorities", len(seen))
	}
}

func TestClientCertificate(t *testing.T) {
	i := issuer(t, nil)
	ca, caPair := authority(t, i, Kubernetes)
	pair, err := i.ClientPair(ca)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "ca.pem", caPair.Certificate)
	write(t, dir, "client.pem", pair.Certificate)
	openssl(t, dir, "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", "ca.pem", "client.pem")
	if out, err := opensslTry(t, dir, "verify", "-purpose", "sslserver", "-CAfile", "ca.pem", "client.pem"); err == nil {
		t.Errorf("the client certificate is good for servers: %s", out)
	}
	if got, want := strings.TrimSpace(openssl(t, dir, "x509", "-in", "client.pem", "-noout", "-subject")),
		"subject=CN = admin, O = system:masters"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	text := openssl(t, dir, "x509", "-in", "client.pem", "-noout", "-text")
	for _, want := range []string{
		"X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment",
		"X509v3 Extended Key Usage: \n                TLS Web Client Authentication",
		"X509v3 Basic Constraints: critical\n                CA:FALSE",
		"X509v3 Subject Key Identifier",
		"X509v3 Authority Key Identifier",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the certificate lacks %q:\n%s", want, text)
		}
	}

	later := issuer(t, nil)
	later.now = func() time.Time { return noon.AddDate(0, 11, 0) }
	renewed, err := later.RenewClient(ca, pair)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(renewed.Key, pair.Key) {
		t.Error("renewal changed the key")
	}
	c, err := ParseCertificate(renewed.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if want := noon.AddDate(0, 11, 365).UTC(); !c.NotAfter.Equal(want) {
		t.Errorf("renewed until %v, want %v", c.NotAfter, want)
	}
}

func TestLeafNeverOutlivesItsAuthority(t *testing.T) {
	i := issuer(t, func(s *Settings) { s.CALifetimeDays = 100 })
	ca, _ := authority(t, i, Kubernetes)
	i.now = func() time.Time { return noon.AddDate(0, 0, 60) }
	pair, err := i.ClientPair(ca)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCertificate(pair.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotAfter.Equal(ca.Certificate.NotAfter) {
		t.Errorf("leaf until %v, authority until %v", c.NotAfter, ca.Certificate.NotAfter)
	}
	i.now = func() time.Time { return noon }
	if pair, err = i.ClientPair(ca); err != nil {
		t.Fatal(err)
	}
	if c, _ = ParseCertificate(pair.Certificate); c.NotBefore.Before(ca.Certificate.NotBefore) {
		t.Errorf("leaf from %v, authority from %v", c.NotBefore, ca.Certificate.NotBefore)
	}
	i.now = func() time.Time { return noon.AddDate(0, 0, 101) }
	if _, err := i.ClientPair(ca); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.Text(err), "expired") {
		t.Errorf("expired authority: %v", err)
	}
}

func TestParseCACertType(t *testing.T) {
	for in, want := range map[string]Kind{
		"": Kubernetes, "kubernetes": Kubernetes, "kubelet": Kubernetes,
		"etcd": Etcd, "front-proxy": FrontProxy, "front_proxy": FrontProxy,
	} {
		if got, err := ParseCACertType(in); got != want || err != nil {
			t.Errorf("%q: %v %v", in, got, err)
		}
	}
	for _, in := range []string{"magnum", "client", "ETCD", " etcd"} {
		if _, err := ParseCACertType(in); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Text(err), "front-proxy, front_proxy") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestSettingsSayAllThatIsWrong(t *testing.T) {
	s := DefaultSettings()
	s.KeyAlgorithm = "dsa"
	s.CALifetimeDays = 0
	s.AllowedExtensions = []string{"keyusage"}
	s.AllowedKeyUsage = []string{"Sign Everything"}
	s.EtcdExtendedKeyUsage = []string{"everything"}
	_, err := New(s, time.Now)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"KEY_ALGORITHM", "CA_LIFETIME_DAYS", "ALLOWED_EXTENSIONS", "ALLOWED_KEY_USAGE", "ETCD_EXTENDED_KEY_USAGE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	s = DefaultSettings()
	s.RSAKeySize = 1024
	if _, err := New(s, time.Now); err == nil {
		t.Error("an RSA key of 1024 bits was accepted")
	}
}

func TestDefaultsAreThoseOfAnEmptyEnvironment(t *testing.T) {
	var got Settings
	if err := envconfig.Process("", &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultSettings(), got); diff != "" {
		t.Error(diff)
	}
}

func TestDecryptKeyOfMagnum(t *testing.T) {
	dir := t.TempDir()
	openssl(t, dir, "genrsa", "-out", "plain.pem", "2048")
	// What Magnum's library writes (spec/conductor.md §4.2).
	openssl(t, dir, "pkcs8", "-topk8", "-in", "plain.pem", "-out", "sha256.pem", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA256", "-iter", "2048", "-passout", "pass:mfzwizltoqzd")
	// What older releases of it wrote.
	openssl(t, dir, "pkcs8", "-topk8", "-in", "plain.pem", "-out", "sha1.pem", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA1", "-passout", "pass:mfzwizltoqzd")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want, err := ParseKey(read("plain.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sha256.pem", "sha1.pem", "plain.pem"} {
		text, err := DecryptKey(read(name), []byte("mfzwizltoqzd"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := ParseKey(text)
		if err != nil || !got.(*rsa.PrivateKey).Equal(want) {
			t.Errorf("%s: another key came out (%v)", name, err)
		}
	}
	if _, err := DecryptKey(read("sha256.pem"), []byte("wrong")); err == nil {
		t.Error("a wrong passphrase opened the key")
	}
	if _, err := DecryptKey([]byte("nothing"), nil); err == nil {
		t.Error("no PEM was accepted")
	}
}

func TestLoadAuthorityRefusesAForeignKey(t *testing.T) {
	i := issuer(t, nil)
	_, a := authority(t, i, Etcd)
	_, b := authority(t, i, Etcd)
	if _, err := LoadAuthority(driver.KeyPair{Certificate: a.Certificate, Key: b.Key}); err == nil {
		t.Error("accepted")
	}
}

func BenchmarkSign(b *testing.B) {
	i := issuer(b, func(s *Settings) { s.KeyAlgorithm = "rsa" })
	ca, _ := authority(b, i, Kubernetes)
	csr := openSSLRequest(b, "rsa:2048", "/CN=admin/O=system:masters", "")
	for b.Loop() {
		if _, err := i.Sign(ca, Kubernetes, csr); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRawRSA is what BenchmarkSign is measured against.
func BenchmarkRawRSA(b *testing.B) {
	i := issuer(b, func(s *Settings) { s.KeyAlgorithm = "rsa" })
	ca, _ := authority(b, i, Kubernetes)
	sum := sha256.Sum256([]byte("x"))
	for b.Loop() {
		if _, err := ca.key.Sign(nil, sum[:], crypto.SHA256); err != nil {
			b.Fatal(err)
		}
	}
}
