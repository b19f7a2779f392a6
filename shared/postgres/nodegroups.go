package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// NodeGroups are the node groups of clusters.
type NodeGroups struct {
	q     querier
	s     *sqlc.Queries
	later later
}

var nodeGroupOrder = columnsOf("id",
	"uuid", "name", "cluster_id", "project_id", "docker_volume_size", "flavor_id", "image_id", "node_count", "role",
	"max_node_count", "min_node_count", "is_default", "stack_id", "status", "status_reason", "created_at", "updated_at").
	with("labels", "t.labels::text").with("node_addresses", "t.node_addresses::text").with("version", "t.release").
	with("node_labels", "t.node_labels::text").with("node_taints", "t.node_taints::text")

const nodeGroupColumns = `t.id, t.uuid, t.revision, t.name, t.cluster_id, t.project_id, t.docker_volume_size, t.labels,
	t.flavor_id, t.image_id, t.node_addresses, t.node_count, t.role, t.min_node_count, t.max_node_count, t.is_default,
	t.stack_id, t.status, t.status_reason, t.release, t.node_labels, t.node_taints, t.created_at, t.updated_at`

func scanNodeGroup(row pgx.CollectableRow) (magnum.NodeGroup, error) {
	var n magnum.NodeGroup
	err := row.Scan(&n.ID, &n.UUID, &n.Revision, &n.Name, &n.ClusterID, &n.ProjectID, &n.DockerVolumeSize, &n.Labels,
		&n.FlavorID, &n.ImageID, &n.NodeAddresses, &n.NodeCount, &n.Role, &n.MinNodeCount, &n.MaxNodeCount, &n.IsDefault,
		&n.StackID, (*string)(&n.Status), &n.StatusReason, &n.Release, &n.NodeLabels, &n.NodeTaints, &n.CreatedAt, &n.UpdatedAt)
	return n, err
}

func nodeGroup(r sqlc.Nodegroup) magnum.NodeGroup {
	return magnum.NodeGroup{
		ID: r.ID, UUID: r.UUID, Revision: r.Revision, Name: r.Name, ClusterID: r.ClusterID, ProjectID: r.ProjectID,
		DockerVolumeSize: r.DockerVolumeSize, Labels: r.Labels, FlavorID: r.FlavorID, ImageID: r.ImageID,
		NodeAddresses: r.NodeAddresses, NodeCount: r.NodeCount, Role: r.Role, MinNodeCount: r.MinNodeCount,
		MaxNodeCount: r.MaxNodeCount, IsDefault: r.IsDefault, StackID: r.StackID, Status: magnum.Status(r.Status),
		StatusReason: r.StatusReason, Release: r.Release, NodeLabels: r.NodeLabels, NodeTaints: r.NodeTaints,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func nodeGroupNotFound(ident string) error {
	return fault.New(fault.NotFound, "Nodegroup %s could not be found.", ident)
}

// NodeGroupSortKeys are what node groups can be sorted by, id apart.
func NodeGroupSortKeys() []string { return nodeGroupOrder.keys() }

// List gives one page of a cluster's groups; role "" is any. Fault NotFound:
// the marker.
func (x NodeGroups) List(ctx context.Context, clusterID, role string, p Page) ([]magnum.NodeGroup, error) {
	conditions, args := []string{"t.cluster_id = $1"}, []any{clusterID}
	if role != "" {
		args = append(args, role)
		conditions = append(conditions, fmt.Sprintf("t.role = $%d", len(args)))
	}
	sql, args := nodeGroupOrder.list("nodegroups", "uuid", nodeGroupColumns, conditions, args, p)
	rows, err := x.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, "list node groups")
	}
	list, err := pgx.CollectRows(rows, scanNodeGroup)
	if err != nil {
		return nil, classify(err, "list node groups")
	}
	if len(list) == 0 && p.Marker != "" {
		_, err = x.Get(ctx, clusterID, Ident{UUID: p.Marker, Text: p.Marker})
	}
	return list, err
}

// OfCluster gives all groups of a cluster, oldest first.
func (x NodeGroups) OfCluster(ctx context.Context, clusterID string) ([]magnum.NodeGroup, error) {
	rows, err := x.s.NodeGroups(ctx, clusterID)
	list := make([]magnum.NodeGroup, len(rows))
	for i, r := range rows {
		list[i] = nodeGroup(r)
	}
	return list, classify(err, "read node groups")
}

