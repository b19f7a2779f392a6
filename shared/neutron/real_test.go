//go:build openstack

package neutron_test

import (
	"testing"

	"carafe/shared/fault"
	"carafe/shared/keystone"
	"carafe/shared/keystonetest"
	"carafe/shared/neutron"
)

func TestRealNetworks(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	sc, err := k.ForCaller(t.Context(), cloud.Caller(t, k, "demo"), keystone.Neutron)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	public, err := neutron.FindExternalNetwork(ctx, sc, "public")
	if err != nil || public.Name != "public" {
		t.Fatalf("external by name: %+v, %v", public, err)
	}
	if byID, err := neutron.FindExternalNetwork(ctx, sc, public.ID); err != nil || byID != public {
		t.Errorf("external by id: %+v, %v", byID, err)
	}
	private, err := neutron.FindNetwork(ctx, sc, "private")
	if err != nil {
		t.Fatal(err)
	}
	if byID, err := neutron.FindNetwork(ctx, sc, private.ID); err != nil || byID != private {
		t.Errorf("network by id: %+v, %v", byID, err)
	}
	subnet, err := neutron.FindSubnet(ctx, sc, "private-subnet")
	if err != nil {
		t.Fatal(err)
	}
	if byID, err := neutron.FindSubnet(ctx, sc, subnet.ID); err != nil || byID != subnet {
		t.Errorf("subnet by id: %+v, %v", byID, err)
	}

	const unknown = "0f0f0f0f-0000-4000-8000-000000000000"
	type find = func(name string) (neutron.Network, error)
	external := func(n string) (neutron.Network, error) { return neutron.FindExternalNetwork(ctx, sc, n) }
	network := func(n string) (neutron.Network, error) { return neutron.FindNetwork(ctx, sc, n) }
	sub := func(n string) (neutron.Network, error) { return neutron.FindSubnet(ctx, sc, n) }
	for _, tc := range []struct {
		find find
		name string
		kind fault.Kind
		text string
	}{
		{external, "nowhere", fault.Invalid, "Unable to find external network nowhere."},
		{external, unknown, fault.Invalid, "Unable to find external network " + unknown + "."},
		{external, "private", fault.Invalid, "Unable to find external network private."},
		{external, private.ID, fault.Invalid, "Unable to find external network " + private.ID + "."},
		{external, "dup-public", fault.Conflict, "Multiple external networks exist with same name 'dup-public'. Please use the external network ID instead."},
		{network, "nowhere", fault.Invalid, "Unable to find fixed network nowhere."},
		{network, "other-private", fault.Invalid, "Unable to find fixed network other-private."},
		{network, "a&b=c#d é", fault.Invalid, "Unable to find fixed network a&b=c#d é."},
		{network, "dup-net", fault.Conflict, "Multiple networks exist with same name 'dup-net'. Please use the network ID instead."},
		{sub, "nowhere", fault.Invalid, "Unable to find fixed subnet nowhere."},
		{sub, private.ID, fault.Invalid, "Unable to find fixed subnet " + private.ID + "."},
		{sub, "dup-subnet", fault.Conflict, "Multiple subnets exist with same name 'dup-subnet'. Please use the subnet ID instead."},
	} {
		_, err := tc.find(tc.name)
		if !fault.Is(err, tc.kind) || fault.Text(err) != tc.text {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.text)
		}
	}
}
