package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Templates are the cluster templates.
type Templates struct {
	q querier
	s *sqlc.Queries
}

var templateOrder = columnsOf("seq",
	"uuid", "name", "coe", "image_id", "flavor_id", "master_flavor_id", "dns_nameserver", "keypair_id",
	"external_network_id", "fixed_network", "fixed_subnet", "network_driver", "apiserver_port",
	"docker_volume_size", "cluster_distro", "http_proxy", "https_proxy", "no_proxy", "volume_driver",
	"registry_enabled", "tls_disabled", "public", "server_type", "insecure_registry",
	"docker_storage_driver", "master_lb_enabled", "floating_ip_enabled", "project_id", "user_id",
	"hidden", "tags", "driver", "created_at", "updated_at").with("labels", "t.labels::text")

const templateColumns = `t.seq, t.uuid, t.version, t.project_id, t.user_id, t.name, t.coe, t.image_id, t.flavor_id,
	t.master_flavor_id, t.dns_nameserver, t.keypair_id, t.external_network_id, t.fixed_network, t.fixed_subnet,
	t.network_driver, t.apiserver_port, t.docker_volume_size, t.cluster_distro, t.http_proxy, t.https_proxy,
	t.no_proxy, t.volume_driver, t.registry_enabled, t.labels, t.tls_disabled, t.public, t.server_type,
	t.insecure_registry, t.docker_storage_driver, t.master_lb_enabled, t.floating_ip_enabled, t.hidden, t.tags,
	t.driver, t.created_at, t.updated_at`

func scanTemplate(row pgx.CollectableRow) (magnum.ClusterTemplate, error) {
	var t magnum.ClusterTemplate
	err := row.Scan(&t.Seq, uuidText{&t.UUID}, &t.Version, &t.ProjectID, &t.UserID, &t.Name, &t.COE, &t.ImageID, nullText{&t.FlavorID},
		nullText{&t.MasterFlavorID}, nullText{&t.DNSNameserver}, nullText{&t.KeypairID}, nullText{&t.ExternalNetworkID},
		nullText{&t.FixedNetwork}, nullText{&t.FixedSubnet}, nullText{&t.NetworkDriver}, nullInt{&t.APIServerPort},
		nullInt{&t.DockerVolumeSize}, nullText{&t.ClusterDistro}, nullText{&t.HTTPProxy}, nullText{&t.HTTPSProxy},
		nullText{&t.NoProxy}, nullText{&t.VolumeDriver}, &t.RegistryEnabled, textMap{&t.Labels}, &t.TLSDisabled, &t.Public,
		&t.ServerType, nullText{&t.InsecureRegistry}, nullText{&t.DockerStorageDriver}, &t.MasterLBEnabled, &t.FloatingIPEnabled,
		&t.Hidden, nullText{&t.Tags}, nullText{&t.Driver}, &t.CreatedAt, nullTime{&t.UpdatedAt})
	return t, err
}

