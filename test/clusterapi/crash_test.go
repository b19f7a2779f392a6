//go:build clusterapi

package clusterapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/magnum"
	"carafe/test/clusterapi/bed"
)

// victim is what a process that will be killed is told.
type victim struct {
	Kubeconfig string
	Server     string
	TLS        rest.TLSClientConfig
	Prefix     string
	Method     string // Apply or Delete
	Calls      int64  // it dies after the answer to this call; 0: it lives
	Cluster    driver.Cluster
	Pairs      [4][2][]byte // the certificates, which hide from encoders
}

const victimVariable = "CARAFE_CLUSTERAPI_VICTIM"

// TestVictim is the process that is killed; alone it does nothing.
func TestVictim(t *testing.T) {
	file := os.Getenv(victimVariable)
	if file == "" {
		t.Skip("only within TestCrash")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v victim
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	pair := func(i int) driver.KeyPair { return driver.KeyPair{Certificate: v.Pairs[i][0], Key: v.Pairs[i][1]} }
	v.Cluster.Certificates = &driver.Certificates{Kubernetes: pair(0), Etcd: pair(1), FrontProxy: pair(2), Client: pair(3)}
	if err := v.run(t, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }); err != nil {
		t.Fatal(err)
	}
}

// run does the work and calls die after the answer to the Calls-th call.
func (v victim) run(t *testing.T, die func()) error {
	t.Helper()
	c := config()
	c.NamespacePrefix = v.Prefix
	r := &rest.Config{Host: v.Server, TLSClientConfig: v.TLS}
	var n atomic.Int64
	r.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(q)
			if n.Add(1) == v.Calls {
				die()
			}
			return answer, err
		})
	})
	d, err := capi.NewFor(t.Context(), c, r)
	if err != nil {
		return err
	}
	switch v.Method {
	case "Apply":
		_, err = d.Apply(t.Context(), v.Cluster)
	case "Observe":
		_, err = d.Observe(t.Context(), v.ref())
	case "Delete":
		for range 3 { // until it is gone, as the conductor would ask
			if err = d.Delete(t.Context(), v.ref()); err != nil {
				break
			}
			var o driver.Observation
			if o, err = d.Observe(t.Context(), v.ref()); err != nil || o.Progress == driver.Gone {
				break
			}
		}
	}
	t.Logf("%d calls", n.Load())
	calls.Store(n.Load())
	return err
}

// calls are those of the last run in this process.
var calls atomic.Int64

func (v victim) ref() driver.Ref {
	op := v.Cluster.Operation
	return driver.Ref{Cluster: v.Cluster.Cluster, Template: v.Cluster.Template, NodeGroups: v.Cluster.NodeGroups, Operation: &op}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// killed runs the victim in a process of its own and reports whether it was
// killed on the way.
func (v victim) killed(t *testing.T) bool {
	t.Helper()
	c := v.Cluster.Certificates
	for i, pair := range []driver.KeyPair{c.Kubernetes, c.Etcd, c.FrontProxy, c.Client} {
		v.Pairs[i] = [2][]byte{pair.Certificate, pair.Key}
	}
	v.Cluster.Certificates = nil
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/victim.json"
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victimVariable+"="+file)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	t.Fatalf("after %d calls: %v\n%s", v.Calls, err, out)
	return false
}

