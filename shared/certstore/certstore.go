// Package certstore keeps the secrets of clusters: their authorities, Carafe's
// own client certificate and the application credential, all by epoch. The rows
// of shared/postgres are the index of everything: a row is there before its
// secret and goes after it, so no crash leaves a secret that nobody can find
// (PB-19, PB-49, PB-58). The secret itself is sealed in the row, or stands in a
// Vault such as Barbican.
//
// An epoch is made by Ensure (pending), put in force by Activate (which retires
// the one before), and deleted by Sweep after a grace or by DeleteAll with the
// cluster. Discard deletes an epoch that never came into force.
package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// Backends are where secrets can be.
const (
	Database = "database" // sealed, in the row
	Barbican = "barbican"
)

// Config is the part of the environment that says where secrets are.
type Config struct {
	// Backend of new certificates: database or barbican. Those made before are
	// read from where they are. magnum.conf: [certificates] cert_manager_type.
	Backend string `envconfig:"CARAFE_CERTIFICATES" default:"database"`
	// SealKeys seal what is in the database: id:base64 of 32 bytes, the current
	// one first, then older ones that are still read (`carafe rekey` ends their use).
	SealKeys Keys `envconfig:"CARAFE_SEAL_KEYS"`
	// RetireAfter is how long a replaced authority is kept.
	RetireAfter time.Duration `envconfig:"CARAFE_CERTIFICATES_RETIRE_AFTER" default:"24h"`
	// CacheSize bounds the keys that one process keeps in memory, and CacheFor how
	// long it keeps each.
	CacheSize int           `envconfig:"CARAFE_CERTIFICATES_CACHE_SIZE" default:"1000"`
	CacheFor  time.Duration `envconfig:"CARAFE_CERTIFICATES_CACHE_FOR" default:"5m"`
}

// Vault keeps key pairs outside of the database. Errors are fault.Errors.
type Vault interface {
	// Store keeps a pair under a name that need not be unique, and gives its
	// reference. If it fails it leaves nothing behind.
	Store(ctx context.Context, name string, certificate, key []byte) (ref string, err error)
	// Get gives the pair; the key is plain PKCS#8 in PEM.
	Get(ctx context.Context, ref string) (certificate, key []byte, err error)
	// Delete removes a pair. One that is gone already is a success.
	Delete(ctx context.Context, ref string) error
	// Find gives the references of all pairs with the name.
	Find(ctx context.Context, name string) (refs []string, err error)
}

// Store keeps secrets. It is safe for concurrent use.
type Store struct {
	cfg     Config
	secrets postgres.Secrets
	ring    *Keyring
	issuer  *pki.Issuer
	vault   Vault
	now     func() time.Time
	cache   *cache
}

// New checks the settings. vault may be nil unless the backend is barbican.
func New(cfg Config, secrets postgres.Secrets, issuer *pki.Issuer, vault Vault, now func() time.Time) (*Store, error) {
	ring, err := ParseKeys(cfg.SealKeys)
	if err != nil {
		return nil, fmt.Errorf("CARAFE_SEAL_KEYS: %w", err)
	}
	switch {
	case cfg.Backend != Database && cfg.Backend != Barbican:
		return nil, fmt.Errorf("CARAFE_CERTIFICATES: %q is neither database nor barbican", cfg.Backend)
	case cfg.Backend == Barbican && vault == nil:
		return nil, errors.New("CARAFE_CERTIFICATES: barbican needs Keystone")
	case cfg.CacheSize < 1:
		return nil, fmt.Errorf("CARAFE_CERTIFICATES_CACHE_SIZE: %d is not positive", cfg.CacheSize)
	}
	cfg.SealKeys = "" // fmt reaches into unexported fields
	return &Store{
		cfg: cfg, secrets: secrets, ring: ring, issuer: issuer, vault: vault, now: now,
		cache: newCache(cfg.CacheSize, cfg.CacheFor, now),
	}, nil
}

// NextEpoch is the epoch that a rotation brings in. Ask in the transaction that
// records the rotation, with the cluster's row locked.
func NextEpoch(ctx context.Context, secrets postgres.Secrets, clusterID string) (int, error) {
	return secrets.Certificates().NextEpoch(ctx, clusterID)
}

