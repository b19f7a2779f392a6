//go:build clusterapi

package bed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func (b *Bed) client() (rest.Interface, error) {
	config := rest.CopyConfig(b.Config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// providers are where the schemas and webhooks of each manager are, beside
// whether its kinds are found through the contract's labels.
var providers = []struct {
	module   int // 0: cluster-api, 1: cluster-api/test
	folder   string
	contract bool
}{
	{0, "core/config", false},
	{0, "bootstrap/kubeadm/config", true},
	{0, "controlplane/kubeadm/config", true},
	{1, "infrastructure/docker/config", true},
}

func (b *Bed) folders(ctx context.Context) ([]string, error) {
	dirs, err := modules(ctx, "sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/test")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range providers {
		out = append(out, filepath.Join(dirs[p.module], p.folder))
	}
	return out, nil
}

// clientConfig leads to a manager's webhook on loopback.
func clientConfig(k *keys, port int, path string) map[string]any {
	return map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s", port, path), "caBundle": base64.StdEncoding.EncodeToString(k.caPEM)}
}

// installSchemas applies every CRD, conversions led to the managers, if they run.
func (b *Bed) installSchemas(ctx context.Context, k *keys, ports []int, o Options) error {
	folders, err := b.folders(ctx)
	if err != nil {
		return err
	}
	var all []map[string]any
	for i, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "crd/bases/*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no schemas in %s: %v", folder, err)
		}
		for _, f := range files {
			crd, err := readYAML(f)
			if err != nil {
				return err
			}
			spec := crd["spec"].(map[string]any)
			if spec["conversion"] = map[string]any{"strategy": "None"}; o.Controllers && len(spec["versions"].([]any)) > 1 {
				spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
					"conversionReviewVersions": []any{"v1"}, "clientConfig": clientConfig(k, ports[i], "/convert"),
				}}
			}
			if providers[i].contract {
				contract(crd, "v1beta1", "v1beta2")
			}
			all = append(all, crd)
		}
	}
	stack, err := b.openStackSchemas()
	if err != nil {
		return err
	}
	all = append(all, stack...)
	if o.WholeObjects {
		for _, crd := range all {
			for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
				delete(v.(map[string]any), "subresources")
			}
		}
	}
	c, err := b.client()
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, crd := range all {
		g.Go(func() error { return apply(gctx, c, crd) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := apply(ctx, c, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "capi-system"}}); err != nil {
		return err
	}
	return until(ctx, 3*time.Minute, func(ctx context.Context) error { return established(ctx, c) })
}

// openStackSchemas are the provider's own where they are at hand, with both
// versions and no conversion: the controllers of the bed read one version, and
// the other is only validated. Else kinds that take any spec.
func (b *Bed) openStackSchemas() ([]map[string]any, error) {
	folder := os.Getenv("CARAFE_CAPO_CRDS")
	if folder == "" {
		folder = filepath.Join(Root(), "../shared/crds/capo")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*openstack*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, f := range files {
		crd, err := readYAML(f)
		if err != nil {
			return nil, err
		}
		crd["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "None"}
		contract(crd, "v1beta1", "v1beta2")
		out = append(out, crd)
	}
	if b.RealProvider = len(out) > 0; b.RealProvider {
		return out, nil
	}
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	for _, kind := range []string{"OpenStackCluster", "OpenStackMachine", "OpenStackMachineTemplate", "OpenStackServer"} {
		plural := strings.ToLower(kind) + "s"
		crd := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + ".infrastructure.cluster.x-k8s.io"},
			"spec": map[string]any{
				"group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced",
				"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
				"versions": []any{map[string]any{
					"name": "v1beta2", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": anything, "status": anything}}},
				}},
			},
		}
		contract(crd, "v1beta2")
		out = append(out, crd)
	}
	return out, nil
}

// contract labels a schema with the versions of Cluster API's contract that it
// serves: references name a group only, and are found through them.
func contract(crd map[string]any, versions ...string) {
	meta := crd["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		meta["labels"] = labels
	}
	served := map[string]bool{}
	for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
		served[v.(map[string]any)["name"].(string)] = true
	}
	for _, v := range versions {
		if served[v] {
			labels["cluster.x-k8s.io/"+v] = v
		}
	}
}

// installWebhooks applies the managers' webhooks.
func (b *Bed) installWebhooks(ctx context.Context, k *keys, ports []int) error {
	folders, err := b.folders(ctx)
	if err != nil {
		return err
	}
	c, err := b.client()
	if err != nil {
		return err
	}
	for i, folder := range folders {
		data, err := os.ReadFile(filepath.Join(folder, "webhook/manifests.yaml"))
		if err != nil {
			return err
		}
		for _, part := range documents.Split(string(data), -1) {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(part), &o); err != nil {
				return err
			}
			if len(o) == 0 {
				continue
			}
			meta := o["metadata"].(map[string]any)
			meta["name"] = fmt.Sprintf("%s-%v", controllers[i].name, meta["name"])
			for _, w := range o["webhooks"].([]any) {
				w := w.(map[string]any)
				service := w["clientConfig"].(map[string]any)["service"].(map[string]any)
				w["clientConfig"] = clientConfig(k, ports[i], service["path"].(string))
			}
			if err := apply(ctx, c, o); err != nil {
				return err
			}
		}
	}
	return nil
}

var documents = regexp.MustCompile(`(?m)^---\s*$`)

func readYAML(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var o map[string]any
	if err := yaml.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return o, nil
}

func apply(ctx context.Context, c rest.Interface, o map[string]any) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	version, kind := o["apiVersion"].(string), o["kind"].(string)
	name := o["metadata"].(map[string]any)["name"].(string)
	base := "/apis/"
	if !strings.Contains(version, "/") {
		base = "/api/"
	}
	err = c.Patch(types.ApplyYAMLPatchType).AbsPath(base+version, strings.ToLower(kind)+"s", name).
		Param("fieldManager", "bed").Param("force", "true").Body(data).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, name, err)
	}
	return nil
}

func established(ctx context.Context, c rest.Interface) error {
	data, err := c.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Do(ctx).Raw()
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Status   struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, x := range list.Items {
		if !slices.ContainsFunc(x.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Established" && c.Status == "True" }) {
			return fmt.Errorf("%s is not established", x.Metadata.Name)
		}
	}
	return nil
}
