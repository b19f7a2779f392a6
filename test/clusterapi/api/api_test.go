//go:build clusterapi

// Package api drives Cluster API's real controllers through Carafe's HTTP API:
// what a user sends, and what a user then has.
package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"carafe/test/clusterapi/bed"
	"carafe/test/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// user is a client of Carafe's.
type user struct {
	t     *testing.T
	url   string
	token string // empty where there is no Keystone
}

func (u user) send(method, path string, body any) (int, map[string]any) {
	u.t.Helper()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			u.t.Fatal(err)
		}
		reader = strings.NewReader(string(data))
	}
	q, err := http.NewRequestWithContext(u.t.Context(), method, u.url+"/v1"+path, reader)
	if err != nil {
		u.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("OpenStack-API-Version", "container-infra latest")
	if u.token != "" {
		q.Header.Set("X-Auth-Token", u.token)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		u.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	out := map[string]any{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			u.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, data)
		}
	}
	return answer.StatusCode, out
}

// want sends and fails unless the answer has the status.
func (u user) want(status int, method, path string, body any) map[string]any {
	u.t.Helper()
	got, out := u.send(method, path, body)
	if got != status {
		u.t.Fatalf("%s %s %v: %d, want %d: %v", method, path, body, got, status, out)
	}
	return out
}

// until polls until the object has the status, and tells what it says meanwhile.
func (u user) until(path, status string) map[string]any {
	u.t.Helper()
	said := ""
	for begin := time.Now(); time.Since(begin) < 20*time.Minute; time.Sleep(300 * time.Millisecond) {
		code, out := u.send(http.MethodGet, path, nil)
		if code == http.StatusNotFound && status == "" {
			return nil
		}
		now, _ := out["status"].(string)
		if reason, _ := out["status_reason"].(string); now+reason != said {
			said = now + reason
			u.t.Logf("%5.1f s %s %s", time.Since(begin).Seconds(), now, reason)
		}
		if now == status {
			return out
		}
		if strings.HasSuffix(now, "_FAILED") {
			u.t.Fatalf("%s: %v", path, out)
		}
	}
	u.t.Fatalf("%s does not become %s", path, status)
	return nil
}

func (u user) template(name, version, image string) string {
	u.t.Helper()
	return u.want(201, "POST", "/clustertemplates", map[string]any{
		"name": name, "coe": "kubernetes", "image_id": image, "external_network_id": "public", "network_driver": "calico",
		"flavor_id": "m1.small", "master_flavor_id": "m1.medium", "cluster_distro": "ubuntu", "master_lb_enabled": true,
		"floating_ip_enabled": true, "labels": map[string]string{"kube_tag": version},
	})["uuid"].(string)
}

func TestThroughTheAPI(t *testing.T) {
	b, err := bed.Start(t.Context(), bed.Options{Controllers: true, Log: t.Logf})
	t.Cleanup(b.Stop)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*testing.T, *bed.Bed){"Life": life, "Credential": credential, "Forget": forget} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, b)
		})
	}
}

// start runs a Carafe on the bed's management cluster.
func start(t *testing.T, b *bed.Bed, more map[string]string) *instance.Instance {
	t.Helper()
	env := map[string]string{
		"CARAFE_AUTH_STRATEGY": "noauth", "CARAFE_DRIVERS": "capi", "CARAFE_CAPI_KUBECONFIG": b.Kubeconfig,
		"CARAFE_TICK_EVERY": "500ms", "CARAFE_SYNC_INTERVAL": "500ms", "CARAFE_HEALTH_INTERVAL": "2s",
		"CARAFE_CAPI_QPS": "200", "CARAFE_CAPI_BURST": "400", "CARAFE_STACKS": "true",
	}
	maps.Copy(env, more)
	return instance.Start(t, instance.Config{Env: env})
}

