package openstack

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// Names are what a template or a cluster says of the cloud. Empty and nil are
// not looked up.
type Names struct {
	Image           string
	Flavor          *string
	MasterFlavor    *string
	ExternalNetwork *string
	FixedNetwork    *string
	FixedSubnet     *string
	Keypair         *string // clusters only
	Labels          map[string]string
}

// Checks are the checks of spec/api.md §6.1. All look-ups of one check run at
// the same time; the error is the one that Magnum, asking in turn, would meet
// first.
type Checks struct {
	Cloud Cloud
	// DefaultBootVolumeSize holds where the label boot_volume_size is missing,
	// in GB. magnum.conf [cinder] default_boot_volume_size.
	DefaultBootVolumeSize int
	// Timeout bounds a whole check; 0 leaves that to the bounds of its calls.
	Timeout time.Duration
}

// Image looks the image up and insists on its os_distro.
func (c Checks) Image(ctx context.Context, caller identity.Caller, nameOrID string) (Image, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	image, err := c.Cloud.Image(ctx, caller, nameOrID)
	if err != nil {
		return Image{}, err
	}
	return image, hasDistro(image, nameOrID)
}

func hasDistro(i Image, nameOrID string) error {
	if i.OSDistro == "" {
		return fault.New(fault.Invalid, "Image %s doesn't contain os_distro field.", nameOrID)
	}
	return nil
}

// Template checks everything that a template names, and gives its image (the
// zero Image if none is named).
func (c Checks) Template(ctx context.Context, caller identity.Caller, n Names) (Image, error) {
	l := c.begin(ctx, caller, n)
	defer l.end()
	image, err := l.resources()
	if err != nil {
		return Image{}, err
	}
	return image, l.rootVolume(c.DefaultBootVolumeSize)
}

// Cluster checks everything that a cluster uses, its own and its template's:
// here the root volume comes first (spec/api.md §4.2.4, steps 13 and 14).
func (c Checks) Cluster(ctx context.Context, caller identity.Caller, n Names) (Image, error) {
	l := c.begin(ctx, caller, n)
	defer l.end()
	if err := l.rootVolume(c.DefaultBootVolumeSize); err != nil {
		return Image{}, err
	}
	return l.resources()
}

// RootVolume checks only that the flavors have a root disk where the labels do
// not ask for a boot volume: for cluster PATCH and for nodegroups.
func (c Checks) RootVolume(ctx context.Context, caller identity.Caller, labels map[string]string, flavors ...*string) error {
	size, err := bootVolumeSize(labels, c.DefaultBootVolumeSize)
	if err != nil || size > 0 {
		return err
	}
	l := c.begin(ctx, caller, Names{Labels: labels})
	defer l.end()
	for _, f := range flavors {
		l.flavor(f)
	}
	return l.rootVolumeOf(size, flavors...)
}

func (c Checks) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.Timeout)
}

// lookups are the look-ups of one check, all on their way.
type lookups struct {
	ctx    context.Context //nolint:containedctx // lives as long as one check
	cancel context.CancelFunc
	wg     sync.WaitGroup
	cloud  Cloud
	caller identity.Caller
	names  Names

	image                                      func() (Image, error)
	flavors                                    map[string]func() (Flavor, error)
	externalNetwork, fixedNetwork, fixedSubnet func() (Network, error)
	keypair                                    func() (Keypair, error)
}

func (c Checks) begin(ctx context.Context, caller identity.Caller, n Names) *lookups {
	l := &lookups{cloud: c.Cloud, caller: caller, names: n, flavors: map[string]func() (Flavor, error){}}
	l.ctx, l.cancel = c.limit(ctx)
	l.image = start(l, &n.Image, l.cloud.Image)
	l.flavor(n.Flavor)
	l.flavor(n.MasterFlavor)
	l.externalNetwork = start(l, n.ExternalNetwork, l.cloud.ExternalNetwork)
	l.fixedNetwork = start(l, n.FixedNetwork, l.cloud.Network)
	l.fixedSubnet = start(l, n.FixedSubnet, l.cloud.Subnet)
	l.keypair = start(l, n.Keypair, l.cloud.Keypair)
	return l
}

// end gives up what nobody waits for any more.
func (l *lookups) end() {
	l.cancel()
	l.wg.Wait()
}

// start looks name up in the background; the result waits for it. Without a
// name there is nothing to find and nothing wrong.
func start[T any](l *lookups, name *string, find func(context.Context, identity.Caller, string) (T, error)) func() (T, error) {
	var found T
	var err error
	if empty(name) {
		return func() (T, error) { return found, nil }
	}
	done := make(chan struct{})
	l.wg.Go(func() {
		defer close(done)
		found, err = find(l.ctx, l.caller, *name)
	})
	return func() (T, error) {
		<-done
		return found, err
	}
}

func empty(s *string) bool { return s == nil || *s == "" }

// flavor starts or finds the look-up of a flavor: the two of a cluster are
// often the same.
func (l *lookups) flavor(name *string) func() (Flavor, error) {
	if empty(name) {
		return start(l, nil, l.cloud.Flavor)
	}
	if l.flavors[*name] == nil {
		l.flavors[*name] = start(l, name, l.cloud.Flavor)
	}
	return l.flavors[*name]
}

// resources waits in Magnum's order.
func (l *lookups) resources() (Image, error) {
	image, err := l.image()
	if err == nil && l.names.Image != "" {
		err = hasDistro(image, l.names.Image)
	}
	if err != nil {
		return Image{}, err
	}
	for _, name := range []*string{l.names.Flavor, l.names.MasterFlavor} {
		if _, err := l.flavor(name)(); err != nil {
			return Image{}, err
		}
	}
	for _, network := range []func() (Network, error){l.externalNetwork, l.fixedNetwork, l.fixedSubnet} {
		if _, err := network(); err != nil {
			return Image{}, err
		}
	}
	_, err = l.keypair()
	return image, err
}

func (l *lookups) rootVolume(defaultSize int) error {
	size, err := bootVolumeSize(l.names.Labels, defaultSize)
	if err != nil {
		return err
	}
	return l.rootVolumeOf(size, l.names.Flavor, l.names.MasterFlavor)
}

// rootVolumeOf refuses flavors without a disk if no boot volume takes its
// place. A flavor that is not named is not asked for one (PEER BUG B32).
func (l *lookups) rootVolumeOf(size int, flavors ...*string) error {
	if size > 0 {
		return nil
	}
	for _, name := range flavors {
		if empty(name) {
			continue
		}
		f, err := l.flavor(name)()
		if err != nil {
			return err
		}
		if f.Disk == 0 && size == 0 {
			return fault.New(fault.Invalid, "Flavor with zero root volume size is not supported when boot_volume_size is zero.")
		}
	}
	return nil
}

// bootVolumeSize reads the label; what is no number is the caller's error and
// not ours (PEER BUG B31).
func bootVolumeSize(labels map[string]string, otherwise int) (int, error) {
	text, ok := labels["boot_volume_size"]
	if !ok {
		return otherwise, nil
	}
	size, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fault.New(fault.Invalid,
			"Invalid input for field/attribute labels. Value: '%s'. boot_volume_size must be an integer", text)
	}
	return size, nil
}
