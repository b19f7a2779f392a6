// Package nova holds what Carafe asks of OpenStack's compute service: flavors
// and keypairs. Each call takes a client from package keystone.
package nova

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"carafe/shared/fault"
	"carafe/shared/keystone"
)

// Flavor is a size of servers.
type Flavor struct {
	ID, Name string
	Disk     int // of the root disk, GB
}

// FindFlavor gives the flavor with this id, else the first one with this name
// among those that the caller may use. Nova cannot search by name, so the name
// costs one page of a list. Unknown: Invalid, with the text of spec/api.md §6.1.
func FindFlavor(ctx context.Context, sc *gophercloud.ServiceClient, nameOrID string) (Flavor, error) {
	f, err := flavors.Get(ctx, sc, url.PathEscape(nameOrID)).Extract()
	switch {
	case err == nil && f != nil && f.ID == nameOrID:
		return flavor(f), nil
	case err == nil: // a path such as "detail" leads elsewhere
	case keystone.Status(err) != http.StatusNotFound && keystone.Status(err) != http.StatusBadRequest:
		return Flavor{}, keystone.Fault(keystone.Nova, err)
	}
	var found *Flavor
	list := flavors.ListDetail(sc, flavors.ListOpts{AccessType: flavors.PublicAccess})
	err = list.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		all, err := flavors.ExtractFlavors(page)
		for i := range all {
			if all[i].Name == nameOrID || all[i].ID == nameOrID {
				f := flavor(&all[i])
				found = &f
				return false, nil
			}
		}
		return true, err
	})
	if err != nil {
		return Flavor{}, keystone.Fault(keystone.Nova, err)
	}
	if found == nil {
		return Flavor{}, fault.New(fault.Invalid, "Unable to find flavor %s.", nameOrID)
	}
	return *found, nil
}

func flavor(f *flavors.Flavor) Flavor { return Flavor{ID: f.ID, Name: f.Name, Disk: f.Disk} }

// Keypair is a public key that the caller has left with Nova.
type Keypair struct{ Name, PublicKey string }

// FindKeypair gives the caller's keypair of this name. Unknown: NotFound,
// unlike for all other things of the cloud, because clients know it so (B77).
func FindKeypair(ctx context.Context, sc *gophercloud.ServiceClient, name string) (Keypair, error) {
	k, err := keystone.Whole(keypairs.Get(ctx, sc, url.PathEscape(name), nil).Extract())
	switch {
	case err == nil && k.Name == name:
		return Keypair{Name: k.Name, PublicKey: k.PublicKey}, nil
	case err == nil, keystone.Status(err) == http.StatusNotFound, keystone.Status(err) == http.StatusBadRequest:
		return Keypair{}, fault.New(fault.NotFound, "Unable to find keypair %s.", name) // B77
	}
	return Keypair{}, keystone.Fault(keystone.Nova, err)
}
