// Package neutron holds what Carafe asks of OpenStack's network service:
// networks and subnets by id or name. Each call takes a client from package
// keystone.
package neutron

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"carafe/shared/fault"
	"carafe/shared/keystone"
)

// Network is a network or a subnet that was looked up.
type Network struct{ ID, Name string }

// FindExternalNetwork looks among networks that are external. Faults of the
// three: Invalid if there is none, Conflict if several have the name, with the
// texts of spec/api.md §6.1.
func FindExternalNetwork(ctx context.Context, sc *gophercloud.ServiceClient, nameOrID string) (Network, error) {
	yes := true
	return only(nameOrID, listNetworks(ctx, sc, &yes), "external network", "external network")
}

// FindNetwork looks among all networks that the caller sees.
func FindNetwork(ctx context.Context, sc *gophercloud.ServiceClient, nameOrID string) (Network, error) {
	return only(nameOrID, listNetworks(ctx, sc, nil), "fixed network", "network")
}

// FindSubnet looks among all subnets that the caller sees.
func FindSubnet(ctx context.Context, sc *gophercloud.ServiceClient, nameOrID string) (Network, error) {
	return only(nameOrID, func(id, name string) ([]Network, error) {
		page, err := subnets.List(sc, subnets.ListOpts{ID: id, Name: name}).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		all, err := subnets.ExtractSubnets(page)
		found := make([]Network, 0, len(all))
		for _, s := range all {
			found = append(found, Network{ID: s.ID, Name: s.Name})
		}
		return found, err
	}, "fixed subnet", "subnet")
}

// search lists by id or by name; the other one is empty.
type search func(id, name string) ([]Network, error)

func listNetworks(ctx context.Context, sc *gophercloud.ServiceClient, isExternal *bool) search {
	return func(id, name string) ([]Network, error) {
		opts := external.ListOptsExt{ListOptsBuilder: networks.ListOpts{ID: id, Name: name}, External: isExternal}
		page, err := networks.List(sc, opts).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		all, err := networks.ExtractNetworks(page)
		found := make([]Network, 0, len(all))
		for _, n := range all {
			found = append(found, Network{ID: n.ID, Name: n.Name})
		}
		return found, err
	}
}

// only asks by id if it looks like one, then by name, and insists on one
// answer. The two words are what Magnum calls it when it is missing and when
// there are several.
func only(nameOrID string, list search, one, same string) (Network, error) {
	var found []Network
	var err error
	if _, notID := uuid.Parse(nameOrID); notID == nil {
		found, err = list(nameOrID, "")
	}
	if err == nil && len(found) == 0 {
		found, err = list("", nameOrID)
	}
	if err != nil {
		return Network{}, keystone.Fault(keystone.Neutron, err)
	}
	found = slices.DeleteFunc(found, func(n Network) bool { return n.ID != nameOrID && n.Name != nameOrID })
	switch len(found) {
	case 0:
		return Network{}, fault.New(fault.Invalid, "Unable to find %s %s.", one, nameOrID)
	case 1:
		return found[0], nil
	}
	return Network{}, fault.New(fault.Conflict,
		"Multiple %ss exist with same name '%s'. Please use the %s ID instead.", same, nameOrID, same)
}
