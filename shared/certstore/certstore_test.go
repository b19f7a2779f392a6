package certstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// vault is a Vault in memory that can be told to fail.
type vault struct {
	mu      sync.Mutex
	pairs   map[string]driver.KeyPair // by ref
	names   map[string]string         // ref → name
	gets    int
	failing string // the call that fails
	crash   func() // runs after a pair is stored, before its ref is known to anybody
}

func newVault() *vault {
	return &vault{pairs: map[string]driver.KeyPair{}, names: map[string]string{}}
}

var errVault = fault.New(fault.Unavailable, "Barbican does not answer.")

func (v *vault) fails(call string) error {
	if v.failing == call {
		return errVault
	}
	return nil
}

func (v *vault) Store(_ context.Context, name string, certificate, key []byte) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.fails("store"); err != nil {
		return "", err
	}
	ref := fmt.Sprintf("https://vault/v1/containers/%d", len(v.names)+1)
	v.pairs[ref], v.names[ref] = driver.KeyPair{Certificate: certificate, Key: key}, name
	if v.crash != nil {
		v.crash()
	}
	return ref, nil
}

func (v *vault) Get(_ context.Context, ref string) ([]byte, []byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gets++
	pair, ok := v.pairs[ref]
	if err := v.fails("get"); err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, fault.New(fault.NotFound, "no container %s", ref)
	}
	return pair.Certificate, pair.Key, nil
}

func (v *vault) Delete(_ context.Context, ref string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.fails("delete"); err != nil {
		return err
	}
	delete(v.pairs, ref)
	return nil
}

func (v *vault) Find(_ context.Context, name string) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(v.pairs)) {
		if v.names[ref] == name {
			refs = append(refs, ref)
		}
	}
	return refs, v.fails("find")
}

// fixture is a store over a database of its own, with one cluster.
type fixture struct {
	*Store
	db      *postgres.DB
	vault   *vault
	cluster string
	now     time.Time
	keys    Keys
}

func newFixture(t *testing.T, backend string) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.New(t), vault: newVault(), now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), keys: NewKey()}
	f.Store = f.open(t, backend, f.keys)
	template := magnum.ClusterTemplate{
		UUID: uuid.NewString(), ProjectID: "p", UserID: "u", Name: "t", COE: "kubernetes", ImageID: "i", ServerType: "vm", CreatedAt: f.now,
	}
	if _, err := f.db.Templates.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	f.cluster = uuid.NewString()
	if err := f.db.Clusters.Create(t.Context(), magnum.Cluster{
		UUID: f.cluster, ProjectID: "p", UserID: "u", Name: "c", ClusterTemplateID: template.UUID,
		Status: magnum.CreateInProgress, Driver: "simulated", CreatedAt: f.now,
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) open(t *testing.T, backend string, keys Keys) *Store {
	t.Helper()
	settings := pki.DefaultSettings()
	settings.KeyAlgorithm = "ecdsa"
	clock := func() time.Time { return f.now }
	issuer, err := pki.New(settings, clock)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Backend: backend, SealKeys: keys, RetireAfter: 24 * time.Hour, CacheSize: 10, CacheFor: time.Minute},
		f.db.Secrets, issuer, f.vault, clock)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fixture) make(t *testing.T, epoch int) driver.Certificates {
	t.Helper()
	if err := f.Ensure(t.Context(), f.cluster, epoch); err != nil {
		t.Fatal(err)
	}
	if err := Activate(t.Context(), f.db.Secrets, f.cluster, epoch); err != nil {
		t.Fatal(err)
	}
	c, err := f.Load(t.Context(), f.cluster, Active)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// states tells the state of each row as kind/epoch.
func (f *fixture) states(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for epoch := 1; epoch <= 4; epoch++ {
		rows, err := f.db.Secrets.Certificates().OfEpoch(t.Context(), f.cluster, epoch)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			out[fmt.Sprintf("%s/%d", r.Kind, r.Epoch)] = r.State
		}
	}
	return out
}

func both(t *testing.T, test func(t *testing.T, f *fixture)) {
	for _, backend := range []string{Database, Barbican} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, backend))
		})
	}
}

