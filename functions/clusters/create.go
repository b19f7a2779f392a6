package clusters

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/postgres"
)

// create serves POST /v1/clusters. Everything is checked here (spec/api.md
// §4.2.4), and everything is stored before the 202 leaves: a GET right after it
// finds the cluster (PB-14).
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	caller := identity.From(ctx)
	body, err := api.Decode(r, api.ClusterCreate)
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "cluster:create", nil); err != nil { // before anything is looked up (B09)
		return err
	}
	keep, done, err := s.conductor.Replay(w, r, caller)
	if err != nil || done {
		return err
	}
	n, err := s.prepare(ctx, caller, body)
	if err != nil {
		return err
	}
	if api.QueryOf(r).Bool("dry_run") {
		return api.WriteJSON(w, http.StatusOK, fullOf(ctx, n.row()))
	}
	if keep, err = keep.With(api.Accepted{UUID: n.cluster.UUID}); err != nil {
		return err
	}
	if err := s.store(ctx, caller, n, keep); err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, n.cluster.UUID)
}

// newCluster is a cluster that may be created.
type newCluster struct {
	cluster     magnum.Cluster
	template    magnum.ClusterTemplate
	groups      []magnum.NodeGroup
	description driver.Description
}

func (n *newCluster) row() *postgres.ClusterRow {
	return &postgres.ClusterRow{Cluster: n.cluster, NodeCount: n.groups[1].NodeCount, MasterCount: n.groups[0].NodeCount,
		NodeAddresses: []string{}, MasterAddresses: []string{}, TemplateLabels: n.template.Labels}
}

// prepare makes the cluster's rows from the request and its template, and checks
// them in Magnum's order.
func (s *server) prepare(ctx context.Context, caller identity.Caller, body api.Values) (*newCluster, error) {
	template, d, err := s.templateOf(ctx, caller, body)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(body.Int("docker_volume_size"), template.DockerVolumeSize)
	if err := s.options.DockerVolume(template.DockerStorageDriver, size); err != nil {
		return nil, err
	}
	masters, nodes := *body.Int("master_count"), *body.Int("node_count")
	if err := driver.CheckMasterSize(masters); err != nil {
		return nil, err
	}
	if nodes == 0 && !api.VersionOf(ctx).AtLeast(10) {
		return nil, fault.New(fault.Invalid, "Resizing a nodegroup to zero is not supported in the provided microversion.")
	}
	if err := s.db.Clusters.Room(ctx, caller.ProjectID, s.config.MaxPerProject); err != nil {
		return nil, err
	}
	if template.Hidden && !caller.IsAdmin && !s.config.OwnHiddenTemplates {
		return nil, fault.New(fault.Forbidden, "Not authorized.")
	}
	n := &newCluster{template: template, description: d.Describe()}
	n.cluster = s.clusterOf(caller, body, template)
	n.cluster.Driver = n.description.Name
	if err := s.checkResources(ctx, caller, n.cluster, template); err != nil {
		return nil, err
	}
	if masters > 1 && !n.cluster.MasterLBEnabled {
		return nil, fault.New(fault.Invalid, "master_count must be 1 when master_lb_enabled is False")
	}
	if n.groups, err = defaultGroups(n.cluster, template, masters, nodes); err != nil {
		return nil, err
	}
	return n, d.Check(ctx, nil, driver.Cluster{Cluster: n.cluster, Template: template, NodeGroups: n.groups,
		Operation: magnum.Operation{Kind: magnum.ClusterCreate}})
}

// templateOf finds the template that the request names, and the driver that it
// asks for (B24). An unknown template is 400 up to 1.9 and 404 since (B18).
func (s *server) templateOf(ctx context.Context, caller identity.Caller, body api.Values) (magnum.ClusterTemplate, driver.Driver, error) {
	named := "None"
	if v := body.String("cluster_template_id"); v != nil {
		named = *v
	}
	t, err := s.db.Templates.Get(ctx, postgres.ScopeOf(caller, false), lookup.Ident(named))
	if fault.Is(err, fault.NotFound) && !api.VersionOf(ctx).AtLeast(10) {
		return t, nil, fault.Wrap(fault.Invalid, err, "ClusterTemplate %s could not be found.", named)
	}
	if err != nil {
		return t, nil, err
	}
	name := ""
	if t.Driver != nil {
		name = *t.Driver
	}
	d, err := s.drivers.Select(name, driver.TypeOf(t))
	return t, d, err
}