func template(r sqlc.ClusterTemplate) magnum.ClusterTemplate {
	return magnum.ClusterTemplate{
		Seq: r.Seq, UUID: r.UUID, Version: r.Version, ProjectID: r.ProjectID, UserID: r.UserID, Name: r.Name,
		COE: r.COE, ImageID: r.ImageID, FlavorID: r.FlavorID, MasterFlavorID: r.MasterFlavorID,
		DNSNameserver: r.DNSNameserver, KeypairID: r.KeypairID, ExternalNetworkID: r.ExternalNetworkID,
		FixedNetwork: r.FixedNetwork, FixedSubnet: r.FixedSubnet, NetworkDriver: r.NetworkDriver,
		APIServerPort: r.ApiserverPort, DockerVolumeSize: r.DockerVolumeSize, ClusterDistro: r.ClusterDistro,
		HTTPProxy: r.HTTPProxy, HTTPSProxy: r.HTTPSProxy, NoProxy: r.NoProxy, VolumeDriver: r.VolumeDriver,
		RegistryEnabled: r.RegistryEnabled, Labels: r.Labels, TLSDisabled: r.TLSDisabled, Public: r.Public,
		ServerType: r.ServerType, InsecureRegistry: r.InsecureRegistry,
		DockerStorageDriver: r.DockerStorageDriver, MasterLBEnabled: r.MasterLBEnabled,
		FloatingIPEnabled: r.FloatingIPEnabled, Hidden: r.Hidden, Tags: r.Tags, Driver: r.Driver,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Errors that the API shows for templates (spec/api.md §3.4).
func templateNotFound(ident string) error {
	return fault.New(fault.NotFound, "ClusterTemplate %s could not be found.", ident)
}

func templateReferenced(uuid string) error {
	return fault.New(fault.Invalid, "ClusterTemplate %s is referenced by one or multiple clusters.", uuid)
}

// List gives one page of the templates that the scope sees, in one statement.
// Faults: Invalid for an unknown sort key, NotFound for the marker.
func (x Templates) List(ctx context.Context, scope Scope, p Page) ([]magnum.ClusterTemplate, error) {
	cond, args := scope.whereVisible("t", 1)
	sql, args := templateOrder.list("cluster_templates", "uuid", templateColumns, []string{cond}, args, p)
	rows, err := x.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, "list cluster templates")
	}
	list, err := pgx.CollectRows(rows, scanTemplate)
	if err != nil {
		return nil, classify(err, "list cluster templates")
	}
	if len(list) == 0 && p.Marker != "" {
		_, err = x.Get(ctx, scope, Ident{UUID: p.Marker, Text: p.Marker})
	}
	return list, err
}

// TemplateSortKeys are what templates can be sorted by, id apart.
func TemplateSortKeys() []string { return templateOrder.keys() }

// Get finds a template that the scope sees. Faults: NotFound; Conflict if
// several have the name.
func (x Templates) Get(ctx context.Context, scope Scope, ident Ident) (magnum.ClusterTemplate, error) {
	cond, args := scope.whereVisible("t", 2)
	rows, err := x.q.Query(ctx, "SELECT "+templateColumns+" FROM cluster_templates t WHERE "+ident.where()+" AND "+cond+" LIMIT 2",
		append([]any{ident.value()}, args...)...)
	if err != nil {
		return magnum.ClusterTemplate{}, classify(err, "find cluster template")
	}
	found, err := pgx.CollectRows(rows, scanTemplate)
	switch {
	case err != nil:
		return magnum.ClusterTemplate{}, classify(err, "find cluster template")
	case len(found) == 0:
		return magnum.ClusterTemplate{}, templateNotFound(ident.Text)
	case len(found) > 1:
		return magnum.ClusterTemplate{}, fault.New(fault.Conflict,
			"Multiple ClusterTemplates exist with same name. Please use the ClusterTemplate uuid instead.")
	}
	return found[0], nil
}

// ByUUID reads a template whoever it belongs to: an existing cluster reads its
// template with the system's rights (PB-06).
func (x Templates) ByUUID(ctx context.Context, uuid string) (magnum.ClusterTemplate, error) {
	r, err := x.s.ClusterTemplate(ctx, uuid)
	if noRows(err) {
		return magnum.ClusterTemplate{}, templateNotFound(uuid)
	}
	return template(r), classify(err, "read cluster template")
}

// Many reads templates whoever they belong to, by uuid.
func (x Templates) Many(ctx context.Context, uuids []string) (map[string]magnum.ClusterTemplate, error) {
	rows, err := x.s.ClusterTemplatesOf(ctx, uuids)
	of := make(map[string]magnum.ClusterTemplate, len(rows))
	for _, r := range rows {
		of[r.UUID] = template(r)
	}
	return of, classify(err, "read cluster templates")
}

