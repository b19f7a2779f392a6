package certstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"carafe/shared/fault"
)

// Keys is the text of CARAFE_SEAL_KEYS. It prints as ***.
type Keys string

// Format hides the keys from every verb of fmt.
func (Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// MarshalText hides the keys from encoders.
func (Keys) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Keyring seals secrets with AES-256-GCM. New ones are sealed with the first
// key; the others open what was sealed before. It is safe for concurrent use.
type Keyring struct {
	current string
	keys    map[string]cipher.AEAD
}

var keyIDs = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeys reads keys as id:base64, separated by commas or white space, the
// current one first. Its errors never quote a key.
func ParseKeys(text Keys) (*Keyring, error) {
	ring := &Keyring{keys: map[string]cipher.AEAD{}}
	entries := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(entries) == 0 {
		return nil, errors.New("no key is given: make one with `carafe newkey`")
	}
	for n, entry := range entries {
		id, encoded, found := strings.Cut(entry, ":")
		if !found || !keyIDs.MatchString(id) {
			return nil, fmt.Errorf("key %d is not in the form id:base64 with an id of letters, digits, dots, dashes", n+1)
		}
		if _, twice := ring.keys[id]; twice {
			return nil, fmt.Errorf("the key id %s is given twice", id)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("key %s is not 32 bytes in base64", id)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", id, err)
		}
		if ring.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("key %s: %w", id, err)
		}
		if n == 0 {
			ring.current = id
		}
	}
	return ring, nil
}

// NewKey makes a key with an id of its own, in the form that ParseKeys reads.
func NewKey() Keys {
	key, id := make([]byte, 32), make([]byte, 4)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	_, _ = rand.Read(id)
	return Keys(hex.EncodeToString(id) + ":" + base64.StdEncoding.EncodeToString(key))
}

// Format hides what fmt would find inside.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// place is where a sealed secret belongs. It is authenticated with the secret, so
// that one row's secret moved into another does not open.
type place struct {
	cluster string
	kind    string
	epoch   int
}

func (p place) String() string {
	return "carafe/1/" + p.cluster + "/" + p.kind + "/" + strconv.Itoa(p.epoch)
}

// seal gives nonce and ciphertext, and the id of the key that was used.
func (k *Keyring) seal(p place, secret []byte) (sealed []byte, keyID string) {
	return k.keys[k.current].Seal(nil, nil, secret, []byte(p.String())), k.current
}

// open is the reverse of seal. A secret that does not open is an operator's
// matter: a key has been lost, or the database was tampered with.
func (k *Keyring) open(p place, sealed []byte, keyID *string) ([]byte, error) {
	if keyID == nil || len(sealed) == 0 {
		return nil, fmt.Errorf("%s of cluster %s, epoch %d: no secret is stored", p.kind, p.cluster, p.epoch)
	}
	aead, ok := k.keys[*keyID]
	if !ok {
		return nil, fault.Wrap(fault.Internal, nil,
			"%s of cluster %s, epoch %d: sealed with the key %q, which is not in CARAFE_SEAL_KEYS", p.kind, p.cluster, p.epoch, *keyID)
	}
	secret, err := aead.Open(nil, nil, sealed, []byte(p.String()))
	if err != nil {
		return nil, fmt.Errorf("%s of cluster %s, epoch %d: does not open with the key %q: %w", p.kind, p.cluster, p.epoch, *keyID, err)
	}
	return secret, nil
}

// reseal opens a secret and seals it with the current key.
func (k *Keyring) reseal(p place, sealed []byte, keyID *string) ([]byte, error) {
	secret, err := k.open(p, sealed, keyID)
	if err != nil {
		return nil, err
	}
	again, _ := k.seal(p, secret)
	return again, nil
}