// clusterOf lays the request over its template.
func (s *server) clusterOf(caller identity.Caller, body api.Values, t magnum.ClusterTemplate) magnum.Cluster {
	now := s.now()
	c := magnum.Cluster{
		UUID: uuid.NewString(), ProjectID: caller.ProjectID, UserID: caller.UserID, ClusterTemplateID: t.UUID,
		Keypair:          cmp.Or(body.String("keypair"), t.KeypairID),
		DockerVolumeSize: cmp.Or(body.Int("docker_volume_size"), t.DockerVolumeSize),
		MasterFlavorID:   cmp.Or(body.String("master_flavor_id"), t.MasterFlavorID),
		FlavorID:         cmp.Or(body.String("flavor_id"), t.FlavorID),
		FixedNetwork:     cmp.Or(body.String("fixed_network"), t.FixedNetwork),
		FixedSubnet:      cmp.Or(body.String("fixed_subnet"), t.FixedSubnet),
		CreateTimeout:    body.Int("create_timeout"), DiscoveryURL: body.String("discovery_url"),
		Labels: labelsOf(body, t), Status: magnum.CreateInProgress, HealthStatusReason: map[string]string{},
		// An explicit null is not the template's value but the row's default.
		FloatingIPEnabled: orDefault(body, "floating_ip_enabled", t.FloatingIPEnabled, true),
		MasterLBEnabled:   orDefault(body, "master_lb_enabled", t.MasterLBEnabled, false),
		CreatedAt:         now,
	}
	c.Name = api.GenerateName("cluster")
	if name := body.String("name"); name != nil {
		c.Name = *name
	}
	return c
}

// labelsOf are the template's labels, the request's, or the one over the other
// (spec/api.md §6.4).
func labelsOf(body api.Values, t magnum.ClusterTemplate) map[string]string {
	own := body.Map("labels")
	switch {
	case len(own) == 0:
		return t.Labels
	case *body.Bool("merge_labels"):
		return magnum.MergeLabels(t.Labels, own)
	}
	return own
}

func orDefault(body api.Values, name string, template, null bool) bool {
	switch v := body.Bool(name); {
	case v != nil:
		return *v
	case body.Has(name):
		return null
	}
	return template
}

// checkResources asks the cloud for everything that the cluster names.
func (s *server) checkResources(ctx context.Context, caller identity.Caller, c magnum.Cluster, t magnum.ClusterTemplate) error {
	_, err := s.checks.Cluster(ctx, caller, openstack.Names{Image: t.ImageID, Flavor: c.FlavorID, MasterFlavor: c.MasterFlavorID,
		ExternalNetwork: t.ExternalNetworkID, FixedNetwork: c.FixedNetwork, FixedSubnet: c.FixedSubnet, Keypair: c.Keypair,
		Labels: c.Labels})
	return err
}

// defaultGroups makes the two node groups that every cluster has, masters first
// (spec/conductor.md §2.13).
func defaultGroups(c magnum.Cluster, t magnum.ClusterTemplate, masters, nodes int) ([]magnum.NodeGroup, error) {
	least, err := minNodes(c.Labels, nodes)
	if err != nil {
		return nil, err
	}
	group := func(name, role string, count int, flavor *string) magnum.NodeGroup {
		image := t.ImageID
		return magnum.NodeGroup{UUID: uuid.NewString(), Name: name, Role: role, ClusterID: c.UUID, ProjectID: c.ProjectID,
			NodeCount: count, FlavorID: flavor, ImageID: &image, DockerVolumeSize: c.DockerVolumeSize, Labels: c.Labels,
			IsDefault: true, Status: magnum.CreateInProgress, CreatedAt: c.CreatedAt}
	}
	master := group(magnum.DefaultMaster, magnum.RoleMaster, masters, c.MasterFlavorID)
	worker := group(magnum.DefaultWorker, "worker", nodes, c.FlavorID)
	worker.MinNodeCount = least
	return []magnum.NodeGroup{master, worker}, nil
}

// minNodes reads the label that bounds the default workers from below. It must
// be a number (PB-16) and not above their count (PB-39).
func minNodes(labels map[string]string, nodes int) (int, error) {
	text, ok := labels["min_node_count"]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return 0, api.Invalid("labels", labels, "min_node_count must be a whole number from 0, not '"+text+"'")
	case n > nodes:
		return 0, api.Invalid("labels", labels, "min_node_count ("+text+") should be less or equal to node_count ("+strconv.Itoa(nodes)+")")
	}
	return n, nil
}

// store makes the user's credential if the driver wants one, and then the rows,
// the operation and its events in one transaction.
func (s *server) store(ctx context.Context, caller identity.Caller, n *newCluster, keep *conductor.Remember) error {
	var credential *driver.Credential
	if n.description.Credential && s.conductor.Delegation != nil {
		made, err := s.conductor.Delegation.Delegate(ctx, caller, n.cluster.UUID, n.cluster.Name)
		if err != nil {
			return err
		}
		made.Epoch = 1
		credential = &made
	}
	err := s.conductor.AcceptNew(ctx, caller, s.config.MaxPerProject, keep, func(ctx context.Context, tx *postgres.Store) (*conductor.Subject, error) {
		if err := tx.Clusters.Create(ctx, n.cluster); err != nil {
			return nil, err
		}
		for i := range n.groups {
			g, err := tx.NodeGroups.Create(ctx, n.groups[i], n.cluster.Name)
			if err != nil {
				return nil, err
			}
			n.groups[i] = g
		}
		if credential != nil {
			if err := s.conductor.Secrets.PutCredential(ctx, tx.Secrets, n.cluster.UUID, caller.UserID, *credential); err != nil {
				return nil, err
			}
		}
		return &conductor.Subject{Cluster: n.cluster, Template: n.template, NodeGroups: n.groups}, nil
	})
	if err != nil && credential != nil {
		s.conductor.TakeBack(ctx, caller, n.cluster.UUID, credential.ID)
	}
	return err
}