// Ensure makes what is missing of the epoch's four kinds. It may run any number
// of times, and after a crash at any point: what is there stays, also what a
// crash kept from being recorded. It makes nothing for a cluster whose
// certificates are being deleted (fault Conflict).
func (s *Store) Ensure(ctx context.Context, clusterID string, epoch int) error {
	kinds := kindNames(pki.Kinds)
	fresh, err := s.secrets.Certificates().Intend(ctx, clusterID, kinds, epoch, s.cfg.Backend, s.now())
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx, clusterID, epoch)
	if err != nil {
		return err
	}
	var inDatabase, inVault []postgres.CertificateRow
	for _, kind := range kinds {
		n := indexOf(rows, pki.Kind(kind))
		switch {
		case n < 0 || rows[n].State == postgres.SecretDeleting:
			return errDeleting(clusterID)
		case rows[n].Certificate != nil:
		case rows[n].Backend == Barbican:
			inVault = append(inVault, rows[n])
		default:
			inDatabase = append(inDatabase, rows[n])
		}
	}
	if err := s.makeInDatabase(ctx, rows, inDatabase); err != nil {
		return fmt.Errorf("make the certificates of cluster %s: %w", clusterID, err)
	}
	for _, row := range inVault {
		if err := s.makeInVault(ctx, row, fresh[row.Kind]); err != nil {
			return fmt.Errorf("make the %s certificate of cluster %s: %w", row.Kind, clusterID, err)
		}
	}
	return nil
}

