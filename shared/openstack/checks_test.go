package openstack_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/openstack"
	"carafe/shared/openstack/named"
)

func ptr(s string) *string { return &s }

// slowCloud lacks what is called "no…", and answers only when all look-ups of
// the check have begun: a check that asked in turn would not end.
type slowCloud struct {
	named.Cloud
	begun *sync.WaitGroup
}

func (c slowCloud) wait(ctx context.Context, what string) error {
	c.begun.Done()
	done := make(chan struct{})
	go func() { c.begun.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "%s was not asked at the same time as the others", what)
	}
	if strings.HasPrefix(what, "no") {
		return fault.New(fault.Invalid, "%s", what)
	}
	return nil
}

func (c slowCloud) Image(ctx context.Context, _ identity.Caller, n string) (openstack.Image, error) {
	return openstack.Image{ID: n, OSDistro: "ubuntu"}, c.wait(ctx, n)
}

func (c slowCloud) Flavor(ctx context.Context, _ identity.Caller, n string) (openstack.Flavor, error) {
	f := openstack.Flavor{ID: n, Disk: 20}
	if strings.HasSuffix(n, "diskless") {
		f.Disk = 0
	}
	return f, c.wait(ctx, n)
}

func (c slowCloud) Keypair(ctx context.Context, _ identity.Caller, n string) (openstack.Keypair, error) {
	return openstack.Keypair{Name: n}, c.wait(ctx, n)
}

func (c slowCloud) ExternalNetwork(ctx context.Context, _ identity.Caller, n string) (openstack.Network, error) {
	return openstack.Network{ID: n}, c.wait(ctx, n)
}

func (c slowCloud) Network(ctx context.Context, _ identity.Caller, n string) (openstack.Network, error) {
	return openstack.Network{ID: n}, c.wait(ctx, n)
}

func (c slowCloud) Subnet(ctx context.Context, _ identity.Caller, n string) (openstack.Network, error) {
	return openstack.Network{ID: n}, c.wait(ctx, n)
}

const diskless = "Flavor with zero root volume size is not supported when boot_volume_size is zero."

func TestErrorsComeInMagnumsOrderThoughAllIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names             openstack.Names
		lookups           int
		template, cluster string
	}{
		"all wrong": {openstack.Names{
			Image: "no image", Flavor: ptr("no flavor"), MasterFlavor: ptr("no master"), ExternalNetwork: ptr("no external"),
			FixedNetwork: ptr("no network"), FixedSubnet: ptr("no subnet"), Keypair: ptr("no keypair"),
		}, 7, "no image", "no flavor"},
		"late ones": {openstack.Names{
			Image: "i", Flavor: ptr("f"), MasterFlavor: ptr("m"), ExternalNetwork: ptr("e"),
			FixedNetwork: ptr("n"), FixedSubnet: ptr("no subnet"), Keypair: ptr("no keypair"),
		}, 7, "no subnet", "no subnet"},
		"one flavor twice is asked for once": {openstack.Names{Image: "i", Flavor: ptr("f"), MasterFlavor: ptr("f")}, 2, "", ""},
		"no disk":                            {openstack.Names{Image: "no image", Flavor: ptr("diskless")}, 2, "no image", diskless},
		"no disk, but a boot volume": {openstack.Names{
			Image: "i", MasterFlavor: ptr("diskless"), Labels: map[string]string{"boot_volume_size": "5"},
		}, 2, "", ""},
		"no flavor named":        {openstack.Names{Image: "i"}, 1, "", ""},
		"empty is not looked up": {openstack.Names{Flavor: ptr(""), FixedNetwork: ptr("")}, 0, "", ""},
		"bad size": {openstack.Names{Image: "i", Flavor: ptr("f"), Labels: map[string]string{"boot_volume_size": "big"}}, 2,
			"Invalid input for field/attribute labels. Value: 'big'. boot_volume_size must be an integer",
			"Invalid input for field/attribute labels. Value: 'big'. boot_volume_size must be an integer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for want, check := range map[*string]func(openstack.Checks) error{
				&tc.template: func(c openstack.Checks) error {
					_, err := c.Template(t.Context(), identity.Caller{}, tc.names)
					return err
				},
				&tc.cluster: func(c openstack.Checks) error {
					_, err := c.Cluster(t.Context(), identity.Caller{}, tc.names)
					return err
				},
			} {
				var begun sync.WaitGroup
				begun.Add(tc.lookups)
				err := check(openstack.Checks{Cloud: slowCloud{begun: &begun}, Timeout: 5 * time.Second})
				if err == nil && *want != "" || err != nil && fault.Text(err) != *want {
					t.Errorf("error is %v, want %q", err, *want)
				}
			}
		})
	}
}

