//go:build openstack

package barbican_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"carafe/shared/barbican"
	"carafe/shared/fault"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
)

var certificate = []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func newName() string { return "magnum-" + uuid.NewString() + "-kubernetes-1" }

// count is how many containers and secrets the service user has under names
// that begin like this.
func count(t *testing.T, k *keystone.Client, name string) int {
	t.Helper()
	sc, err := k.ForService(t.Context(), keystone.Barbican)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	page, err := containers.List(sc, containers.ListOpts{Limit: 100}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := containers.ExtractContainers(page)
	for _, c := range all {
		if strings.HasPrefix(c.Name, name) {
			n++
		}
	}
	page, err = secrets.List(sc, secrets.ListOpts{Limit: 100}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loose, _ := secrets.ExtractSecrets(page)
	for _, s := range loose {
		if strings.HasPrefix(s.Name, name) {
			n++
		}
	}
	return n
}

func TestRealStoreGetFindDelete(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	v := barbican.New(k)
	ctx := t.Context()
	name, key := newName(), newKey(t)
	ref, err := v.Store(ctx, name, certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	gotCertificate, gotKey, err := v.Get(ctx, ref)
	if err != nil || !bytes.Equal(gotCertificate, certificate) || !bytes.Equal(gotKey, key) {
		t.Errorf("got %s, %v", gotCertificate, err)
	}
	again, err := v.Store(ctx, name, certificate, key)
	if err != nil || again == ref {
		t.Errorf("a second one: %s, %v", again, err)
	}
	found, err := v.Find(ctx, name)
	if err != nil || len(found) != 2 || !slices.Contains(found, ref) || !slices.Contains(found, again) {
		t.Errorf("found %v, %v", found, err)
	}
	for range 2 { // the second time it is gone
		for _, r := range found {
			if err := v.Delete(ctx, r); err != nil {
				t.Error(err)
			}
		}
	}
	if n := count(t, k, name); n != 0 {
		t.Errorf("%d things are left", n)
	}
	if _, _, err := v.Get(ctx, ref); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted pair: %v", err)
	}
	for _, ref := range []string{"", "x", "http://h/v1/containers/..", "http://h/v1/containers/" + uuid.NewString()} {
		if _, _, err := v.Get(ctx, ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("get %q: %v", ref, err)
		}
	}
}

// What Magnum stores: four secrets with names of their own, the key encrypted
// by its cryptography library (spec/conductor.md §4.2, §4.4).
func TestRealPairOfMagnum(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	ctx := t.Context()
	made, err := exec.Command(path.Join(cloud.Client, "bin", "python"), "-c", `
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import rsa
k = rsa.generate_private_key(65537, 2048)
e = lambda how: k.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, how).decode()
print(e(s.BestAvailableEncryption(b'abcdefgh2345')) + '|' + e(s.NoEncryption()), end='')`).Output()
	if err != nil {
		t.Fatal(err)
	}
	sealed, plain, _ := strings.Cut(string(made), "|")
	sc, err := k.ForService(ctx, keystone.Barbican)
	if err != nil {
		t.Fatal(err)
	}
	var members []containers.SecretRef
	for _, part := range [][3]string{
		{"certificate", "Certificate", string(certificate)}, {"private_key", "Private Key", sealed},
		{"private_key_passphrase", "Private Key Passphrase", "abcdefgh2345"}, {"intermediates", "Intermediates", "x"},
	} {
		s, err := secrets.Create(ctx, sc, secrets.CreateOpts{Name: part[1], Payload: part[2], PayloadContentType: "text/plain"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, containers.SecretRef{Name: part[0], SecretRef: s.SecretRef})
	}
	c, err := containers.Create(ctx, sc, containers.CreateOpts{Type: containers.CertificateContainer, Name: "web", SecretRefs: members}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	v := barbican.New(k)
	gotCertificate, gotKey, err := v.Get(ctx, c.ContainerRef)
	if err != nil || !bytes.Equal(gotCertificate, certificate) || string(gotKey) != plain {
		t.Errorf("got %s, %s, %v", gotCertificate, gotKey, err)
	}
	if err := v.Delete(ctx, c.ContainerRef); err != nil {
		t.Error(err)
	}
	for _, m := range members {
		if secrets.Get(ctx, sc, path.Base(m.SecretRef)).Err == nil {
			t.Errorf("%s is left", m.Name)
		}
	}
	generic, err := containers.Create(ctx, sc, containers.CreateOpts{Type: containers.GenericContainer, Name: "web"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.Get(ctx, generic.ContainerRef); !fault.Is(err, fault.NotFound) {
		t.Errorf("a container of another type: %v", err)
	}
	if err := v.Delete(ctx, generic.ContainerRef); err != nil {
		t.Error(err)
	}
}

// breaking is a way to the real Barbican on which requests can be made to fail.
// The service user's catalogue leads past it, so the client is made by hand.
func breaking(t *testing.T, cloud *keystonetest.Cloud, breaks func(n int, r *http.Request) bool) (*keystone.Client, *atomic.Int32) {
	t.Helper()
	target, err := url.Parse("http://127.0.0.1:" + strconv.Itoa(cloud.Ports["barbican"]))
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	direct := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if breaks(int(n.Add(1)), r) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		direct.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	k := cloud.New(t)
	sc, err := k.ForService(t.Context(), keystone.Barbican)
	if err != nil {
		t.Fatal(err)
	}
	sc.EndpointLocator = func(gophercloud.EndpointOpts) (string, error) { return proxy.URL, nil }
	return k, &n
}

func TestRealStoreLeavesNothingWhenItFails(t *testing.T) {
	cloud := keystonetest.Load(t)
	for name, broken := range map[string]string{"second secret": "private_key", "container": "/v1/containers"} {
		t.Run(name, func(t *testing.T) {
			posts := 0
			k, _ := breaking(t, cloud, func(_ int, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				posts++
				return broken == r.URL.Path || broken == "private_key" && posts > 1
			})
			pair := newName()
			_, err := barbican.New(k).Store(t.Context(), pair, certificate, newKey(t))
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Text(err), "Barbican connection failed. It answered with status 500.") {
				t.Errorf("error is %v", err)
			}
			if left := count(t, cloud.New(t), pair); left != 0 {
				t.Errorf("%d things are left", left)
			}
		})
	}
}

func TestRealStoreIsUndoneAlsoWhenTheRequestEnds(t *testing.T) {
	cloud := keystonetest.Load(t)
	ctx, cancel := context.WithCancel(t.Context())
	k, _ := breaking(t, cloud, func(_ int, r *http.Request) bool {
		if r.URL.Path == "/v1/containers" {
			cancel()
			return true
		}
		return false
	})
	pair := newName()
	if _, err := barbican.New(k).Store(ctx, pair, certificate, newKey(t)); err == nil {
		t.Error("stored")
	}
	if left := count(t, cloud.New(t), pair); left != 0 {
		t.Errorf("%d things are left", left)
	}
}

func TestRealMomentaryTroubleIsWaitedOut(t *testing.T) {
	cloud := keystonetest.Load(t)
	k, n := breaking(t, cloud, func(n int, _ *http.Request) bool { return n%3 == 1 })
	v := barbican.New(k)
	key := newKey(t)
	ref, err := v.Store(t.Context(), newName(), certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := v.Get(t.Context(), ref); err != nil || !bytes.Equal(got, key) {
		t.Error(err)
	}
	if err := v.Delete(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if n.Load() < 10 {
		t.Errorf("only %d calls", n.Load())
	}
}

func TestRealSecretsOfACrashAreFound(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	sc, err := k.ForService(t.Context(), keystone.Barbican)
	if err != nil {
		t.Fatal(err)
	}
	name := newName()
	s, err := secrets.Create(t.Context(), sc, secrets.CreateOpts{
		Name: name + " private_key", Payload: "x", PayloadContentType: "text/plain",
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	v := barbican.New(k)
	found, err := v.Find(t.Context(), name)
	if err != nil || !slices.Equal(found, []string{s.SecretRef}) {
		t.Fatalf("found %v, %v", found, err)
	}
	for range 2 {
		if err := v.Delete(t.Context(), found[0]); err != nil {
			t.Error(err)
		}
	}
	if n := count(t, k, name); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

func TestRealOutage(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	v := barbican.New(k)
	if _, err := v.Find(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	cloud.Stop(t, "barbican")
	if _, err := v.Store(t.Context(), newName(), certificate, newKey(t)); !fault.Is(err, fault.Unavailable) ||
		fault.Text(err) != "Barbican connection failed. It cannot be reached." {
		t.Errorf("error is %v", err)
	}
}
