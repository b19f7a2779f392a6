package pki

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carafe/shared/fault"
)

// openSSLRequest makes a request with openssl; extensions are lines of its
// configuration, as people write them.
func openSSLRequest(t testing.TB, key, subject, extensions string) string {
	t.Helper()
	dir := t.TempDir()
	config := "[req]\ndistinguished_name=dn\n[dn]\n"
	args := []string{"req", "-new", "-nodes", "-keyout", "key.pem", "-subj", subject, "-config", "req.cnf"}
	if extensions != "" {
		config += "[ext]\n" + extensions + "\n"
		args = append(args, "-reqexts", "ext")
	}
	write(t, dir, "req.cnf", []byte(config))
	if key == "rsa:2048" {
		write(t, dir, "key.pem", rsaKey())
		args = append(args, "-key", "key.pem")
	} else if curve, ok := strings.CutPrefix(key, "ec:"); ok {
		args = append(args, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:"+curve)
	} else {
		args = append(args, "-newkey", key)
	}
	openssl(t, dir, append(args, "-batch", "-utf8", "-out", "request.pem")...)
	text, err := os.ReadFile(filepath.Join(dir, "request.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rsaKey is one key for all requests of the tests: making them takes the most time.
var rsaKey = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	text, err := encodeKey(key)
	if err != nil {
		panic(err)
	}
	return text
})

// goRequest makes a request with extensions of any content.
func goRequest(t testing.TB, extensions ...pkix.Extension) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "u"}, ExtraExtensions: extensions,
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func TestSignWhatClientsSend(t *testing.T) {
	i := issuer(t, nil)
	ca, caPair := authority(t, i, Kubernetes)
	for _, tc := range []struct {
		name       string
		csr        string
		subject    string
		extensions []string // names of what openssl shows, besides the key identifiers
	}{
		{
			name:    "KubeconfigOfTheClient",
			csr:     openSSLRequest(t, "rsa:2048", "/CN=admin/O=system:masters", ""),
			subject: "subject=CN = admin, O = system:masters",
		}, {
			name:    "Terraform",
			csr:     openSSLRequest(t, "rsa:4096", "/CN=admin/O=system:masters/OU=terraform", ""),
			subject: "subject=CN = admin, O = system:masters, OU = terraform",
		}, {
			name: "Kubelet",
			csr: openSSLRequest(t, "ec:P-256", "/CN=system:node:n1/O=system:nodes",
				"keyUsage=critical,digitalSignature,keyEncipherment\nextendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=DNS:n1,IP:10.0.0.7\nbasicConstraints=CA:FALSE"),
			subject: "subject=CN = system:node:n1, O = system:nodes",
			extensions: []string{
				"X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment",
				"TLS Web Client Authentication, TLS Web Server Authentication",
				"DNS:n1, IP Address:10.0.0.7", "CA:FALSE",
			},
		}, {
			name:       "RequestedKeyIdentifierIsIgnored", // PB-60
			csr:        openSSLRequest(t, "rsa:2048", "/CN=x", "subjectKeyIdentifier=DEADBEEF\nsubjectAltName=DNS:x"),
			subject:    "subject=CN = x",
			extensions: []string{"DNS:x"},
		}, {
			name:    "CriticalKeyIdentifierToo",
			csr:     openSSLRequest(t, "rsa:2048", "/CN=x", "subjectKeyIdentifier=critical,DEADBEEF"),
			subject: "subject=CN = x",
		}, {
			name:    "Ed25519",
			csr:     openSSLRequest(t, "ed25519", "/CN=x", ""),
			subject: "subject=CN = x",
		}, {
			name:    "DroppedBecauseNotAllowed",
			csr:     openSSLRequest(t, "rsa:2048", "/CN=x", "1.2.3.4=DER:0500\nnsComment=hello"),
			subject: "subject=CN = x",
		}, {
			name:       "UsageBitsAreCleared",
			csr:        openSSLRequest(t, "rsa:2048", "/CN=x", "keyUsage=digitalSignature,keyCertSign,cRLSign,decipherOnly"),
			subject:    "subject=CN = x",
			extensions: []string{"X509v3 Key Usage: \n                Digital Signature\n"},
		}, {
			name:    "NoUsageLeft",
			csr:     openSSLRequest(t, "rsa:2048", "/CN=x", "keyUsage=keyCertSign"),
			subject: "subject=CN = x",
		}, {
			name:       "AuthorityBecomesLeaf",
			csr:        openSSLRequest(t, "rsa:2048", "/CN=x", "basicConstraints=CA:TRUE,pathlen:3"),
			subject:    "subject=CN = x",
			extensions: []string{"X509v3 Basic Constraints: \n                CA:FALSE"},
		}, {
			name:       "ForeignPurposeIsTakenAway",
			csr:        openSSLRequest(t, "rsa:2048", "/CN=x", "extendedKeyUsage=clientAuth,codeSigning"),
			subject:    "subject=CN = x",
			extensions: []string{"X509v3 Extended Key Usage: \n                TLS Web Client Authentication\n"},
		}, {
			name:    "TextAroundTheRequest",
			csr:     "Certificate Request:\n    Data:\n" + openSSLRequest(t, "rsa:2048", "/CN=x", "") + "\nregards\n",
			subject: "subject=CN = x",
		}, {
			name:    "WindowsLineEnds",
			csr:     strings.ReplaceAll(openSSLRequest(t, "rsa:2048", "/CN=x", ""), "\n", "\r\n"),
			subject: "subject=CN = x",
		}, {
			name:    "OldHeader",
			csr:     strings.ReplaceAll(openSSLRequest(t, "rsa:2048", "/CN=x", ""), " CERTIFICATE REQUEST", " NEW CERTIFICATE REQUEST"),
			subject: "subject=CN = x",
		}, {
			name:    "NamesInAnyLanguage",
			csr:     openSSLRequest(t, "rsa:2048", "/CN=Ωμέγα/O=\u30af\u30e9\u30b9\u30bf", ""),
			subject: "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			issued, err := i.Sign(ca, Kubernetes, tc.csr)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, dir, "ca.pem", caPair.Certificate)
			write(t, dir, "leaf.pem", []byte(issued.PEM))
			openssl(t, dir, "verify", "-CAfile", "ca.pem", "leaf.pem")
			if got := strings.TrimSpace(openssl(t, dir, "x509", "-in", "leaf.pem", "-noout", "-subject")); tc.subject != "" && got != tc.subject {
				t.Errorf("%q, want %q", got, tc.subject)
			}
			text := openssl(t, dir, "x509", "-in", "leaf.pem", "-noout", "-text")
			for _, want := range tc.extensions {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			c, err := ParseCertificate([]byte(issued.PEM))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(c.Extensions), len(tc.extensions)+2; got != want {
				t.Errorf("%d extensions, want %d:\n%s", got, want, text)
			}
			if c.IsCA || len(c.SubjectKeyId) != 20 || string(c.AuthorityKeyId) != string(ca.Certificate.SubjectKeyId) {
				t.Errorf("CA %v, subject key id %x, authority key id %x", c.IsCA, c.SubjectKeyId, c.AuthorityKeyId)
			}
			if got := c.NotAfter; !got.Equal(noon.Add(365 * 24 * time.Hour)) {
				t.Errorf("not after %v", got)
			}
			if issued.Serial != c.SerialNumber.Text(16) || issued.Subject != c.Subject.String() {
				t.Errorf("recorded %q %q of %v", issued.Serial, issued.Subject, c.Subject)
			}
		})
	}
}

func TestSignRefuses(t *testing.T) {
	i := issuer(t, nil)
	ca, _ := authority(t, i, Kubernetes)
	good := openSSLRequest(t, "rsa:2048", "/CN=admin", "")
	block, _ := pem.Decode([]byte(good))
	tampered := append([]byte(nil), block.Bytes...)
	at := strings.Index(string(tampered), "admin")
	copy(tampered[at:], "root!")
	oid := func(numbers ...int) asn1.ObjectIdentifier { return numbers }
	ku, eku, bc, san := oid(2, 5, 29, 15), oid(2, 5, 29, 37), oid(2, 5, 29, 19), oid(2, 5, 29, 17)
	for _, tc := range []struct {
		name, csr, want string
	}{
		{"Nothing", "", "Received invalid csr: no PEM block CERTIFICATE REQUEST found."},
		{"Nonsense", "nonsense", "Received invalid csr: no PEM block CERTIFICATE REQUEST found."},
		{"NotLatin1", "\u0100\xff", "Received invalid csr: no PEM block CERTIFICATE REQUEST found."},
		{"Certificate", strings.ReplaceAll(good, "CERTIFICATE REQUEST", "CERTIFICATE X"), "Received invalid csr: no PEM block CERTIFICATE REQUEST found."},
		{"Two", good + good, "Received invalid csr: it holds more than one request."},
		{"PrivateKey", "-----BEGIN PRIVATE KEY-----\nMEECAQ==\n-----END PRIVATE KEY-----\n" + good, "Received invalid csr: it holds a private key: keep that to yourself and send the request only."},
		{"TooLong", strings.Repeat("x", 65<<10), "Received invalid csr: it is longer than 64 KiB."},
		{"Garbage", "-----BEGIN CERTIFICATE REQUEST-----\nMEECAQ==\n-----END CERTIFICATE REQUEST-----\n", "Received invalid csr: it is malformed."},
		{"Tampered", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: tampered})), "Received invalid csr: signature check failed."},
		{"SmallKey", openSSLRequest(t, "rsa:1024", "/CN=x", ""), "Received invalid csr: its RSA key has 1024 bits, allowed are 2048 to 8192."},
		{"WeakCurve", openSSLRequest(t, "ec:P-224", "/CN=x", ""), "Received invalid csr: its curve P-224 is too weak, P-256 or more is needed."},
		{"UnknownCurve", openSSLRequest(t, "ec:secp256k1", "/CN=x", ""), "Received invalid csr: it is malformed."},
		{"CriticalUnknown", openSSLRequest(t, "rsa:2048", "/CN=x", "1.2.3.4=critical,DER:0500"), "Extension '1.2.3.4' not allowed"},
		{"CriticalNotAllowed", openSSLRequest(t, "rsa:2048", "/CN=x", "nameConstraints=critical,permitted;DNS:x"), "Extension 'nameConstraints' not allowed"},
		{"CriticalUsage", openSSLRequest(t, "rsa:2048", "/CN=x", "keyUsage=critical,digitalSignature,keyCertSign"), "Extension 'keyUsage' not allowed"},
		{"CriticalAuthority", openSSLRequest(t, "rsa:2048", "/CN=x", "basicConstraints=critical,CA:TRUE"), "Extension 'basicConstraints' not allowed"},
		{"OnlyForeignPurposes", openSSLRequest(t, "rsa:2048", "/CN=x", "extendedKeyUsage=codeSigning"), "Extension 'extendedKeyUsage' not allowed: the kubernetes CA does not sign for codeSigning."},
		{"AnyPurpose", openSSLRequest(t, "rsa:2048", "/CN=x", "extendedKeyUsage=critical,clientAuth,anyExtendedKeyUsage"), "Extension 'extendedKeyUsage' not allowed: the kubernetes CA does not sign for any."},
		{"MalformedUsage", goRequest(t, pkix.Extension{Id: ku, Value: []byte{5, 0}}), "Received invalid csr: the extension keyUsage is malformed."},
		{"TrailingBytes", goRequest(t, pkix.Extension{Id: bc, Value: []byte{0x30, 0, 0}}), "Received invalid csr: the extension basicConstraints is malformed."},
		{"EmptyPurposes", goRequest(t, pkix.Extension{Id: eku, Value: []byte{0x30, 0}}), "Received invalid csr: the extension extendedKeyUsage is malformed."},
		{"MalformedNames", goRequest(t, pkix.Extension{Id: san, Value: []byte{0x30, 3, 0x82, 5, 1}}), "Received invalid csr: it is malformed."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := i.Sign(ca, Kubernetes, tc.csr)
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			if got := fault.Text(err); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestSettingsWidenAndNarrow(t *testing.T) {
	i := issuer(t, func(s *Settings) {
		s.AllowCA = true
		s.AllowedKeyUsage = append(s.AllowedKeyUsage, "Certificate Sign")
		s.AllowedExtensions = []string{" keyUsage", "basicConstraints", "extendedKeyUsage", "certificatePolicies"}
		s.FrontProxyExtendedKeyUsage = []string{"1.2.3.4"}
	})
	ca, _ := authority(t, i, FrontProxy)
	issued, err := i.Sign(ca, FrontProxy, openSSLRequest(t, "rsa:2048", "/CN=x",
		"basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectAltName=DNS:dropped\ncertificatePolicies=1.2.3\nextendedKeyUsage=1.2.3.4"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCertificate([]byte(issued.PEM))
	if err != nil {
		t.Fatal(err)
	}
	if !c.IsCA || c.KeyUsage != x509.KeyUsageCertSign || len(c.DNSNames) != 0 || len(c.PolicyIdentifiers) != 1 || len(c.UnknownExtKeyUsage) != 1 {
		t.Errorf("CA %v, usage %b, names %v, policies %v, purposes %v", c.IsCA, c.KeyUsage, c.DNSNames, c.PolicyIdentifiers, c.UnknownExtKeyUsage)
	}
	_, err = i.Sign(ca, FrontProxy, openSSLRequest(t, "rsa:2048", "/CN=x", "extendedKeyUsage=clientAuth"))
	if got, want := fault.Text(err), "Extension 'extendedKeyUsage' not allowed: the front-proxy CA does not sign for clientAuth."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRecordedRequests signs every request that a real client sent to Magnum
// (test/golden/recorded), and agrees with Magnum but for what its bugs let through.
func TestRecordedRequests(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "test", "golden", "recorded", "api-certificates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i := issuer(t, nil)
	ca, _ := authority(t, i, Kubernetes)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var exchange struct {
			Case, Method string
			Status       int
			Body         json.RawMessage `json:"request_body"`
		}
		if err := json.Unmarshal(lines.Bytes(), &exchange); err != nil {
			t.Fatal(err)
		}
		var body struct{ CSR string }
		if exchange.Method != "POST" || exchange.Status != 201 || json.Unmarshal(exchange.Body, &body) != nil {
			continue
		}
		n++
		_, err := i.Sign(ca, Kubernetes, body.CSR)
		if exchange.Case == "sign small key" { // 1024 bits: PB-61
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", exchange.Case, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", exchange.Case, err)
		}
	}
	if n == 0 {
		t.Error("no recorded request found")
	}
}

func FuzzSign(f *testing.F) {
	i := issuer(f, nil)
	ca, _ := authority(f, i, Kubernetes)
	f.Add(openSSLRequest(f, "rsa:2048", "/CN=admin/O=system:masters", ""))
	f.Add(openSSLRequest(f, "ec:P-256", "/CN=x", "keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=DNS:n1,IP:10.0.0.7,URI:spiffe://x/y\nbasicConstraints=CA:FALSE"))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\nMEECAQ==\n-----END CERTIFICATE REQUEST-----\n")
	f.Fuzz(func(t *testing.T, csr string) {
		issued, err := i.Sign(ca, Kubernetes, csr)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("a request caused %v", err)
			}
			return
		}
		checkLeaf(t, ca, issued.PEM)
	})
}

