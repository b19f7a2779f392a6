//go:build openstack

package openstack_test

import (
	"testing"

	"carafe/shared/fault"
	"carafe/shared/keystonetest"
	"carafe/shared/openstack"
)

func p(s string) *string { return &s }

func TestRealChecks(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	checks := openstack.Checks{Cloud: openstack.New(k)}
	demo := cloud.Caller(t, k, "demo")
	good := openstack.Names{
		Image: "ubuntu-k8s", Flavor: p("m1.small"), MasterFlavor: p("m1.medium"), ExternalNetwork: p("public"),
		FixedNetwork: p("private"), FixedSubnet: p("private-subnet"), Keypair: p("testkey"),
	}
	for name, tc := range map[string]struct {
		change func(*openstack.Names)
		kind   fault.Kind
		text   string // empty: all is well
	}{
		"all there":        {func(*openstack.Names) {}, 0, ""},
		"only an image":    {func(n *openstack.Names) { *n = openstack.Names{Image: "ubuntu-k8s"} }, 0, ""},
		"no image":         {func(n *openstack.Names) { n.Image = "nope"; n.FixedSubnet = p("nope") }, fault.Invalid, "Image nope could not be found."},
		"no distro":        {func(n *openstack.Names) { n.Image = "no-distro" }, fault.Invalid, "Image no-distro doesn't contain os_distro field."},
		"no master flavor": {func(n *openstack.Names) { n.MasterFlavor = p("nope"); n.FixedNetwork = p("nope") }, fault.Invalid, "Unable to find flavor nope."},
		"no external":      {func(n *openstack.Names) { n.ExternalNetwork = p("nope") }, fault.Invalid, "Unable to find external network nope."},
		"two networks":     {func(n *openstack.Names) { n.FixedNetwork = p("dup-net") }, fault.Conflict, "Multiple networks exist with same name 'dup-net'. Please use the network ID instead."},
		"no keypair":       {func(n *openstack.Names) { n.Keypair = p("nope") }, fault.NotFound, "Unable to find keypair nope."},
		"no root volume":   {func(n *openstack.Names) { n.Flavor = p("m1.nodisk") }, fault.Invalid, "Flavor with zero root volume size is not supported when boot_volume_size is zero."},
		"a boot volume": {func(n *openstack.Names) {
			n.Flavor, n.Labels = p("m1.nodisk"), map[string]string{"boot_volume_size": "10"}
		}, 0, ""},
	} {
		n := good
		tc.change(&n)
		for _, check := range []func() (openstack.Image, error){
			func() (openstack.Image, error) { return checks.Template(t.Context(), demo, n) },
			func() (openstack.Image, error) { return checks.Cluster(t.Context(), demo, n) },
		} {
			image, err := check()
			switch {
			case tc.text == "" && (err != nil || image.OSDistro != "ubuntu"):
				t.Errorf("%s: %+v, %v", name, image, err)
			case tc.text != "" && (!fault.Is(err, tc.kind) || fault.Text(err) != tc.text):
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// In a cluster the root volume comes before the image.
	n := good
	n.Image, n.Flavor = "nope", p("m1.nodisk")
	if _, err := checks.Cluster(t.Context(), demo, n); fault.Text(err) != "Flavor with zero root volume size is not supported when boot_volume_size is zero." {
		t.Errorf("cluster: %v", err)
	}
	if _, err := checks.Template(t.Context(), demo, n); fault.Text(err) != "Image nope could not be found." {
		t.Errorf("template: %v", err)
	}
}

func TestRealOutageNamesTheService(t *testing.T) {
	cloud := keystonetest.Load(t)
	k := cloud.New(t)
	checks := openstack.Checks{Cloud: openstack.New(k)}
	demo := cloud.Caller(t, k, "demo")
	n := openstack.Names{Image: "ubuntu-k8s", Flavor: p("m1.small"), FixedNetwork: p("private")}
	for service, name := range map[string]string{"glance": "Glance", "nova": "Nova", "neutron": "Neutron"} {
		cloud.Stop(t, service)
		_, err := checks.Template(t.Context(), demo, n)
		if !fault.Is(err, fault.Unavailable) || fault.Text(err) != name+" connection failed. It cannot be reached." {
			t.Errorf("without %s: %v", service, err)
		}
		cloud.Start(t, service)
		if _, err := checks.Template(t.Context(), demo, n); err != nil {
			t.Errorf("with %s again: %v", service, err)
		}
	}
}
