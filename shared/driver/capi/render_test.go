package capi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The objects of each input, one file each. Certificates are new in every run
// and left out.
func TestGolden(t *testing.T) {
	for i, c := range inputs {
		t.Run(c.name, func(t *testing.T) {
			plan, err := Render(inputOf(t, i))
			if err != nil {
				t.Fatal(err)
			}
			got := golden(t, plan)
			again, err := Render(inputOf(t, i))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), string(golden(t, again))); diff != "" {
				t.Errorf("the same input rendered twice differs:\n%s", diff)
			}
			file := filepath.Join("testdata/golden", c.name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("want -, got +; -update writes it anew:\n%s", diff)
			}
		})
	}
}

func golden(t *testing.T, p Plan) []byte {
	t.Helper()
	var out bytes.Buffer
	for wave, objects := range p.Waves {
		for _, o := range objects {
			o = o.DeepCopy()
			if kind, _, _ := unstructured.NestedString(o.Object, "type"); kind == certificateType {
				o.Object["data"] = map[string]any{"tls.crt": "", "tls.key": ""}
			}
			if data, ok := o.Object["data"].(map[string]any); ok {
				readable := map[string]any{}
				for k, v := range data {
					text, err := base64.StdEncoding.DecodeString(v.(string))
					if err != nil {
						t.Fatal(err)
					}
					readable[k] = string(text)
				}
				delete(o.Object, "data")
				o.Object["stringData"] = readable
			}
			data, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("--- # wave " + string(rune('0'+wave)) + "\n")
			out.Write(data)
		}
	}
	return out.Bytes()
}

func TestEveryFieldAndLabelIsInAGoldenFile(t *testing.T) {
	seen := map[string]bool{"kube_tag": true}
	for _, c := range inputs {
		for _, name := range c.covers {
			if s := byName[name]; s == nil || !s.Field {
				t.Errorf("%s covers %s, which is no attribute", c.name, name)
			}
			seen[name] = true
		}
		for name := range c.labels {
			if s := byName[name]; s != nil {
				seen[s.Name] = true
			}
		}
	}
	for _, s := range Labels() {
		if !seen[s.Name] {
			t.Errorf("no golden file has %s", s.Name)
		}
	}
	if len(inputs) < 40 {
		t.Errorf("%d inputs, want 40 or more", len(inputs))
	}
}

