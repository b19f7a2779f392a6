package clusters

import (
	"context"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// update serves PATCH /v1/clusters/{ident}: node_count of the default worker
// group, and the health that an in-cluster healer reports (spec/api.md §4.2.5).
func (s *server) update(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	patch, err := api.DecodePatch(r, api.ClusterPatch)
	if err != nil {
		return err
	}
	c, caller, err := s.findToPatch(r, patch)
	if err != nil {
		return err
	}
	patched, err := patch.Apply(document(&c))
	if err != nil {
		return err
	}
	if beyond := patched.Beyond("node_count", "health_status", "health_status_reason"); beyond != "" {
		return fault.New(fault.Invalid, "cannot change cluster property(ies) %s.", beyond)
	}
	change := changeOf(patch, patched)
	if change.nodeCount != nil && *change.nodeCount == 0 && !api.VersionOf(ctx).AtLeast(10) {
		return fault.New(fault.Invalid, "Resizing a nodegroup to zero is not supported in the provided microversion.")
	}
	if api.QueryOf(r).Bool("dry_run") {
		if err := s.conductor.Try(ctx, caller, c.UUID, s.apply(r, &c, change, nil)); err != nil {
			return err
		}
		return api.WriteJSON(w, http.StatusOK, fullOf(ctx, &c))
	}
	keep, done, err := s.conductor.Replay(w, r, caller)
	if err != nil || done {
		return err
	}
	if keep, err = keep.With(api.Accepted{UUID: c.UUID}); err != nil {
		return err
	}
	if err := s.conductor.Accept(ctx, caller, c.UUID, s.apply(r, &c, change, keep)); err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

// change is what a patch asks for; nil fields stay.
type change struct {
	nodeCount *int
	health    *magnum.HealthStatus
	reasons   map[string]string
	hasReason bool
}

func changeOf(patch api.Patch, patched api.Patched) change {
	var c change
	if patched.Has("node_count") {
		c.nodeCount = patched.Int("node_count")
	}
	if patched.Has("health_status") {
		h := magnum.HealthStatus("")
		if v := patched.String("health_status"); v != nil {
			h = magnum.HealthStatus(*v)
		}
		c.health = &h
	}
	if patched.Has("health_status_reason") {
		c.reasons, c.hasReason = patched.Map("health_status_reason"), true
	}
	return c
}

// findToPatch asks cluster:update, or, if only health is reported,
// cluster:update_health_status, each with the cluster as its target (B08).
func (s *server) findToPatch(r *http.Request, patch api.Patch) (postgres.ClusterRow, identity.Caller, error) {
	rules := lookup.Rules{AllProjects: "cluster:update_all_projects", Action: "cluster:update"}
	if patch.Only("health_status", "health_status_reason") {
		rules.Action = "cluster:update_health_status"
	}
	return s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"), rules)
}

// apply stores the change with the cluster locked, and shows it in c. Health is
// written in any status and moves nothing else (PB-22).
func (s *server) apply(r *http.Request, c *postgres.ClusterRow, ch change, keep *conductor.Remember) conductor.Decide {
	return func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := api.CheckIfMatch(r, subject.Cluster.Version); err != nil {
			return nil, err
		}
		wish, err := s.decide(ctx, tx, subject, ch, api.QueryOf(r).Bool("rollback"))
		if wish != nil {
			wish.Remember = keep
		}
		c.Cluster, c.NodeCount = subject.Cluster, workers(subject)
		return wish, err
	}
}

func (s *server) decide(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, ch change, rollback bool) (*conductor.Wish, error) {
	if err := s.reportHealth(ctx, tx, subject, ch); err != nil || ch.nodeCount == nil {
		return nil, err
	}
	worker := subject.DefaultWorker()
	if worker == nil {
		return nil, fault.New(fault.Conflict, "Cluster %s has no default worker nodegroup.", subject.Cluster.UUID)
	}
	if worker.NodeCount == *ch.nodeCount {
		return nil, nil
	}
	if err := conductor.Allow(magnum.Steady, subject.Cluster.Status, "Updating a cluster"); err != nil {
		return nil, err
	}
	if err := magnum.CheckBounds(*worker, *ch.nodeCount); err != nil { // PB-21
		return nil, err
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return nil, err
	}
	current := subject.Ref()
	arguments := magnum.ResizeArguments{NodeCount: *ch.nodeCount, Rollback: rollback}
	desired := driver.Cluster{Cluster: subject.Cluster, Template: subject.Template, NodeGroups: subject.Resized(worker.UUID, *ch.nodeCount),
		Operation: magnum.Operation{Kind: magnum.ClusterUpdate, NodeGroupID: &worker.UUID}}
	if err := d.Check(ctx, &current, desired); err != nil {
		return nil, err
	}
	return conductor.WishResize(ctx, tx, subject, worker, magnum.ClusterUpdate, arguments, s.now())
}

// reportHealth stores what the healer says and tells the world if it is new.
func (s *server) reportHealth(ctx context.Context, tx *postgres.Store, subject *conductor.Subject, ch change) error {
	if ch.health == nil && !ch.hasReason {
		return nil
	}
	if ch.health != nil {
		subject.Cluster.HealthStatus = *ch.health
	}
	if ch.hasReason {
		subject.Cluster.HealthStatusReason = ch.reasons
	}
	was := subject.Cluster
	changed, err := tx.Clusters.UpdateHealth(ctx, was.UUID, was.HealthStatus, was.HealthStatusReason)
	if err != nil || !changed {
		return err
	}
	return tx.Events.Add(ctx, s.conductor.HealthNotification(subject, s.now()))
}

func workers(subject *conductor.Subject) int {
	n := 0
	for _, g := range subject.NodeGroups {
		if !g.IsMaster() {
			n += g.NodeCount
		}
	}
	return n
}

// document is a cluster as JSON-Patch sees it: the stored attributes and the
// computed counts and addresses (spec/api.md §5.3).
func document(c *postgres.ClusterRow) api.Document {
	return api.Document{
		"uuid": c.UUID, "name": c.Name, "cluster_template_id": c.ClusterTemplateID, "keypair": c.Keypair,
		"node_count": c.NodeCount, "master_count": c.MasterCount, "docker_volume_size": c.DockerVolumeSize,
		"labels": c.Labels, "master_flavor_id": c.MasterFlavorID, "flavor_id": c.FlavorID,
		"create_timeout": c.CreateTimeout, "stack_id": c.StackID, "status": string(c.Status),
		"status_reason": c.StatusReason, "health_status": (*string)(health(c)), "health_status_reason": c.HealthStatusReason,
		"discovery_url": c.DiscoveryURL, "api_address": c.APIAddress, "coe_version": c.COEVersion,
		"container_version": c.ContainerVersion, "project_id": c.ProjectID, "user_id": c.UserID,
		"node_addresses": c.NodeAddresses, "master_addresses": c.MasterAddresses, "fixed_network": c.FixedNetwork,
		"fixed_subnet": c.FixedSubnet, "floating_ip_enabled": c.FloatingIPEnabled, "master_lb_enabled": c.MasterLBEnabled,
	}
}