// makeInDatabase makes the authorities that are missing side by side, then the
// client certificate, and stores them together.
func (s *Store) makeInDatabase(ctx context.Context, epoch, missing []postgres.CertificateRow) error {
	if len(missing) == 0 {
		return nil
	}
	pairs := make([]driver.KeyPair, len(missing))
	var group errgroup.Group
	for i, row := range missing {
		if kind := pki.Kind(row.Kind); kind.Authority() {
			group.Go(func() (err error) {
				pairs[i], err = s.issuer.Authority(kind, row.ClusterID, row.Epoch)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	done := make([]postgres.CompletedCertificate, len(missing))
	for i, row := range missing {
		if pki.Kind(row.Kind) == pki.Client {
			ca, err := s.clientAuthority(ctx, epoch, missing, pairs)
			if err != nil {
				return err
			}
			if pairs[i], err = s.issuer.ClientPair(ca); err != nil {
				return err
			}
		}
		sealed, keyID := s.ring.seal(placeOf(row), pairs[i].Key)
		var err error
		if done[i], err = completed(row, pairs[i]); err != nil {
			return err
		}
		done[i].SealedKey, done[i].KeyID = sealed, &keyID
	}
	recorded, err := s.secrets.Certificates().Complete(ctx, done...)
	if err != nil {
		return err
	}
	if recorded < len(done) {
		return errOtherAttempt(missing[0].ClusterID)
	}
	for i, row := range missing {
		s.cache.put(placeOf(row), pairs[i])
	}
	return nil
}

// clientAuthority is the authority that signs an epoch's client certificate: one
// that has just been made, or the epoch's.
func (s *Store) clientAuthority(ctx context.Context, epoch, made []postgres.CertificateRow, pairs []driver.KeyPair) (*pki.Authority, error) {
	if n := indexOf(made, pki.Kubernetes); n >= 0 {
		return pki.LoadAuthority(pairs[n])
	}
	return s.authority(ctx, epoch[indexOf(epoch, pki.Kubernetes)])
}

// makeInVault never deletes a secret before a row names another: an attempt that
// lost its lease may still be at work, and about to name that one.
func (s *Store) makeInVault(ctx context.Context, row postgres.CertificateRow, fresh bool) error {
	if s.vault == nil {
		return errNoVault
	}
	var left []string
	if !fresh {
		var err error
		if left, err = s.vault.Find(ctx, name(row)); err != nil {
			return err
		}
	}
	ref, pair, err := s.adopt(ctx, left)
	if err != nil {
		return err
	}
	if ref == "" {
		if pair, err = s.generate(ctx, row); err != nil {
			return err
		}
		if ref, err = s.vault.Store(ctx, name(row), pair.Certificate, pair.Key); err != nil {
			return err
		}
	}
	done, err := completed(row, pair)
	if err != nil {
		return err
	}
	done.Ref = &ref
	recorded, err := s.secrets.Certificates().Complete(ctx, done)
	if err != nil {
		return err
	}
	if recorded == 0 {
		// Another was quicker, or the cluster is being deleted. What is not named
		// by the row is one too many.
		now, err := s.row(ctx, row.ClusterID, row.Epoch, pki.Kind(row.Kind))
		if err == nil && now.Ref != nil && *now.Ref == ref {
			return nil
		}
		return errors.Join(errOtherAttempt(row.ClusterID), s.vault.Delete(ctx, ref))
	}
	for _, other := range left {
		if other != ref {
			err = errors.Join(err, s.vault.Delete(ctx, other))
		}
	}
	return err
}

// adopt takes over the first whole pair that an earlier attempt left; ref is
// empty if there is none.
func (s *Store) adopt(ctx context.Context, refs []string) (ref string, pair driver.KeyPair, err error) {
	for _, ref := range refs {
		certificate, key, err := s.vault.Get(ctx, ref)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return "", pair, err
		}
		pair = driver.KeyPair{Certificate: certificate, Key: key}
		if pki.CheckPair(pair) == nil {
			return ref, pair, nil
		}
	}
	return "", driver.KeyPair{}, nil
}

// completed is what becomes known of a row with its pair, apart from where the
// key is.
func completed(row postgres.CertificateRow, pair driver.KeyPair) (postgres.CompletedCertificate, error) {
	c, err := pki.ParseCertificate(pair.Certificate)
	if err != nil {
		return postgres.CompletedCertificate{}, err
	}
	text, serial := string(pair.Certificate), c.SerialNumber.Text(16)
	return postgres.CompletedCertificate{ClusterID: row.ClusterID, Kind: row.Kind, Epoch: row.Epoch,
		Certificate: &text, Serial: &serial, NotBefore: &c.NotBefore, NotAfter: &c.NotAfter}, nil
}

func errOtherAttempt(clusterID string) error {
	return fault.New(fault.Unavailable, "Another attempt is making the certificates of cluster %s.", clusterID)
}

func errDeleting(clusterID string) error {
	return fault.New(fault.Conflict, "The certificates of cluster %s are being deleted.", clusterID)
}

func (s *Store) generate(ctx context.Context, row postgres.CertificateRow) (driver.KeyPair, error) {
	kind := pki.Kind(row.Kind)
	if kind.Authority() {
		return s.issuer.Authority(kind, row.ClusterID, row.Epoch)
	}
	caRow, err := s.row(ctx, row.ClusterID, row.Epoch, pki.Kubernetes)
	if err != nil {
		return driver.KeyPair{}, err
	}
	ca, err := s.authority(ctx, caRow)
	if err != nil {
		return driver.KeyPair{}, err
	}
	return s.issuer.ClientPair(ca)
}

// Active, as an epoch, is the one in force.
const Active = 0

// Load gives all four pairs of an epoch, or of the one in force. Fault NotFound:
// they are not all there.
func (s *Store) Load(ctx context.Context, clusterID string, epoch int) (driver.Certificates, error) {
	rows, err := s.rows(ctx, clusterID, epoch)
	if err != nil {
		return driver.Certificates{}, err
	}
	pairs := make([]driver.KeyPair, len(pki.Kinds))
	group, groupCtx := errgroup.WithContext(ctx)
	for n, kind := range pki.Kinds {
		row, err := pick(rows, clusterID, kind)
		if err != nil {
			return driver.Certificates{}, err
		}
		epoch = row.Epoch
		group.Go(func() (err error) {
			pairs[n], err = s.pair(groupCtx, row)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return driver.Certificates{}, err
	}
	return driver.Certificates{Epoch: epoch, Kubernetes: pairs[0], Etcd: pairs[1], FrontProxy: pairs[2], Client: pairs[3]}, nil
}

// CA gives the certificate of an authority in force, in PEM, without touching
// its key. Fault NotFound: the cluster has none (PB-63).
func (s *Store) CA(ctx context.Context, clusterID string, kind pki.Kind) (string, error) {
	rows, err := s.active(ctx, clusterID, kind)
	if err != nil {
		return "", err
	}
	row, err := pick(rows, clusterID, kind)
	if err != nil {
		return "", err
	}
	return *row.Certificate, nil
}

// Signer gives an authority in force, ready to sign. Fault NotFound as CA.
func (s *Store) Signer(ctx context.Context, clusterID string, kind pki.Kind) (*pki.Authority, error) {
	rows, err := s.active(ctx, clusterID, kind)
	if err != nil {
		return nil, err
	}
	row, err := pick(rows, clusterID, kind)
	if err != nil {
		return nil, err
	}
	return s.authority(ctx, row)
}

// Sign answers a certificate signing request by an authority in force. Faults:
// NotFound as CA, and those of pki.
func (s *Store) Sign(ctx context.Context, clusterID string, kind pki.Kind, csr string) (pki.Issued, error) {
	ca, err := s.Signer(ctx, clusterID, kind)
	if err != nil {
		return pki.Issued{}, err
	}
	return s.issuer.Sign(ca, kind, csr)
}

// Access is what it takes to enter a cluster: whom to trust, and who we are.
type Access struct {
	Epoch  int
	CA     []byte // PEM
	Client driver.KeyPair
}

// Access gives the way into a cluster by the epoch in force. A client certificate
// that comes to its end is signed anew for the same key, and recorded. Fault
// NotFound as CA.
func (s *Store) Access(ctx context.Context, clusterID string) (Access, error) {
	rows, err := s.active(ctx, clusterID, pki.Kubernetes, pki.Client)
	if err != nil {
		return Access{}, err
	}
	ca, err := pick(rows, clusterID, pki.Kubernetes)
	if err != nil {
		return Access{}, err
	}
	client, err := pick(rows, clusterID, pki.Client)
	if err != nil {
		return Access{}, err
	}
	if s.ending(client) {
		if client, err = s.renew(ctx, ca, client); err != nil {
			return Access{}, err
		}
	}
	pair, err := s.pair(ctx, client)
	return Access{Epoch: client.Epoch, CA: []byte(*ca.Certificate), Client: pair}, err
}

// ending reports whether less than a sixth of the validity is left: two months
// of a year.
func (s *Store) ending(row postgres.CertificateRow) bool {
	if row.NotBefore == nil || row.NotAfter == nil {
		return false
	}
	return row.NotAfter.Sub(s.now()) < row.NotAfter.Sub(*row.NotBefore)/6
}

func (s *Store) renew(ctx context.Context, caRow, row postgres.CertificateRow) (postgres.CertificateRow, error) {
	ca, err := s.authority(ctx, caRow)
	if err != nil {
		return row, err
	}
	old, err := s.pair(ctx, row)
	if err != nil {
		return row, err
	}
	pair, err := s.issuer.RenewClient(ca, old)
	if err != nil {
		return row, err
	}
	c, err := pki.ParseCertificate(pair.Certificate)
	if err != nil {
		return row, err
	}
	if !c.NotAfter.After(*row.NotAfter) {
		return row, nil // its authority ends then, too
	}
	text, serial := string(pair.Certificate), c.SerialNumber.Text(16)
	// If another renewed it first, either certificate is good.
	_, err = s.secrets.Certificates().Renew(ctx, postgres.RenewedCertificate{
		ClusterID: row.ClusterID, Kind: row.Kind, Epoch: row.Epoch, OldSerial: row.Serial,
		Certificate: &text, Serial: &serial, NotBefore: &c.NotBefore, NotAfter: &c.NotAfter,
	})
	row.Certificate, row.Serial, row.NotBefore, row.NotAfter = &text, &serial, &c.NotBefore, &c.NotAfter
	return row, err
}

// Activate puts a complete epoch in force and retires the one before, in the
// caller's transaction. It may run twice. Fault Conflict: it is not complete.
func Activate(ctx context.Context, secrets postgres.Secrets, clusterID string, epoch int) error {
	return secrets.Certificates().Activate(ctx, clusterID, epoch)
}

// Discard deletes an epoch that never came into force. It may run twice.
func (s *Store) Discard(ctx context.Context, clusterID string, epoch int) error {
	return s.delete(ctx, clusterID, epoch, epoch, postgres.SecretPending)
}

// Retire deletes what was replaced by that epoch and those after it, whatever
// grace is left. It may run twice.
func (s *Store) Retire(ctx context.Context, clusterID string, olderThan int) error {
	return s.delete(ctx, clusterID, 1, olderThan-1, postgres.SecretRetiring)
}

// DeleteAll deletes every kind of every epoch of the cluster. It may run any
// number of times; what could be deleted stays deleted when it fails.
func (s *Store) DeleteAll(ctx context.Context, clusterID string) error {
	return s.delete(ctx, clusterID, 1, math.MaxInt32,
		postgres.SecretPending, postgres.SecretActive, postgres.SecretRetiring)
}

// Sweep deletes what was replaced more than the grace ago, what never came into
// force and no operation works on, and what a crash left half deleted: up to
// limit epochs. It reports how many it deleted; one that fails does not keep the
// others.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	retired, err := s.secrets.Certificates().Retired(ctx, s.now().Add(-s.cfg.RetireAfter), limit)
	if err != nil {
		return 0, err
	}
	done := 0
	var errs []error
	for _, r := range retired {
		if err := s.delete(ctx, r.ClusterID, r.Epoch, r.Epoch, postgres.SecretRetiring, postgres.SecretPending); err != nil {
			errs = append(errs, err)
			continue
		}
		done++
	}
	return done, errors.Join(errs...)
}

// delete removes the secrets of a range of epochs: first the rows say so, then
// each secret goes, then its row.
func (s *Store) delete(ctx context.Context, clusterID string, from, to int, states ...string) error {
	marked, err := s.secrets.Certificates().MarkDeleting(ctx, clusterID, from, to, states...)
	if err != nil {
		return err
	}
	var errs []error
	for _, row := range marked {
		s.cache.remove(placeOf(row))
		if err := s.forget(ctx, row); err != nil {
			errs = append(errs, fmt.Errorf("delete the %s certificate of cluster %s: %w", row.Kind, clusterID, err))
			continue
		}
		if err := s.secrets.Certificates().Remove(ctx, row); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// forget removes what a row points to outside of the database, and what bears
// its name because a crash came between.
func (s *Store) forget(ctx context.Context, row postgres.CertificateRow) error {
	if row.Backend != Barbican {
		return nil
	}
	if s.vault == nil {
		return errNoVault
	}
	refs, err := s.vault.Find(ctx, name(row))
	if err != nil {
		return err
	}
	if row.Ref != nil && !slices.Contains(refs, *row.Ref) {
		refs = append(refs, *row.Ref) // Magnum gave its own name
	}
	for _, ref := range refs {
		if err := s.vault.Delete(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

var errNoVault = fault.New(fault.Unavailable, "The secrets of this cluster are in Barbican, which is not configured.")

// name is what a secret is called in the vault, so that an operator can tell
// whose it is and a retry can find what it left (PB-55).
func name(row postgres.CertificateRow) string {
	return fmt.Sprintf("magnum-%s-%s-%d", row.ClusterID, row.Kind, row.Epoch)
}

func placeOf(row postgres.CertificateRow) place { return place{row.ClusterID, row.Kind, row.Epoch} }

// rows reads an epoch, or the one in force.
func (s *Store) rows(ctx context.Context, clusterID string, epoch int) ([]postgres.CertificateRow, error) {
	if epoch == Active {
		return s.active(ctx, clusterID, pki.Kinds...)
	}
	return s.secrets.Certificates().OfEpoch(ctx, clusterID, epoch)
}

// active reads the rows of the kinds that are in force.
func (s *Store) active(ctx context.Context, clusterID string, kinds ...pki.Kind) ([]postgres.CertificateRow, error) {
	return s.secrets.Certificates().Active(ctx, clusterID, kindNames(kinds)...)
}

func kindNames(kinds []pki.Kind) []string {
	list := make([]string, len(kinds))
	for i, kind := range kinds {
		list[i] = string(kind)
	}
	return list
}

func (s *Store) row(ctx context.Context, clusterID string, epoch int, kind pki.Kind) (postgres.CertificateRow, error) {
	rows, err := s.rows(ctx, clusterID, epoch)
	if err != nil {
		return postgres.CertificateRow{}, err
	}
	n := indexOf(rows, kind)
	if n < 0 {
		return postgres.CertificateRow{}, errDeleting(clusterID)
	}
	return rows[n], nil
}

// indexOf is where the row of a kind stands; -1: there is none.
func indexOf(rows []postgres.CertificateRow, kind pki.Kind) int {
	return slices.IndexFunc(rows, func(r postgres.CertificateRow) bool { return r.Kind == string(kind) })
}

// pick gives the complete row of a kind.
func pick(rows []postgres.CertificateRow, clusterID string, kind pki.Kind) (postgres.CertificateRow, error) {
	for _, r := range rows {
		if r.Kind == string(kind) && r.Certificate != nil {
			return r, nil
		}
	}
	if kind == pki.Client {
		return postgres.CertificateRow{}, fault.New(fault.NotFound, "Cluster %s has no client certificate.", clusterID)
	}
	return postgres.CertificateRow{}, fault.New(fault.NotFound, "Cluster %s has no %s CA.", clusterID, kind)
}

// authority gives the authority of a row, from memory if it is there.
func (s *Store) authority(ctx context.Context, row postgres.CertificateRow) (*pki.Authority, error) {
	e, err := s.entry(ctx, row)
	if err != nil {
		return nil, err
	}
	return e.authority()
}

// pair gives the certificate and the key of a row. The certificate is the row's:
// it may be newer than the vault's.
func (s *Store) pair(ctx context.Context, row postgres.CertificateRow) (driver.KeyPair, error) {
	e, err := s.entry(ctx, row)
	if err != nil {
		return driver.KeyPair{}, err
	}
	return driver.KeyPair{Certificate: []byte(*row.Certificate), Key: e.pair.Key}, nil
}

func (s *Store) entry(ctx context.Context, row postgres.CertificateRow) (*entry, error) {
	if row.Certificate == nil {
		return nil, fault.New(fault.NotFound, "Cluster %s has no %s certificate.", row.ClusterID, row.Kind)
	}
	if e, ok := s.cache.get(placeOf(row)); ok {
		return e, nil
	}
	key, err := s.key(ctx, row)
	if err != nil {
		return nil, err
	}
	return s.cache.put(placeOf(row), driver.KeyPair{Certificate: []byte(*row.Certificate), Key: key}), nil
}

// key reads the secret of a row from where it is.
func (s *Store) key(ctx context.Context, row postgres.CertificateRow) ([]byte, error) {
	if row.Backend == Database {
		return s.ring.open(placeOf(row), row.SealedKey, row.KeyID)
	}
	if s.vault == nil || row.Ref == nil {
		return nil, errNoVault
	}
	_, key, err := s.vault.Get(ctx, *row.Ref)
	return key, err
}

// Reseal seals again, with the current key, up to limit secrets that are sealed
// with another, and reports how many it did: 0 without an error means that the
// other keys can go. One that does not open does not keep the others. It may run
// beside everything else.
func (s *Store) Reseal(ctx context.Context, limit int) (int, error) {
	rows, err := s.secrets.Certificates().SealedOtherwise(ctx, s.ring.current, limit)
	if err != nil {
		return 0, err
	}
	done := 0
	var errs []error
	for _, row := range rows {
		sealed, err := s.ring.reseal(placeOf(row), row.SealedKey, row.KeyID)
		if err == nil {
			err = s.secrets.Certificates().Reseal(ctx, row, sealed, s.ring.current)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done++
	}
	n, err := s.resealCredentials(ctx, limit)
	return done + n, errors.Join(append(errs, err)...)
}

// Pool is the trust that the access's CA gives.
func (a Access) Pool() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.CA) {
		return nil, errors.New("the CA of the cluster is no certificate")
	}
	return pool, nil
}
