// Package barbican keeps key pairs in OpenStack's key manager, in the layout in
// which Magnum keeps them (spec/conductor.md §4.4): one secret for each part and
// a container of type certificate around them. So clusters that Magnum made can
// be read. Everything belongs to the service user.
//
// Which pair is whose is shared/certstore's to know.
package barbican

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"golang.org/x/sync/errgroup"

	"carafe/shared/fault"
	"carafe/shared/keystone"
	"carafe/shared/pki"
)

// The members of a container, as Magnum calls them.
const (
	memberCertificate = "certificate"
	memberKey         = "private_key"
	memberPassphrase  = "private_key_passphrase"
)

// tries is how often a call is made that the service's own trouble fails;
// firstPause grows with each.
const (
	tries      = 3
	firstPause = 200 * time.Millisecond
)

// Vault keeps key pairs in Barbican. It may be used by many goroutines.
type Vault struct{ keystone *keystone.Client }

// New is a Vault that finds Barbican in the service user's catalogue.
func New(k *keystone.Client) *Vault { return &Vault{keystone: k} }

// Store keeps a pair under a name and gives the container's address. The secrets
// carry the name too, so that Find leads to what a crash has left. If anything
// fails, what was stored is deleted again. It may run twice: that makes two.
func (v *Vault) Store(ctx context.Context, name string, certificate, key []byte) (string, error) {
	sc, err := v.client(ctx)
	if err != nil {
		return "", err
	}
	var members []containers.SecretRef
	for _, part := range []struct {
		member  string
		payload []byte
	}{{memberCertificate, certificate}, {memberKey, key}} {
		ref, err := storeSecret(ctx, sc, secretName(name, part.member), part.payload)
		if err != nil {
			undo(ctx, sc, members)
			return "", err
		}
		members = append(members, containers.SecretRef{Name: part.member, SecretRef: ref})
	}
	var made *containers.Container
	err = again(ctx, func() (err error) {
		made, err = keystone.Whole(containers.Create(ctx, sc, containers.CreateOpts{
			Type: containers.CertificateContainer, Name: name, SecretRefs: members,
		}).Extract())
		return err
	})
	if err == nil && made.ContainerRef == "" {
		err = keystone.Fault(keystone.Barbican, errNoRef)
	}
	if err != nil {
		undo(ctx, sc, members)
		return "", err
	}
	return made.ContainerRef, nil
}

// errNoRef is an answer without what was asked for.
var errNoRef = errors.New("the answer holds no reference")

func storeSecret(ctx context.Context, sc *gophercloud.ServiceClient, name string, payload []byte) (string, error) {
	var made *secrets.Secret
	err := again(ctx, func() (err error) {
		made, err = keystone.Whole(secrets.Create(ctx, sc, secrets.CreateOpts{
			Name: name, Payload: string(payload), PayloadContentType: "text/plain",
		}).Extract())
		return err
	})
	if err == nil && made.SecretRef == "" {
		err = keystone.Fault(keystone.Barbican, errNoRef)
	}
	if err != nil {
		return "", err
	}
	return made.SecretRef, nil
}

// undo deletes secrets of an attempt that failed, also when the request has
// ended meanwhile.
func undo(ctx context.Context, sc *gophercloud.ServiceClient, members []containers.SecretRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, m := range members {
		if err := deleteSecret(ctx, sc, m.SecretRef); err != nil {
			slog.ErrorContext(ctx, "secret of a failed attempt stays in Barbican", "ref", m.SecretRef, "err", err)
		}
	}
}

