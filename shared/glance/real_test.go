//go:build openstack

package glance_test

import (
	"testing"

	"carafe/shared/fault"
	"carafe/shared/glance"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
)

func TestRealImages(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	ctx := t.Context()
	sc, err := k.ForCaller(ctx, cloud.Caller(t, k, "demo"), keystone.Glance)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]glance.Image{
		"ubuntu-k8s":   {OSDistro: "ubuntu"},
		"no-distro":    {},
		"with-driver":  {OSDistro: "ubuntu", MagnumDriver: "simulated"},
		"hidden-image": {OSDistro: "ubuntu"},
	} {
		got, err := glance.FindImage(ctx, sc, name)
		want.ID, want.Name = got.ID, name
		if err != nil || got != want || got.ID == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if byID, err := glance.FindImage(ctx, sc, got.ID); err != nil || byID != got {
			t.Errorf("%s by id: %+v, %v", name, byID, err)
		}
	}
	for name, want := range map[string]string{
		"nowhere":                              "Image nowhere could not be found.",
		"0f0f0f0f-0000-4000-8000-000000000000": "Image 0f0f0f0f-0000-4000-8000-000000000000 could not be found.",
		"admins-image":                         "Image admins-image could not be found.",
		"in:ubuntu-k8s,fedora":                 "Image in:ubuntu-k8s,fedora could not be found.",
		"..":                                   "Image .. could not be found.",
		"a/b":                                  "Image a/b could not be found.",
		"é":                                    "Image é could not be found.",
	} {
		if _, err := glance.FindImage(ctx, sc, name); !fault.Is(err, fault.Invalid) || fault.Text(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = glance.FindImage(ctx, sc, "dup-image")
	if !fault.Is(err, fault.Conflict) || fault.Text(err) != "Multiple images exist with same name 'dup-image'. Please use the image ID instead." {
		t.Errorf("two of a name: %v", err)
	}
}
