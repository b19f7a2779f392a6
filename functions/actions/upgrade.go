package actions

import (
	"context"
	"net/http"
	"slices"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// upgrade serves POST /v1/clusters/{ident}/actions/upgrade (spec/api.md §4.2.7).
// Magnum's call waits for its conductor; here all that can be refused is refused
// in the request, and the rest is an operation like the others (PB-26).
func (s *server) upgrade(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	if !api.VersionOf(ctx).AtLeast(8) {
		return fault.New(fault.Invalid, "Cluster upgrade is not supported in the provided microversion.")
	}
	body, err := api.Decode(r, api.UpgradeRequest)
	if err != nil {
		return err
	}
	c, caller, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "cluster:upgrade_all_projects", Action: "cluster:upgrade"})
	if err != nil {
		return err
	}
	template, err := s.templates.Get(ctx, postgres.ScopeOf(caller, true), lookup.Ident(*body.String("cluster_template")))
	if err != nil {
		return err
	}
	err = s.conductor.Accept(ctx, caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := api.CheckIfMatch(r, subject.Cluster.Version); err != nil {
			return nil, err
		}
		n, err := nodeGroup(ctx, tx, subject, body.String("nodegroup"))
		if err != nil {
			return nil, err
		}
		d, err := s.upgrader(subject, n, template)
		if err != nil {
			return nil, err
		}
		current := subject.Ref()
		current.NodeGroups = slices.Clone(current.NodeGroups)
		arguments := magnum.UpgradeArguments{ClusterTemplateID: template.UUID, PreviousClusterTemplateID: subject.Cluster.ClusterTemplateID,
			MaxBatchSize: *body.Int("max_batch_size")}
		if d.Describe().FollowsTemplate {
			arguments.Previous = follow(subject, n, template)
		}
		subject.Cluster.ClusterTemplateID = template.UUID
		err = d.Check(ctx, &current, driver.Cluster{Cluster: subject.Cluster, Template: template, NodeGroups: subject.NodeGroups,
			Operation: magnum.Operation{Kind: magnum.ClusterUpgrade, NodeGroupID: &n.UUID}})
		if err != nil {
			return nil, err
		}
		return s.wishUpgrade(ctx, tx, subject, n, arguments)
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

// upgrader gives the driver that is to upgrade the cluster, if it may be upgraded.
func (s *server) upgrader(subject *conductor.Subject, n *magnum.NodeGroup, to magnum.ClusterTemplate) (driver.Driver, error) {
	if !n.IsDefault && to.UUID != subject.Cluster.ClusterTemplateID {
		return nil, unfit("Nodegroup %s can be upgraded only to match cluster's template (%s).", n.Name, subject.Template.Name)
	}
	if err := conductor.Allow(magnum.Steady, subject.Cluster.Status, "Upgrading a cluster"); err != nil {
		return nil, err
	}
	if err := s.compatible(subject, to); err != nil {
		return nil, err
	}
	return s.drivers.Named(subject.Cluster.Driver)
}

// follow gives the rows that the upgrade is about what the new template says, where
// the user had not said otherwise, and returns what they had. An upgrade of the
// default workers is one of the whole cluster. The version is what an upgrade is
// for: it follows whatever was said.
func follow(subject *conductor.Subject, n *magnum.NodeGroup, to magnum.ClusterTemplate) *magnum.UpgradePrevious {
	was := &magnum.UpgradePrevious{Labels: subject.Cluster.Labels, NodeGroups: map[string]magnum.NodeGroupTemplate{}}
	const version = "kube_tag"
	labels := magnum.FollowLabels(was.Labels, subject.Template.Labels, to.Labels)
	if tag, ok := to.Labels[version]; ok && labels[version] != "" {
		labels[version] = tag
	} else if !ok {
		delete(labels, version) // the image says it
	}
	subject.Cluster.Labels = labels
	for i := range subject.NodeGroups {
		g := &subject.NodeGroups[i]
		if g.UUID != n.UUID && (!n.IsDefault || n.IsMaster()) {
			continue
		}
		was.NodeGroups[g.UUID] = magnum.NodeGroupTemplate{ImageID: g.ImageID, Labels: g.Labels}
		g.ImageID, g.Labels = &to.ImageID, magnum.FollowLabels(g.Labels, was.Labels, labels)
		if _, ok := g.Labels[version]; ok {
			g.Labels[version] = to.Labels[version]
		}
		if g.Labels[version] == "" {
			delete(g.Labels, version)
		}
	}
	return was
}

// compatible refuses a template for another kind of cluster, or another driver
// (B71, PB-27).
func (s *server) compatible(subject *conductor.Subject, to magnum.ClusterTemplate) error {
	from := subject.Template
	switch {
	case from.COE != to.COE:
		return unfit("its coe is %s and the cluster's is %s.", to.COE, from.COE)
	case from.ServerType != to.ServerType:
		return unfit("its server_type is %s and the cluster's is %s.", to.ServerType, from.ServerType)
	}
	name := ""
	if to.Driver != nil {
		name = *to.Driver
	}
	d, err := s.drivers.Select(name, driver.TypeOf(to))
	if err != nil {
		return err
	}
	if got := d.Describe().Name; got != subject.Cluster.Driver {
		return unfit("its driver is %s and the cluster's is %s.", got, subject.Cluster.Driver)
	}
	return nil
}

func unfit(format string, args ...any) error {
	return fault.New(fault.Conflict, "Cluster Template is not valid for upgrade: "+format, args...)
}

// wishUpgrade moves the cluster to the template, and all its groups with it.
func (s *server) wishUpgrade(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, n *magnum.NodeGroup,
	arguments magnum.UpgradeArguments) (*conductor.Wish, error) {
	for i := range subject.NodeGroups {
		if err := subject.BeginNodeGroup(ctx, tx, &subject.NodeGroups[i], magnum.UpdateInProgress, s.now()); err != nil {
			return nil, err
		}
	}
	if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, err
	}
	return &conductor.Wish{Kind: magnum.ClusterUpgrade, NodeGroupID: &n.UUID, Arguments: arguments}, nil
}
