package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Clusters are the clusters.
type Clusters struct {
	q     querier
	s     *sqlc.Queries
	later later
}

// ClusterRow is a cluster with what its answers need of other tables.
type ClusterRow struct {
	magnum.Cluster
	NodeCount   int // desired, over all groups that are not masters
	MasterCount int
	// The rest is there in full rows only, as are most fields of Cluster.
	NodeAddresses   []string
	MasterAddresses []string
	TemplateLabels  map[string]string
	Faults          map[string]string // node group name → status_reason of those that failed
}

var clusterOrder = columnsOf("seq",
	"uuid", "name", "project_id", "user_id", "cluster_template_id", "keypair", "docker_volume_size",
	"master_flavor_id", "flavor_id", "stack_id", "api_address", "status", "status_reason", "health_status",
	"create_timeout", "discovery_url", "coe_version", "container_version", "fixed_network", "fixed_subnet",
	"floating_ip_enabled", "master_lb_enabled", "created_at", "updated_at").
	with("labels", "t.labels::text").with("health_status_reason", "t.health_status_reason::text").
	with("ca_cert_ref", "NULL::text").with("magnum_cert_ref", "NULL::text").
	with("etcd_ca_cert_ref", "NULL::text").with("front_proxy_ca_cert_ref", "NULL::text")

const clusterColumns = `t.seq, t.uuid, t.version, t.project_id, t.user_id, t.name, t.cluster_template_id, t.keypair,
	t.docker_volume_size, t.labels, t.master_flavor_id, t.flavor_id, t.stack_id, t.api_address, t.status,
	t.status_reason, t.health_status, t.health_status_reason, t.create_timeout, t.discovery_url, t.coe_version,
	t.container_version, t.fixed_network, t.fixed_subnet, t.floating_ip_enabled, t.master_lb_enabled, t.driver,
	t.created_at, t.updated_at`

// clusterCounts reads each cluster's groups once for both numbers. It is no join:
// this way PostgreSQL counts for the rows of the page only, whatever the order.
const clusterCounts = `,
	(SELECT ARRAY[coalesce(sum(n.node_count) FILTER (WHERE n.role <> 'master'), 0)::integer,
		coalesce(sum(n.node_count) FILTER (WHERE n.role = 'master'), 0)::integer] FROM nodegroups n WHERE n.cluster_id = t.uuid)`

// clusterDetails is what full rows have besides their own columns, and clusterGroups
// where it comes from: each cluster's groups are read once, and those of the page
// only, for it has been cut before.
const clusterDetails = `, g.counts, g.nodes, g.masters,
	(SELECT ct.labels FROM cluster_templates ct WHERE ct.uuid = t.cluster_template_id), g.faults`

const clusterGroups = ` CROSS JOIN LATERAL (
	SELECT ARRAY[coalesce(sum(n.node_count) FILTER (WHERE n.role <> 'master'), 0)::integer,
			coalesce(sum(n.node_count) FILTER (WHERE n.role = 'master'), 0)::integer] AS counts,
		jsonb_agg(n.node_addresses ORDER BY n.id) FILTER (WHERE n.role <> 'master') AS nodes,
		jsonb_agg(n.node_addresses ORDER BY n.id) FILTER (WHERE n.role = 'master') AS masters,
		jsonb_object_agg(n.name, n.status_reason) FILTER (WHERE n.status LIKE '%\_FAILED') AS faults
	FROM nodegroups n WHERE n.cluster_id = t.uuid) g`

func clusterFields(c *magnum.Cluster) []any {
	return []any{&c.Seq, uuidText{&c.UUID}, &c.Version, &c.ProjectID, &c.UserID, &c.Name, uuidText{&c.ClusterTemplateID}, nullText{&c.Keypair},
		nullInt{&c.DockerVolumeSize}, textMap{&c.Labels}, nullText{&c.MasterFlavorID}, nullText{&c.FlavorID}, nullText{&c.StackID},
		nullText{&c.APIAddress}, (*string)(&c.Status), nullText{&c.StatusReason}, emptyText{(*string)(&c.HealthStatus)},
		textMap{&c.HealthStatusReason}, nullInt{&c.CreateTimeout}, nullText{&c.DiscoveryURL}, nullText{&c.COEVersion},
		nullText{&c.ContainerVersion}, nullText{&c.FixedNetwork}, nullText{&c.FixedSubnet}, &c.FloatingIPEnabled, &c.MasterLBEnabled, &c.Driver,
		&c.CreatedAt, nullTime{&c.UpdatedAt}}
}

