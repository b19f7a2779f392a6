package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"carafe/shared/fault"
)

// Finding is one thing that Doctor looked at.
type Finding struct {
	What string // what was looked at
	OK   bool
	Text string // what was found, or what to do
}

// needed are the groups that must be served, with the version that the driver
// speaks and who brings them.
var needed = []struct{ group, version, from string }{
	{"cluster.x-k8s.io", "v1beta2", "Cluster API 1.11 or later"},
	{"bootstrap.cluster.x-k8s.io", "v1beta2", "its kubeadm bootstrap provider"},
	{"controlplane.cluster.x-k8s.io", "v1beta2", "its kubeadm control plane provider"},
	{"addons.cluster.x-k8s.io", "v1beta2", "Cluster API 1.11 or later"},
}

// rights are all that the driver's user must be allowed. There is no update, no
// deletecollection, and no cluster-wide write but namespaces.
var rights = []struct {
	group     string
	resources []string
	verbs     []string
}{
	{"", []string{"namespaces"}, []string{"get", "list", "create", "patch"}},
	{"", []string{"secrets"}, []string{"get", "list", "create", "patch", "delete"}},
	{"", []string{"configmaps"}, []string{"get", "create", "patch"}},
	{"cluster.x-k8s.io", []string{"clusters", "machinedeployments", "machinehealthchecks"}, []string{"get", "list", "create", "patch", "delete"}},
	{"cluster.x-k8s.io", []string{"machines"}, []string{"get", "list", "patch"}},
	{"cluster.x-k8s.io", []string{"machinesets"}, []string{"get", "list"}},
	{"controlplane.cluster.x-k8s.io", []string{"kubeadmcontrolplanes"}, []string{"get", "list", "create", "patch", "delete"}},
	{"bootstrap.cluster.x-k8s.io", []string{"kubeadmconfigtemplates"}, []string{"get", "list", "create", "patch", "delete"}},
	{infrastructureGroup, []string{"openstackclusters", "openstackmachinetemplates"}, []string{"get", "list", "create", "patch", "delete"}},
	{infrastructureGroup, []string{"openstackmachines"}, []string{"get", "list", "patch"}},
	{"addons.cluster.x-k8s.io", []string{"clusterresourcesets"}, []string{"get", "list", "create", "patch", "delete"}},
	{"addons.cluster.x-k8s.io", []string{"clusterresourcesetbindings"}, []string{"get", "list"}},
}

// autoscalerRights are needed beside, where Carafe runs the autoscaler. The
// Role's own rights must be held too: nobody may give what they do not have.
var autoscalerRights = []struct {
	group     string
	resources []string
	verbs     []string
}{
	{"apps", []string{"deployments"}, []string{"get", "list", "create", "patch", "delete"}},
	{"", []string{"serviceaccounts"}, []string{"get", "list", "create", "patch", "delete"}},
	{"rbac.authorization.k8s.io", []string{"roles", "rolebindings"}, []string{"get", "list", "create", "patch", "delete"}},
}

// Doctor looks at all that the driver stands on and says what is missing.
func (d *Driver) Doctor(ctx context.Context) []Finding {
	var out []Finding
	say := func(what string, ok bool, format string, args ...any) {
		out = append(out, Finding{what, ok, fmt.Sprintf(format, args...)})
	}
	data, err := d.client.do(ctx, "ask for the version", func(r rest.Interface) *rest.Request { return r.Get().AbsPath("/version") })
	var v version.Info
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		say("management cluster", false, "%s: %v", fault.Text(classify(err)), err)
		return out
	}
	say("management cluster", true, "Kubernetes %s", v.GitVersion)

	for _, n := range needed {
		versions, err := d.client.served(ctx, n.group)
		switch {
		case err != nil:
			say(n.group, false, "%v", err)
		case !slices.Contains(versions, n.version):
			say(n.group, false, "%s is not served: install %s", n.version, n.from)
		default:
			say(n.group, true, "%s", n.version)
		}
	}
	if dialect, err := d.client.infrastructureDialect(ctx); err != nil {
		say(infrastructureGroup, false, "install Cluster API Provider OpenStack 0.12 or later: %v", err)
	} else {
		say(infrastructureGroup, true, "%s", dialect)
	}

	all := rights
	if d.config.AutoscalerImage != "" {
		all = append(slices.Clone(rights), autoscalerRights...)
	}
	var denied []string
	asked := 0
	for _, r := range all {
		for _, resource := range r.resources {
			for _, verb := range r.verbs {
				asked++
				ok, err := d.allowed(ctx, r.group, resource, verb)
				if err != nil {
					say("rights", false, "cannot be asked for: %v", err)
					return out
				}
				if !ok {
					denied = append(denied, strings.TrimSuffix(verb+" "+resource+"."+r.group, "."))
				}
			}
		}
	}
	if len(denied) > 0 {
		say("rights", false, "the kubeconfig's user may not %s", strings.Join(denied, ", "))
	} else {
		say("rights", true, "all %d", asked)
	}

	if d.addons == nil {
		say("add-ons", false, "CARAFE_CAPI_ADDONS is not set: clusters come without a network and without the cloud controller")
	} else {
		minors := slices.SortedFunc(maps.Keys(d.addons.sets["ccm"]), func(a, b string) int { return minor(a) - minor(b) })
		say("add-ons", len(minors) > 0, "for Kubernetes %s", strings.Join(minors, ", "))
	}
	if d.config.AuthURL == "" {
		say("credential", false, "CARAFE_CAPI_AUTH_URL is not set: clusters get no application credential, and nothing of theirs in OpenStack is swept away")
	} else {
		say("credential", true, "from %s", d.config.AuthURL)
	}
	if len(d.config.ManagementCIDRs) == 0 {
		say("management_cidrs", true, "CARAFE_CAPI_MANAGEMENT_CIDRS is not set: a cluster with master_lb_allowed_cidrs may lock the management cluster out")
	}
	return out
}

// allowed asks the management cluster what its user may do in every namespace.
func (d *Driver) allowed(ctx context.Context, group, resource, verb string) (bool, error) {
	var review authorizationv1.SelfSubjectAccessReview
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	data, err := d.client.do(ctx, "ask for rights", func(r rest.Interface) *rest.Request {
		return r.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").SetHeader("Content-Type", "application/json").Body(body)
	})
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
