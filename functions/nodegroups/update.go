package nodegroups

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

// update serves PATCH …/nodegroups/{ident}: bounds, labels and taints
// (spec/api.md §4.3.4).
func (s *server) update(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	patch, err := api.DecodePatch(r, api.NodeGroupPatch)
	if err != nil {
		return err
	}
	c, caller, err := s.find(r, "nodegroup:update", "nodegroup:update_all_projects")
	if err != nil {
		return err
	}
	var n magnum.NodeGroup
	var before magnum.NodeGroup
	decide := func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		group, err := s.locked(ctx, tx, r, subject)
		if err != nil {
			return nil, err
		}
		before = *group
		wish, err := s.change(ctx, tx, subject, group, patch)
		n = *group
		return wish, err
	}
	if api.QueryOf(r).Bool("dry_run") {
		if err := s.conductor.Try(ctx, caller, c.UUID, decide); err != nil {
			return err
		}
		return api.WriteJSON(w, http.StatusOK, fullOf(ctx, n, c.Labels))
	}
	if err := s.conductor.Accept(ctx, caller, c.UUID, decide); err != nil {
		return err
	}
	api.SetETag(w, n.Revision)
	// Magnum answers with the status of before: its conductor has not begun yet.
	n.Status, n.StatusReason, n.UpdatedAt = before.Status, before.StatusReason, before.UpdatedAt
	answer := fullOf(ctx, n, c.Labels)
	for _, o := range patch.Operations { // what was removed is null here, where a GET shows it empty
		switch {
		case o.Op == "remove" && o.Path == "/node_labels" && answer.NodeLabels != nil:
			*answer.NodeLabels = nil
		case o.Op == "remove" && o.Path == "/node_taints" && answer.NodeTaints != nil:
			*answer.NodeTaints = nil
		}
	}
	if err := api.WriteJSON(w, http.StatusAccepted, answer); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}

// locked finds the group that the request names in its locked cluster.
func (s *server) locked(ctx context.Context, tx *postgres.Store, r *http.Request, subject *conductor.Subject) (*magnum.NodeGroup, error) {
	found, err := tx.NodeGroups.Get(ctx, subject.Cluster.UUID, lookup.Ident(api.Path(r, "nodegroup_id")))
	if err != nil {
		return nil, err
	}
	n := subject.NodeGroup(found.UUID)
	return n, api.CheckIfMatch(r, n.Revision)
}

// change applies the patch to the locked group. What changes nothing is no
// operation.
func (s *server) change(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, n *magnum.NodeGroup, patch api.Patch) (*conductor.Wish, error) {
	patched, err := patch.Apply(document(*n))
	if err != nil {
		return nil, err
	}
	previous := magnum.NodeGroupSettings{MinNodeCount: n.MinNodeCount, MaxNodeCount: n.MaxNodeCount, NodeLabels: n.NodeLabels, NodeTaints: n.NodeTaints}
	n.MinNodeCount = 0
	if v := patched.Int("min_node_count"); v != nil {
		n.MinNodeCount = *v
	}
	n.MaxNodeCount, n.NodeLabels, n.NodeTaints = patched.Int("max_node_count"), patched.Map("node_labels"), patched.Maps("node_taints")
	if err := magnum.CheckNodeGroup(*n); err != nil {
		return nil, err
	}
	if err := conductor.Allow(magnum.Changing, subject.Cluster.Status, "Updating a nodegroup of a cluster"); err != nil {
		return nil, err
	}
	if err := conductor.Allow(magnum.Changing, n.Status, "Updating a nodegroup"); err != nil { // PB-13, PB-31
		return nil, err
	}
	if len(patched.Changed) == 0 {
		return nil, nil
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return nil, err
	}
	current := subject.Ref()
	desired := driver.Cluster{Cluster: subject.Cluster, Template: subject.Template, NodeGroups: subject.NodeGroups,
		Operation: magnum.Operation{Kind: magnum.NodeGroupUpdate, NodeGroupID: &n.UUID}}
	if err := d.Check(ctx, &current, desired); err != nil {
		return nil, err
	}
	if err := subject.BeginNodeGroup(ctx, tx, n, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, err
	}
	if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, err
	}
	return &conductor.Wish{Kind: magnum.NodeGroupUpdate, NodeGroupID: &n.UUID, Arguments: magnum.NodeGroupUpdateArguments{Previous: previous}}, nil
}

// document is a group as JSON-Patch sees it: its stored attributes.
func document(n magnum.NodeGroup) api.Document {
	return api.Document{
		"uuid": n.UUID, "name": n.Name, "cluster_id": n.ClusterID, "project_id": n.ProjectID,
		"docker_volume_size": n.DockerVolumeSize, "labels": n.Labels, "flavor_id": n.FlavorID, "image_id": n.ImageID,
		"node_addresses": n.NodeAddresses, "node_count": n.NodeCount, "role": n.Role, "min_node_count": n.MinNodeCount,
		"max_node_count": n.MaxNodeCount, "is_default": n.IsDefault, "stack_id": n.StackID, "status": string(n.Status),
		"status_reason": n.StatusReason, "version": n.Release, "node_labels": n.NodeLabels, "node_taints": n.NodeTaints,
	}
}

// delete serves DELETE …/nodegroups/{ident}. What is being deleted already is a
// success; other operations on the group are over.
func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	c, caller, err := s.find(r, "nodegroup:delete", "nodegroup:delete_all_projects")
	if err != nil {
		return err
	}
	err = s.conductor.Accept(r.Context(), caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		n, err := s.locked(ctx, tx, r, subject)
		if err != nil {
			return nil, err
		}
		if n.IsDefault {
			return nil, fault.New(fault.Invalid, "Deleting a default nodegroup is not supported.")
		}
		if n.Status == magnum.DeleteInProgress {
			return nil, nil
		}
		return s.remove(ctx, tx, subject, n)
	})
	if err != nil {
		return err
	}
	if err := api.NoContent(w); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}

func (s *server) remove(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, n *magnum.NodeGroup) (*conductor.Wish, error) {
	if err := conductor.Allow(magnum.Changing, subject.Cluster.Status, "Deleting a nodegroup of a cluster"); err != nil { // PB-31
		return nil, err
	}
	if err := subject.BeginNodeGroup(ctx, tx, n, magnum.DeleteInProgress, s.now()); err != nil {
		return nil, err
	}
	if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
		return nil, err
	}
	group := n.UUID
	return &conductor.Wish{Kind: magnum.NodeGroupDelete, NodeGroupID: &group, Supersedes: func(o magnum.Operation) bool {
		return o.NodeGroupID != nil && *o.NodeGroupID == group && o.Kind != magnum.ClusterUpgrade
	}}, nil
}