func TestEnsureMakesAnEpochOnce(t *testing.T) {
	both(t, func(t *testing.T, f *fixture) {
		first := f.make(t, 1)
		if first.Epoch != 1 {
			t.Errorf("epoch %d", first.Epoch)
		}
		for kind, pair := range map[pki.Kind]driver.KeyPair{pki.Kubernetes: first.Kubernetes, pki.Etcd: first.Etcd, pki.FrontProxy: first.FrontProxy} {
			ca, err := pki.LoadAuthority(pair)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("CN=%s-ca-%s-1", kind, f.cluster); ca.Certificate.Subject.String() != want {
				t.Errorf("%s, want %s", ca.Certificate.Subject, want)
			}
		}
		client, err := pki.ParseCertificate(first.Client.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		ca, _ := pki.ParseCertificate(first.Kubernetes.Certificate)
		if err := client.CheckSignatureFrom(ca); err != nil {
			t.Error(err)
		}
		again := f.make(t, 1)
		if !bytes.Equal(first.Etcd.Key, again.Etcd.Key) || !bytes.Equal(first.Client.Certificate, again.Client.Certificate) {
			t.Error("the second run made new ones")
		}
		if other := f.open(t, Database, f.keys); true {
			got, err := other.Load(t.Context(), f.cluster, 1)
			if err != nil || !bytes.Equal(got.Etcd.Key, first.Etcd.Key) {
				t.Errorf("another process reads something else (%v)", err)
			}
		}
	})
}

func TestLoadRefusesAnIncompleteEpoch(t *testing.T) {
	f := newFixture(t, Barbican)
	f.vault.failing = "store"
	if err := f.Ensure(t.Context(), f.cluster, 1); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if err := Activate(t.Context(), f.db.Secrets, f.cluster, 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("activate: %v", err)
	}
	_, err := f.Load(t.Context(), f.cluster, 1)
	if got, want := fault.Text(err), "Cluster "+f.cluster+" has no kubernetes CA."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCrashAnywhereLeavesNoOrphan ends an attempt after each single secret it
// stores, and runs it again until it is through.
func TestCrashAnywhereLeavesNoOrphan(t *testing.T) {
	f := newFixture(t, Barbican)
	for attempt := range 4 {
		stored := 0
		ctx, cancel := context.WithCancel(t.Context())
		f.vault.crash = func() {
			if stored++; stored == 1 {
				cancel()
			}
		}
		if err := f.Ensure(ctx, f.cluster, 1); err == nil {
			t.Fatalf("attempt %d survived its crash", attempt)
		}
		cancel()
	}
	f.vault.crash = nil
	f.make(t, 1)
	if len(f.vault.pairs) != 4 {
		t.Errorf("%d secrets in the vault, want 4", len(f.vault.pairs))
	}

	// The same with the deletion after a crash in the middle of making.
	ctx, cancel := context.WithCancel(t.Context())
	f.vault.crash = cancel
	if err := f.Ensure(ctx, f.cluster, 2); err == nil {
		t.Fatal("survived its crash")
	}
	f.vault.crash = nil
	if len(f.vault.pairs) != 5 {
		t.Fatalf("%d secrets in the vault, want 5", len(f.vault.pairs))
	}
	if err := f.DeleteAll(t.Context(), f.cluster); err != nil {
		t.Fatal(err)
	}
	if len(f.vault.pairs) != 0 || len(f.states(t)) != 0 {
		t.Errorf("left: %v in the vault, rows %v", len(f.vault.pairs), f.states(t))
	}
}

func TestConcurrentEnsure(t *testing.T) {
	both(t, func(t *testing.T, f *fixture) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := f.Ensure(t.Context(), f.cluster, 1); err != nil && !fault.Is(err, fault.Unavailable) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		f.make(t, 1)
		if len(f.vault.pairs) > 4 {
			t.Errorf("%d secrets in the vault, want 4", len(f.vault.pairs))
		}
	})
}

func TestRotation(t *testing.T) {
	both(t, func(t *testing.T, f *fixture) {
		old := f.make(t, 1)
		epoch, err := NextEpoch(t.Context(), f.db.Secrets, f.cluster)
		if err != nil || epoch != 2 {
			t.Fatalf("next epoch %d, %v", epoch, err)
		}
		if err := f.Ensure(t.Context(), f.cluster, 2); err != nil {
			t.Fatal(err)
		}
		served, err := f.CA(t.Context(), f.cluster, pki.Kubernetes)
		if err != nil || served != string(old.Kubernetes.Certificate) {
			t.Errorf("a pending epoch is served already (%v)", err)
		}
		f.now = f.now.Add(time.Hour)
		renewed := f.make(t, 2)
		if bytes.Equal(renewed.Kubernetes.Key, old.Kubernetes.Key) || renewed.Epoch != 2 {
			t.Error("the old epoch is still in force")
		}
		signer, err := f.Signer(t.Context(), f.cluster, pki.Etcd)
		if err != nil || !strings.HasSuffix(signer.Certificate.Subject.CommonName, "-2") {
			t.Errorf("signs with %v (%v)", signer, err)
		}
		if s := f.states(t); s["kubernetes/1"] != "retiring" || s["client/2"] != "active" || len(s) != 8 {
			t.Errorf("states %v", s)
		}
		if n, err := f.Sweep(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("swept %d within the grace (%v)", n, err)
		}
		f.now = f.now.Add(25 * time.Hour)
		if n, err := f.Sweep(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("swept %d epochs (%v), want 1", n, err)
		}
		if s := f.states(t); len(s) != 4 || s["client/2"] != "active" {
			t.Errorf("states after the grace: %v", s)
		}
		if f.cfg.Backend == Barbican && len(f.vault.pairs) != 4 {
			t.Errorf("%d secrets in the vault, want 4", len(f.vault.pairs))
		}

		if err := f.Ensure(t.Context(), f.cluster, 3); err != nil {
			t.Fatal(err)
		}
		if err := f.Discard(t.Context(), f.cluster, 2); err != nil { // in force: not to be discarded
			t.Fatal(err)
		}
		for range 2 {
			if err := f.Discard(t.Context(), f.cluster, 3); err != nil {
				t.Fatal(err)
			}
		}
		if s := f.states(t); len(s) != 4 || s["client/2"] != "active" {
			t.Errorf("states after the discarded epoch: %v", s)
		}
	})
}

func TestDeleteAllGoesOnWhereItFailed(t *testing.T) {
	f := newFixture(t, Barbican)
	f.make(t, 1)
	f.make(t, 2)
	f.vault.failing = "delete"
	if err := f.DeleteAll(t.Context(), f.cluster); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if s := f.states(t); len(s) != 8 || s["etcd/2"] != "deleting" {
		t.Errorf("states %v", s)
	}
	if err := f.Ensure(t.Context(), f.cluster, 2); !fault.Is(err, fault.Conflict) {
		t.Errorf("made again while deleting: %v", err)
	}
	if _, err := f.CA(t.Context(), f.cluster, pki.Kubernetes); !fault.Is(err, fault.NotFound) {
		t.Errorf("served while deleting: %v", err)
	}
	f.vault.failing = ""
	for range 2 {
		if err := f.DeleteAll(t.Context(), f.cluster); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.vault.pairs) != 0 || len(f.states(t)) != 0 {
		t.Errorf("left: %d in the vault, rows %v", len(f.vault.pairs), f.states(t))
	}
	if err := f.db.Clusters.Delete(t.Context(), f.cluster); err != nil {
		t.Error(err)
	}
}

func TestKeysStayInMemoryForAWhile(t *testing.T) {
	f := newFixture(t, Barbican)
	f.make(t, 1)
	f.vault.gets = 0
	f.now = f.now.Add(2 * time.Minute)
	for range 3 {
		if _, err := f.Signer(t.Context(), f.cluster, pki.Kubernetes); err != nil {
			t.Fatal(err)
		}
	}
	if f.vault.gets != 1 {
		t.Errorf("%d reads of the vault, want 1", f.vault.gets)
	}
	f.now = f.now.Add(2 * time.Minute)
	if _, err := f.Signer(t.Context(), f.cluster, pki.Kubernetes); err != nil || f.vault.gets != 2 {
		t.Errorf("%d reads of the vault after the time (%v), want 2", f.vault.gets, err)
	}
	if _, err := f.CA(t.Context(), f.cluster, pki.FrontProxy); err != nil || f.vault.gets != 2 {
		t.Errorf("%d reads of the vault for a public certificate (%v)", f.vault.gets, err)
	}
}

func TestAccessRenewsTheClientCertificate(t *testing.T) {
	both(t, func(t *testing.T, f *fixture) {
		made := f.make(t, 1)
		access, err := f.Access(t.Context(), f.cluster)
		if err != nil || !bytes.Equal(access.Client.Certificate, made.Client.Certificate) {
			t.Fatalf("renewed at once (%v)", err)
		}
		f.now = f.now.AddDate(0, 11, 0)
		access, err = f.Access(t.Context(), f.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(access.Client.Certificate, made.Client.Certificate) || !bytes.Equal(access.Client.Key, made.Client.Key) {
			t.Error("not a new certificate for the same key")
		}
		again, err := f.Access(t.Context(), f.cluster)
		if err != nil || !bytes.Equal(again.Client.Certificate, access.Client.Certificate) {
			t.Errorf("renewed twice (%v)", err)
		}
		loaded, err := f.Load(t.Context(), f.cluster, Active)
		if err != nil || !bytes.Equal(loaded.Client.Certificate, access.Client.Certificate) {
			t.Errorf("the driver gets the old one (%v)", err)
		}
		f.now = f.now.AddDate(9, 0, 0) // days before the authority ends
		if _, err := f.Access(t.Context(), f.cluster); err != nil {
			t.Error(err)
		}
		if _, err := access.Pool(); err != nil {
			t.Error(err)
		}
	})
}

func TestRekey(t *testing.T) {
	f := newFixture(t, Database)
	made := f.make(t, 1)
	f.put(t, 1, "first-secret")
	old := f.keys
	current := NewKey()
	next := f.open(t, Database, current+","+old)
	if got, err := next.Load(t.Context(), f.cluster, Active); err != nil || !bytes.Equal(got.Client.Key, made.Client.Key) {
		t.Fatalf("an older key does not open (%v)", err)
	}
	total := 0
	for {
		n, err := next.Reseal(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n == 0 {
			break
		}
	}
	if total != 5 {
		t.Errorf("resealed %d, want 5", total)
	}
	alone := f.open(t, Database, current)
	if got, err := alone.Load(t.Context(), f.cluster, Active); err != nil || !bytes.Equal(got.Client.Key, made.Client.Key) {
		t.Errorf("certificates are not resealed (%v)", err)
	}
	if c, err := alone.Credential(t.Context(), f.cluster, Active); err != nil || c.Secret != "first-secret" {
		t.Errorf("the credential is not resealed (%v)", err)
	}
	_, err := f.open(t, Database, NewKey()).Load(t.Context(), f.cluster, Active)
	if err == nil || !strings.Contains(err.Error(), "not in CARAFE_SEAL_KEYS") || fault.Text(err) != "Internal server error" {
		t.Errorf("a lost key gives %v", err)
	}
}

func TestSealedSecretsCannotBeMoved(t *testing.T) {
	ring, err := ParseKeys(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	home := place{"c1", "etcd", 1}
	sealed, keyID := ring.seal(home, []byte("secret"))
	if again, _ := ring.seal(home, []byte("secret")); bytes.Equal(sealed, again) {
		t.Error("the same secret seals the same way twice")
	}
	if got, err := ring.open(home, sealed, &keyID); err != nil || string(got) != "secret" {
		t.Fatalf("%q %v", got, err)
	}
	for _, other := range []place{{"c2", "etcd", 1}, {"c1", "client", 1}, {"c1", "etcd", 2}} {
		if _, err := ring.open(other, sealed, &keyID); err == nil {
			t.Errorf("opened in %v", other)
		}
	}
	for n := range sealed {
		broken := bytes.Clone(sealed)
		broken[n] ^= 1
		if _, err := ring.open(home, broken, &keyID); err == nil {
			t.Errorf("opened with byte %d changed", n)
		}
	}
	for _, short := range [][]byte{nil, {1}, sealed[:12], sealed[:20]} {
		if _, err := ring.open(home, short, &keyID); err == nil {
			t.Errorf("opened %d bytes", len(short))
		}
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	good := string(NewKey())
	for _, text := range []string{"", "  ", "nonsense", "a:", "a:AAAA", "a b:" + good, ":" + good, good + "," + good, "a/b:" + strings.SplitN(good, ":", 2)[1]} {
		_, err := ParseKeys(Keys(text))
		if err == nil {
			t.Errorf("%q was accepted", text)
			continue
		}
		if key := strings.SplitN(good, ":", 2)[1]; strings.Contains(err.Error(), key) {
			t.Errorf("the key is in the error: %v", err)
		}
	}
	ring, err := ParseKeys(Keys(good + "\n" + string(NewKey()) + "\n"))
	if err != nil || len(ring.keys) != 2 {
		t.Errorf("a file of keys, one a line: %v", err)
	}
	store, err := New(Config{Backend: Database, SealKeys: Keys(good), CacheSize: 1}, postgres.Secrets{}, nil, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cfg := Config{SealKeys: Keys(good)}
	fmt.Fprintf(&out, "%v %+v %#v %s %q %v %+v", cfg, cfg, cfg, cfg.SealKeys, cfg.SealKeys, ring, store)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("config", "config", cfg)
	if strings.Contains(out.String(), good[9:]) {
		t.Errorf("the key was printed: %s", &out)
	}
}