// OfClusters gives the groups of many clusters by cluster uuid, in one statement.
func (x NodeGroups) OfClusters(ctx context.Context, clusterIDs []string) (map[string][]magnum.NodeGroup, error) {
	rows, err := x.s.NodeGroupsOf(ctx, clusterIDs)
	of := make(map[string][]magnum.NodeGroup, len(clusterIDs))
	for _, r := range rows {
		of[r.ClusterID] = append(of[r.ClusterID], nodeGroup(r))
	}
	return of, classify(err, "read node groups")
}

// Get finds a group of the cluster by uuid, by name, or, failing these, by its
// numeric id (B22). Fault NotFound.
func (x NodeGroups) Get(ctx context.Context, clusterID string, ident Ident) (magnum.NodeGroup, error) {
	where, args := ident.where(), []any{ident.value(), clusterID}
	if id, err := strconv.ParseInt(ident.Text, 10, 64); err == nil && ident.UUID == "" {
		where = "(t.name = $1 OR (t.id = $3 AND NOT EXISTS (SELECT 1 FROM nodegroups o WHERE o.cluster_id = $2 AND o.name = $1)))"
		args = append(args, id)
	}
	rows, err := x.q.Query(ctx, "SELECT "+nodeGroupColumns+" FROM nodegroups t WHERE "+where+" AND t.cluster_id = $2", args...)
	if err != nil {
		return magnum.NodeGroup{}, classify(err, "find node group")
	}
	n, err := pgx.CollectExactlyOneRow(rows, scanNodeGroup)
	if noRows(err) {
		return n, nodeGroupNotFound(ident.Text)
	}
	return n, classify(err, "find node group")
}

// Create stores a new group. clusterName is for the fault Conflict, if the
// cluster has a group of that name.
func (x NodeGroups) Create(ctx context.Context, n magnum.NodeGroup, clusterName string) (magnum.NodeGroup, error) {
	taints := n.NodeTaints
	if taints == nil {
		taints = []map[string]string{}
	}
	r, err := x.s.InsertNodeGroup(ctx, sqlc.InsertNodeGroupParams{
		UUID: n.UUID, Name: n.Name, ClusterID: n.ClusterID, ProjectID: n.ProjectID, DockerVolumeSize: n.DockerVolumeSize,
		Labels: notNilMap(n.Labels), FlavorID: n.FlavorID, ImageID: n.ImageID, NodeCount: n.NodeCount, Role: n.Role,
		MinNodeCount: n.MinNodeCount, MaxNodeCount: n.MaxNodeCount, IsDefault: n.IsDefault, StackID: n.StackID,
		Status: string(n.Status), NodeLabels: notNilMap(n.NodeLabels), NodeTaints: taints, CreatedAt: n.CreatedAt,
	})
	if violates(err, "nodegroups_name_in_cluster") {
		return n, fault.Wrap(fault.Conflict, err, "A node group with name %s already exists in the cluster %s.", n.Name, clusterName)
	}
	return nodeGroup(r), classify(err, "insert node group")
}

// Update stores what operations and observations change, if the row still has
// n.Revision. Fault Conflict if it has not.
func (x NodeGroups) Update(ctx context.Context, n *magnum.NodeGroup, now time.Time) error {
	addresses, taints := n.NodeAddresses, n.NodeTaints
	if addresses == nil {
		addresses = []string{}
	}
	if taints == nil {
		taints = []map[string]string{}
	}
	changed := fault.New(fault.Conflict, "Nodegroup %s was changed by another request. Read it again and repeat the change.", n.UUID)
	err := x.later(one(changed)).UpdateNodeGroup(ctx, sqlc.UpdateNodeGroupParams{
		UUID: n.UUID, Revision: n.Revision, NodeAddresses: addresses, NodeCount: n.NodeCount, MinNodeCount: n.MinNodeCount,
		MaxNodeCount: n.MaxNodeCount, StackID: n.StackID, Status: string(n.Status), StatusReason: n.StatusReason,
		NodeLabels: notNilMap(n.NodeLabels), NodeTaints: taints, ImageID: n.ImageID, Labels: notNilMap(n.Labels), UpdatedAt: &now,
	})
	if err != nil {
		return classify(err, "update node group")
	}
	n.Revision, n.UpdatedAt = n.Revision+1, &now
	return nil
}

// Delete removes a group that is not one of the cluster's defaults.
func (x NodeGroups) Delete(ctx context.Context, uuid string) error {
	_, err := x.s.DeleteNodeGroup(ctx, uuid)
	return classify(err, "delete node group")
}
