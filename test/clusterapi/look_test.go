//go:build clusterapi

package clusterapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/magnum"
)

func connect(t testing.TB, c *rest.Config) rest.Interface {
	t.Helper()
	c = rest.CopyConfig(c)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	r, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get reads a path, which may have a query, into out.
func get(t *testing.T, c *rest.Config, path string, out any) {
	t.Helper()
	if err := tryGet(t, c, path, out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func tryGet(t *testing.T, c *rest.Config, path string, out any) error {
	t.Helper()
	var data []byte
	var err error
	for range 10 {
		data, err = connect(t, c).Get().RequestURI(path).Do(t.Context()).Raw()
		if err == nil || apierrors.IsNotFound(err) || !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

func patch(t *testing.T, path string, kind types.PatchType, body string) {
	t.Helper()
	r := connect(t, theBed.Config).Patch(kind).RequestURI(path)
	if kind == types.ApplyYAMLPatchType {
		r = connect(t, theBed.Config).Patch(kind).RequestURI(path + "?fieldManager=test&force=true")
	}
	if err := r.Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func (s *subject) namespace() string { return "magnum-" + s.ProjectID }

func (s *subject) path(group, kind, name string) string {
	p := "/apis/" + group + "/v1beta2/namespaces/" + s.namespace() + "/" + kind
	if group == "" {
		p = "/api/v1/namespaces/" + s.namespace() + "/" + kind
	}
	if name != "" {
		return p + "/" + name
	}
	return p + "?labelSelector=" + clusterv1.ClusterNameLabel + "%3D" + *s.StackID
}

const (
	coreGroup           = "cluster.x-k8s.io"
	bootstrapGroup      = "bootstrap.cluster.x-k8s.io"
	controlPlaneGroup   = "controlplane.cluster.x-k8s.io"
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
	addonsGroup         = "addons.cluster.x-k8s.io"
)

// everything are the kinds that a cluster leaves traces in; what memstack keeps
// behind them is its own affair.
var everything = []struct{ group, kind string }{
	{coreGroup, "clusters"}, {coreGroup, "machinedeployments"}, {coreGroup, "machinesets"}, {coreGroup, "machines"}, {coreGroup, "machinehealthchecks"},
	{controlPlaneGroup, "kubeadmcontrolplanes"}, {bootstrapGroup, "kubeadmconfigtemplates"}, {bootstrapGroup, "kubeadmconfigs"},
	{infrastructureGroup, "openstackclusters"}, {infrastructureGroup, "openstackmachines"}, {infrastructureGroup, "openstackmachinetemplates"},
	{addonsGroup, "clusterresourcesets"}, {"", "secrets"},
}

func (s *subject) objects() map[string]metav1.PartialObjectMetadata {
	s.t.Helper()
	out := map[string]metav1.PartialObjectMetadata{}
	for _, k := range everything {
		var list metav1.PartialObjectMetadataList
		get(s.t, theBed.Config, s.path(k.group, k.kind, ""), &list)
		for _, o := range list.Items {
			out[k.kind+"/"+o.Name] = o
		}
	}
	return out
}

// generations are those of the driver's own objects.
func (s *subject) generations() map[string]int64 {
	s.t.Helper()
	out := map[string]int64{}
	for name, o := range s.objects() {
		if o.Labels["app.kubernetes.io/managed-by"] == "magnum" && !strings.HasPrefix(name, "machine") && !strings.HasPrefix(name, "openstackmachines/") {
			out[name] = o.Generation
		}
	}
	return out
}

// leftNothing waits until the garbage collector has been: nothing may bear the
// cluster's name.
func (s *subject) leftNothing() {
	s.t.Helper()
	var left map[string]metav1.PartialObjectMetadata
	for range 60 {
		if left = s.objects(); len(left) == 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	for name, o := range left {
		s.t.Errorf("left behind: %s %v", name, o.Finalizers)
	}
}

func (s *subject) machines(g *magnum.NodeGroup) []clusterv1.Machine {
	s.t.Helper()
	var list clusterv1.MachineList
	get(s.t, theBed.Config, s.path(coreGroup, "machines", ""), &list)
	var out []clusterv1.Machine
	for _, m := range list.Items {
		if m.Labels["magnum.openstack.org/nodegroup-uuid"] == g.UUID && m.DeletionTimestamp.IsZero() {
			out = append(out, m)
		}
	}
	return out
}

func (s *subject) deployments() []clusterv1.MachineDeployment {
	s.t.Helper()
	var list clusterv1.MachineDeploymentList
	get(s.t, theBed.Config, s.path(coreGroup, "machinedeployments", ""), &list)
	return list.Items
}
