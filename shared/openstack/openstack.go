// Package openstack is the cloud as validation sees it: whether the image, the
// flavors, the keypair and the networks that a template or a cluster names are
// there. It looks things up by id or name in the caller's name, and answers with
// the errors of spec/api.md §6.
//
// It keeps nothing and decides nothing else; named is its stand-in for an
// installation without a cloud.
package openstack

import (
	"context"

	"carafe/shared/glance"
	"carafe/shared/identity"
	"carafe/shared/keystone"
	"carafe/shared/neutron"
	"carafe/shared/nova"
)

// What look-ups give.
type (
	Image   = glance.Image
	Flavor  = nova.Flavor
	Keypair = nova.Keypair
	Network = neutron.Network
	Project = keystone.Project
)

// Cloud looks one thing up for the caller. Faults: Invalid (Project, Keypair: NotFound)
// if it is not there, Conflict if several have the name, Unavailable if the
// service cannot be asked; the text names the thing or the service.
type Cloud interface {
	Image(ctx context.Context, caller identity.Caller, nameOrID string) (Image, error)
	Flavor(ctx context.Context, caller identity.Caller, nameOrID string) (Flavor, error)
	Keypair(ctx context.Context, caller identity.Caller, name string) (Keypair, error)
	ExternalNetwork(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error)
	Network(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error)
	Subnet(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error)
	Project(ctx context.Context, caller identity.Caller, id string) (Project, error)
}

// New is the Cloud that the caller's catalogue leads to.
func New(k *keystone.Client) Cloud { return services{k} }

type services struct{ keystone *keystone.Client }

func (s services) Image(ctx context.Context, caller identity.Caller, nameOrID string) (Image, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Glance)
	if err != nil {
		return Image{}, err
	}
	return glance.FindImage(ctx, sc, nameOrID)
}

func (s services) Flavor(ctx context.Context, caller identity.Caller, nameOrID string) (Flavor, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Nova)
	if err != nil {
		return Flavor{}, err
	}
	return nova.FindFlavor(ctx, sc, nameOrID)
}

func (s services) Keypair(ctx context.Context, caller identity.Caller, name string) (Keypair, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Nova)
	if err != nil {
		return Keypair{}, err
	}
	return nova.FindKeypair(ctx, sc, name)
}

func (s services) ExternalNetwork(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Neutron)
	if err != nil {
		return Network{}, err
	}
	return neutron.FindExternalNetwork(ctx, sc, nameOrID)
}

func (s services) Network(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Neutron)
	if err != nil {
		return Network{}, err
	}
	return neutron.FindNetwork(ctx, sc, nameOrID)
}

func (s services) Subnet(ctx context.Context, caller identity.Caller, nameOrID string) (Network, error) {
	sc, err := s.keystone.ForCaller(ctx, caller, keystone.Neutron)
	if err != nil {
		return Network{}, err
	}
	return neutron.FindSubnet(ctx, sc, nameOrID)
}

func (s services) Project(ctx context.Context, caller identity.Caller, id string) (Project, error) {
	return s.keystone.Project(ctx, caller, id)
}
