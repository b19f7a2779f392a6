package function

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"carafe/shared/certstore"
)

// ownSealKey is the key of an installation on one machine: made at its first
// start, and kept beside its data for this user alone. Two processes that start
// together end up with the same one.
func ownSealKey(dir string) (certstore.Keys, error) {
	path := filepath.Join(dir, "seal.key")
	for {
		key, err := os.ReadFile(path)
		if err == nil {
			return certstore.Keys(key), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if err := create(path, []byte(string(certstore.NewKey()))); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// create writes a file that nobody else can read, whole or not at all.
func create(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "seal-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Link(temporary.Name(), path)
}
