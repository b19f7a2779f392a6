package capi

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"carafe/shared/driver"
	"carafe/shared/fault"
)

// anOpenStack answers as Keystone, Nova, Glance, Neutron, Octavia and Cinder
// do, with the few things that a test puts there.
type anOpenStack struct {
	*httptest.Server
	mu      sync.Mutex
	things  map[string][]map[string]any // by path and key in the answer: "/lb/v2.0/lbaas/loadbalancers loadbalancers"
	deleted []string
	refuses bool // the credential
}

func newOpenStack(t *testing.T) *anOpenStack {
	t.Helper()
	o := &anOpenStack{things: map[string][]map[string]any{}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	return o
}

func (o *anOpenStack) serve(w http.ResponseWriter, q *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	path := strings.TrimSuffix(q.URL.Path, "/")
	if path == "/v3/auth/tokens" {
		if o.refuses {
			answer(401, map[string]any{"error": map[string]any{"code": 401, "message": "Could not find Application Credential: f1d2."}})
			return
		}
		var catalog []any
		for kind, at := range map[string]string{"compute": "/compute/v2.1", "image": "/image/v2", "network": "/network/v2.0", "load-balancer": "/lb/v2.0", "block-storage": "/volume/v3"} {
			catalog = append(catalog, map[string]any{"type": kind, "name": kind, "endpoints": []any{
				map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": o.URL + at},
			}})
		}
		w.Header().Set("X-Subject-Token", "token")
		answer(201, map[string]any{"token": map[string]any{"catalog": catalog, "expires_at": "2099-01-01T00:00:00.000000Z", "methods": []any{"application_credential"}}})
		return
	}
	for place, list := range o.things {
		at, key, _ := strings.Cut(place, " ")
		base := strings.TrimSuffix(at, "/detail")
		switch {
		case path == at && q.Method == http.MethodGet:
			var out []map[string]any
			for _, x := range list {
				if name := q.URL.Query().Get("name"); name == "" || x["name"] == name {
					out = append(out, x)
				}
			}
			answer(200, map[string]any{key: out})
			return
		case path == base && q.Method == http.MethodPost:
			var body map[string]map[string]any
			_ = json.NewDecoder(q.Body).Decode(&body)
			one := strings.TrimSuffix(key, "s")
			made := body[one]
			made["id"] = "made-" + made["name"].(string)
			o.things[place] = append(list, made)
			answer(200, map[string]any{one: made})
			return
		case strings.HasPrefix(path, base+"/"):
			id := path[strings.LastIndex(path, "/")+1:]
			i := slices.IndexFunc(list, func(x map[string]any) bool { return x["id"] == id })
			if i < 0 {
				continue
			}
			if q.Method == http.MethodDelete {
				o.deleted = append(o.deleted, key+"/"+id)
				o.things[place] = slices.Delete(list, i, i+1)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			if strings.HasPrefix(path, "/image") {
				answer(200, list[i])
				return
			}
			answer(200, map[string]any{strings.TrimSuffix(key, "s"): list[i]})
			return
		}
	}
	answer(404, map[string]any{"itemNotFound": map[string]any{"code": 404, "message": "nothing at " + path}})
}

func (o *anOpenStack) driver(t *testing.T) *Driver {
	t.Helper()
	c := smallest().Config
	c.AuthURL, c.Region, c.Interface, c.CreateParallel, c.PageSize = o.URL+"/v3/", "RegionOne", "public", 10, 500
	d, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNamesAreLookedUp(t *testing.T) {
	o := newOpenStack(t)
	o.things["/compute/v2.1/flavors/detail flavors"] = []map[string]any{
		{"id": "3", "name": "m1.large", "vcpus": 4, "ram": 8192, "disk": 80, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
		{"id": "2", "name": "m1.medium", "vcpus": 2, "ram": 4096, "disk": 40, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0},
	}
	o.things["/image/v2/images images"] = []map[string]any{{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", "name": "ubuntu-kube", "os_distro": "ubuntu", "kube_version": "v1.35.1", "status": "active"}}
	o.things["/network/v2.0/networks networks"] = []map[string]any{{"id": "14c15d33-175c-424e-88ba-361a875e0c5c", "name": "public"}}
	o.things["/compute/v2.1/os-server-groups server_groups"] = nil
	d := o.driver(t)
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
	o.things = map[string][]map[string]any{}
	if again, err := d.resolve(t.Context(), in); err != nil || len(again.Images) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}

	in.Resolved = Resolved{}
	if _, err := d.resolve(t.Context(), in); !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Invalid) {
		t.Errorf("nothing there: %v", err)
	}
	o.refuses = true
	if _, err := d.resolve(t.Context(), in); fault.ReasonOf(err) != fault.ReasonCredential {
		t.Errorf("a credential that Keystone refuses: %v", err)
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
	o := newOpenStack(t)
	o.things["/lb/v2.0/lbaas/loadbalancers loadbalancers"] = []map[string]any{
		{"id": "ours", "name": "kube_service_prod-x_default_web", "provisioning_status": "ACTIVE", "tags": []string{"kube_service_prod-x_default_web"}},
		{"id": "busy", "name": "kube_service_prod-x_default_db", "provisioning_status": "PENDING_UPDATE"},
		{"id": "shared", "name": "kube_service_prod-x_default_shared", "provisioning_status": "ACTIVE", "tags": []string{"kube_service_other_default_a"}},
		{"id": "theirs", "name": "kube_service_prod-xy_default_web", "provisioning_status": "ACTIVE"},
		{"id": "described", "name": "web", "description": "Kubernetes external service a/b from cluster prod-x", "provisioning_status": "ACTIVE"},
	}
	o.things["/network/v2.0/floatingips floatingips"] = []map[string]any{
		{"id": "made", "description": "Floating IP for Kubernetes external service a/b from cluster prod-x"},
		{"id": "brought", "description": "mine"},
		{"id": "others", "description": "Floating IP for Kubernetes external service a/b from cluster prod-xy"},
	}
	o.things["/network/v2.0/security-groups security_groups"] = []map[string]any{
		{"id": "lb", "name": "lb-sg-1-a-b", "description": "Security Group for a/b Service LoadBalancer in cluster prod-x"},
		{"id": "users", "name": "web", "description": "in cluster prod-x"},
	}
	o.things["/volume/v3/volumes/detail volumes"] = []map[string]any{
		{"id": "pv", "metadata": map[string]string{"cinder.csi.openstack.org/cluster": "prod-x"}},
		{"id": "other", "metadata": map[string]string{"cinder.csi.openstack.org/cluster": "prod-xy"}},
	}
	o.things["/compute/v2.1/os-server-groups server_groups"] = []map[string]any{{"id": "sg", "name": "prod-x-cp", "policies": []string{}}, {"id": "sg2", "name": "prod-xy-cp", "policies": []string{}}}
	d := o.driver(t)
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
	o.mu.Lock()
	o.things["/lb/v2.0/lbaas/loadbalancers loadbalancers"][0]["provisioning_status"] = "ACTIVE"
	o.mu.Unlock()
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
	slices.Sort(o.deleted)
	want := []string{"floatingips/made", "loadbalancers/busy", "loadbalancers/described", "loadbalancers/ours", "security_groups/lb", "server_groups/sg", "volumes/pv"}
	if !slices.Equal(o.deleted, want) {
		t.Errorf("deleted %v, want %v", o.deleted, want)
	}
}
