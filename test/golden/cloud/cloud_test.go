package cloud

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
)

// TestGophercloudFindsItsWay: the services answer a real client.
func TestGophercloudFindsItsWay(t *testing.T) {
	c := Start()
	defer c.Close()
	ctx := t.Context()
	p, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL(), Username: "demo", Password: Password, TenantName: "demo", DomainName: "Default",
	})
	if err != nil {
		t.Fatal(err)
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	must := func(s *gophercloud.ServiceClient, err error) *gophercloud.ServiceClient {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	image, compute := must(openstack.NewImageV2(p, region)), must(openstack.NewComputeV2(p, region))
	network, identity := must(openstack.NewNetworkV2(p, region)), must(openstack.NewIdentityV3(p, region))

	pages, err := images.List(image, images.ListOpts{Name: "dup-image"}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := images.ExtractImages(pages); err != nil || len(l) != 2 || l[0].Properties["os_distro"] != "ubuntu" {
		t.Errorf("images: %v %v", l, err)
	}
	if pages, err = flavors.ListDetail(compute, nil).AllPages(ctx); err != nil {
		t.Fatal(err)
	}
	if l, err := flavors.ExtractFlavors(pages); err != nil || len(l) != 4 {
		t.Errorf("flavors: %v %v", l, err)
	}
	if _, err := keypairs.Get(ctx, compute, "testkey", nil).Extract(); err != nil {
		t.Errorf("keypair: %v", err)
	}
	if _, err := keypairs.Get(ctx, compute, "nothing", nil).Extract(); !gophercloud.ResponseCodeIs(err, 404) {
		t.Errorf("no keypair: %v", err)
	}
	for name, n := range map[string]int{"private": 1, "other-private": 0, "dup-net": 2, "public": 1} {
		if pages, err = networks.List(network, networks.ListOpts{Name: name}).AllPages(ctx); err != nil {
			t.Fatal(err)
		}
		if l, err := networks.ExtractNetworks(pages); err != nil || len(l) != n {
			t.Errorf("networks called %s: %v %v", name, l, err)
		}
	}
	if _, err := projects.Get(ctx, identity, c.ProjectID("demo")).Extract(); err != nil {
		t.Errorf("own project: %v", err)
	}
	if _, err := projects.Get(ctx, identity, c.ProjectID("other")).Extract(); !gophercloud.ResponseCodeIs(err, 403) {
		t.Errorf("another project: %v", err)
	}
	user := c.users["demo"].id
	a, err := applicationcredentials.Create(ctx, identity, user, applicationcredentials.CreateOpts{Name: "x"}).Extract()
	if err != nil || a.Secret == "" {
		t.Fatalf("application credential: %v %v", a, err)
	}
	if _, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: c.AuthURL(),
		ApplicationCredentialID: a.ID, ApplicationCredentialSecret: a.Secret}); err != nil {
		t.Errorf("use of the credential: %v", err)
	}
}
