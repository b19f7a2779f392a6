package capi

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestReadmeHasEverySettingAddonAndPlaceholder(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	config := reflect.TypeFor[Config]()
	for i := range config.NumField() {
		names = append(names, config.Field(i).Tag.Get("envconfig"))
	}
	for name := range addonTags {
		names = append(names, name)
	}
	names = append(names, placeholders...)
	for _, name := range names {
		if !strings.Contains(string(data), name) {
			t.Errorf("README.md does not have %s", name)
		}
	}
}

func TestSettingsSayAllThatIsWrong(t *testing.T) {
	c := Config{NamespacePrefix: "Has Spaces", ManagementCIDRs: []string{"all"}, DeleteVolumes: "sometimes", Kubeconfig: "/nowhere", DefaultLabels: map[string]string{"kube_tag": "latest", "x": "y"}}
	err := c.Validate()
	for _, want := range []string{"NAMESPACE_PREFIX", "MANAGEMENT_CIDRS", "DELETE_VOLUMES", "CREATE_PARALLEL", "PAGE_SIZE", "KUBECONFIG", "kube_tag", "unknown label x"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

// Nova takes 64 KiB of user data. With every option on, what kubeadm is told
// stays well below.
func TestBootstrapDataFits(t *testing.T) {
	in := smallest()
	in.Cluster.Labels = map[string]string{}
	for i := range inputs {
		one := inputOf(t, i)
		for k, v := range inputs[i].labels {
			if k != "octavia_provider" && k != "octavia_lb_algorithm" && k != "manila_csi_enabled" && k != "monitoring_enabled" && k != "kube_dashboard_enabled" && k != "metrics_server_enabled" && k != "cinder_csi_enabled" {
				in.Cluster.Labels[k] = v
			}
		}
		for _, p := range []struct{ to, from **string }{
			{&in.Cluster.Template.HTTPProxy, &one.Cluster.Template.HTTPProxy}, {&in.Cluster.Template.HTTPSProxy, &one.Cluster.Template.HTTPSProxy},
			{&in.Cluster.Template.NoProxy, &one.Cluster.Template.NoProxy}, {&in.Cluster.Template.InsecureRegistry, &one.Cluster.Template.InsecureRegistry},
		} {
			if *p.from != nil {
				*p.to = *p.from
			}
		}
	}
	in.Cluster.Labels["keystone_auth_enabled"] = "true"
	withAddons(&in)
	withCredential(&in)
	p, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	data := manifest(findObject(p, "KubeadmControlPlane").Object["spec"].(map[string]any)["kubeadmConfigSpec"].(map[string]any))
	if len(data) < 3000 || len(data) > 48<<10 {
		t.Errorf("%d bytes", len(data))
	}
}
