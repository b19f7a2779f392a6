package capi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	podDeploymentKind  = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	roleKind           = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	roleBindingKind    = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
)

// autoscaler renders the cluster-autoscaler of a cluster, which runs beside it
// on the management cluster. It needs the kubeconfig that Cluster API makes
// with the control plane, so it comes after.
func (r *render) autoscaler() {
	name := autoscalerName(r.name)
	if r.Config.AutoscalerImage == "" {
		return
	}
	if !slices.ContainsFunc(r.workers, func(g group) bool { return g.autoscaled }) {
		if r.Observed.Cluster != nil {
			for _, kind := range []schema.GroupVersionKind{podDeploymentKind, roleBindingKind, roleKind, serviceAccountKind} {
				r.plan.Delete = append(r.plan.Delete, Key{kind, name})
			}
		}
		return
	}
	if !r.Observed.initialized() {
		r.plan.Waits = append(r.plan.Waits, "the control plane, for the autoscaler")
		return
	}
	minor := minorName(r.cpVersion)
	if !r.Observed.level(r.cpVersion) {
		minor = minorName(r.lowestVersion())
	}
	meta := func() metav1.ObjectMeta { return r.meta(name, nil) }
	verbs := func(v ...any) []any { return v }
	rule := func(groups, resources, verbs []any) map[string]any {
		return map[string]any{"apiGroups": groups, "resources": resources, "verbs": verbs}
	}
	r.add(waveGroups, object(serviceAccountKind, meta(), nil))
	r.add(waveGroups, object(roleKind, meta(), map[string]any{"rules": []any{
		rule([]any{"cluster.x-k8s.io"}, []any{"machinedeployments", "machinedeployments/scale", "machinesets", "machinesets/scale"}, verbs("get", "list", "watch", "update", "patch")),
		rule([]any{"cluster.x-k8s.io"}, []any{"machines"}, verbs("get", "list", "watch", "update", "patch")),
		rule([]any{"cluster.x-k8s.io"}, []any{"machinepools", "machinepools/scale", "clusters"}, verbs("get", "list", "watch")),
		rule([]any{infrastructureGroup}, []any{"openstackmachinetemplates"}, verbs("get", "list", "watch")),
	}}))
	r.add(waveGroups, object(roleBindingKind, meta(), map[string]any{
		"roleRef":  map[string]any{"apiGroup": roleKind.Group, "kind": "Role", "name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": r.namespace}},
	}))
	labels := map[string]any{"app.kubernetes.io/name": "cluster-autoscaler", "app.kubernetes.io/instance": name}
	spec := map[string]any{
		"replicas": 1,
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"serviceAccountName": name,
				"containers": []any{map[string]any{
					"name":  "cluster-autoscaler",
					"image": strings.ReplaceAll(r.Config.AutoscalerImage, "{minor}", minor),
					"command": []any{"/cluster-autoscaler", "--cloud-provider=clusterapi", "--kubeconfig=/workload/value", "--clusterapi-cloud-config-authoritative",
						"--node-group-auto-discovery=clusterapi:namespace=" + r.namespace + ",clusterName=" + r.name},
					"volumeMounts": []any{map[string]any{"name": "kubeconfig", "mountPath": "/workload", "readOnly": true}},
					"resources":    map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "128Mi"}},
				}},
				"volumes": []any{map[string]any{"name": "kubeconfig", "secret": map[string]any{"secretName": r.name + "-kubeconfig"}}},
			},
		},
	}
	deployment := meta()
	deployment.Annotations = map[string]string{annotationSpecHash: contentHash(spec)[:26]}
	r.add(waveGroups, object(podDeploymentKind, deployment, map[string]any{"spec": spec}))
}
