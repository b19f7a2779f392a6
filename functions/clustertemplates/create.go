package clustertemplates

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
)

// create serves POST /v1/clustertemplates (spec/api.md §4.1.2).
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	caller := identity.From(ctx)
	body, err := api.Decode(r, api.ClusterTemplateCreate)
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "clustertemplate:create", nil); err != nil { // before anything is looked up (B09)
		return err
	}
	t := magnum.ClusterTemplate{UUID: uuid.NewString(), ProjectID: caller.ProjectID, UserID: caller.UserID, CreatedAt: s.now()}
	set(&t, body)
	t.Name = api.GenerateName("template")
	if name := body.String("name"); name != nil {
		t.Name = *name
	}
	if err := s.complete(ctx, caller, &t); err != nil {
		return err
	}
	if t.Public || t.Hidden {
		if err := s.mayPublish(caller); err != nil {
			return err
		}
	}
	if t, err = s.templates.Create(ctx, t); err != nil {
		return err
	}
	w.Header().Set("Location", api.URL(ctx)+"/v1/clustertemplates/"+t.UUID)
	api.SetETag(w, t.Version)
	return api.WriteJSON(w, http.StatusCreated, templateOf(ctx, t))
}

// complete checks a template in Magnum's order and fills in what the option
// lists, the image and the drivers decide.
func (s *server) complete(ctx context.Context, caller identity.Caller, t *magnum.ClusterTemplate) error {
	if t.COE == "" { // an explicit null
		return fault.New(fault.Invalid, "Requested COE type None is not supported.")
	}
	serverType := t.ServerType
	if serverType == "" { // an explicit null
		serverType = "None"
	}
	if err := s.options.ServerType(serverType); err != nil {
		return err
	}
	network, err := s.options.NetworkDriver(t.NetworkDriver)
	if err != nil {
		return err
	}
	t.NetworkDriver = &network
	if err := s.options.VolumeDriver(t.VolumeDriver); err != nil {
		return err
	}
	if err := s.options.DockerVolume(t.DockerStorageDriver, t.DockerVolumeSize); err != nil {
		return err
	}
	if err := s.choose(ctx, caller, t); err != nil {
		return err
	}
	image, err := s.checks.Template(ctx, caller, names(*t))
	if err != nil {
		return err
	}
	t.ClusterDistro = &image.OSDistro
	return nil
}

// choose finds the driver: the template's own, else the image's, else the
// default. Where a template says neither driver nor distro, the image does.
func (s *server) choose(ctx context.Context, caller identity.Caller, t *magnum.ClusterTemplate) error {
	if t.ClusterDistro == nil || t.Driver == nil {
		if t.ImageID == "" { // an explicit null
			return fault.New(fault.Invalid, "Image None doesn't contain os_distro field.")
		}
		image, err := s.checks.Image(ctx, caller, t.ImageID)
		if err != nil {
			return err
		}
		t.ClusterDistro = &image.OSDistro
		if t.Driver == nil && image.MagnumDriver != "" {
			t.Driver = &image.MagnumDriver
		}
	}
	if t.Driver == nil {
		name, err := s.drivers.Default()
		if err != nil {
			return err
		}
		if name != "" {
			t.Driver = &name
		}
	}
	_, err := s.drivers.Select(orEmpty(t.Driver), driver.TypeOf(*t))
	return err
}

func names(t magnum.ClusterTemplate) openstack.Names {
	return openstack.Names{Image: t.ImageID, Flavor: t.FlavorID, MasterFlavor: t.MasterFlavorID,
		ExternalNetwork: t.ExternalNetworkID, FixedNetwork: t.FixedNetwork, FixedSubnet: t.FixedSubnet, Labels: t.Labels}
}