// Create stores a new template.
func (x Templates) Create(ctx context.Context, t magnum.ClusterTemplate) (magnum.ClusterTemplate, error) {
	r, err := x.s.InsertClusterTemplate(ctx, sqlc.InsertClusterTemplateParams{
		UUID: t.UUID, ProjectID: t.ProjectID, UserID: t.UserID, Name: t.Name, COE: t.COE, ImageID: t.ImageID,
		FlavorID: t.FlavorID, MasterFlavorID: t.MasterFlavorID, DNSNameserver: t.DNSNameserver,
		KeypairID: t.KeypairID, ExternalNetworkID: t.ExternalNetworkID, FixedNetwork: t.FixedNetwork,
		FixedSubnet: t.FixedSubnet, NetworkDriver: t.NetworkDriver, ApiserverPort: t.APIServerPort,
		DockerVolumeSize: t.DockerVolumeSize, ClusterDistro: t.ClusterDistro, HTTPProxy: t.HTTPProxy,
		HTTPSProxy: t.HTTPSProxy, NoProxy: t.NoProxy, VolumeDriver: t.VolumeDriver,
		RegistryEnabled: t.RegistryEnabled, Labels: notNilMap(t.Labels), TLSDisabled: t.TLSDisabled,
		Public: t.Public, ServerType: t.ServerType, InsecureRegistry: t.InsecureRegistry,
		DockerStorageDriver: t.DockerStorageDriver, MasterLBEnabled: t.MasterLBEnabled,
		FloatingIPEnabled: t.FloatingIPEnabled, Hidden: t.Hidden, Tags: t.Tags, Driver: t.Driver,
		CreatedAt: t.CreatedAt,
	})
	if violates(err, "cluster_templates_pkey") {
		return t, fault.Wrap(fault.Conflict, err, "A ClusterTemplate with UUID %s already exists.", t.UUID)
	}
	return template(r), classify(err, "insert cluster template")
}

// Update stores all attributes of t if the row still has t.Version. protected
// says that something changed which a template in use must keep. Faults:
// Invalid if it is in use and protected, Conflict if it changed meanwhile.
func (x Templates) Update(ctx context.Context, t magnum.ClusterTemplate, protected bool, now time.Time) (magnum.ClusterTemplate, error) {
	r, err := x.s.UpdateClusterTemplate(ctx, sqlc.UpdateClusterTemplateParams{
		UUID: t.UUID, Version: t.Version, Name: t.Name, COE: t.COE, ImageID: t.ImageID,
		FlavorID: t.FlavorID, MasterFlavorID: t.MasterFlavorID, DNSNameserver: t.DNSNameserver,
		KeypairID: t.KeypairID, ExternalNetworkID: t.ExternalNetworkID, FixedNetwork: t.FixedNetwork,
		FixedSubnet: t.FixedSubnet, NetworkDriver: t.NetworkDriver, ApiserverPort: t.APIServerPort,
		DockerVolumeSize: t.DockerVolumeSize, ClusterDistro: t.ClusterDistro, HTTPProxy: t.HTTPProxy,
		HTTPSProxy: t.HTTPSProxy, NoProxy: t.NoProxy, VolumeDriver: t.VolumeDriver,
		RegistryEnabled: t.RegistryEnabled, Labels: notNilMap(t.Labels), TLSDisabled: t.TLSDisabled,
		Public: t.Public, ServerType: t.ServerType, InsecureRegistry: t.InsecureRegistry,
		DockerStorageDriver: t.DockerStorageDriver, MasterLBEnabled: t.MasterLBEnabled,
		FloatingIPEnabled: t.FloatingIPEnabled, Hidden: t.Hidden, Tags: t.Tags, Driver: t.Driver,
		UpdatedAt: &now, Protected: protected,
	})
	if !noRows(err) {
		return template(r), classify(err, "update cluster template")
	}
	if protected {
		used, err := x.s.ClusterTemplateInUse(ctx, t.UUID)
		if err != nil {
			return t, classify(err, "look for clusters of the template")
		}
		if used {
			return t, templateReferenced(t.UUID)
		}
	}
	return t, fault.New(fault.Conflict, "ClusterTemplate %s was changed by another request. Read it again and repeat the change.", t.UUID)
}

// Delete removes a template that no cluster uses. Faults: Invalid if one does,
// NotFound if it is gone.
func (x Templates) Delete(ctx context.Context, uuid string) error {
	n, err := x.s.DeleteClusterTemplate(ctx, uuid)
	if violates(err, "clusters_cluster_template_id_fkey") {
		return templateReferenced(uuid)
	}
	if err != nil || n == 1 {
		return classify(err, "delete cluster template")
	}
	used, err := x.s.ClusterTemplateInUse(ctx, uuid)
	if err != nil {
		return classify(err, "look for clusters of the template")
	}
	if used {
		return templateReferenced(uuid)
	}
	return templateNotFound(uuid)
}

func notNilMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