// life is one cluster's, as a user could have it.
func life(t *testing.T, b *bed.Bed) {
	u := user{t: t, url: start(t, b, nil).URL}
	now, next, far := u.template("now", "v1.34.3", "image-34"), u.template("next", "v1.35.1", "image-35"), u.template("far", "v1.36.0", "image-36")

	// A wrong label is refused in the request.
	code, out := u.send("POST", "/clusters", map[string]any{"name": "wrong", "cluster_template_id": now, "node_count": 1, "keypair": "key",
		"labels": map[string]string{"boot_volume_size": "large"}, "merge_labels": true})
	if code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(out), "boot_volume_size") {
		t.Errorf("a wrong label: %d %v, want 400", code, out)
	}

	u.want(202, "POST", "/clusters", map[string]any{"name": "prod", "cluster_template_id": now, "node_count": 1, "master_count": 1, "keypair": "key"})
	cluster := u.until("/clusters/prod", "CREATE_COMPLETE")
	if cluster["coe_version"] != "v1.34.3" || len(cluster["node_addresses"].([]any)) != 1 || len(cluster["master_addresses"].([]any)) != 1 {
		t.Errorf("the cluster: %v", cluster)
	}
	u.signsCertificates(cluster)

	// Resize up, down, to none and from none.
	for _, n := range []int{3, 2, 0, 2} {
		u.want(202, "POST", "/clusters/prod/actions/resize", map[string]any{"node_count": n})
		u.until("/clusters/prod", "UPDATE_COMPLETE")
		if got := len(u.nodes("default-worker")); got != n {
			t.Errorf("%d nodes after the resize to %d", got, n)
		}
	}
	nodes := u.nodes("default-worker")
	u.want(202, "POST", "/clusters/prod/actions/resize", map[string]any{"node_count": 1, "nodes_to_remove": []string{nodes[0]}})
	u.until("/clusters/prod", "UPDATE_COMPLETE")
	if got := u.nodes("default-worker"); !slices.Equal(got, nodes[1:]) {
		t.Errorf("after the removal of %s of %v there are %v", nodes[0], nodes, got)
	}
	u.scalesDownThroughHeat()
	if code, out := u.send("POST", "/clusters/prod/actions/resize", map[string]any{"node_count": 0, "nodes_to_remove": []string{"a-stranger"}}); code != http.StatusBadRequest {
		t.Errorf("a node that is not there: %d %v, want 400", code, out)
	}

	// Twenty groups, made at once.
	for i := range 20 {
		u.want(202, "POST", "/clusters/prod/nodegroups", map[string]any{"name": fmt.Sprintf("group-%d", i), "node_count": 1})
	}
	for i := range 20 {
		u.until(fmt.Sprintf("/clusters/prod/nodegroups/group-%d", i), "CREATE_COMPLETE")
	}
	u.until("/clusters/prod", "UPDATE_COMPLETE")
	for i := range 19 {
		u.want(204, "DELETE", fmt.Sprintf("/clusters/prod/nodegroups/group-%d", i+1), nil)
	}
	for i := range 19 {
		u.until(fmt.Sprintf("/clusters/prod/nodegroups/group-%d", i+1), "")
	}
	u.until("/clusters/prod", "UPDATE_COMPLETE")

	// Two minors at once are refused and change nothing; one is done in order.
	code, out = u.send("POST", "/clusters/prod/actions/upgrade", map[string]any{"cluster_template": far})
	if code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(out), "one minor version at a time") {
		t.Errorf("an upgrade by two minors: %d %v, want 400", code, out)
	}
	if got := u.want(200, "GET", "/clusters/prod", nil); got["status"] != "UPDATE_COMPLETE" {
		t.Errorf("the refusal left %v", got["status"])
	}
	u.want(202, "POST", "/clusters/prod/actions/upgrade", map[string]any{"cluster_template": next})
	if got := u.until("/clusters/prod", "UPDATE_COMPLETE"); got["coe_version"] != "v1.35.1" {
		t.Errorf("coe_version %v after the upgrade", got["coe_version"])
	}
	u.rowsAreTheTemplates("v1.35.1", "image-35")
	u.renewsLeaves()

	for begin := time.Now(); ; time.Sleep(time.Second) {
		got := u.want(200, "GET", "/clusters/prod", nil)
		if got["health_status"] == "HEALTHY" {
			break
		}
		if time.Since(begin) > 90*time.Second {
			t.Errorf("health: %v %v", got["health_status"], got["health_status_reason"])
			break
		}
	}
	u.want(204, "DELETE", "/clusters/prod", nil)
	u.until("/clusters/prod", "")
}

