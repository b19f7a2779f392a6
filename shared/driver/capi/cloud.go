package capi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"carafe/shared/fault"
)

// openStack is what the driver asks of the cloud, with a cluster's own
// application credential.
type openStack interface {
	Flavor(ctx context.Context, nameOrID string) (Flavor, error)
	Image(ctx context.Context, nameOrID string) (Image, error)
	Network(ctx context.Context, nameOrID string) (string, error)
	Subnet(ctx context.Context, nameOrID string) (string, error)
	// ServerGroup gives the id of a server group, made if need be.
	ServerGroup(ctx context.Context, name, policy string) (string, error)
	// HasRoom reports whether the project's quota has room for one more server.
	HasRoom(ctx context.Context, f Flavor) (bool, error)
	// ServerFault is what Nova says of a server in ERROR.
	ServerFault(ctx context.Context, id string) (string, error)
	// Sweep deletes once what was made from inside of a cluster, and counts
	// what it saw.
	Sweep(ctx context.Context, cluster string, withVolumes bool) (int, error)
}

const cloudTimeout = 15 * time.Second

func (d *Driver) openCloud(ctx context.Context, c cloud) (openStack, error) {
	provider, err := openstack.NewClient(c.Auth.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("open the cloud: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if len(d.caCert) > 0 {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(d.caCert)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	provider.HTTPClient = http.Client{Transport: d.telemetry.Transport("openstack", transport), Timeout: cloudTimeout}
	err = openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		IdentityEndpoint: c.Auth.AuthURL, ApplicationCredentialID: c.Auth.ID, ApplicationCredentialSecret: c.Auth.Secret,
	})
	if err != nil {
		return nil, cloudFault(err, "Keystone does not take the cluster's application credential")
	}
	return &openStackCloud{provider: provider, endpoint: gophercloud.EndpointOpts{Region: c.RegionName, Availability: gophercloud.Availability(c.Interface)}}, nil
}

type openStackCloud struct {
	provider *gophercloud.ProviderClient
	endpoint gophercloud.EndpointOpts
}

// cloudFault classifies an answer of OpenStack's: what is not there is the
// user's to correct, all else may pass.
func cloudFault(err error, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusUnauthorized):
		return fault.Wrap(fault.Unavailable, err, "%s", text).WithReason(fault.ReasonCredential)
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound), gophercloud.ResponseCodeIs(err, http.StatusBadRequest):
		return fault.Wrap(fault.Invalid, err, "%s", text).WithReason(fault.ReasonConfiguration)
	case gophercloud.ResponseCodeIs(err, http.StatusForbidden) && strings.Contains(strings.ToLower(err.Error()), "quota"):
		return fault.Wrap(fault.Unavailable, err, "%s", text).WithReason(fault.ReasonQuota)
	}
	return fault.Wrap(fault.Unavailable, err, "%s", text).WithReason(fault.ReasonDependency)
}

func missing(what, nameOrID string, found int) error {
	if found > 1 {
		return fault.New(fault.Invalid, "There are %d %ss called %s: give the id.", found, what, nameOrID).WithReason(fault.ReasonConfiguration)
	}
	return fault.New(fault.Invalid, "There is no %s %s.", what, nameOrID).WithReason(fault.ReasonConfiguration)
}

func (o *openStackCloud) Flavor(ctx context.Context, nameOrID string) (Flavor, error) {
	c, err := openstack.NewComputeV2(o.provider, o.endpoint)
	if err != nil {
		return Flavor{}, cloudFault(err, "Nova is not in the catalog")
	}
	f, err := flavors.Get(ctx, c, nameOrID).Extract()
	if err == nil {
		return Flavor{ID: f.ID, VCPUs: f.VCPUs, RAM: f.RAM, Disk: f.Disk}, nil
	}
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return Flavor{}, cloudFault(err, "Nova cannot say what the flavor %s is", nameOrID)
	}
	pages, err := flavors.ListDetail(c, flavors.ListOpts{AccessType: flavors.AllAccess}).AllPages(ctx)
	if err != nil {
		return Flavor{}, cloudFault(err, "Nova cannot list the flavors")
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return Flavor{}, cloudFault(err, "Nova cannot list the flavors")
	}
	for _, f := range all {
		if f.Name == nameOrID {
			return Flavor{ID: f.ID, VCPUs: f.VCPUs, RAM: f.RAM, Disk: f.Disk}, nil
		}
	}
	return Flavor{}, missing("flavor", nameOrID, 0)
}

func (o *openStackCloud) Image(ctx context.Context, nameOrID string) (Image, error) {
	c, err := openstack.NewImageV2(o.provider, o.endpoint)
	if err != nil {
		return Image{}, cloudFault(err, "Glance is not in the catalog")
	}
	if uuidForm.MatchString(nameOrID) {
		i, err := images.Get(ctx, c, nameOrID).Extract()
		if err != nil {
			return Image{}, cloudFault(err, "There is no image %s", nameOrID)
		}
		return imageOf(i), nil
	}
	pages, err := images.List(c, images.ListOpts{Name: nameOrID}).AllPages(ctx)
	if err != nil {
		return Image{}, cloudFault(err, "Glance cannot list the images")
	}
	all, err := images.ExtractImages(pages)
	if err != nil {
		return Image{}, cloudFault(err, "Glance cannot list the images")
	}
	if len(all) != 1 {
		return Image{}, missing("image", nameOrID, len(all))
	}
	return imageOf(&all[0]), nil
}