// shortColumns are those that a list shows.
const shortColumns = `t.uuid, t.name, t.cluster_template_id, t.keypair, t.docker_volume_size, t.labels, t.master_flavor_id,
	t.flavor_id, t.create_timeout, t.stack_id, t.status, t.health_status`

func scanShort(row pgx.CollectableRow) (ClusterRow, error) {
	var c ClusterRow
	err := row.Scan(uuidText{&c.UUID}, &c.Name, uuidText{&c.ClusterTemplateID}, nullText{&c.Keypair}, nullInt{&c.DockerVolumeSize},
		textMap{&c.Labels}, nullText{&c.MasterFlavorID}, nullText{&c.FlavorID}, nullInt{&c.CreateTimeout}, nullText{&c.StackID},
		(*string)(&c.Status), emptyText{(*string)(&c.HealthStatus)}, intPair{&c.NodeCount, &c.MasterCount})
	return c, err
}

func scanFull(row pgx.CollectableRow) (ClusterRow, error) {
	var c ClusterRow
	var nodes, masters [][]string
	var faults map[string]*string
	err := row.Scan(append(clusterFields(&c.Cluster), intPair{&c.NodeCount, &c.MasterCount},
		&nodes, &masters, textMap{&c.TemplateLabels}, &faults)...)
	c.NodeAddresses, c.MasterAddresses = append([]string{}, slices.Concat(nodes...)...), append([]string{}, slices.Concat(masters...)...)
	c.Faults = make(map[string]string, len(faults))
	for name, reason := range faults {
		if reason != nil {
			c.Faults[name] = *reason
		}
	}
	return c, err
}

func cluster(r sqlc.Cluster) magnum.Cluster {
	return magnum.Cluster{
		Seq: r.Seq, UUID: r.UUID, Version: r.Version, ProjectID: r.ProjectID, UserID: r.UserID, Name: r.Name,
		ClusterTemplateID: r.ClusterTemplateID, Keypair: r.Keypair, DockerVolumeSize: r.DockerVolumeSize,
		Labels: r.Labels, MasterFlavorID: r.MasterFlavorID, FlavorID: r.FlavorID, StackID: r.StackID,
		APIAddress: r.APIAddress, Status: magnum.Status(r.Status), StatusReason: r.StatusReason,
		HealthStatus: magnum.HealthStatus(orEmpty(r.HealthStatus)), HealthStatusReason: r.HealthStatusReason,
		CreateTimeout: r.CreateTimeout, DiscoveryURL: r.DiscoveryURL, COEVersion: r.COEVersion,
		ContainerVersion: r.ContainerVersion, FixedNetwork: r.FixedNetwork, FixedSubnet: r.FixedSubnet,
		FloatingIPEnabled: r.FloatingIPEnabled, MasterLBEnabled: r.MasterLBEnabled, Driver: r.Driver,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func clusterNotFound(ident string) error {
	return fault.New(fault.NotFound, "Cluster %s could not be found.", ident)
}

// ClusterFilter narrows a list; zero fields do not.
type ClusterFilter struct {
	Status            string
	Name              string
	ClusterTemplateID string
	HealthStatus      string
	ChangedSince      *time.Time
}

// ClusterSortKeys are what clusters can be sorted by, id apart.
func ClusterSortKeys() []string { return clusterOrder.keys() }

// List gives one page of the clusters that the scope sees, in one statement: what
// a list shows, or with full all of them and their addresses, template labels and
// faults. Fault NotFound: the marker.
func (x Clusters) List(ctx context.Context, scope Scope, f ClusterFilter, p Page, full bool) ([]ClusterRow, error) {
	cond, args := scope.where("t", 1)
	conditions := []string{cond}
	equal := func(column, value, cast string) {
		if value != "" {
			args = append(args, value)
			conditions = append(conditions, fmt.Sprintf("t.%s = $%d%s", column, len(args), cast))
		}
	}
	equal("status", f.Status, "")
	equal("name", f.Name, "")
	equal("cluster_template_id", f.ClusterTemplateID, "::uuid")
	equal("health_status", f.HealthStatus, "")
	if f.ChangedSince != nil {
		args = append(args, *f.ChangedSince)
		conditions = append(conditions, fmt.Sprintf("coalesce(t.updated_at, t.created_at) >= $%d", len(args)))
	}
	columns, scan := shortColumns+clusterCounts, scanShort
	if full {
		columns, scan = "t.*", scanFull
	}
	sql, args := clusterOrder.list("clusters", "uuid", columns, conditions, args, p)
	if full {
		_, orderBy := clusterOrder.clauses(p)
		sql = "SELECT " + clusterColumns + clusterDetails + " FROM (" + sql + ") t" + clusterGroups + " ORDER BY " + orderBy
	}
	rows, err := x.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, "list clusters")
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, classify(err, "list clusters")
	}
	if len(list) == 0 && p.Marker != "" {
		_, err = x.Get(ctx, scope, Ident{UUID: p.Marker, Text: p.Marker})
	}
	return list, err
}

