-- +goose Up
-- The data model of spec/conductor.md §1 with the constraints of its §1.10.
-- Times are written by the application; defaults serve hands-on repairs only.

CREATE TABLE cluster_templates (
    seq                   bigint GENERATED ALWAYS AS IDENTITY NOT NULL UNIQUE,
    uuid                  uuid PRIMARY KEY,
    version               bigint NOT NULL DEFAULT 1,
    project_id            text NOT NULL CHECK (char_length(project_id) <= 255),
    user_id               text NOT NULL CHECK (char_length(user_id) <= 255),
    name                  text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
    coe                   text NOT NULL CHECK (coe = 'kubernetes'),
    image_id              text NOT NULL CHECK (char_length(image_id) BETWEEN 1 AND 255),
    flavor_id             text CHECK (char_length(flavor_id) <= 255),
    master_flavor_id      text CHECK (char_length(master_flavor_id) <= 255),
    dns_nameserver        text CHECK (char_length(dns_nameserver) <= 255),
    keypair_id            text CHECK (char_length(keypair_id) <= 255),
    external_network_id   text CHECK (char_length(external_network_id) <= 255),
    fixed_network         text CHECK (char_length(fixed_network) <= 255),
    fixed_subnet          text CHECK (char_length(fixed_subnet) <= 255),
    network_driver        text CHECK (char_length(network_driver) <= 255),
    apiserver_port        integer CHECK (apiserver_port BETWEEN 1024 AND 65535),
    docker_volume_size    integer CHECK (docker_volume_size >= 1),
    cluster_distro        text CHECK (char_length(cluster_distro) <= 255),
    http_proxy            text CHECK (char_length(http_proxy) <= 255),
    https_proxy           text CHECK (char_length(https_proxy) <= 255),
    no_proxy              text CHECK (char_length(no_proxy) <= 255),
    volume_driver         text CHECK (char_length(volume_driver) <= 255),
    registry_enabled      boolean NOT NULL DEFAULT false,
    labels                jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    tls_disabled          boolean NOT NULL DEFAULT false,
    public                boolean NOT NULL DEFAULT false,
    server_type           text NOT NULL DEFAULT 'vm' CHECK (server_type IN ('vm', 'bm')),
    insecure_registry     text CHECK (char_length(insecure_registry) <= 255),
    docker_storage_driver text CHECK (char_length(docker_storage_driver) <= 512),
    master_lb_enabled     boolean NOT NULL DEFAULT false,
    floating_ip_enabled   boolean NOT NULL DEFAULT true,
    hidden                boolean NOT NULL DEFAULT false,
    tags                  text CHECK (char_length(tags) <= 255),
    driver                text CHECK (char_length(driver) <= 255),
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz
);
CREATE INDEX cluster_templates_project ON cluster_templates (project_id, seq);
CREATE INDEX cluster_templates_project_name ON cluster_templates (project_id, name);
CREATE INDEX cluster_templates_public ON cluster_templates (seq) WHERE public;

CREATE TABLE clusters (
    seq                  bigint GENERATED ALWAYS AS IDENTITY NOT NULL UNIQUE,
    uuid                 uuid PRIMARY KEY,
    version              bigint NOT NULL DEFAULT 1,
    project_id           text NOT NULL CHECK (char_length(project_id) <= 255),
    user_id              text NOT NULL CHECK (char_length(user_id) <= 255),
    name                 text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 242),
    cluster_template_id  uuid NOT NULL REFERENCES cluster_templates (uuid) ON DELETE RESTRICT,
    keypair              text CHECK (char_length(keypair) <= 255),
    docker_volume_size   integer CHECK (docker_volume_size >= 1),
    labels               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    master_flavor_id     text CHECK (char_length(master_flavor_id) <= 255),
    flavor_id            text CHECK (char_length(flavor_id) <= 255),
    stack_id             text CHECK (char_length(stack_id) <= 255),
    api_address          text CHECK (char_length(api_address) <= 255),
    status               text NOT NULL CHECK (status IN (
        'CREATE_IN_PROGRESS', 'CREATE_FAILED', 'CREATE_COMPLETE',
        'UPDATE_IN_PROGRESS', 'UPDATE_FAILED', 'UPDATE_COMPLETE',
        'DELETE_IN_PROGRESS', 'DELETE_FAILED', 'DELETE_COMPLETE',
        'RESUME_COMPLETE', 'RESUME_FAILED', 'RESTORE_COMPLETE',
        'ROLLBACK_IN_PROGRESS', 'ROLLBACK_FAILED', 'ROLLBACK_COMPLETE',
        'SNAPSHOT_COMPLETE', 'CHECK_COMPLETE', 'ADOPT_COMPLETE')),
    status_reason        text,
    health_status        text CHECK (health_status IN ('HEALTHY', 'UNHEALTHY', 'UNKNOWN')),
    health_status_reason jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(health_status_reason) = 'object'),
    create_timeout       integer CHECK (create_timeout >= 0),
    discovery_url        text,
    coe_version          text CHECK (char_length(coe_version) <= 255),
    container_version    text CHECK (char_length(container_version) <= 255),
    fixed_network        text CHECK (char_length(fixed_network) <= 255),
    fixed_subnet         text CHECK (char_length(fixed_subnet) <= 255),
    floating_ip_enabled  boolean NOT NULL DEFAULT true,
    master_lb_enabled    boolean NOT NULL DEFAULT false,
    driver               text NOT NULL CHECK (char_length(driver) BETWEEN 1 AND 255),
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz
) WITH (fillfactor = 75); -- room for the next version of a row beside it
CREATE INDEX clusters_project ON clusters (project_id, seq);
CREATE INDEX clusters_project_name ON clusters (project_id, name);
CREATE INDEX clusters_template ON clusters (cluster_template_id);
CREATE INDEX clusters_stack ON clusters (stack_id);

