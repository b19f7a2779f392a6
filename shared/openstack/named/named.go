// Package named is a cloud that has everything one can name: for Carafe without
// OpenStack, where the simulated driver builds nothing anyway.
package named

import (
	"context"

	"carafe/shared/identity"
	"carafe/shared/openstack"
)

// Cloud finds every name, as what it is called.
type Cloud struct{}

var _ openstack.Cloud = Cloud{}

// Image is an Ubuntu.
func (Cloud) Image(_ context.Context, _ identity.Caller, nameOrID string) (openstack.Image, error) {
	return openstack.Image{ID: nameOrID, Name: nameOrID, OSDistro: "ubuntu"}, nil
}

// Flavor has a root disk.
func (Cloud) Flavor(_ context.Context, _ identity.Caller, nameOrID string) (openstack.Flavor, error) {
	return openstack.Flavor{ID: nameOrID, Name: nameOrID, Disk: 20}, nil
}

// Keypair has no key in it.
func (Cloud) Keypair(_ context.Context, _ identity.Caller, name string) (openstack.Keypair, error) {
	return openstack.Keypair{Name: name}, nil
}

// ExternalNetwork is the network of that name.
func (Cloud) ExternalNetwork(_ context.Context, _ identity.Caller, nameOrID string) (openstack.Network, error) {
	return openstack.Network{ID: nameOrID, Name: nameOrID}, nil
}

// Network is the network of that name.
func (Cloud) Network(_ context.Context, _ identity.Caller, nameOrID string) (openstack.Network, error) {
	return openstack.Network{ID: nameOrID, Name: nameOrID}, nil
}

// Subnet is the subnet of that name.
func (Cloud) Subnet(_ context.Context, _ identity.Caller, nameOrID string) (openstack.Network, error) {
	return openstack.Network{ID: nameOrID, Name: nameOrID}, nil
}

// Project is the project of that id.
func (Cloud) Project(_ context.Context, _ identity.Caller, id string) (openstack.Project, error) {
	return openstack.Project{ID: id, Name: id}, nil
}
