//go:build clusterapi

package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver/capi/capitest"
	"carafe/test/clusterapi/bed"
	"carafe/test/golden/cloud"
)

// credential rotates a cluster's application credential: another member of the
// project gives theirs, the provider's and the add-ons' secrets change, no node
// does, and then the first one is gone from Keystone.
func credential(t *testing.T, b *bed.Bed) {
	identity := cloud.Start()
	t.Cleanup(identity.Close)
	openStack := capitest.New(t) // what the driver itself asks: it checks no credential
	flavor := func(id, name string) map[string]any {
		return map[string]any{"id": id, "name": name, "vcpus": 2, "ram": 4096, "disk": 40, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0}
	}
	openStack.Put("/compute/v2.1/flavors/detail flavors", flavor("f1", "m1.small"), flavor("f2", "m1.medium"))
	openStack.Put("/image/v2/images images", map[string]any{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", "name": "ubuntu", "os_distro": "ubuntu"})
	openStack.Put("/network/v2.0/networks networks", map[string]any{"id": "14c15d33-175c-424e-88ba-361a875e0c5c", "name": "public"})
	for _, place := range []string{"/network/v2.0/floatingips floatingips", "/network/v2.0/security-groups security_groups", "/compute/v2.1/os-server-groups server_groups", "/lb/v2.0/lbaas/loadbalancers loadbalancers"} {
		openStack.Put(place)
	}
	project := strings.Repeat("c", 32)
	u := user{t: t, token: identity.Token(project, "alice", "member", "reader"), url: start(t, b, map[string]string{
		"CARAFE_AUTH_STRATEGY": "keystone", "CARAFE_KEYSTONE_URL": identity.AuthURL(), "CARAFE_KEYSTONE_USERNAME": "magnum",
		"CARAFE_KEYSTONE_PASSWORD": cloud.Password, "CARAFE_CERTIFICATES": "database",
		"CARAFE_CAPI_AUTH_URL": openStack.URL + "/v3/", "CARAFE_CAPI_REGION": "RegionOne",
	}).URL}
	template := u.template("secret", "v1.34.3", "ubuntu")
	u.want(202, "POST", "/clusters", map[string]any{"name": "secret", "cluster_template_id": template, "node_count": 1, "keypair": "kp"})
	cluster := u.until("/clusters/secret", "CREATE_COMPLETE")
	namespace := "/api/v1/namespaces/magnum-" + project + "/secrets/" + cluster["stack_id"].(string)
	secret := func(suffix string) string {
		t.Helper()
		var s corev1.Secret
		get(t, b, namespace+suffix, &s)
		text := ""
		for _, data := range s.Data {
			text += string(data)
		}
		return text
	}
	machines := func() []string {
		t.Helper()
		var list clusterv1.MachineList
		get(t, b, "/apis/cluster.x-k8s.io/v1beta2/namespaces/magnum-"+project+"/machines", &list)
		var names []string
		for _, m := range list.Items {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		return names
	}
	names := map[string]string{}
	for _, suffix := range []string{"-cloud-config", "-addon-cloud-config"} {
		names[suffix] = secret(suffix)
	}
	nodes, uuid := machines(), cluster["uuid"].(string)

	u.token = identity.Token(project, "bob", "member", "reader")
	u.want(202, "PATCH", "/credentials/"+uuid, nil)
	rotated := func() (string, any) {
		list := u.want(200, "GET", "/clusters/"+uuid+"/operations", nil)["operations"].([]any)
		o := list[0].(map[string]any)
		return o["state"].(string), o["error"]
	}
	begin := time.Now()
	for state, reason := rotated(); state != "succeeded"; state, reason = rotated() {
		if state == "failed" || time.Since(begin) > 5*time.Minute {
			t.Fatalf("the rotation is %s: %v", state, reason)
		}
		time.Sleep(300 * time.Millisecond)
	}
	for suffix, old := range names {
		if secret(suffix) == old {
			t.Errorf("%s has the first credential", suffix)
		}
	}
	if got := machines(); !slices.Equal(got, nodes) {
		t.Errorf("the rotation made %v of %v", got, nodes)
	}
	if got := u.want(200, "GET", "/clusters/"+uuid, nil); got["status"] != "CREATE_COMPLETE" || got["user_id"] != "bob" {
		t.Errorf("the cluster is %v, of %v", got["status"], got["user_id"])
	}
	if left := identity.Credentials(); len(left) != 1 || !strings.HasPrefix(left[0], "bob ") {
		t.Errorf("in Keystone are %v", left)
	}
	u.want(204, "DELETE", "/clusters/"+uuid, nil)
	u.until("/clusters/"+uuid, "")
	if left := identity.Credentials(); len(left) != 0 {
		t.Errorf("after the cluster Keystone has %v", left)
	}
}

// forget removes a cluster whose cloud deletes nothing any more.
func forget(t *testing.T, b *bed.Bed) {
	carafe := start(t, b, map[string]string{"CARAFE_CAPI_NAMESPACE_PREFIX": "lost"})
	u := user{t: t, url: carafe.URL}
	template := u.template("lost", "v1.34.3", "image-34")
	u.want(202, "POST", "/clusters", map[string]any{"name": "lost", "cluster_template_id": template, "node_count": 1, "keypair": "key"})
	cluster := u.until("/clusters/lost", "CREATE_COMPLETE")
	group := u.want(200, "GET", "/clusters/lost/nodegroups/default-worker", nil)
	namespace := "/namespaces/lost-" + group["project_id"].(string) + "/"
	const infrastructure = "/apis/infrastructure.cluster.x-k8s.io/v1beta2"
	var servers struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ InstanceID string }
		}
	}
	get(t, b, infrastructure+namespace+"openstackmachines", &servers)
	held := []string{"openstackclusters/" + cluster["stack_id"].(string)}
	for _, s := range servers.Items {
		held = append(held, "openstackmachines/"+s.Metadata.Name)
	}
	for _, name := range held {
		hold(t, b, infrastructure+namespace+name)
	}

	if out, err := carafe.Command("forget", cluster["uuid"].(string)).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	u.until("/clusters/lost", "")
	for _, kind := range []string{"/apis/cluster.x-k8s.io/v1beta2" + namespace + "clusters", "/apis/cluster.x-k8s.io/v1beta2" + namespace + "machines",
		infrastructure + namespace + "openstackclusters", infrastructure + namespace + "openstackmachines"} {
		var list struct{ Items []json.RawMessage }
		if get(t, b, kind, &list); len(list.Items) > 0 {
			t.Errorf("left behind: %d of %s", len(list.Items), kind)
		}
	}
	for _, s := range servers.Items {
		if !strings.Contains(carafe.Log(), "server "+s.Status.InstanceID) {
			t.Errorf("the log does not name the server %s", s.Status.InstanceID)
		}
	}
}

func get(t *testing.T, b *bed.Bed, path string, out any) {
	t.Helper()
	data, err := b.Do(t.Context(), http.MethodGet, path, "", nil)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// hold gives an object a finalizer that nobody takes off.
func hold(t *testing.T, b *bed.Bed, path string) {
	t.Helper()
	var o struct{ Metadata struct{ Finalizers []string } }
	get(t, b, path, &o)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": append(o.Metadata.Finalizers, "test.example.org/held")}})
	if err == nil {
		_, err = b.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json", body)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