// Get finds a cluster that the scope sees, with all that its answer needs, in
// one statement. Faults: NotFound; Conflict if several have the name.
func (x Clusters) Get(ctx context.Context, scope Scope, ident Ident) (ClusterRow, error) {
	cond, args := scope.where("t", 2)
	rows, err := x.q.Query(ctx,
		"SELECT "+clusterColumns+clusterDetails+" FROM (SELECT t.* FROM clusters t WHERE "+ident.where()+" AND "+cond+" LIMIT 2) t"+clusterGroups,
		append([]any{ident.value()}, args...)...)
	if err != nil {
		return ClusterRow{}, classify(err, "find cluster")
	}
	found, err := pgx.CollectRows(rows, scanFull)
	switch {
	case err != nil:
		return ClusterRow{}, classify(err, "find cluster")
	case len(found) == 0:
		return ClusterRow{}, clusterNotFound(ident.Text)
	case len(found) > 1:
		return ClusterRow{}, fault.New(fault.Conflict,
			"Multiple clusters exist with same name. Please use the cluster uuid instead.")
	}
	return found[0], nil
}

// ByUUID reads a cluster whoever it belongs to.
func (x Clusters) ByUUID(ctx context.Context, uuid string) (magnum.Cluster, error) {
	r, err := x.s.Cluster(ctx, uuid)
	if noRows(err) {
		return magnum.Cluster{}, clusterNotFound(uuid)
	}
	return cluster(r), classify(err, "read cluster")
}

// Many reads those of the clusters that still exist.
func (x Clusters) Many(ctx context.Context, uuids []string) ([]magnum.Cluster, error) {
	rows, err := x.q.Query(ctx, "SELECT "+clusterColumns+" FROM clusters t WHERE t.uuid = ANY ($1::uuid[])", uuids)
	if err != nil {
		return nil, classify(err, "read clusters")
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (magnum.Cluster, error) {
		var c magnum.Cluster
		err := row.Scan(clusterFields(&c)...)
		return c, err
	})
	return list, classify(err, "read clusters")
}

// OfStack gives the uuid of the cluster that the driver's name for it, or for
// one of its node groups, belongs to; groupID is a node group's uuid, or empty.
// Fault NotFound: none has it.
func (x Clusters) OfStack(ctx context.Context, stackID, groupID string) (string, error) {
	uuid, err := x.s.ClusterOfStack(ctx, sqlc.ClusterOfStackParams{StackID: stackID, NodegroupID: orNull(groupID)})
	if noRows(err) {
		return "", fault.New(fault.NotFound, "The Stack (%s) could not be found.", stackID)
	}
	return uuid, classify(err, "find the cluster of a stack")
}

// Lock reads a cluster and keeps others from changing it until the transaction
// ends. Fault NotFound.
func (x Clusters) Lock(ctx context.Context, uuid string) (magnum.Cluster, error) {
	r, err := x.s.LockCluster(ctx, uuid)
	if noRows(err) {
		return magnum.Cluster{}, clusterNotFound(uuid)
	}
	return cluster(r), classify(err, "lock cluster")
}

// LockAll is Lock for many, by cluster uuid; one that another transaction holds
// is left out.
func (x Clusters) LockAll(ctx context.Context, uuids []string) ([]magnum.Cluster, error) {
	rows, err := x.s.LockClusters(ctx, uuids)
	list := make([]magnum.Cluster, len(rows))
	for i, r := range rows {
		list[i] = cluster(r)
	}
	return list, classify(err, "lock clusters")
}

