package driver

import (
	"fmt"
	"slices"
	"strings"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Selection is the operator's say over drivers (spec/api.md §6.3).
type Selection struct {
	// Default is the driver of templates that name none; empty: the first by name.
	// magnum.conf [drivers] default_driver.
	Default string `envconfig:"CARAFE_DEFAULT_DRIVER"`
	// Disabled drivers serve nobody. magnum.conf [drivers] disabled_drivers.
	Disabled []string `envconfig:"CARAFE_DISABLED_DRIVERS"`
	// EnabledBeta are the beta drivers that may be used.
	// magnum.conf [drivers] enabled_beta_drivers.
	EnabledBeta []string `envconfig:"CARAFE_ENABLED_BETA_DRIVERS"`
}

// Registry holds the drivers of a process.
type Registry struct {
	drivers   map[string]Driver
	names     []string // enabled ones, sorted
	selection Selection
}

// NewRegistry takes the drivers that this process has.
func NewRegistry(selection Selection, drivers ...Driver) *Registry {
	r := &Registry{drivers: map[string]Driver{}, selection: selection}
	for _, d := range drivers {
		name := d.Describe().Name
		r.drivers[name] = d
		if !slices.Contains(selection.Disabled, name) {
			r.names = append(r.names, name)
		}
	}
	slices.Sort(r.names)
	return r
}

// Named gives the driver of an existing cluster: whatever the selection says
// today, the cluster has to be looked after. Fault Unavailable: this process
// lacks it.
func (r *Registry) Named(name string) (Driver, error) {
	if d, ok := r.drivers[name]; ok {
		return d, nil
	}
	return nil, fault.New(fault.Unavailable, "Cluster driver (%s) is not loaded here.", name).WithReason(fault.ReasonConfiguration)
}

// Select finds the driver for a new cluster of the type. name is the
// template's; empty: any that builds the type. A named driver must be enabled
// and build the type too (B82, PB-72). Faults: Invalid with Magnum's texts.
func (r *Registry) Select(name string, t ClusterType) (Driver, error) {
	if name != "" {
		d, ok := r.drivers[name]
		if !ok || !slices.Contains(r.names, name) {
			return nil, fault.New(fault.Invalid, "Cluster driver (%s) not supported.", name)
		}
		if !slices.Contains(d.Describe().ClusterTypes, t) {
			return nil, r.unsupported(t)
		}
		return d, r.beta(d, t)
	}
	var candidates []string
	for _, n := range r.names {
		if slices.Contains(r.drivers[n].Describe().ClusterTypes, t) {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return nil, r.unsupported(t)
	}
	pick := candidates[0]
	if slices.Contains(candidates, r.selection.Default) {
		pick = r.selection.Default
	}
	return r.drivers[pick], r.beta(r.drivers[pick], t)
}

// Default is the driver of a template that names none, neither itself nor by
// its image. Empty: no driver is loaded. Fault Invalid: the configured default
// is not there.
func (r *Registry) Default() (string, error) {
	if d := r.selection.Default; d != "" {
		if !slices.Contains(r.names, d) {
			return "", fault.New(fault.Invalid, "Cluster driver (%s) not supported.", d)
		}
		return d, nil
	}
	if len(r.names) == 0 {
		return "", nil
	}
	return r.names[0], nil
}

// All gives every driver that is loaded, by name.
func (r *Registry) All() []Driver {
	var list []Driver
	for _, n := range r.names {
		list = append(list, r.drivers[n])
	}
	return list
}

func (r *Registry) unsupported(t ClusterType) error {
	var types []string
	for _, n := range r.names {
		for _, c := range r.drivers[n].Describe().ClusterTypes {
			types = append(types, fmt.Sprintf("(%s, %s, %s)", c.ServerType, c.OS, c.COE))
		}
	}
	slices.Sort(types)
	supported := "none (no cluster drivers are loaded)"
	if len(types) > 0 {
		supported = strings.Join(slices.Compact(types), ", ")
	}
	return fault.New(fault.Invalid, "Cluster type (%s, %s, %s) is not supported by any loaded cluster driver. Loaded drivers support: %s.",
		t.ServerType, t.OS, t.COE, supported)
}

func (r *Registry) beta(d Driver, t ClusterType) error {
	desc := d.Describe()
	if !desc.Beta || slices.Contains(r.selection.EnabledBeta, desc.Name) {
		return nil
	}
	return fault.New(fault.Invalid, "Cluster type (%s, %s, %s) is provided by the '%s' driver, which is a beta driver and is not enabled. "+
		"Add '%s' to the [drivers]/enabled_beta_drivers configuration option to use it.", t.ServerType, t.OS, t.COE, desc.Name, desc.Name)
}

// CheckMasterSize is the rule of every control plane with etcd
// (spec/conductor.md §6.1, validate_master_size).
func CheckMasterSize(count int) error {
	if count < 1 || count%2 == 0 {
		return fault.New(fault.Invalid, "master nodegroup size of %d is invalid, size cannot be an even number.", count)
	}
	return nil
}

// TypeOf is the cluster type that a template asks for.
func TypeOf(t magnum.ClusterTemplate) ClusterType {
	ct := ClusterType{ServerType: t.ServerType, COE: t.COE}
	if t.ClusterDistro != nil {
		ct.OS = *t.ClusterDistro
	}
	return ct
}