// live is a management cluster on which a plan has been applied and has come
// to rest: what the real one does with it is what test/clusterapi shows.
func live(t *testing.T, p Plan) *Snapshot {
	t.Helper()
	s := newSnapshot()
	for _, wave := range p.Waves {
		for _, o := range wave {
			o = o.DeepCopy()
			o.SetGeneration(1)
			var err error
			switch o.GroupVersionKind() {
			case clusterKind:
				s.Cluster, err = typed[clusterv1.Cluster](o)
			case controlPlaneKind:
				s.ControlPlane, err = typed[controlplanev1.KubeadmControlPlane](o)
			case deploymentKind:
				var d *clusterv1.MachineDeployment
				d, err = typed[clusterv1.MachineDeployment](o)
				s.Deployments[o.GetName()] = d
			case resourceSetKind:
				s.ResourceSet, err = typed[addonsv1.ClusterResourceSet](o)
			}
			if o.GetKind() == "OpenStackCluster" {
				s.Infrastructure = &infrastructureCluster{}
				data, merr := json.Marshal(o.Object)
				if merr != nil {
					t.Fatal(merr)
				}
				err = json.Unmarshal(data, s.Infrastructure)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	atEase(s)
	return s
}

// atEase gives every object the status of one that has come to rest.
func atEase(s *Snapshot) {
	cp := s.ControlPlane
	n := *cp.Spec.Replicas
	cp.Status.ObservedGeneration, cp.Status.Replicas, cp.Status.UpToDateReplicas, cp.Status.AvailableReplicas = cp.Generation, &n, &n, &n
	cp.Status.Versions = []clusterv1.StatusVersion{{Version: cp.Spec.Version, Replicas: n}}
	cp.Status.Conditions = resting(cp.Generation)
	for _, d := range s.Deployments {
		n := int32(0)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		d.Spec.Replicas = &n
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpToDateReplicas, d.Status.AvailableReplicas = d.Generation, &n, &n, &n
		d.Status.Versions = []clusterv1.StatusVersion{{Version: d.Spec.Template.Spec.Version, Replicas: n}}
		d.Status.Conditions = resting(d.Generation)
	}
}

// kinds of objects that a change elsewhere must leave alone.
func byKey(p Plan) map[string]string {
	out := map[string]string{}
	for _, wave := range p.Waves {
		for _, o := range wave {
			if o.GroupVersionKind() == clusterKind {
				continue // says which operation it is
			}
			data, _ := json.Marshal(o.Object)
			out[o.GetKind()+"/"+o.GetName()] = string(data)
		}
	}
	return out
}

func groupInput(t *testing.T) Input {
	t.Helper()
	in := smallest()
	for i := range 3 {
		g := in.Cluster.NodeGroups[1]
		g.ID, g.UUID, g.Name, g.IsDefault = int64(3+i), "a3f0d7f4-1b0c-4c89-bb5e-6b7a3c0b010"+string(rune('0'+i)), "extra-"+string(rune('a'+i)), false
		in.Cluster.NodeGroups = append(in.Cluster.NodeGroups, g)
	}
	return in
}

// What concerns one group changes no object of another, and replaces no node
// that it does not mean to.
func TestChangeOfOneGroupLeavesTheOthers(t *testing.T) {
	first, err := Render(groupInput(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		kind   magnum.OperationKind
		change func(*Input, *magnum.NodeGroup)
		rolls  []string
	}{
		{name: "resize", kind: magnum.ClusterResize, change: func(_ *Input, g *magnum.NodeGroup) { g.NodeCount = 9 }},
		{name: "labels that nodes get live", kind: magnum.NodeGroupUpdate, change: func(_ *Input, g *magnum.NodeGroup) {
			g.NodeLabels = map[string]string{"node.cluster.x-k8s.io/x": "y"}
		}},
		{name: "taints", kind: magnum.NodeGroupUpdate, rolls: []string{"extra-b"}, change: func(_ *Input, g *magnum.NodeGroup) {
			g.NodeTaints = []map[string]string{{"key": "a", "value": "b", "effect": "NoExecute"}}
		}},
		{name: "another flavor", kind: magnum.NodeGroupUpdate, rolls: []string{"extra-b"}, change: func(_ *Input, g *magnum.NodeGroup) { g.FlavorID = new("m1.xlarge") }},
		{name: "resize while Carafe would render the nodes in another way", kind: magnum.ClusterResize, change: func(in *Input, g *magnum.NodeGroup) {
			g.NodeCount = 4
			in.Cluster.Template.Labels["audit_log_enabled"] = "true"
			in.Cluster.Template.Labels["boot_volume_size"] = "99"
			in.Cluster.Template.HTTPProxy = new("http://proxy.example.org:3128")
		}},
		{name: "deleted", kind: magnum.NodeGroupDelete, change: func(_ *Input, g *magnum.NodeGroup) { g.Status = magnum.DeleteInProgress }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := groupInput(t)
			in.Observed = live(t, first)
			g := &in.Cluster.NodeGroups[3]
			in.Cluster.Operation = magnum.Operation{Seq: 8, Kind: c.kind, NodeGroupID: &g.UUID}
			c.change(&in, g)
			second, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			owner := groupName(second.Name, *g)
			old := byKey(first)
			for key, now := range byKey(second) {
				if strings.Contains(key, owner) {
					continue
				}
				if diff := cmp.Diff(old[key], now); diff != "" {
					t.Errorf("%s changed:\n%s", key, diff)
				}
			}
			if !slices.Equal(second.Rolls, c.rolls) {
				t.Errorf("replaces the nodes of %v, want %v", second.Rolls, c.rolls)
			}
		})
	}
}

func TestWorkersFollowTheControlPlane(t *testing.T) {
	in := groupInput(t)
	first, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	s := live(t, first)
	// moved is the input with the rows as the request for the upgrade leaves them.
	moved := func(s *Snapshot, o magnum.Operation) Plan {
		t.Helper()
		in := groupInput(t)
		in.Cluster.Template.ImageID, in.Cluster.Template.Labels = "image-2", map[string]string{"kube_tag": "v1.36.0"}
		in.Cluster.Labels = map[string]string{"kube_tag": "v1.36.0"}
		for i := range in.Cluster.NodeGroups {
			in.Cluster.NodeGroups[i].ImageID = &in.Cluster.Template.ImageID
		}
		in.Cluster.Operation, in.Observed = o, s
		p, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	upgrade := func(s *Snapshot) Plan {
		t.Helper()
		return moved(s, magnum.Operation{Seq: 9, Kind: magnum.ClusterUpgrade, Arguments: []byte(`{"max_batch_size":2}`)})
	}
	// versions are those that a plan asks for, the control plane's first.
	versions := func(p Plan) []string {
		var out []string
		for _, o := range append(slices.Clone(p.Waves[waveCluster]), p.Waves[waveGroups]...) {
			if v, ok, _ := unstructured.NestedString(o.Object, "spec", "version"); ok {
				out = append(out, v)
			}
			if v, ok, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "version"); ok {
				out = append(out, v)
			}
		}
		return out
	}
	const o, n = "v1.35.1", "v1.36.0"
	want := [][]string{{n, o, o, o, o}, {n, n, o, o, o}, {n, n, n, o, o}, {n, n, n, n, o}, {n, n, n, n, n}}
	for step, w := range want {
		p := upgrade(s)
		if diff := cmp.Diff(w, versions(p)); diff != "" {
			t.Fatalf("step %d:\n%s", step, diff)
		}
		s = live(t, p)
		if missing := p.missing(s); missing != "" {
			t.Errorf("step %d: %s is missing after it was applied", step, missing)
		}
	}
	if p := upgrade(s); len(p.Waits) > 0 || len(p.Rolls) > 0 {
		t.Errorf("at the end: waits %v, rolls %v", p.Waits, p.Rolls)
	}
	// What comes later finds the rows and the objects in agreement.
	for _, g := range groupInput(t).Cluster.NodeGroups {
		for _, kind := range []magnum.OperationKind{magnum.ClusterResize, magnum.NodeGroupUpdate, magnum.ClusterUpgrade} {
			p := moved(s, magnum.Operation{Seq: 10, Kind: kind, NodeGroupID: &g.UUID, Arguments: []byte(`{"max_batch_size":2}`)})
			if missing := p.missing(s); missing != "" || len(p.Rolls) > 0 {
				t.Errorf("%s of %s after the upgrade: %q is missing, rolls %v", kind, g.Name, missing, p.Rolls)
			}
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		"kube_tag": "1.35", "fixed_subnet_cidr": "10.0.0.0", "api_server_floating_ip": "x", "master_lb_allowed_cidrs": "10.0.0.0/8,all",
		"octavia_provider": "f5", "octavia_lb_algorithm": "RANDOM", "octavia_lb_healthcheck": "maybe", "boot_volume_size": "-1",
		"etcd_blockdevice_type": "floppy", "auto_scaling_enabled": "2", "server_group_policies": "none", "calico_tag": "a b",
		"oidc_issuer_url": "ftp://x", "kubelet_options": "--config=/etc/x", "audit_log_max_age": "a week",
		"container_infra_prefix": "x\"; rm -rf /", "api_server_cert_sans": "a b;c", "min_node_count": "few",
		"dns_cluster_domain": "$(id)", "availability_zone": "a\nb", "csi_cinder_fstype": "ntfs",
	} {
		in := smallest()
		in.Cluster.Labels = map[string]string{name: value}
		if _, err := Render(in); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Text(err), name) {
			t.Errorf("%s=%q: %v, want a refusal that names the label", name, value, err)
		}
	}
	for name, change := range map[string]func(*Input){
		"even masters":                    masters(2),
		"nine masters":                    masters(9),
		"masters without a load balancer": func(in *Input) { in.Cluster.MasterLBEnabled = false; in.Cluster.NodeGroups[0].NodeCount = 3 },
		"TLS off":                         func(in *Input) { in.Cluster.Template.TLSDisabled = true },
		"registry":                        func(in *Input) { in.Cluster.Template.RegistryEnabled = true },
		"network driver":                  func(in *Input) { in.Cluster.Template.NetworkDriver = new("flannel") },
		"volume driver":                   func(in *Input) { in.Cluster.Template.VolumeDriver = new("rexray") },
		"no version":                      func(in *Input) { in.Cluster.Template.Labels = nil },
		"a version without add-ons":       func(in *Input) { withAddons(in); in.Cluster.Template.Labels["kube_tag"] = "v1.36.0" },
		"the image has another version": func(in *Input) {
			in.Resolved.Images = map[string]Image{in.Cluster.Template.ImageID: {ID: "x", KubeVersion: "v1.34.0"}}
		},
		"a small control plane": func(in *Input) { in.Resolved.Flavors = map[string]Flavor{"m1.medium": {ID: "x", VCPUs: 1, RAM: 1024}} },
		"ovn with an algorithm": func(in *Input) {
			in.Cluster.Labels = map[string]string{"octavia_provider": "ovn", "octavia_lb_algorithm": "ROUND_ROBIN"}
		},
		"a dashboard that nobody has": func(in *Input) { in.Cluster.Labels = map[string]string{"kube_dashboard_enabled": "true"} },
		"a node label":                func(in *Input) { in.Cluster.NodeGroups[1].NodeLabels = map[string]string{"a b": "c"} },
		"a taint": func(in *Input) {
			in.Cluster.NodeGroups[1].NodeTaints = []map[string]string{{"key": "a", "effect": "Never"}}
		},
		"bounds": func(in *Input) {
			in.Cluster.Labels = map[string]string{"auto_scaling_enabled": "true", "max_node_count": "1"}
			in.Cluster.NodeGroups[1].MinNodeCount = 4
		},
	} {
		in := smallest()
		change(&in)
		if _, err := Render(in); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

// A release that renders another value for a field that cannot change must
// not send it.
func TestInfrastructureKeepsWhatCannotChange(t *testing.T) {
	first, err := Render(smallest())
	if err != nil {
		t.Fatal(err)
	}
	in := smallest()
	in.Observed = live(t, first)
	in.Cluster.Operation = magnum.Operation{Seq: 9, Kind: magnum.ClusterUpgrade}
	in.Cluster.Template.ExternalNetworkID = new("another")
	in.Cluster.Template.DNSNameserver = new("192.0.2.53")
	in.Cluster.Labels = map[string]string{"fixed_subnet_cidr": "10.99.0.0/24", "master_lb_allowed_cidrs": "192.0.2.0/24", "control_plane_availability_zones": "az1"}
	p, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	for _, o := range p.Waves[waveTemplates] {
		if o.GetKind() == "OpenStackCluster" {
			spec = o.Object["spec"].(map[string]any)
		}
	}
	want := plain((&render{Input: smallest(), wish: must(read(smallest().Cluster, smallest().Config, Resolved{}))}).infrastructureSpec()).(map[string]any)
	want["apiServer"].(map[string]any)["managedLoadBalancer"].(map[string]any)["allowedCIDRs"] = []any{"10.255.0.0/24", "192.0.2.0/24"}
	want["managedSubnets"].([]any)[0].(map[string]any)["dnsNameservers"] = []any{"192.0.2.53"}
	want["controlPlaneAvailabilityZones"] = []any{"az1"}
	delete(want, "controlPlaneOmitAvailabilityZone")
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(p.Unchangeable, []string{"externalNetwork", "managedSubnets"}) {
		t.Errorf("unchangeable: %v", p.Unchangeable)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