func imageOf(i *images.Image) Image {
	text := func(key string) string { s, _ := i.Properties[key].(string); return s }
	return Image{ID: i.ID, Distro: text("os_distro"), KubeVersion: text("kube_version")}
}

func (o *openStackCloud) Network(ctx context.Context, nameOrID string) (string, error) {
	c, err := openstack.NewNetworkV2(o.provider, o.endpoint)
	if err != nil {
		return "", cloudFault(err, "Neutron is not in the catalog")
	}
	if uuidForm.MatchString(nameOrID) {
		return dashed(nameOrID), nil
	}
	pages, err := networks.List(c, networks.ListOpts{Name: nameOrID}).AllPages(ctx)
	if err != nil {
		return "", cloudFault(err, "Neutron cannot list the networks")
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		return "", cloudFault(err, "Neutron cannot list the networks")
	}
	if len(all) != 1 {
		return "", missing("network", nameOrID, len(all))
	}
	return all[0].ID, nil
}

func (o *openStackCloud) Subnet(ctx context.Context, nameOrID string) (string, error) {
	c, err := openstack.NewNetworkV2(o.provider, o.endpoint)
	if err != nil {
		return "", cloudFault(err, "Neutron is not in the catalog")
	}
	if uuidForm.MatchString(nameOrID) {
		return dashed(nameOrID), nil
	}
	pages, err := subnets.List(c, subnets.ListOpts{Name: nameOrID}).AllPages(ctx)
	if err != nil {
		return "", cloudFault(err, "Neutron cannot list the subnets")
	}
	all, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return "", cloudFault(err, "Neutron cannot list the subnets")
	}
	if len(all) != 1 {
		return "", missing("subnet", nameOrID, len(all))
	}
	return all[0].ID, nil
}

func (o *openStackCloud) ServerGroup(ctx context.Context, name, policy string) (string, error) {
	c, err := openstack.NewComputeV2(o.provider, o.endpoint)
	if err != nil {
		return "", cloudFault(err, "Nova is not in the catalog")
	}
	c.Microversion = "2.64"
	all, err := serverGroups(ctx, c)
	if err != nil {
		return "", err
	}
	for _, g := range all {
		if g.Name == name {
			return g.ID, nil
		}
	}
	g, err := servergroups.Create(ctx, c, servergroups.CreateOpts{Name: name, Policy: policy}).Extract()
	if err != nil {
		return "", cloudFault(err, "Nova cannot make the server group %s", name)
	}
	return g.ID, nil
}

func serverGroups(ctx context.Context, c *gophercloud.ServiceClient) ([]servergroups.ServerGroup, error) {
	pages, err := servergroups.List(c, nil).AllPages(ctx)
	if err != nil {
		return nil, cloudFault(err, "Nova cannot list the server groups")
	}
	return servergroups.ExtractServerGroups(pages)
}

func (o *openStackCloud) HasRoom(ctx context.Context, f Flavor) (bool, error) {
	c, err := openstack.NewComputeV2(o.provider, o.endpoint)
	if err != nil {
		return false, cloudFault(err, "Nova is not in the catalog")
	}
	l, err := limits.Get(ctx, c, nil).Extract()
	if err != nil {
		return false, cloudFault(err, "Nova cannot say what the project's quota is")
	}
	fits := func(most, used, more int) bool { return most < 0 || used+more <= most }
	a := l.Absolute
	return fits(a.MaxTotalInstances, a.TotalInstancesUsed, 1) && fits(a.MaxTotalCores, a.TotalCoresUsed, f.VCPUs) &&
		fits(a.MaxTotalRAMSize, a.TotalRAMUsed, f.RAM), nil
}

func (o *openStackCloud) ServerFault(ctx context.Context, id string) (string, error) {
	c, err := openstack.NewComputeV2(o.provider, o.endpoint)
	if err != nil {
		return "", cloudFault(err, "Nova is not in the catalog")
	}
	s, err := servers.Get(ctx, c, id).Extract()
	if err != nil {
		return "", cloudFault(err, "Nova cannot say what the server %s is", id)
	}
	return s.Fault.Message, nil
}

// Sweep finds load balancers by the name that the cloud controller gives them,
// then what hangs on them. An address that a user brought stays.
func (o *openStackCloud) Sweep(ctx context.Context, cluster string, withVolumes bool) (int, error) {
	left := 0
	lb, err := openstack.NewLoadBalancerV2(o.provider, o.endpoint)
	if err == nil {
		n, err := o.sweepBalancers(ctx, lb, cluster)
		if err != nil {
			return 0, err
		}
		left += n
	}
	if left > 0 {
		return left, nil // what belongs to them goes at the next pass
	}
	n, err := o.sweepNetwork(ctx, cluster)
	if err != nil {
		return 0, err
	}
	left += n
	if withVolumes {
		n, err := o.sweepVolumes(ctx, cluster)
		if err != nil {
			return 0, err
		}
		left += n
	}
	return left, o.sweepServerGroups(ctx, cluster)
}