-- What the ticks keep about a cluster. Apart from clusters, so that looking at a
-- cluster moves neither its version nor its updated_at (PB-52), and so that a
-- tick's claim never waits for a request that has locked the cluster.
CREATE TABLE cluster_ticks (
    cluster_id        uuid PRIMARY KEY REFERENCES clusters (uuid) ON DELETE CASCADE,
    sync_due_at       timestamptz,                 -- null: nothing to watch
    sync_misses       integer NOT NULL DEFAULT 0,  -- observations that failed in a row
    failure           text,                        -- of an operation, while others still go on
    health_due_at     timestamptz,                 -- null: not probed in this status
    health_misses     integer NOT NULL DEFAULT 0,  -- probes in a row that said otherwise
    health_checked_at timestamptz
) WITH (fillfactor = 75);
CREATE INDEX cluster_ticks_sync ON cluster_ticks (sync_due_at) WHERE sync_due_at IS NOT NULL;
CREATE INDEX cluster_ticks_health ON cluster_ticks (health_due_at) WHERE health_due_at IS NOT NULL;

CREATE TABLE nodegroups (
    id                 bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    uuid               uuid PRIMARY KEY,
    revision           bigint NOT NULL DEFAULT 1,
    name               text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
    cluster_id         uuid NOT NULL REFERENCES clusters (uuid) ON DELETE CASCADE,
    project_id         text NOT NULL CHECK (char_length(project_id) <= 255),
    docker_volume_size integer CHECK (docker_volume_size >= 1),
    labels             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    flavor_id          text CHECK (char_length(flavor_id) <= 255),
    image_id           text CHECK (char_length(image_id) <= 255),
    node_addresses     jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(node_addresses) = 'array'),
    node_count         integer NOT NULL CHECK (node_count >= 0),
    role               text NOT NULL CHECK (char_length(role) BETWEEN 1 AND 255),
    min_node_count     integer NOT NULL DEFAULT 0 CHECK (min_node_count >= 0),
    max_node_count     integer CHECK (max_node_count >= 0),
    is_default         boolean NOT NULL DEFAULT false,
    stack_id           text CHECK (char_length(stack_id) <= 255),
    status             text NOT NULL CHECK (status IN (
        'CREATE_IN_PROGRESS', 'CREATE_FAILED', 'CREATE_COMPLETE',
        'UPDATE_IN_PROGRESS', 'UPDATE_FAILED', 'UPDATE_COMPLETE',
        'DELETE_IN_PROGRESS', 'DELETE_FAILED', 'DELETE_COMPLETE',
        'RESUME_COMPLETE', 'RESUME_FAILED', 'RESTORE_COMPLETE',
        'ROLLBACK_IN_PROGRESS', 'ROLLBACK_FAILED', 'ROLLBACK_COMPLETE',
        'SNAPSHOT_COMPLETE', 'CHECK_COMPLETE', 'ADOPT_COMPLETE')),
    status_reason      text,
    release            text,
    node_labels        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(node_labels) = 'object'),
    node_taints        jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(node_taints) = 'array'),
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz,
    CONSTRAINT nodegroups_name_in_cluster UNIQUE (cluster_id, name),
    CHECK (max_node_count IS NULL OR max_node_count = 0 OR max_node_count >= min_node_count)
) WITH (fillfactor = 75);
CREATE INDEX nodegroups_stack ON nodegroups (stack_id);
CREATE UNIQUE INDEX nodegroups_one_default ON nodegroups (cluster_id, (role = 'master')) WHERE is_default;

