package capi

import (
	"encoding/json"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Object is one object as it is applied: only the fields that the driver owns.
type Object = *unstructured.Unstructured

// Labels and annotations of the driver's objects.
const (
	manager    = "magnum" // field manager, and the value of managed-by
	managedBy  = "app.kubernetes.io/managed-by"
	ourDomain  = "magnum.openstack.org/"
	finalizer  = ourDomain + "sweep"
	deleteMark = clusterv1.DeleteMachineAnnotation

	labelClusterUUID = ourDomain + "cluster-uuid"
	labelProject     = ourDomain + "project-id"
	labelNodeGroup   = ourDomain + "nodegroup-uuid"
	labelRole        = ourDomain + "role"

	annotationClusterName = ourDomain + "cluster-name"
	annotationGroupName   = ourDomain + "nodegroup-name"
	annotationTemplate    = ourDomain + "template-uuid"
	annotationGeneration  = ourDomain + "generation"
	annotationOperation   = ourDomain + "operation"
	annotationSpecHash    = ourDomain + "spec-hash"
	annotationResolved    = ourDomain + "resolved"
	annotationCredential  = ourDomain + "credential-epoch"
	annotationContentHash = ourDomain + "cloud-config-hash"
	annotationVolumes     = ourDomain + "delete-volumes"
)

const infrastructureGroup = "infrastructure.cluster.x-k8s.io"

// Group, version and kind of what the driver reads and writes. OpenStack's
// kinds have the version of the dialect.
var (
	clusterKind      = clusterv1.GroupVersion.WithKind("Cluster")
	deploymentKind   = clusterv1.GroupVersion.WithKind("MachineDeployment")
	machineSetKind   = clusterv1.GroupVersion.WithKind("MachineSet")
	machineKind      = clusterv1.GroupVersion.WithKind("Machine")
	healthCheckKind  = clusterv1.GroupVersion.WithKind("MachineHealthCheck")
	controlPlaneKind = controlplanev1.GroupVersion.WithKind("KubeadmControlPlane")
	bootstrapKind    = bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate")
	resourceSetKind  = addonsv1.GroupVersion.WithKind("ClusterResourceSet")
	bindingKind      = addonsv1.GroupVersion.WithKind("ClusterResourceSetBinding")
	namespaceKind    = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	secretKind       = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	configMapKind    = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

type kindOf = schema.GroupVersionKind

func (d Dialect) kind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: infrastructureGroup, Version: string(d), Kind: kind}
}

// object turns a typed spec into what is applied. content is the object
// without its metadata: spec, data and so on.
func object(gvk schema.GroupVersionKind, meta metav1.ObjectMeta, content map[string]any) Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for k, v := range content {
		u.Object[k] = plain(v)
	}
	u.SetGroupVersionKind(gvk)
	u.SetName(meta.Name)
	if meta.Namespace != "" {
		u.SetNamespace(meta.Namespace)
	}
	if len(meta.Labels) > 0 {
		u.SetLabels(meta.Labels)
	}
	if len(meta.Annotations) > 0 {
		u.SetAnnotations(meta.Annotations)
	}
	if len(meta.Finalizers) > 0 {
		u.SetFinalizers(meta.Finalizers)
	}
	return u
}

// plain is v as JSON sees it. A value that is not JSON is a mistake of ours.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("render: %v", err))
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("render: %v", err))
	}
	return integers(out)
}

// integers turns whole numbers into int64, as the unstructured package wants.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = integers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = integers(x)
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}

// typed reads an object into a type of Cluster API's.
func typed[T any](u Object) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}

// contentHash is the SHA-256 of the canonical JSON of a spec, in base32.
func contentHash(spec any) string {
	data, err := json.Marshal(plain(spec)) // encoding/json sorts the keys of maps
	if err != nil {
		panic(fmt.Sprintf("render: %v", err))
	}
	return hash(52, data)
}

var (
	keyForm        = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValueForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

func labelKey(s string) bool   { return keyForm.MatchString(s) }
func labelValue(s string) bool { return labelValueForm.MatchString(s) }