// Get gives the pair; the key is plain PKCS#8 in PEM, whether it was stored
// under a passphrase or not. Faults: NotFound if it is not there (whole).
func (v *Vault) Get(ctx context.Context, ref string) (certificate, key []byte, err error) {
	sc, err := v.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	container, err := getContainer(ctx, sc, ref)
	if err != nil {
		return nil, nil, err
	}
	if container.Type != string(containers.CertificateContainer) {
		return nil, nil, fault.New(fault.NotFound, "Container %s of Barbican does not hold a certificate.", ref)
	}
	members := map[string]*[]byte{memberCertificate: {}, memberKey: {}, memberPassphrase: {}}
	reads, ctx := errgroup.WithContext(ctx)
	for _, m := range container.SecretRefs {
		if into := members[m.Name]; into != nil {
			reads.Go(func() (err error) {
				*into, err = payload(ctx, sc, m.SecretRef)
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, nil, err
	}
	certificate, sealed := *members[memberCertificate], *members[memberKey]
	if len(certificate) == 0 || len(sealed) == 0 {
		return nil, nil, fault.New(fault.NotFound, "Container %s of Barbican lacks its certificate or its key.", ref)
	}
	key, err = pki.DecryptKey(sealed, *members[memberPassphrase])
	if err != nil {
		return nil, nil, fmt.Errorf("container %s: %w", ref, err)
	}
	// Barbican strips the white space around a payload; PEM texts end in a newline.
	return append(bytes.TrimSpace(certificate), '\n'), key, nil
}

func getContainer(ctx context.Context, sc *gophercloud.ServiceClient, ref string) (*containers.Container, error) {
	id, err := idOf(ref)
	if err != nil {
		return nil, err
	}
	var c *containers.Container
	err = again(ctx, func() (err error) {
		c, err = keystone.Whole(containers.Get(ctx, sc, id).Extract())
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(fault.NotFound, err, "Container %s is not in Barbican.", ref)
	}
	return c, err
}

func payload(ctx context.Context, sc *gophercloud.ServiceClient, ref string) ([]byte, error) {
	id, err := idOf(ref)
	if err != nil {
		return nil, err
	}
	var text []byte
	err = again(ctx, func() (err error) {
		text, err = secrets.GetPayload(ctx, sc, id, nil).Extract()
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(fault.NotFound, err, "Secret %s is not in Barbican.", ref)
	}
	return text, err
}

// Delete removes what a reference of Store or Find stands for: a container with
// its secrets, or one secret. The container goes last, so that a failure can be
// followed by another Delete. What is gone already is a success.
func (v *Vault) Delete(ctx context.Context, ref string) error {
	sc, err := v.client(ctx)
	if err != nil {
		return err
	}
	if strings.Contains(ref, "/secrets/") {
		return deleteSecret(ctx, sc, ref)
	}
	container, err := getContainer(ctx, sc, ref)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range container.SecretRefs {
		if err := deleteSecret(ctx, sc, m.SecretRef); err != nil {
			return err
		}
	}
	id, err := idOf(ref)
	if err != nil {
		return err
	}
	return gone(again(ctx, func() error { return containers.Delete(ctx, sc, id).ExtractErr() }))
}

func deleteSecret(ctx context.Context, sc *gophercloud.ServiceClient, ref string) error {
	id, err := idOf(ref)
	if err != nil {
		return err
	}
	return gone(again(ctx, func() error { return secrets.Delete(ctx, sc, id).ExtractErr() }))
}

func gone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Find gives the references of everything that was stored under the name: the
// containers, and the secrets that never came into one.
func (v *Vault) Find(ctx context.Context, name string) ([]string, error) {
	sc, err := v.client(ctx)
	if err != nil {
		return nil, err
	}
	var refs []string
	inside := map[string]bool{}
	var found []containers.Container
	err = again(ctx, func() error {
		page, err := containers.List(sc, containers.ListOpts{Name: name, Limit: 100}).AllPages(ctx)
		if err == nil {
			found, err = containers.ExtractContainers(page)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		refs = append(refs, c.ContainerRef)
		for _, m := range c.SecretRefs {
			inside[m.SecretRef] = true
		}
	}
	for _, member := range []string{memberCertificate, memberKey} {
		var loose []secrets.Secret
		err = again(ctx, func() error {
			page, err := secrets.List(sc, secrets.ListOpts{Name: secretName(name, member), Limit: 100}).AllPages(ctx)
			if err == nil {
				loose, err = secrets.ExtractSecrets(page)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, s := range loose {
			if !inside[s.SecretRef] {
				refs = append(refs, s.SecretRef)
			}
		}
	}
	return refs, nil
}

func secretName(name, member string) string { return name + " " + member }

func (v *Vault) client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return v.keystone.ForService(ctx, keystone.Barbican)
}

// idOf is the last part of a reference; the rest may be another address of the
// same Barbican.
func idOf(ref string) (string, error) {
	id := ref[strings.LastIndexByte(ref, '/')+1:]
	if uuid.Validate(id) != nil {
		return "", fault.New(fault.NotFound, "%q is not a reference of Barbican.", ref)
	}
	return id, nil
}

// again makes a call until it succeeds, up to three times as long as the fault
// is the service's own. A call whose answer was lost may have had its effect:
// for deletions that is no matter, and a secret made twice is found by its name.
func again(ctx context.Context, call func() error) error {
	for attempt := 1; ; attempt++ {
		err := keystone.Fault(keystone.Barbican, call())
		if attempt == tries || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return err
		}
		pause := firstPause << (attempt - 1)
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter
		case <-ctx.Done():
			return err
		}
	}
}
