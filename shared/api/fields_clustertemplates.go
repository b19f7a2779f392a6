package api

import "slices"

// templateName refuses what cannot stand in a path (B55); spaces stay valid,
// since templates with spaces exist.
var templateName = newPattern(`^[^/\x00-\x1f\x7f]+$`, `^[^/\x00-\x1f\x7f]+$`)

// ServerTypes are what a cluster can run on.
var ServerTypes = []string{"bm", "vm"}

// clusterTemplateFields are the attributes of a template in the order of
// spec/api.md §4.1.1.
var clusterTemplateFields = []Field{
	{Name: "uuid", Type: UUID, Ignored: true}, // B35
	{Name: "name", Type: String, Min: 1, Max: 255, Pattern: templateName, Null: NullDefault,
		Doc: "Need not be unique; invented if absent."},
	{Name: "coe", Type: Enum, Enum: []string{"kubernetes"}, Mandatory: true}, // B36
	{Name: "image_id", Type: String, Min: 1, Max: 255, Mandatory: true, Doc: "UUID or name."},
	{Name: "flavor_id", Type: String, Min: 1, Max: 255, Doc: "Id or name."},
	{Name: "master_flavor_id", Type: String, Min: 1, Max: 255, Doc: "Id or name."},
	{Name: "dns_nameserver", Type: DNS, Doc: "IPv4 addresses with commas between."},
	{Name: "keypair_id", Type: String, Min: 1, Max: 255},
	{Name: "external_network_id", Type: String, Min: 1, Max: 255, Doc: "UUID or name."},
	{Name: "fixed_network", Type: String, Min: 1, Max: 255, Doc: "UUID or name."},
	{Name: "fixed_subnet", Type: String, Min: 1, Max: 255, Doc: "UUID or name."},
	{Name: "network_driver", Type: String, Min: 1, Max: 255},
	{Name: "apiserver_port", Type: Int, Min: 1024, Max: 65535},
	{Name: "docker_volume_size", Type: Int, Min: 1, Doc: "GB."},
	{Name: "cluster_distro", Type: String, Min: 1, Max: 255, Doc: "Always the image's os_distro in the end."},
	{Name: "links", Type: LinkList, ReadOnly: true},
	{Name: "http_proxy", Type: String, Min: 1, Max: 255},
	{Name: "https_proxy", Type: String, Min: 1, Max: 255},
	{Name: "no_proxy", Type: String, Min: 1, Max: 255},
	{Name: "volume_driver", Type: String, Min: 1, Max: 255},
	{Name: "registry_enabled", Type: Bool, Default: false, Null: NullDefault},
	{Name: "labels", Type: Labels},
	{Name: "tls_disabled", Type: Bool, Default: false, Null: NullDefault},
	{Name: "public", Type: Bool, Default: false, Null: NullDefault},
	{Name: "server_type", Type: Enum, Enum: ServerTypes, Default: "vm"},
	{Name: "insecure_registry", Type: String, Min: 1, Max: 255},
	{Name: "docker_storage_driver", Type: String, Min: 1, Max: 255},
	{Name: "master_lb_enabled", Type: Bool, Default: false, Null: NullDefault},
	{Name: "floating_ip_enabled", Type: Bool, Default: true, Null: NullDefault},
	{Name: "project_id", Type: Text, ReadOnly: true},
	{Name: "user_id", Type: Text, ReadOnly: true},
	{Name: "hidden", Type: Bool, Default: false, Null: NullDefault},
	{Name: "tags", Type: String, Max: 255, Doc: "By convention with commas between."},
	{Name: "driver", Type: String, Min: 1, Max: 255},
	{Name: "created_at", Type: Timestamp, ReadOnly: true},
	{Name: "updated_at", Type: Timestamp, ReadOnly: true},
}

// ClusterTemplateCreate is the body of POST /v1/clustertemplates.
var ClusterTemplateCreate = newBody("cluster_template", "ClusterTemplate", clusterTemplateFields)

// ClusterTemplatePatch is the body of PATCH /v1/clustertemplates/{ident}.
var ClusterTemplatePatch = newPatch(clusterTemplateFields, patchRules{
	mandatory: []string{"/network_driver", "/external_network_id", "/tls_disabled", "/public", "/server_type",
		"/coe", "/registry_enabled", "/cluster_distro", "/hidden", "/image_id",
		"/name"}, // B44
})

// ClusterTemplateSortKeys are the columns that a list of templates may be sorted by.
var ClusterTemplateSortKeys = sortKeys(clusterTemplateFields, "links")

// sortKeys are id and all fields but some.
func sortKeys(fields []Field, but ...string) []string {
	keys := []string{"id"}
	for i := range fields {
		if n := fields[i].Name; n != "id" && !slices.Contains(but, n) {
			keys = append(keys, n)
		}
	}
	return keys
}