// scalesDownThroughHeat does what the cluster-autoscaler does: it finds a group's
// nodes through the stacks, and removes one by its server's id in capitals, as some
// machines report it. That one goes, and no other.
func (u user) scalesDownThroughHeat() {
	u.t.Helper()
	u.want(202, "POST", "/clusters/prod/actions/resize", map[string]any{"node_count": 3})
	u.until("/clusters/prod", "UPDATE_COMPLETE")
	group := u.want(200, "GET", "/clusters/prod/nodegroups/default-worker", nil)
	refs := func() map[string]any {
		u.t.Helper()
		stacks := user{t: u.t, url: u.url + "/orchestration", token: u.token}
		project := "/" + group["project_id"].(string) + "/stacks/"
		top := group["stack_id"].(string)
		resource := stacks.want(200, "GET", project+top+"/"+top+"/resources/kube_minions", nil)["resource"].(map[string]any)
		nodes := stacks.want(200, "GET", project+resource["physical_resource_id"].(string), nil)["stack"].(map[string]any)
		for _, o := range nodes["outputs"].([]any) {
			if o := o.(map[string]any); o["output_key"] == "refs_map" {
				return o["output_value"].(map[string]any)
			}
		}
		u.t.Fatalf("no refs_map: %v", nodes)
		return nil
	}
	before := refs()
	if len(before) != 3 {
		u.t.Fatalf("the group has the nodes %v, want 3", before)
	}
	index := slices.Sorted(maps.Keys(before))[1]
	u.want(202, "POST", "/clusters/prod/actions/resize", map[string]any{"node_count": 2, "nodegroup": group["uuid"], "nodes_to_remove": []string{strings.ToUpper(before[index].(string))}})
	u.until("/clusters/prod", "UPDATE_COMPLETE")
	delete(before, index)
	if after := refs(); !maps.Equal(before, after) {
		u.t.Errorf("after the removal of %s there are %v, want %v", index, after, before)
	}
}

// rowsAreTheTemplates looks at what an upgrade leaves: a later change of a group
// must not find that its nodes should be others.
func (u user) rowsAreTheTemplates(version, image string) {
	u.t.Helper()
	if labels := u.want(200, "GET", "/clusters/prod", nil)["labels"].(map[string]any); labels["kube_tag"] != version {
		u.t.Errorf("after the upgrade the cluster has the labels %v", labels)
	}
	for _, name := range []string{"default-master", "default-worker", "group-0"} {
		if g := u.want(200, "GET", "/clusters/prod/nodegroups/"+name, nil); g["image_id"] != image {
			u.t.Errorf("after the upgrade %s has the image %v", name, g["image_id"])
		}
	}
	before := u.nodes("group-0")
	u.want(202, "PATCH", "/clusters/prod/nodegroups/group-0", []map[string]any{{"op": "replace", "path": "/max_node_count", "value": 7}})
	u.until("/clusters/prod/nodegroups/group-0", "UPDATE_COMPLETE")
	if got := u.nodes("group-0"); !slices.Equal(got, before) {
		u.t.Errorf("the change of a bound replaced %v by %v", before, got)
	}
}

// renewsLeaves has the control plane's certificates renewed: its node is another
// one, under the same authority, and the workers stay.
func (u user) renewsLeaves() {
	u.t.Helper()
	masters, workers := u.nodes("default-master"), u.nodes("default-worker")
	cluster := u.want(200, "GET", "/clusters/prod", nil)["uuid"].(string)
	authority := u.want(200, "GET", "/certificates/"+cluster, nil)["pem"]
	if code, out := u.send("PATCH", "/certificates/"+cluster, nil); code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(out), "leaf") {
		u.t.Errorf("a rotation of the authorities: %d %v", code, out)
	}
	u.want(202, "PATCH", "/certificates/"+cluster, map[string]any{"leaf": true})
	u.until("/clusters/prod", "UPDATE_COMPLETE")
	if got := u.nodes("default-master"); len(got) != 1 || slices.Equal(got, masters) || !slices.Equal(u.nodes("default-worker"), workers) {
		u.t.Errorf("the control plane was %v and is %v; the workers were %v and are %v", masters, got, workers, u.nodes("default-worker"))
	}
	if u.want(200, "GET", "/certificates/"+cluster, nil)["pem"] != authority {
		u.t.Error("the authority is another")
	}
}

// nodes are a group's addresses, sorted.
func (u user) nodes(group string) []string {
	u.t.Helper()
	out := []string{}
	for _, a := range u.want(200, "GET", "/clusters/prod/nodegroups/"+group, nil)["node_addresses"].([]any) {
		out = append(out, a.(string))
	}
	return out
}

// signsCertificates does what `openstack coe cluster config` does, and then
// lists nodes with what came of it.
func (u user) signsCertificates(cluster map[string]any) {
	u.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}, key)
	if err != nil {
		u.t.Fatal(err)
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}))
	uuid := cluster["uuid"].(string)
	signed := u.want(201, "POST", "/certificates", map[string]any{"cluster_uuid": uuid, "csr": csr})["pem"].(string)
	authority := u.want(200, "GET", "/certificates/"+uuid, nil)["pem"].(string)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		u.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(signed), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	if err != nil {
		u.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authority))
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
	answer, err := c.Get(cluster["api_address"].(string) + "/api/v1/nodes")
	if err != nil {
		u.t.Errorf("the workload's API: %v", err)
		return
	}
	defer answer.Body.Close()
	var list struct {
		Items []any `json:"items"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Items) != 2 {
		u.t.Errorf("the workload's API lists %d nodes, %v; want 2", len(list.Items), err)
	}
}
