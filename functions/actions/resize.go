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

// resize serves POST /v1/clusters/{ident}/actions/resize (spec/api.md §4.2.6).
// While an update goes on it is accepted too, and the last wish counts: that is
// what autoscalers need.
func (s *server) resize(w http.ResponseWriter, r *http.Request) error {
	body, err := api.Decode(r, api.ResizeRequest)
	if err != nil {
		return err
	}
	count := *body.Int("node_count")
	if count == 0 && !api.VersionOf(r.Context()).AtLeast(10) {
		return fault.New(fault.Invalid, "Resizing a nodegroup to zero is not supported in the provided microversion.")
	}
	c, caller, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "cluster:resize_all_projects", Action: "cluster:resize"})
	if err != nil {
		return err
	}
	err = s.conductor.Accept(r.Context(), caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := api.CheckIfMatch(r, subject.Cluster.Version); err != nil {
			return nil, err
		}
		n, err := nodeGroup(ctx, tx, subject, body.String("nodegroup"))
		if err != nil {
			return nil, err
		}
		if n.Status == magnum.DeleteInProgress { // PB-31: it must not come back
			return nil, fault.New(fault.Invalid, `Resizing a nodegroup when status is "%s" is not supported.`, n.Status)
		}
		arguments := magnum.ResizeArguments{NodeCount: count, NodesToRemove: body.List("nodes_to_remove")}
		if err := s.checkResize(ctx, subject, n, arguments); err != nil {
			return nil, err
		}
		return conductor.WishResize(ctx, tx, subject, n, magnum.ClusterResize, arguments, s.now())
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

// checkResize refuses what cannot be: a size outside of the group's bounds, more
// named nodes than the group loses (B73), a status that forbids it, and what the
// driver cannot do.
func (s *server) checkResize(ctx context.Context, subject *conductor.Subject, n *magnum.NodeGroup, a magnum.ResizeArguments) error {
	if !n.IsMaster() {
		if err := magnum.CheckBounds(*n, a.NodeCount); err != nil {
			return err
		}
	}
	if lost := n.NodeCount - a.NodeCount; len(a.NodesToRemove) > 0 && lost != 0 && len(a.NodesToRemove) > lost {
		return api.Invalid("nodes_to_remove", a.NodesToRemove, "More nodes are named than the nodegroup loses")
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return err
	}
	current := subject.Ref()
	desired := driver.Cluster{Cluster: subject.Cluster, Template: subject.Template, NodeGroups: subject.Resized(n.UUID, a.NodeCount),
		Operation: magnum.Operation{Kind: magnum.ClusterResize, NodeGroupID: &n.UUID}}
	if len(a.NodesToRemove) > 0 {
		desired.NodesToRemove = map[string][]string{n.UUID: a.NodesToRemove}
	}
	if n.IsMaster() {
		if err := d.Check(ctx, &current, desired); err != nil {
			return err
		}
		return conductor.Allow(magnum.Changing, subject.Cluster.Status, "Resizing a cluster")
	}
	if err := conductor.Allow(magnum.Changing, subject.Cluster.Status, "Resizing a cluster"); err != nil {
		return err
	}
	return d.Check(ctx, &current, desired)
}