// The process is killed after every single call of a create, of an upgrade,
// of the step that an upgrade takes in an observation, and of a delete; what
// is done after it ends in the same objects as if nothing had happened.
// No controllers run here: what they do is the other tests' subject.
func TestCrash(t *testing.T) {
	t.Parallel()
	b, err := bed.Start(t.Context(), bed.Options{})
	t.Cleanup(b.Stop)
	if err != nil {
		t.Fatal(err)
	}
	s := newSubject(t, nil)
	s.addGroup("second", "worker", 2)
	s.begin(magnum.ClusterCreate, nil, "")
	create := s.Cluster

	s.Template.Labels = map[string]string{"kube_tag": after}
	s.ClusterTemplateID = "template-" + after
	s.begin(magnum.ClusterUpgrade, nil, `{"max_batch_size":1}`)
	upgrade := s.Cluster

	s.begin(magnum.ClusterDelete, nil, "")
	s.Status = magnum.DeleteInProgress
	remove := s.Cluster

	make := func(prefix, method string, c driver.Cluster) victim {
		return victim{Server: b.Config.Host, TLS: b.Config.TLSClientConfig, Prefix: prefix, Method: method, Cluster: c}
	}
	undisturbed := func(prefix, method string, c driver.Cluster) {
		t.Helper()
		if err := make(prefix, method, c).run(t, func() {}); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
	rest := func(prefix string) { atRest(t, b, prefix, s.ProjectID) }
	cases := []struct {
		name   string
		before func(prefix string) // brings about where the step starts
		method string
		wish   driver.Cluster
	}{
		{"create", func(string) {}, "Apply", create},
		{"upgrade", func(p string) { undisturbed(p, "Apply", create); rest(p) }, "Apply", upgrade},
		{"workers", func(p string) {
			undisturbed(p, "Apply", create)
			rest(p)
			undisturbed(p, "Apply", upgrade)
			rest(p)
		}, "Observe", upgrade},
		{"delete", func(p string) { undisturbed(p, "Apply", create); rest(p) }, "Delete", remove},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			prefix := c.name + "-0"
			c.before(prefix)
			undisturbed(prefix, c.method, c.wish)
			want := dump(t, b, prefix, s.ProjectID)
			total := calls.Load()
			if total < 10 {
				t.Fatalf("only %d calls", total)
			}
			for n := int64(1); n <= total; n++ {
				prefix := fmt.Sprintf("%s-%d", c.name, n)
				c.before(prefix)
				v := make(prefix, c.method, c.wish)
				v.Calls = n
				died := v.killed(t)
				undisturbed(prefix, c.method, c.wish)
				if diff := cmp.Diff(want, dump(t, b, prefix, s.ProjectID)); diff != "" {
					t.Fatalf("killed (%v) after call %d of %d:\n%s", died, n, total, diff)
				}
			}
			t.Logf("killed after each of %d calls", total)
		})
	}
}

// dump are the objects of one project, without what no two can share.
func dump(t *testing.T, b *bed.Bed, prefix, project string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, k := range everything {
		version := "/apis/" + k.group + "/v1beta2"
		if k.group == "" {
			version = "/api/v1"
		}
		var list unstructured.UnstructuredList
		get(t, b.Config, version+"/namespaces/"+prefix+"-"+project+"/"+k.kind, &list)
		for _, o := range list.Items {
			for _, f := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace", "generation"} {
				unstructured.RemoveNestedField(o.Object, "metadata", f)
			}
			unstructured.RemoveNestedField(o.Object, "status")
			out[k.kind+"/"+o.GetName()] = o.Object
		}
	}
	return out
}

// atRest writes the statuses that controllers would, had they brought all
// about that is asked for.
func atRest(t *testing.T, b *bed.Bed, prefix, project string) {
	t.Helper()
	c := connect(t, b.Config)
	for _, k := range []struct{ group, kind string }{{controlPlaneGroup, "kubeadmcontrolplanes"}, {coreGroup, "machinedeployments"}} {
		base := "/apis/" + k.group + "/v1beta2/namespaces/" + prefix + "-" + project + "/" + k.kind
		var list unstructured.UnstructuredList
		get(t, b.Config, base, &list)
		for _, o := range list.Items {
			n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
			version, ok, _ := unstructured.NestedString(o.Object, "spec", "version")
			if !ok {
				version, _, _ = unstructured.NestedString(o.Object, "spec", "template", "spec", "version")
			}
			var conditions []any
			for name, status := range map[string]string{"Available": "True", "RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False"} {
				conditions = append(conditions, map[string]any{
					"type": name, "status": status, "reason": "Test", "message": "", "observedGeneration": o.GetGeneration(),
					"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
				})
			}
			body, err := json.Marshal(map[string]any{"status": map[string]any{
				"observedGeneration": o.GetGeneration(), "replicas": n, "upToDateReplicas": n, "availableReplicas": n, "readyReplicas": n,
				"versions": []any{map[string]any{"version": version, "replicas": max(n, 1)}}, "conditions": conditions,
			}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Patch(types.MergePatchType).RequestURI(base + "/" + o.GetName() + "/status").Body(bytes.NewReader(body)).Do(t.Context()).Error()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
