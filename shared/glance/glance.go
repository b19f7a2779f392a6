// Package glance holds what Carafe asks of OpenStack's image service: an image
// by id or name. Each call takes a client from package keystone.
package glance

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"carafe/shared/fault"
	"carafe/shared/keystone"
)

// Image is what Carafe wants to know of one.
type Image struct {
	ID, Name     string
	OSDistro     string // property os_distro, empty if not set
	MagnumDriver string // property magnum_driver, empty if not set
}

// FindImage gives the image with this id, else the only one with this name,
// hidden ones last. Faults, with the texts of spec/api.md §6.1: Invalid if there
// is none, Conflict if several have the name, Forbidden if Glance says so.
func FindImage(ctx context.Context, sc *gophercloud.ServiceClient, nameOrID string) (Image, error) {
	i, err := keystone.Whole(images.Get(ctx, sc, url.PathEscape(nameOrID)).Extract())
	if err == nil && i.ID == nameOrID { // a path such as ".." leads elsewhere
		return image(i), nil
	}
	switch keystone.Status(err) {
	case http.StatusForbidden:
		return Image{}, fault.New(fault.Forbidden, "Not authorized for image %s.", nameOrID)
	case http.StatusNotFound, http.StatusBadRequest:
	default:
		if err != nil {
			return Image{}, keystone.Fault(keystone.Glance, err)
		}
	}
	for _, hidden := range []bool{false, true} {
		found, err := named(ctx, sc, nameOrID, hidden)
		if err != nil {
			return Image{}, keystone.Fault(keystone.Glance, err)
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Image{}, fault.New(fault.Conflict,
				"Multiple images exist with same name '%s'. Please use the image ID instead.", nameOrID)
		}
	}
	return Image{}, fault.New(fault.Invalid, "Image %s could not be found.", nameOrID)
}

func named(ctx context.Context, sc *gophercloud.ServiceClient, name string, hidden bool) ([]Image, error) {
	page, err := images.List(sc, images.ListOpts{Name: name, Hidden: hidden}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := images.ExtractImages(page)
	var found []Image
	for i := range all {
		// Glance reads "in:a,b" as two names.
		if all[i].Name == name {
			found = append(found, image(&all[i]))
		}
	}
	return found, err
}

func image(i *images.Image) Image {
	distro, _ := i.Properties["os_distro"].(string)
	driver, _ := i.Properties["magnum_driver"].(string)
	return Image{ID: i.ID, Name: i.Name, OSDistro: distro, MagnumDriver: driver}
}
