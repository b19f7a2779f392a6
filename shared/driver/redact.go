package driver

import (
	"fmt"
	"io"
)

// What holds a secret prints as *** whatever the verb, in a log line too, and
// cannot be encoded by accident.

// Format hides the key.
func (KeyPair) Format(f fmt.State, _ rune) { hide(f) }

// MarshalText hides the key.
func (KeyPair) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Format hides the keys: fmt would not ask a KeyPair behind a pointer.
func (Certificates) Format(f fmt.State, _ rune) { hide(f) }

// Format hides the secret.
func (Credential) Format(f fmt.State, _ rune) { hide(f) }

// MarshalText hides the secret.
func (Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "***"

func hide(f fmt.State) { _, _ = io.WriteString(f, hidden) }
