package nodegroups

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/postgres"
)

// create serves POST …/nodegroups (spec/api.md §4.3.3).
func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	body, err := api.Decode(r, api.NodeGroupCreate)
	if err != nil {
		return err
	}
	c, caller, err := s.find(r, "nodegroup:create", "nodegroup:create_all_projects")
	if err != nil {
		return err
	}
	n, template, err := s.prepare(ctx, caller, c.Cluster, body)
	if err != nil {
		return err
	}
	decide := func(keep *conductor.Remember) conductor.Decide {
		return func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
			var wish *conductor.Wish
			if wish, n, err = s.add(ctx, tx, subject, n, template); err != nil {
				return nil, err
			}
			wish.Remember, err = keep.With(fullOf(ctx, n, c.Labels))
			return wish, err
		}
	}
	if api.QueryOf(r).Bool("dry_run") {
		if err := s.conductor.Try(ctx, caller, c.UUID, decide(nil)); err != nil {
			return err
		}
		return api.WriteJSON(w, http.StatusOK, fullOf(ctx, n, c.Labels))
	}
	keep, done, err := s.conductor.Replay(w, r, caller)
	if err != nil || done {
		return err
	}
	if err := s.conductor.Accept(ctx, caller, c.UUID, decide(keep)); err != nil {
		return err
	}
	api.SetETag(w, n.Revision)
	if err := api.WriteJSON(w, http.StatusAccepted, fullOf(ctx, n, c.Labels)); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}

// prepare makes the group's row from the request, its cluster and the cluster's
// template, and checks it in Magnum's order.
func (s *server) prepare(ctx context.Context, caller identity.Caller, c magnum.Cluster, body api.Values) (magnum.NodeGroup, magnum.ClusterTemplate, error) {
	var template magnum.ClusterTemplate
	if c.APIAddress == nil {
		return magnum.NodeGroup{}, template, fault.New(fault.Conflict, "Cluster API address is not available yet")
	}
	name := *body.String("name")
	if _, err := s.db.NodeGroups.Get(ctx, c.UUID, postgres.Ident{Text: name}); err == nil {
		return magnum.NodeGroup{}, template, fault.New(fault.Conflict, "A node group with name %s already exists in the cluster %s.", name, c.Name)
	} else if !fault.Is(err, fault.NotFound) {
		return magnum.NodeGroup{}, template, err
	}
	n := magnum.NodeGroup{UUID: uuid.NewString(), Name: name, ClusterID: c.UUID, ProjectID: c.ProjectID,
		DockerVolumeSize: cmp.Or(body.Int("docker_volume_size"), c.DockerVolumeSize), // B59
		FlavorID:         cmp.Or(body.String("flavor_id"), c.FlavorID), ImageID: body.String("image_id"),
		NodeCount: *body.Int("node_count"), Role: *body.String("role"), MinNodeCount: *body.Int("min_node_count"),
		MaxNodeCount: body.Int("max_node_count"), NodeLabels: body.Map("node_labels"), NodeTaints: body.Maps("node_taints"),
		Labels: labelsOf(body, c), Status: magnum.CreateInProgress, CreatedAt: s.now()}
	if n.NodeCount == 0 && !api.VersionOf(ctx).AtLeast(10) { // B56
		return n, template, fault.New(fault.Invalid, "Resizing a nodegroup to zero is not supported in the provided microversion.")
	}
	if err := magnum.CheckNodeGroup(n); err != nil {
		return n, template, err
	}
	if n.IsMaster() {
		return n, template, fault.New(fault.Invalid, "Creating master nodegroups is currently not supported.")
	}
	template, err := s.db.Templates.ByUUID(ctx, c.ClusterTemplateID)
	if err != nil {
		return n, template, err
	}
	if n.ImageID == nil {
		n.ImageID = &template.ImageID
	}
	_, err = s.checks.Cluster(ctx, caller, openstack.Names{Image: *n.ImageID, Flavor: n.FlavorID, Labels: n.Labels}) // B59
	return n, template, err
}

// labelsOf are the cluster's labels if none are sent, the request's, or the one
// over the other; an empty object stays empty.
func labelsOf(body api.Values, c magnum.Cluster) map[string]string {
	own := body.Map("labels")
	switch {
	case own == nil:
		return c.Labels
	case *body.Bool("merge_labels"):
		return magnum.MergeLabels(c.Labels, own)
	}
	return own
}

// add stores the group with its cluster locked (PB-31, PB-32).
func (s *server) add(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, n magnum.NodeGroup,
	template magnum.ClusterTemplate) (*conductor.Wish, magnum.NodeGroup, error) {
	if err := conductor.Allow(magnum.Changing, subject.Cluster.Status, "Creating a nodegroup of a cluster"); err != nil {
		return nil, n, err
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return nil, n, err
	}
	current := subject.Ref()
	desired := driver.Cluster{Cluster: subject.Cluster, Template: template, NodeGroups: append(slices.Clone(subject.NodeGroups), n),
		Operation: magnum.Operation{Kind: magnum.NodeGroupCreate, NodeGroupID: &n.UUID}}
	if err := d.Check(ctx, &current, desired); err != nil {
		return nil, n, err
	}
	n.StackID = subject.Cluster.StackID
	if n, err = tx.NodeGroups.Create(ctx, n, subject.Cluster.Name); err != nil {
		return nil, n, err
	}
	subject.NodeGroups = append(subject.NodeGroups, n)
	if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, n, err
	}
	return &conductor.Wish{Kind: magnum.NodeGroupCreate, NodeGroupID: &n.UUID}, n, nil
}
