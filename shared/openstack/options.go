package openstack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"carafe/shared/fault"
)

// What this release supports (spec/api.md §6.2).
var (
	networkDrivers = []string{"flannel", "calico", "cilium"}
	serverTypes    = []string{"vm", "bm"}
)

// OptionsConfig is the environment of Options.
type OptionsConfig struct {
	// AllowedNetworkDrivers may be used; "all" allows every supported one.
	// [cluster_template] kubernetes_allowed_network_drivers.
	AllowedNetworkDrivers []string `envconfig:"CARAFE_KUBERNETES_ALLOWED_NETWORK_DRIVERS" default:"flannel,calico"`
	// DefaultNetworkDriver is taken for a template that names none.
	// [cluster_template] kubernetes_default_network_driver.
	DefaultNetworkDriver string `envconfig:"CARAFE_KUBERNETES_DEFAULT_NETWORK_DRIVER" default:"flannel"`
}

// Options are the lists that a template may choose from.
type Options struct {
	allowed  []string
	standard string
}

// NewOptions refuses settings under which no template could be made.
func NewOptions(cfg OptionsConfig) (Options, error) {
	o := Options{allowed: cfg.AllowedNetworkDrivers, standard: cfg.DefaultNetworkDriver}
	if slices.Contains(o.allowed, "all") {
		o.allowed = networkDrivers
	}
	var problems []error
	for _, d := range o.allowed {
		if !slices.Contains(networkDrivers, d) {
			problems = append(problems, fmt.Errorf("CARAFE_KUBERNETES_ALLOWED_NETWORK_DRIVERS: %q is not one of %s",
				d, strings.Join(networkDrivers, ", ")))
		}
	}
	if !slices.Contains(o.allowed, o.standard) {
		problems = append(problems, fmt.Errorf("CARAFE_KUBERNETES_DEFAULT_NETWORK_DRIVER: %q is not among the allowed ones", o.standard))
	}
	return o, errors.Join(problems...)
}

// COE checks the container orchestration engine.
func (Options) COE(coe string) error {
	if coe != "kubernetes" {
		return fault.New(fault.Invalid, "Requested COE type %s is not supported.", coe)
	}
	return nil
}

// ServerType checks vm or bm.
func (Options) ServerType(t string) error {
	if !slices.Contains(serverTypes, t) {
		return fault.New(fault.Invalid, "Server type %s is not supported, expecting a vm/bm/unspecified server type.", t)
	}
	return nil
}

// NetworkDriver gives the driver to use: the wish, or the default for none.
func (o Options) NetworkDriver(wish *string) (string, error) {
	d := o.standard
	if !empty(wish) {
		d = *wish
	}
	if !slices.Contains(networkDrivers, d) {
		return "", fault.New(fault.Invalid,
			"Network driver type %s is not supported, expecting a %s/unspecified network driver.", d, strings.Join(networkDrivers, "/"))
	}
	if !slices.Contains(o.allowed, d) {
		// The space at the end is Magnum's.
		return "", fault.New(fault.Invalid,
			"Network driver type %s is not allowed, expecting a %s/unspecified network driver. ", d, strings.Join(o.allowed, "/"))
	}
	return d, nil
}

// VolumeDriver checks the wish, if there is one.
func (Options) VolumeDriver(wish *string) error {
	if !empty(wish) && *wish != "cinder" {
		return fault.New(fault.Invalid, "Volume driver type %s is not supported, expecting a cinder/unspecified volume driver.", *wish)
	}
	return nil
}

// DockerVolume checks that the storage driver has the room that it needs, in GB.
func (Options) DockerVolume(storageDriver *string, size *int) error {
	if storageDriver == nil || *storageDriver != "devicemapper" || size != nil && *size >= 3 {
		return nil
	}
	have := "None"
	if size != nil {
		have = fmt.Sprint(*size)
	}
	return fault.New(fault.Invalid,
		"docker volume size %s GB is not valid, expecting minimum value 3GB for %s storage driver.", have, *storageDriver)
}