// FuzzExtensions tries contents of extensions under a signature that is good.
func FuzzExtensions(f *testing.F) {
	i := issuer(f, nil)
	ca, _ := authority(f, i, Kubernetes)
	for _, seed := range []struct {
		last     byte
		critical bool
		value    []byte
	}{
		{15, true, []byte{3, 2, 5, 0xa0}},
		{15, false, []byte{3, 3, 7, 0x86, 0x80}},
		{19, false, []byte{0x30, 3, 1, 1, 0xff}},
		{37, true, []byte{0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2}},
		{17, false, []byte{0x30, 3, 0x82, 1, 'x'}},
	} {
		f.Add(seed.last, seed.critical, seed.value)
	}
	f.Fuzz(func(t *testing.T, last byte, critical bool, value []byte) {
		if last > 127 {
			return
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, int(last)}, Critical: critical, Value: value}},
		}, key)
		if err != nil {
			return
		}
		issued, err := i.Sign(ca, Kubernetes, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("a request caused %v", err)
			}
			return
		}
		checkLeaf(t, ca, issued.PEM)
	})
}

// checkLeaf holds for everything that was ever signed under the default settings.
func checkLeaf(t *testing.T, ca *Authority, text string) {
	t.Helper()
	c, err := ParseCertificate([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSignatureFrom(ca.Certificate); err != nil {
		t.Fatal(err)
	}
	if c.IsCA || c.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0 {
		t.Fatalf("an authority was signed: %v %b", c.IsCA, c.KeyUsage)
	}
	for _, p := range c.ExtKeyUsage {
		if p != x509.ExtKeyUsageClientAuth && p != x509.ExtKeyUsageServerAuth {
			t.Fatalf("signed for purpose %v", p)
		}
	}
	if len(c.UnknownExtKeyUsage) > 0 {
		t.Fatalf("signed for purposes %v", c.UnknownExtKeyUsage)
	}
	if c.NotAfter.After(ca.Certificate.NotAfter) {
		t.Fatal("outlives its authority")
	}
}