func (o *openStackCloud) sweepBalancers(ctx context.Context, c *gophercloud.ServiceClient, cluster string) (int, error) {
	pages, err := loadbalancers.List(c, loadbalancers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return 0, cloudFault(err, "Octavia cannot list the load balancers")
	}
	all, err := loadbalancers.ExtractLoadBalancers(pages)
	if err != nil {
		return 0, cloudFault(err, "Octavia cannot list the load balancers")
	}
	n := 0
	for _, b := range all {
		if !strings.HasPrefix(b.Name, "kube_service_"+cluster+"_") && !strings.HasSuffix(b.Description, "from cluster "+cluster) {
			continue
		}
		if shared(b.Tags, cluster) {
			continue
		}
		n++
		if strings.HasPrefix(b.ProvisioningStatus, "PENDING_") {
			continue // busy: at the next pass
		}
		err := loadbalancers.Delete(ctx, c, b.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
			return n, cloudFault(err, "Octavia cannot delete the load balancer %s", b.ID)
		}
	}
	return n, nil
}

// shared reports whether a Service of another cluster uses the load balancer.
func shared(tags []string, cluster string) bool {
	for _, t := range tags {
		if strings.HasPrefix(t, "kube_service_") && !strings.HasPrefix(t, "kube_service_"+cluster+"_") {
			return true
		}
	}
	return false
}

func (o *openStackCloud) sweepNetwork(ctx context.Context, cluster string) (int, error) {
	c, err := openstack.NewNetworkV2(o.provider, o.endpoint)
	if err != nil {
		return 0, cloudFault(err, "Neutron is not in the catalog")
	}
	pages, err := floatingips.List(c, floatingips.ListOpts{}).AllPages(ctx)
	if err != nil {
		return 0, cloudFault(err, "Neutron cannot list the floating IPs")
	}
	addresses, err := floatingips.ExtractFloatingIPs(pages)
	if err != nil {
		return 0, cloudFault(err, "Neutron cannot list the floating IPs")
	}
	n := 0
	for _, a := range addresses {
		if !strings.HasPrefix(a.Description, "Floating IP for Kubernetes external service") || !strings.HasSuffix(a.Description, "from cluster "+cluster) {
			continue
		}
		n++
		if err := floatingips.Delete(ctx, c, a.ID).ExtractErr(); err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return n, cloudFault(err, "Neutron cannot delete the floating IP %s", a.FloatingIP)
		}
	}
	pages, err = groups.List(c, groups.ListOpts{}).AllPages(ctx)
	if err != nil {
		return n, cloudFault(err, "Neutron cannot list the security groups")
	}
	all, err := groups.ExtractGroups(pages)
	if err != nil {
		return n, cloudFault(err, "Neutron cannot list the security groups")
	}
	for _, g := range all {
		if !strings.HasPrefix(g.Name, "lb-sg-") || !strings.HasSuffix(g.Description, "in cluster "+cluster) && !strings.HasSuffix(g.Description, "from cluster "+cluster) {
			continue
		}
		n++
		err := groups.Delete(ctx, c, g.ID).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
			return n, cloudFault(err, "Neutron cannot delete the security group %s", g.Name)
		}
	}
	return n, nil
}

func (o *openStackCloud) sweepVolumes(ctx context.Context, cluster string) (int, error) {
	c, err := openstack.NewBlockStorageV3(o.provider, o.endpoint)
	if err != nil {
		return 0, cloudFault(err, "Cinder is not in the catalog")
	}
	pages, err := volumes.List(c, volumes.ListOpts{Metadata: map[string]string{"cinder.csi.openstack.org/cluster": cluster}}).AllPages(ctx)
	if err != nil {
		return 0, cloudFault(err, "Cinder cannot list the volumes")
	}
	all, err := volumes.ExtractVolumes(pages)
	if err != nil {
		return 0, cloudFault(err, "Cinder cannot list the volumes")
	}
	n := 0
	for _, v := range all {
		if v.Metadata["cinder.csi.openstack.org/cluster"] != cluster {
			continue
		}
		n++
		err := volumes.Delete(ctx, c, v.ID, volumes.DeleteOpts{}).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) && !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
			return n, cloudFault(err, "Cinder cannot delete the volume %s", v.ID)
		}
	}
	return n, nil
}

func (o *openStackCloud) sweepServerGroups(ctx context.Context, cluster string) error {
	c, err := openstack.NewComputeV2(o.provider, o.endpoint)
	if err != nil {
		return cloudFault(err, "Nova is not in the catalog")
	}
	all, err := serverGroups(ctx, c)
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Name != cluster && !strings.HasPrefix(g.Name, cluster+"-") {
			continue
		}
		if err := servergroups.Delete(ctx, c, g.ID).ExtractErr(); err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return cloudFault(err, "Nova cannot delete the server group %s", g.Name)
		}
	}
	return nil
}
