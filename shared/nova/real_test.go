//go:build openstack

package nova_test

import (
	"testing"

	"carafe/shared/fault"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
	"carafe/shared/nova"
)

func TestRealFlavors(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	sc, err := k.ForCaller(t.Context(), cloud.Caller(t, k, "demo"), keystone.Nova)
	if err != nil {
		t.Fatal(err)
	}
	small, err := nova.FindFlavor(t.Context(), sc, "m1.small")
	if err != nil || small.Name != "m1.small" || small.Disk != 20 || small.ID == "" {
		t.Fatalf("by name: %+v, %v", small, err)
	}
	if byID, err := nova.FindFlavor(t.Context(), sc, small.ID); err != nil || byID != small {
		t.Errorf("by id: %+v, %v", byID, err)
	}
	if f, err := nova.FindFlavor(t.Context(), sc, "m1.nodisk"); err != nil || f.Disk != 0 {
		t.Errorf("without a disk: %+v, %v", f, err)
	}
	for _, name := range []string{"m1.nowhere", "m1.private", "..", ".", "a/b", "detail", "x?y", "%2e%2e", "é", " "} {
		_, err := nova.FindFlavor(t.Context(), sc, name)
		if !fault.Is(err, fault.Invalid) || fault.Text(err) != "Unable to find flavor "+name+"." {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRealKeypairs(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	sc, err := k.ForCaller(t.Context(), cloud.Caller(t, k, "demo"), keystone.Nova)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := nova.FindKeypair(t.Context(), sc, "testkey"); err != nil || key.Name != "testkey" || key.PublicKey == "" {
		t.Errorf("%+v, %v", key, err)
	}
	for _, name := range []string{"nokey", "..", "a/b", "x?y", "é"} {
		_, err := nova.FindKeypair(t.Context(), sc, name)
		if !fault.Is(err, fault.NotFound) || fault.Text(err) != "Unable to find keypair "+name+"." {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Keypairs are a user's, not a project's.
	sc, err = k.ForCaller(t.Context(), cloud.Caller(t, k, "reader"), keystone.Nova)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nova.FindKeypair(t.Context(), sc, "testkey"); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user's: %v", err)
	}
}