CREATE TABLE quotas (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id text NOT NULL CHECK (char_length(project_id) BETWEEN 1 AND 255),
    resource   text NOT NULL CHECK (resource = 'Cluster'),
    hard_limit integer NOT NULL CHECK (hard_limit >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz,
    CONSTRAINT quotas_project_resource UNIQUE (project_id, resource)
);

CREATE TABLE federations (
    seq            bigint GENERATED ALWAYS AS IDENTITY NOT NULL UNIQUE,
    uuid           uuid PRIMARY KEY,
    version        bigint NOT NULL DEFAULT 1,
    project_id     text NOT NULL CHECK (char_length(project_id) <= 255),
    name           text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 242),
    hostcluster_id text NOT NULL CHECK (char_length(hostcluster_id) <= 255),
    member_ids     jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(member_ids) = 'array'),
    status         text NOT NULL CHECK (status IN (
        'CREATE_IN_PROGRESS', 'CREATE_FAILED', 'CREATE_COMPLETE',
        'UPDATE_IN_PROGRESS', 'UPDATE_FAILED', 'UPDATE_COMPLETE',
        'DELETE_IN_PROGRESS', 'DELETE_FAILED', 'DELETE_COMPLETE')),
    status_reason  text,
    properties     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(properties) = 'object'),
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz
);
CREATE INDEX federations_project ON federations (project_id, seq);

-- One row for each secret of a cluster: the index of what is in Barbican, or the
-- secret itself, sealed. The row goes last: what has a row can be found and removed
-- (PB-19, PB-49, PB-58), so clusters cannot go before their secrets.
CREATE TABLE certificates (
    cluster_id  uuid NOT NULL REFERENCES clusters (uuid) ON DELETE RESTRICT,
    kind        text NOT NULL CHECK (kind IN ('kubernetes', 'etcd', 'front_proxy', 'client')),
    epoch       integer NOT NULL CHECK (epoch >= 1),
    state       text NOT NULL CHECK (state IN ('pending', 'active', 'retiring', 'deleting')),
    backend     text NOT NULL CHECK (backend IN ('database', 'barbican')),
    ref         text,
    certificate text,
    sealed_key  bytea,
    key_id      text,
    not_before  timestamptz,
    not_after   timestamptz,
    serial      text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster_id, kind, epoch)
) WITH (fillfactor = 50); -- half of its rows are empty at first
CREATE INDEX certificates_retiring ON certificates (not_after) WHERE state = 'retiring';

CREATE TABLE credentials (
    cluster_id    uuid NOT NULL REFERENCES clusters (uuid) ON DELETE RESTRICT,
    epoch         integer NOT NULL CHECK (epoch >= 1),
    state         text NOT NULL CHECK (state IN ('pending', 'active', 'retiring', 'deleting')),
    credential_id text,
    user_id       text NOT NULL,
    sealed_secret bytea,
    key_id        text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster_id, epoch)
);

-- The durable commands. No foreign key: the history outlives the cluster.
CREATE TABLE operations (
    seq           bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    id            uuid PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN (
        'cluster.create', 'cluster.update', 'cluster.resize', 'cluster.upgrade', 'cluster.delete',
        'nodegroup.create', 'nodegroup.update', 'nodegroup.delete',
        'ca.rotate', 'credential.rotate',
        'federation.create', 'federation.update', 'federation.delete')),
    cluster_id    uuid NOT NULL,
    nodegroup_id  uuid,
    arguments     jsonb NOT NULL DEFAULT '{}',
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN (
        'pending', 'running', 'waiting', 'succeeded', 'failed', 'superseded')),
    steps         text[] NOT NULL DEFAULT '{}',
    attempt       integer NOT NULL DEFAULT 0,
    error         text,
    error_code    text,
    superseded_by uuid,
    user_id       text NOT NULL DEFAULT '',
    project_id    text NOT NULL,
    domain_id     text NOT NULL DEFAULT '',
    request_id    text NOT NULL DEFAULT '',
    traceparent   text NOT NULL DEFAULT '',
    lease_owner   text,
    lease_until   timestamptz,
    fence         bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    started_at    timestamptz,
    finished_at   timestamptz,
    due_at        timestamptz NOT NULL DEFAULT now(),
    deadline_at   timestamptz,
    CHECK ((state = 'running') = (lease_owner IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'superseded')) = (finished_at IS NOT NULL))
) WITH (fillfactor = 75);
CREATE INDEX operations_of_cluster ON operations (cluster_id, seq DESC);
-- The relay reads all of it each tick: what is open is little beside what was, and each
-- index more would be written with every step of every operation.
CREATE INDEX operations_open ON operations (cluster_id) WHERE state IN ('pending', 'running', 'waiting');
CREATE INDEX operations_finished ON operations (finished_at) WHERE finished_at IS NOT NULL;

