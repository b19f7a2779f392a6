package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"

	"github.com/jackc/pgx/v5"

	"carafe/shared/postgres/server"
)

// connect reaches the PostgreSQL that CARAFE_TEST_DATABASE_URL names, or starts
// one as make run does: its writes are safe when they are answered.
func (b *bench) connect(ctx context.Context) (stop func(), err error) {
	stop = func() {}
	if b.server = os.Getenv("CARAFE_TEST_DATABASE_URL"); b.server == "" {
		s, err := server.Start(ctx, server.Config{Dir: b.dir, Binaries: os.Getenv("CARAFE_POSTGRES_BIN"),
			Notice: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }})
		if err != nil {
			return stop, err
		}
		b.server = s.URL()
		stop = func() { _ = s.Stop() } // nothing of it is needed any more
	}
	if b.admin, err = pgx.Connect(ctx, b.server); err != nil {
		return stop, err
	}
	var pid int
	if err := b.admin.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return stop, err
	}
	if fields := stat(pid); len(fields) > 1 {
		b.postmaster, _ = strconv.Atoi(fields[1])
	}
	return stop, nil
}

// database makes a migrated database and gives its address and a connection.
func (b *bench) database(ctx context.Context, name string) (string, *pgx.Conn, error) {
	name = fmt.Sprintf("bench_%s_%d", name, os.Getpid())
	if _, err := b.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	b.databases = append(b.databases, name)
	address := b.server + " dbname=" + name
	if u, err := url.Parse(b.server); err == nil && u.Scheme != "" {
		u.Path = "/" + name
		address = u.String()
	}
	migrate := exec.Command(b.binary, "migrate", "up")
	migrate.Env = []string{"CARAFE_DATABASE_URL=" + address}
	if out, err := migrate.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("migrate: %w\n%s", err, out)
	}
	conn, err := pgx.Connect(ctx, address)
	return address, conn, err
}

func (b *bench) dropDatabases(ctx context.Context) {
	for _, name := range b.databases {
		_, _ = b.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // a server of our own is thrown away anyhow
	}
}

// fill gives a project templates and clusters at rest, with the two node groups
// that each cluster has. ANALYZE has the checks of foreign keys planned anew: what
// was planned over a handful of rows reads all of them for each new one.
func fill(ctx context.Context, conn *pgx.Conn, project string, templates, clusters int) error {
	const statements = `
INSERT INTO cluster_templates (uuid, project_id, user_id, name, coe, image_id, flavor_id, master_flavor_id, external_network_id,
    network_driver, docker_volume_size, cluster_distro, labels)
SELECT gen_random_uuid(), @project, @project || '-user', 'template-' || n, 'kubernetes', 'ubuntu-24.04', 'm1.small', 'm1.small', 'public',
    'calico', 20, 'ubuntu', '{"kube_tag": "v1.34.1", "boot_volume_size": "20", "auto_healing_enabled": "true"}'
FROM generate_series(1, @templates) n;
ANALYZE cluster_templates;
INSERT INTO clusters (uuid, project_id, user_id, name, cluster_template_id, keypair, docker_volume_size, labels, master_flavor_id, flavor_id,
    stack_id, api_address, status, health_status, health_status_reason, create_timeout, coe_version, driver, created_at, updated_at)
SELECT gen_random_uuid(), @project, @project || '-user', 'cluster-' || n, (SELECT uuid FROM cluster_templates WHERE project_id = @project LIMIT 1),
    'testkey', 20, '{"kube_tag": "v1.34.1", "boot_volume_size": "20", "auto_healing_enabled": "true"}', 'm1.small', 'm1.small',
    'cluster-' || n || '-abcdefghijkl', 'https://172.24.4.3:6443', 'CREATE_COMPLETE', 'HEALTHY',
    '{"api": "ok", "cluster-0.Ready": "True", "cluster-1.Ready": "True"}', 60, 'v1.34.1', 'simulated',
    now() - n * interval '1 second', now()
FROM generate_series(1, @clusters) n;
ANALYZE clusters;
INSERT INTO nodegroups (uuid, name, cluster_id, project_id, docker_volume_size, labels, flavor_id, image_id, node_addresses, node_count, role,
    min_node_count, is_default, stack_id, status)
SELECT gen_random_uuid(), g.name, c.uuid, c.project_id, 20, c.labels, 'm1.small', 'ubuntu-24.04', '["10.0.0.5"]', 1, g.role, 0, true, c.stack_id, 'CREATE_COMPLETE'
FROM clusters c, (VALUES ('default-master', 'master'), ('default-worker', 'worker')) g (name, role) WHERE c.project_id = @project;
INSERT INTO cluster_ticks (cluster_id) SELECT uuid FROM clusters WHERE project_id = @project;
`
	return execute(ctx, conn, statements, pgx.NamedArgs{"project": project, "templates": templates, "clusters": clusters})
}

// crowd gives a thousand other projects ten clusters each. What PostgreSQL plans for
// one project of many is not what it would plan for one of three.
func crowd(ctx context.Context, conn *pgx.Conn) error {
	return execute(ctx, conn, `
INSERT INTO cluster_templates (uuid, project_id, user_id, name, coe, image_id)
SELECT gen_random_uuid(), 'other-' || n, 'u', 't', 'kubernetes', 'ubuntu-24.04' FROM generate_series(1, 1000) n;
INSERT INTO clusters (uuid, project_id, user_id, name, cluster_template_id, status, driver)
SELECT gen_random_uuid(), t.project_id, 'u', 'cluster-' || n, t.uuid, 'CREATE_COMPLETE', 'simulated'
FROM cluster_templates t, generate_series(1, 10) n WHERE t.project_id LIKE 'other-%';
INSERT INTO nodegroups (uuid, name, cluster_id, project_id, node_count, role, is_default, status)
SELECT gen_random_uuid(), g.name, c.uuid, c.project_id, 1, g.role, true, 'CREATE_COMPLETE'
FROM clusters c, (VALUES ('default-master', 'master'), ('default-worker', 'worker')) g (name, role) WHERE c.project_id LIKE 'other-%';
INSERT INTO cluster_ticks (cluster_id) SELECT uuid FROM clusters WHERE project_id LIKE 'other-%';
`, pgx.NamedArgs{})
}

// execute runs statements one after the other; they end with a semicolon at a
// line's end.
func execute(ctx context.Context, conn *pgx.Conn, statements string, args pgx.NamedArgs) error {
	for _, s := range split(statements) {
		if _, err := conn.Exec(ctx, s, args); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// settle has the planner know the tables, and the disk be quiet.
func settle(ctx context.Context, conn *pgx.Conn) error {
	for _, s := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// column reads one text column.
func column(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