// Room tells whether the project could have one more cluster now, so that a
// request that cannot succeed is refused before the cloud is asked. Fault
// Forbidden if not; only Reserve decides.
func (x Clusters) Room(ctx context.Context, projectID string, defaultLimit int) error {
	u, err := x.s.ClusterUsage(ctx, sqlc.ClusterUsageParams{ProjectID: projectID, DefaultLimit: defaultLimit})
	if err != nil {
		return classify(err, "count clusters of the project")
	}
	if u.Used < u.HardLimit {
		return nil
	}
	return fault.New(fault.Forbidden, "Resource limit exceeded: You have reached the maximum clusters per project, %d. "+
		"You may delete a cluster to make room for a new one.", u.HardLimit).WithReason(fault.ReasonQuota)
}

// Reserve counts the project's clusters under a lock on the project, so that
// no two creates pass the same last place (PB-79). The limit is the project's
// own or the default. Fault Forbidden if there is no place left.
func (x Clusters) Reserve(ctx context.Context, projectID string, defaultLimit int) error {
	if err := x.s.LockProject(ctx, projectID); err != nil {
		return classify(err, "lock project")
	}
	return x.Room(ctx, projectID, defaultLimit)
}

// Create stores a new cluster. Fault NotFound: its template is gone.
func (x Clusters) Create(ctx context.Context, c magnum.Cluster) error {
	_, err := x.s.InsertCluster(ctx, sqlc.InsertClusterParams{
		UUID: c.UUID, ProjectID: c.ProjectID, UserID: c.UserID, Name: c.Name, ClusterTemplateID: c.ClusterTemplateID,
		Keypair: c.Keypair, DockerVolumeSize: c.DockerVolumeSize, Labels: notNilMap(c.Labels),
		MasterFlavorID: c.MasterFlavorID, FlavorID: c.FlavorID, Status: string(c.Status),
		CreateTimeout: c.CreateTimeout, DiscoveryURL: c.DiscoveryURL, FixedNetwork: c.FixedNetwork,
		FixedSubnet: c.FixedSubnet, FloatingIPEnabled: c.FloatingIPEnabled, MasterLBEnabled: c.MasterLBEnabled,
		Driver: c.Driver, CreatedAt: c.CreatedAt,
	})
	if violates(err, "clusters_cluster_template_id_fkey") {
		return templateNotFound(c.ClusterTemplateID)
	}
	return classify(err, "insert cluster")
}

// Update stores what operations and observations change, if the row still has
// c.Version, and gives c its new version. Fault Conflict if it has not.
func (x Clusters) Update(ctx context.Context, c *magnum.Cluster, now time.Time) error {
	changed := fault.New(fault.Conflict, "Cluster %s was changed by another request. Read it again and repeat the change.", c.UUID)
	err := x.later(one(changed)).UpdateCluster(ctx, sqlc.UpdateClusterParams{
		UUID: c.UUID, Version: c.Version, UserID: c.UserID, ClusterTemplateID: c.ClusterTemplateID, StackID: c.StackID,
		APIAddress: c.APIAddress, Status: string(c.Status), StatusReason: c.StatusReason, COEVersion: c.COEVersion,
		ContainerVersion: c.ContainerVersion, Labels: notNilMap(c.Labels), UpdatedAt: &now,
	})
	if err != nil {
		return classify(err, "update cluster")
	}
	c.Version, c.UpdatedAt = c.Version+1, &now
	return nil
}

// UpdateHealth stores a verdict and reports whether it differs from the one before.
func (x Clusters) UpdateHealth(ctx context.Context, uuid string, status magnum.HealthStatus, reasons map[string]string) (bool, error) {
	var s *string
	if status != "" {
		s = (*string)(&status)
	}
	n, err := x.s.UpdateClusterHealth(ctx, sqlc.UpdateClusterHealthParams{
		UUID: uuid, HealthStatus: s, HealthStatusReason: notNilMap(reasons)})
	return n == 1, classify(err, "update cluster health")
}

// Delete removes the cluster's row, with its node groups. Its secrets must be
// gone: the database refuses otherwise.
func (x Clusters) Delete(ctx context.Context, uuid string) error {
	_, err := x.s.DeleteCluster(ctx, uuid)
	return classify(err, "delete cluster")
}

// Stats counts clusters and desired nodes of a project, or of all for "".
func (x Clusters) Stats(ctx context.Context, projectID string) (clusters int, nodes int64, err error) {
	r, err := x.s.Stats(ctx, projectID)
	return r.Clusters, r.Nodes, classify(err, "count clusters")
}
