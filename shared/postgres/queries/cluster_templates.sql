-- name: InsertClusterTemplate :one
INSERT INTO cluster_templates (
    uuid, project_id, user_id, name, coe, image_id, flavor_id, master_flavor_id, dns_nameserver,
    keypair_id, external_network_id, fixed_network, fixed_subnet, network_driver, apiserver_port,
    docker_volume_size, cluster_distro, http_proxy, https_proxy, no_proxy, volume_driver,
    registry_enabled, labels, tls_disabled, public, server_type, insecure_registry,
    docker_storage_driver, master_lb_enabled, floating_ip_enabled, hidden, tags, driver, created_at)
VALUES (
    @uuid, @project_id, @user_id, @name, @coe, @image_id, @flavor_id, @master_flavor_id, @dns_nameserver,
    @keypair_id, @external_network_id, @fixed_network, @fixed_subnet, @network_driver, @apiserver_port,
    @docker_volume_size, @cluster_distro, @http_proxy, @https_proxy, @no_proxy, @volume_driver,
    @registry_enabled, @labels, @tls_disabled, @public, @server_type, @insecure_registry,
    @docker_storage_driver, @master_lb_enabled, @floating_ip_enabled, @hidden, @tags, @driver, @created_at)
RETURNING *;

-- A template in use may change only its name, tags and visibility (B42); the
-- caller says by @protected whether anything else changed. No row: in use, or
-- another version than @version (0 stands for any).
-- name: UpdateClusterTemplate :one
UPDATE cluster_templates t SET
    version = version + 1, name = @name, coe = @coe, image_id = @image_id, flavor_id = @flavor_id,
    master_flavor_id = @master_flavor_id, dns_nameserver = @dns_nameserver, keypair_id = @keypair_id,
    external_network_id = @external_network_id, fixed_network = @fixed_network, fixed_subnet = @fixed_subnet,
    network_driver = @network_driver, apiserver_port = @apiserver_port,
    docker_volume_size = @docker_volume_size, cluster_distro = @cluster_distro, http_proxy = @http_proxy,
    https_proxy = @https_proxy, no_proxy = @no_proxy, volume_driver = @volume_driver,
    registry_enabled = @registry_enabled, labels = @labels, tls_disabled = @tls_disabled, public = @public,
    server_type = @server_type, insecure_registry = @insecure_registry,
    docker_storage_driver = @docker_storage_driver, master_lb_enabled = @master_lb_enabled,
    floating_ip_enabled = @floating_ip_enabled, hidden = @hidden, tags = @tags, driver = @driver,
    updated_at = @updated_at
WHERE t.uuid = @uuid AND t.version = @version
  AND (NOT @protected::boolean OR NOT EXISTS (SELECT 1 FROM clusters c WHERE c.cluster_template_id = t.uuid))
RETURNING *;

-- name: ClusterTemplateInUse :one
SELECT EXISTS (SELECT 1 FROM clusters WHERE cluster_template_id = @uuid);

-- name: DeleteClusterTemplate :execrows
DELETE FROM cluster_templates t
WHERE t.uuid = @uuid AND NOT EXISTS (SELECT 1 FROM clusters c WHERE c.cluster_template_id = t.uuid);

-- name: ClusterTemplate :one
SELECT * FROM cluster_templates WHERE uuid = @uuid;

-- name: ClusterTemplatesOf :many
SELECT * FROM cluster_templates WHERE uuid = ANY (@uuids::uuid[]);
