package actions

import (
	"context"
	"net/http"

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
		if err := s.checkUpgrade(ctx, subject, n, template); err != nil {
			return nil, err
		}
		return s.wishUpgrade(ctx, tx, subject, n, template, *body.Int("max_batch_size"))
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

func (s *server) checkUpgrade(ctx context.Context, subject *conductor.Subject, n *magnum.NodeGroup, to magnum.ClusterTemplate) error {
	if !n.IsDefault && to.UUID != subject.Cluster.ClusterTemplateID {
		return unfit("Nodegroup %s can be upgraded only to match cluster's template (%s).", n.Name, subject.Template.Name)
	}
	if err := conductor.Allow(magnum.Steady, subject.Cluster.Status, "Upgrading a cluster"); err != nil {
		return err
	}
	if err := s.compatible(subject, to); err != nil {
		return err
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return err
	}
	current := subject.Ref()
	desired := driver.Cluster{Cluster: subject.Cluster, Template: to, NodeGroups: subject.NodeGroups,
		Operation: magnum.Operation{Kind: magnum.ClusterUpgrade, NodeGroupID: &n.UUID}}
	desired.Cluster.ClusterTemplateID = to.UUID
	return d.Check(ctx, &current, desired)
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
	to magnum.ClusterTemplate, batch int) (*conductor.Wish, error) {
	arguments := magnum.UpgradeArguments{ClusterTemplateID: to.UUID, PreviousClusterTemplateID: subject.Cluster.ClusterTemplateID, MaxBatchSize: batch}
	for i := range subject.NodeGroups {
		if err := subject.BeginNodeGroup(ctx, tx, &subject.NodeGroups[i], magnum.UpdateInProgress, s.now()); err != nil {
			return nil, err
		}
	}
	subject.Cluster.ClusterTemplateID = to.UUID
	if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, err
	}
	return &conductor.Wish{Kind: magnum.ClusterUpgrade, NodeGroupID: &n.UUID, Arguments: arguments}, nil
}
