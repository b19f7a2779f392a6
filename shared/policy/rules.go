package policy

// contextIsAdmin is the rule behind Caller.IsAdmin.
const contextIsAdmin = "context_is_admin"

// scope says which tokens a rule is for.
type scope int

const (
	anyScope scope = iota
	project        // project-scoped tokens only
)

// predecessor is what a default was before release 2023.2.
type predecessor struct{ name, check string }

var (
	owner = &predecessor{"rule:admin_or_owner", "is_admin:True or project_id:%(project_id)s"}
	user  = &predecessor{"rule:admin_or_user", "((rule:context_is_admin) or (rule:is_user))"}
)

// defaults are all rules (spec/api.md §2.4). The names that speak of a cluster
// user are historical: nothing distinguishes one any more.
var defaults = []struct {
	name, check string
	scope       scope
	before      *predecessor
}{
	{contextIsAdmin, "role:admin", anyScope, nil},
	{"admin_or_owner", "is_admin:True or project_id:%(project_id)s", anyScope, nil},
	{"admin_or_user", "is_admin:True or user_id:%(user_id)s", anyScope, nil},
	{"is_user", "user_id:%(user_id)s", anyScope, nil},
	{"project_member", "role:member and project_id:%(project_id)s", anyScope, nil},
	{"project_reader", "role:reader and project_id:%(project_id)s", anyScope, nil},
	{"admin_or_project_reader", "(rule:context_is_admin) or (rule:project_reader)", anyScope, owner},
	{"admin_or_project_member", "(rule:context_is_admin) or (rule:project_member)", anyScope, owner},
	{"admin_or_project_member_user", "(rule:context_is_admin) or ((rule:project_member) and (rule:is_user))", anyScope, user},
	{"admin_or_project_member_user_or_cluster_user", "(rule:context_is_admin) or ((rule:project_member) and (rule:is_user))", anyScope, user},
	{"project_member_deny_cluster_user", "(rule:project_member)", anyScope, owner},
	{"admin_or_project_member_deny_cluster_user", "(rule:context_is_admin) or (rule:project_member)", anyScope, owner},
	{"project_reader_deny_cluster_user", "(rule:project_reader)", anyScope, owner},
	{"admin_or_project_reader_deny_cluster_user", "(rule:context_is_admin) or (rule:project_reader)", anyScope, owner},
	{"admin_or_project_reader_user", "(rule:context_is_admin) or ((rule:project_reader) and (rule:is_user))", anyScope, user},

	{"certificate:create", "rule:admin_or_project_member_user", project, nil},
	{"certificate:get", "rule:admin_or_project_reader_user", project, nil},
	{"certificate:rotate_ca", "rule:admin_or_project_member", project, nil},

	{"cluster:create", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"cluster:delete", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"cluster:delete_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:detail", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"cluster:detail_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:get", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"cluster:get_one_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:get_all", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"cluster:get_all_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:update", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"cluster:update_health_status", "rule:admin_or_project_member_user_or_cluster_user", project, nil},
	{"cluster:update_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:resize", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"cluster:upgrade", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"cluster:upgrade_all_projects", "rule:context_is_admin", anyScope, nil},

	{"clustertemplate:create", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"clustertemplate:delete", "rule:admin_or_project_member", project, nil},
	{"clustertemplate:delete_all_projects", "rule:context_is_admin", anyScope, nil},
	{"clustertemplate:detail", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"clustertemplate:detail_all_projects", "rule:context_is_admin", anyScope, nil},
	{"clustertemplate:get", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"clustertemplate:get_one_all_projects", "rule:context_is_admin", anyScope, nil},
	{"clustertemplate:get_all", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"clustertemplate:get_all_all_projects", "rule:context_is_admin", anyScope, nil},
	{"clustertemplate:update", "rule:admin_or_project_member", project, nil},
	{"clustertemplate:update_all_projects", "rule:context_is_admin", anyScope, nil},
	{"clustertemplate:publish", "rule:context_is_admin", anyScope, nil},

	// Magnum says rule:project_member_deny_cluster_user here, which refuses an
	// administrator who is not a member too (PEER BUG B23).
	{"credential:rotate", "rule:admin_or_project_member_deny_cluster_user", project, nil},

	{"federation:create", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"federation:delete", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"federation:update", "rule:admin_or_project_member_deny_cluster_user", project, nil},
	{"federation:detail", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"federation:get", "rule:admin_or_project_reader_deny_cluster_user", project, nil},
	{"federation:get_all", "rule:admin_or_project_reader_deny_cluster_user", project, nil},

	{"magnum-service:get_all", "rule:context_is_admin", anyScope, nil},

	{"nodegroup:get", "rule:admin_or_project_reader", project, nil},
	{"nodegroup:get_all", "rule:admin_or_project_reader", project, nil},
	{"nodegroup:get_all_all_projects", "rule:context_is_admin", anyScope, nil},
	{"nodegroup:get_one_all_projects", "rule:context_is_admin", anyScope, nil},
	{"nodegroup:create", "rule:admin_or_project_member", project, nil},
	{"nodegroup:delete", "rule:admin_or_project_member", project, nil},
	{"nodegroup:update", "rule:admin_or_project_member", project, nil},

	{"quota:create", "rule:context_is_admin", anyScope, nil},
	{"quota:delete", "rule:context_is_admin", anyScope, nil},
	{"quota:get_all", "rule:context_is_admin", anyScope, nil},
	{"quota:update", "rule:context_is_admin", anyScope, nil},
	{"quota:get", "rule:admin_or_project_reader", project, nil},

	{"stats:get_all", "rule:admin_or_project_reader", project, nil},

	// Ours: Magnum keeps administrators out here, for want of a rule only
	// (PEER BUG B62).
	{"certificate:create_all_projects", "rule:context_is_admin", anyScope, nil},
	{"certificate:get_one_all_projects", "rule:context_is_admin", anyScope, nil},
	{"certificate:rotate_ca_all_projects", "rule:context_is_admin", anyScope, nil},
	{"cluster:resize_all_projects", "rule:context_is_admin", anyScope, nil},
	{"credential:rotate_all_projects", "rule:context_is_admin", anyScope, nil},
	{"federation:delete_all_projects", "rule:context_is_admin", anyScope, nil},
	{"federation:update_all_projects", "rule:context_is_admin", anyScope, nil},
	{"federation:detail_all_projects", "rule:context_is_admin", anyScope, nil},
	{"federation:get_one_all_projects", "rule:context_is_admin", anyScope, nil},
	{"federation:get_all_all_projects", "rule:context_is_admin", anyScope, nil},
	{"nodegroup:create_all_projects", "rule:context_is_admin", anyScope, nil},
	{"nodegroup:delete_all_projects", "rule:context_is_admin", anyScope, nil},
	{"nodegroup:update_all_projects", "rule:context_is_admin", anyScope, nil},
}