-- The outbox, and afterwards the history. Notifications carry the cluster as their
-- partition key: one leaves only when no earlier one of its partition is still here
-- unpublished, so subscribers see a cluster's in order. Commands have none: they never
-- wait for a subscriber.
CREATE TABLE events (
    seq          bigint GENERATED ALWAYS AS IDENTITY NOT NULL UNIQUE,
    id           uuid PRIMARY KEY,
    type         text NOT NULL,
    source       text NOT NULL,
    subject      text NOT NULL,
    partition_key text,
    operation_id uuid,
    outcome      text CHECK (outcome IN ('pending', 'success', 'failure')),
    priority     text CHECK (priority IN ('info', 'error')),
    project_id   text NOT NULL DEFAULT '',
    request_id   text NOT NULL DEFAULT '',
    traceparent  text NOT NULL DEFAULT '',
    data         jsonb NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    due_at       timestamptz NOT NULL DEFAULT now(),
    attempt      integer NOT NULL DEFAULT 0,
    last_error   text,
    lease_owner  text,
    lease_until  timestamptz,
    published_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX events_unpublished ON events (seq) WHERE published_at IS NULL;
CREATE INDEX events_unpublished_of_partition ON events (partition_key, seq) WHERE published_at IS NULL;
CREATE INDEX events_of_subject ON events (subject, seq DESC);
-- One pending and one final notification for each operation, whatever happens; of
-- commands, which have no outcome, any number.
CREATE UNIQUE INDEX events_once ON events (operation_id, type, outcome);

CREATE TABLE dead_letters (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    text NOT NULL,
    source      text NOT NULL,
    type        text NOT NULL,
    subject     text NOT NULL DEFAULT '',
    destination text NOT NULL DEFAULT '',
    error_code  text NOT NULL DEFAULT '',
    error       text NOT NULL DEFAULT '',
    data        jsonb,
    received_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source, event_id, destination)
);

CREATE TABLE idempotency_keys (
    project_id   text NOT NULL,
    key          text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
    request_hash bytea NOT NULL,
    status       integer NOT NULL,
    body         bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

CREATE TABLE functions_seen (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host         text NOT NULL,
    "binary"     text NOT NULL,
    report_count integer NOT NULL DEFAULT 0,
    last_seen_up timestamptz NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz,
    UNIQUE (host, "binary")
);

-- What the simulated driver pretends about each cluster.
CREATE TABLE simulated_clusters (
    cluster_id   uuid PRIMARY KEY REFERENCES clusters (uuid) ON DELETE CASCADE,
    -- Its API server's loopback address: 127.1.0.0 is 65536, and so on.
    number       integer GENERATED ALWAYS AS IDENTITY (MINVALUE 65537 MAXVALUE 16646144 CYCLE) NOT NULL UNIQUE,
    operation    text NOT NULL,             -- create, resize, ng_create, … of the last Apply or Delete
    operation_id uuid,
    polls        integer NOT NULL DEFAULT 0,
    deletes      integer NOT NULL DEFAULT 0, -- deletes begun: a delete fails only once
    began_at     timestamptz NOT NULL,
    version      bigint NOT NULL,           -- of the cluster, as it was then
    nodes        jsonb NOT NULL DEFAULT '{}' -- by node group
);

-- +goose Down
DROP TABLE simulated_clusters, functions_seen, idempotency_keys, dead_letters, events, operations,
    credentials, certificates, federations, quotas, nodegroups, cluster_ticks, clusters, cluster_templates;