func TestRootVolumeAlone(t *testing.T) {
	t.Parallel()
	var begun sync.WaitGroup
	begun.Add(2)
	checks := openstack.Checks{Cloud: slowCloud{begun: &begun}, Timeout: 5 * time.Second}
	err := checks.RootVolume(t.Context(), identity.Caller{}, nil, ptr("f"), nil, ptr("diskless"))
	if fault.Text(err) != diskless {
		t.Errorf("error is %v", err)
	}
	if err := checks.RootVolume(t.Context(), identity.Caller{}, map[string]string{"boot_volume_size": "9"}, ptr("no flavor")); err != nil {
		t.Errorf("with a boot volume: %v", err)
	}
	checks.DefaultBootVolumeSize = 7
	if err := checks.RootVolume(t.Context(), identity.Caller{}, nil, ptr("no flavor")); err != nil {
		t.Errorf("with a default boot volume: %v", err)
	}
}

// noDistro has an image that says nothing of itself.
type noDistro struct{ named.Cloud }

func (noDistro) Image(context.Context, identity.Caller, string) (openstack.Image, error) {
	return openstack.Image{ID: "x"}, nil
}

func TestImageWithoutDistro(t *testing.T) {
	t.Parallel()
	checks := openstack.Checks{Cloud: noDistro{}}
	_, alone := checks.Image(t.Context(), identity.Caller{}, "img")
	_, whole := checks.Template(t.Context(), identity.Caller{}, openstack.Names{Image: "img"})
	for _, err := range []error{alone, whole} {
		if !fault.Is(err, fault.Invalid) || fault.Text(err) != "Image img doesn't contain os_distro field." {
			t.Errorf("error is %v", err)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := openstack.NewOptions(openstack.OptionsConfig{AllowedNetworkDrivers: []string{"flannel", "calico"}, DefaultNetworkDriver: "flannel"})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := o.NetworkDriver(nil); d != "flannel" || err != nil {
		t.Errorf("default: %s, %v", d, err)
	}
	two := 2
	three := 3
	_, supported := o.NetworkDriver(ptr("weave"))
	_, allowed := o.NetworkDriver(ptr("cilium"))
	for want, err := range map[string]error{
		"Network driver type weave is not supported, expecting a flannel/calico/cilium/unspecified network driver.": supported,
		"Network driver type cilium is not allowed, expecting a flannel/calico/unspecified network driver. ":        allowed,
		"Requested COE type swarm is not supported.":                                                                o.COE("swarm"),
		"Server type lxd is not supported, expecting a vm/bm/unspecified server type.":                              o.ServerType("lxd"),
		"Volume driver type rexray is not supported, expecting a cinder/unspecified volume driver.":                 o.VolumeDriver(ptr("rexray")),
		"docker volume size 2 GB is not valid, expecting minimum value 3GB for devicemapper storage driver.":        o.DockerVolume(ptr("devicemapper"), &two),
		"docker volume size None GB is not valid, expecting minimum value 3GB for devicemapper storage driver.":     o.DockerVolume(ptr("devicemapper"), nil),
	} {
		if !fault.Is(err, fault.Invalid) || fault.Text(err) != want {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	for _, err := range []error{
		o.COE("kubernetes"), o.ServerType("bm"), o.VolumeDriver(nil), o.VolumeDriver(ptr("cinder")),
		o.DockerVolume(ptr("devicemapper"), &three), o.DockerVolume(ptr("overlay2"), nil), o.DockerVolume(nil, nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	all, err := openstack.NewOptions(openstack.OptionsConfig{AllowedNetworkDrivers: []string{"all"}, DefaultNetworkDriver: "cilium"})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := all.NetworkDriver(nil); d != "cilium" || err != nil {
		t.Errorf("all: %s, %v", d, err)
	}
	_, err = openstack.NewOptions(openstack.OptionsConfig{AllowedNetworkDrivers: []string{"weave"}, DefaultNetworkDriver: "calico"})
	if err == nil || !strings.Contains(err.Error(), "CARAFE_KUBERNETES_ALLOWED_NETWORK_DRIVERS") || !strings.Contains(err.Error(), "CARAFE_KUBERNETES_DEFAULT_NETWORK_DRIVER") {
		t.Errorf("bad settings: %v", err)
	}
}
