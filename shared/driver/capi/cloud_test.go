package capi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"carafe/shared/driver"
	"carafe/shared/driver/capi/capitest"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

func driverOn(t *testing.T, o *capitest.OpenStack) *Driver {
	t.Helper()
	c := smallest().Config
	c.AuthURL, c.Region, c.Interface, c.CreateParallel, c.PageSize = o.URL+"/v3/", "RegionOne", "public", 10, 500
	d, err := New(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNamesAreLookedUp(t *testing.T) {
	o := capitest.New(t)
	o.Put("/compute/v2.1/flavors/detail flavors",
		map[string]any{"id": "3", "name": "m1.large", "vcpus": 4, "ram": 8192, "disk": 80, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
		map[string]any{"id": "2", "name": "m1.medium", "vcpus": 2, "ram": 4096, "disk": 40, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
	)
	o.Put("/image/v2/images images", map[string]any{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", "name": "ubuntu-kube", "os_distro": "ubuntu", "kube_version": "v1.35.1", "status": "active"})
	o.Put("/network/v2.0/networks networks", map[string]any{"id": "14c15d33-175c-424e-88ba-361a875e0c5c", "name": "public"})
	o.Put("/compute/v2.1/os-server-groups server_groups")
	d := driverOn(t, o)
	in := smallest()
	in.Cluster.Template.ImageID, in.Cluster.Template.ExternalNetworkID, in.Cluster.Template.Labels = "ubuntu-kube", new("public"), nil
	in.Cluster.Credential = &driver.Credential{ID: "f1d2", Secret: "s"}
	in.Config = d.config
	if err := d.Check(t.Context(), nil, in.Cluster); err != nil {
		t.Errorf("check without a version, which the image may say: %v", err)
	}
	got, err := d.resolve(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Resolved = got
	plan, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if cp := findObject(plan, "KubeadmControlPlane"); cp.Object["spec"].(map[string]any)["version"] != "v1.35.1" {
		t.Errorf("version %v, want the image's", cp.Object["spec"].(map[string]any)["version"])
	}
	if f := got.Flavors["m1.large"]; f.ID != "3" || f.VCPUs != 4 {
		t.Errorf("flavor %+v", f)
	}
	if groups := slices.Sorted(maps.Values(got.ServerGroups)); len(groups) != 2 {
		t.Errorf("server groups %v", groups)
	}
	// What is known is not asked for again, so a renamed image changes nothing.
	o.Forget()
	if again, err := d.resolve(t.Context(), in); err != nil || len(again.Images) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}

	in.Resolved = Resolved{}
	if _, err := d.resolve(t.Context(), in); !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Invalid) {
		t.Errorf("nothing there: %v", err)
	}
	o.Refuse(true)
	if _, err := d.resolve(t.Context(), in); fault.ReasonOf(err) != fault.ReasonCredential {
		t.Errorf("a credential that Keystone refuses: %v", err)
	}
}

// An upgrade looks once whether the project has room for one more server. If not,
// nodes go before others come, where a group can do without one, and the user reads why.
func TestUpgradeWithoutRoom(t *testing.T) {
	o := capitest.New(t)
	flavors := []map[string]any{
		{"id": "3", "name": "m1.large", "vcpus": 4, "ram": 8192, "disk": 80, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
		{"id": "2", "name": "m1.medium", "vcpus": 2, "ram": 4096, "disk": 40, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
	}
	o.Put("/compute/v2.1/flavors/detail flavors", flavors...)
	o.Put("/image/v2/images images", map[string]any{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", "os_distro": "ubuntu", "status": "active"})
	o.Put("/compute/v2.1/os-server-groups server_groups")
	limits := func(cores int) {
		o.Put("/compute/v2.1/limits =limits", map[string]any{"absolute": map[string]any{
			"maxTotalInstances": -1, "maxTotalCores": cores, "totalCoresUsed": 18, "maxTotalRAMSize": 65536, "totalRAMUsed": 4096}})
	}
	d := driverOn(t, o)
	in := groupInput(t)
	in.Cluster.NodeGroups[0].NodeCount, in.Cluster.NodeGroups[2].NodeCount = 3, 1
	in.Cluster.Credential, in.Config = &driver.Credential{ID: "f1d2", Secret: "s"}, d.config
	first := must(Render(in))
	surges := func(cores int) (string, Resolved) {
		t.Helper()
		limits(cores)
		in := in
		in.Observed = live(t, first)
		in.Cluster.Template.Labels = map[string]string{"kube_tag": "v1.36.0"}
		in.Cluster.Operation = magnum.Operation{Seq: 9, ID: "the-upgrade", Kind: magnum.ClusterUpgrade, Arguments: []byte(`{"max_batch_size":2}`)}
		var err error
		if in.Resolved, err = d.resolve(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		limits(1) // the upgrade itself needs room
		if again := must(d.resolve(t.Context(), in)); again.Crowded != in.Resolved.Crowded {
			t.Error("it has looked twice")
		}
		plan, text := must(Render(in)), ""
		for _, object := range append(plan.Waves[waveCluster], plan.Waves[waveGroups]...) {
			for _, at := range [][]string{{"spec", "rollout", "strategy", "rollingUpdate", "maxSurge"}, {"spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"}} {
				if n, ok, _ := unstructured.NestedFieldNoCopy(object.Object, at...); ok {
					text += fmt.Sprint(n) + " "
				}
			}
		}
		return text, in.Resolved
	}
	// The control plane's surge, then surge and unavailable of each group.
	if got, r := surges(22); got != "1 2 0 2 0 2 0 2 0 " || r.Crowded {
		t.Errorf("with room: %s", got)
	}
	got, r := surges(21)
	if got != "0 0 2 2 0 0 2 0 2 " {
		t.Errorf("without room: %s", got)
	}

	s := live(t, first)
	s.Cluster.Annotations[annotationResolved] = string(must(json.Marshal(r)))
	s.ControlPlane.Spec.Version = "v1.36.0"
	ref := driver.Ref{Cluster: in.Cluster.Cluster, NodeGroups: in.Cluster.NodeGroups, Operation: &magnum.Operation{ID: "the-upgrade", Kind: magnum.ClusterUpgrade}}
	if o := assess(ref, s, d.config, true, nil, testTime); !strings.Contains(o.Reason, "no room for one more server") {
		t.Errorf("the reason is %s", o.Reason)
	}
}

func findObject(p Plan, kind string) Object {
	for _, wave := range p.Waves {
		for _, o := range wave {
			if o.GetKind() == kind {
				return o
			}
		}
	}
	return nil
}

// Of all that is in a project, the sweep takes what this cluster's own cloud
// controller made, in the order in which it can go.
func TestSweepTakesWhatIsTheClustersOwn(t *testing.T) {
	o := capitest.New(t)
	o.Put("/lb/v2.0/lbaas/loadbalancers loadbalancers",
		map[string]any{"id": "ours", "name": "kube_service_prod-x_default_web", "provisioning_status": "ACTIVE", "tags": []string{"kube_service_prod-x_default_web"}},
		map[string]any{"id": "busy", "name": "kube_service_prod-x_default_db", "provisioning_status": "PENDING_UPDATE"},
		map[string]any{"id": "shared", "name": "kube_service_prod-x_default_shared", "provisioning_status": "ACTIVE", "tags": []string{"kube_service_other_default_a"}},
		map[string]any{"id": "theirs", "name": "kube_service_prod-xy_default_web", "provisioning_status": "ACTIVE"},
		map[string]any{"id": "described", "name": "web", "description": "Kubernetes external service a/b from cluster prod-x", "provisioning_status": "ACTIVE"},
	)
	o.Put("/network/v2.0/floatingips floatingips",
		map[string]any{"id": "made", "description": "Floating IP for Kubernetes external service a/b from cluster prod-x"},
		map[string]any{"id": "brought", "description": "mine"},
		map[string]any{"id": "others", "description": "Floating IP for Kubernetes external service a/b from cluster prod-xy"},
	)
	o.Put("/network/v2.0/security-groups security_groups",
		map[string]any{"id": "lb", "name": "lb-sg-1-a-b", "description": "Security Group for a/b Service LoadBalancer in cluster prod-x"},
		map[string]any{"id": "users", "name": "web", "description": "in cluster prod-x"},
	)
	o.Put("/volume/v3/volumes/detail volumes",
		map[string]any{"id": "pv", "metadata": map[string]string{"cinder.csi.openstack.org/cluster": "prod-x"}},
		map[string]any{"id": "other", "metadata": map[string]string{"cinder.csi.openstack.org/cluster": "prod-xy"}},
	)
	o.Put("/compute/v2.1/os-server-groups server_groups", map[string]any{"id": "sg", "name": "prod-x-cp", "policies": []string{}}, map[string]any{"id": "sg2", "name": "prod-xy-cp", "policies": []string{}})
	d := driverOn(t, o)
	c, err := d.cloud(t.Context(), cloud{Auth: cloudAuth{AuthURL: d.config.AuthURL, ID: "f1d2", Secret: "s"}, RegionName: "RegionOne", Interface: "public"})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(volumes bool) int {
		t.Helper()
		n, err := c.Sweep(t.Context(), "prod-x", volumes)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := pass(false); n != 3 {
		t.Errorf("first pass saw %d, want the three load balancers", n)
	}
	o.Put("/lb/v2.0/lbaas/loadbalancers loadbalancers",
		map[string]any{"id": "busy", "name": "kube_service_prod-x_default_db", "provisioning_status": "ACTIVE"},
		map[string]any{"id": "theirs", "name": "kube_service_prod-xy_default_web", "provisioning_status": "ACTIVE"})
	if n := pass(false); n != 1 {
		t.Errorf("second pass saw %d, want the one that was busy", n)
	}
	if n := pass(false); n != 2 {
		t.Errorf("third pass saw %d, want a floating IP and a security group", n)
	}
	if n := pass(false); n != 0 {
		t.Errorf("at the end there are %d", n)
	}
	if n := pass(true); n != 1 {
		t.Errorf("with volumes: %d, want one", n)
	}
	want := []string{"floatingips/made", "loadbalancers/busy", "loadbalancers/described", "loadbalancers/ours", "security_groups/lb", "server_groups/sg", "volumes/pv"}
	if got := o.Deleted(); !slices.Equal(got, want) {
		t.Errorf("deleted %v, want %v", got, want)
	}
}
