//go:build clusterapi

package clusterapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/magnum"
)

const (
	benchVariable = "CARAFE_CLUSTERAPI_OBSERVER"
	benchClusters = 1000
)

// observer is what the process that is measured is told, and figures what it
// tells: a process of its own, so that its memory is its own.
type observer struct {
	Server string
	TLS    rest.TLSClientConfig
	Refs   []driver.Ref
}

type figures struct {
	Seconds  float64
	Calls    int64
	MiB      float64
	Complete int
	CPU      float64 // seconds of the whole process, its start too
}

// TestObserver is that process; alone it does nothing.
func TestObserver(t *testing.T) {
	file := os.Getenv(benchVariable)
	if file == "" {
		t.Skip("only within BenchmarkObserveAll")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o observer
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	data = nil
	var f figures
	var calls atomic.Int64
	r := &rest.Config{Host: o.Server, TLSClientConfig: o.TLS}
	r.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			calls.Add(1)
			return next.RoundTrip(q)
		})
	})
	c := config()
	c.QPS, c.Burst = 50, 100 // the defaults
	d, err := capi.NewFor(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, result := range d.ObserveAll(t.Context(), o.Refs) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if result.Observation.Progress == driver.Complete {
			f.Complete++
		}
	}
	f.Seconds, f.Calls, f.MiB = time.Since(begin).Seconds(), calls.Load(), peak(t)
	out, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("figures %s\n", out)
}

// peak is the most memory that this process has had.
func peak(t *testing.T) float64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return float64(n) / 1024
}

// BenchmarkObserveAll writes the objects of a thousand clusters, each of one
// control plane node and two workers, and looks at all of them once. No
// controllers run: statuses are written as they would.
func BenchmarkObserveAll(b *testing.B) {
	var refs []driver.Ref
	c := connect(b, theBed.Config)
	begin := time.Now()
	var g errgroup.Group
	g.SetLimit(12)
	for i := range benchClusters {
		ref, objects := benchCluster(b, i)
		refs = append(refs, ref)
		g.Go(func() error { return write(b, c, objects) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d clusters written in %.0f s", benchClusters, time.Since(begin).Seconds())
	for _, n := range []int{benchClusters / 10, benchClusters} {
		b.Run(fmt.Sprintf("asked=%d", n), func(b *testing.B) {
			var f figures
			for range b.N {
				f = observe(b, refs[:n])
			}
			b.ReportMetric(f.Seconds, "s/observation")
			b.ReportMetric(float64(f.Calls), "calls")
			b.ReportMetric(f.MiB, "MiB")
			b.ReportMetric(f.CPU, "cpu-s")
			if f.Complete != n || f.MiB > 200 || f.Calls > 12 {
				b.Errorf("%+v of %d; want all complete, in 12 calls and 200 MiB", f, n)
			}
			if f.Seconds > 5 { // of a machine that has nothing else to do
				b.Logf("%.1f s, of which this process used %.1f; the aim is 5", f.Seconds, f.CPU)
			}
		})
	}
}

func observe(b *testing.B, refs []driver.Ref) figures {
	b.Helper()
	data, err := json.Marshal(observer{Server: theBed.Config.Host, TLS: theBed.Config.TLSClientConfig, Refs: refs})
	if err != nil {
		b.Fatal(err)
	}
	file := b.TempDir() + "/observer.json"
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestObserver$")
	cmd.Env = append(os.Environ(), benchVariable+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	_, line, ok := bytes.Cut(out, []byte("figures "))
	var f figures
	if !ok || json.Unmarshal(bytes.SplitN(line, []byte("\n"), 2)[0], &f) != nil {
		b.Fatalf("no figures: %s", out)
	}
	f.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return f
}

// stored is one object to write: what a client may, and its status.
type stored struct {
	path   string
	object map[string]any
	status map[string]any
}

func benchCluster(b *testing.B, i int) (driver.Ref, []stored) {
	b.Helper()
	project := fmt.Sprintf("%032x", i%50) // twenty clusters in each project
	id := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)
	cluster := driver.Cluster{
		Cluster: magnum.Cluster{UUID: id, ProjectID: project, Name: fmt.Sprintf("bench-%d", i), MasterLBEnabled: true, FloatingIPEnabled: true, Status: magnum.CreateComplete},
		Template: magnum.ClusterTemplate{
			ImageID: "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", FlavorID: pointer("m1"), MasterFlavorID: pointer("m2"),
			ExternalNetworkID: pointer("14c15d33-175c-424e-88ba-361a875e0c5c"), Labels: map[string]string{"kube_tag": before},
		},
		NodeGroups: []magnum.NodeGroup{
			{ID: 1, UUID: id[:35] + "1", Name: "default-master", Role: "master", NodeCount: 1, IsDefault: true},
			{ID: 2, UUID: id[:35] + "2", Name: "default-worker", Role: "worker", NodeCount: 2, IsDefault: true},
		},
	}
	c := config()
	plan, err := capi.Render(capi.Input{Cluster: cluster, Config: c, Dialect: capi.V1Beta2})
	if err != nil {
		b.Fatal(err)
	}
	cluster.StackID = &plan.Name
	var out []stored
	var labels map[string]string
	for _, wave := range plan.Waves {
		for _, o := range wave {
			if o.GetKind() == "Secret" || strings.HasSuffix(o.GetKind(), "Template") {
				continue // nobody reads them
			}
			s := stored{path: place(o.GetAPIVersion(), o.GetKind(), o.GetNamespace()), object: o.Object}
			if o.GetKind() != "Namespace" {
				s.status = status(o.GetKind(), o.Object)
				labels = o.GetLabels()
			}
			out = append(out, s)
		}
	}
	for n := range 3 {
		group := cluster.NodeGroups[min(n, 1)]
		name := fmt.Sprintf("%s-node-%d", plan.Name, n)
		of := map[string]any{}
		for k, v := range labels {
			of[k] = v
		}
		of["magnum.openstack.org/nodegroup-uuid"] = group.UUID
		if n == 0 {
			of["cluster.x-k8s.io/control-plane"] = ""
		}
		meta := func() map[string]any {
			return map[string]any{"name": name, "namespace": plan.Namespace, "labels": of}
		}
		machine := map[string]any{
			"apiVersion": coreGroup + "/v1beta2", "kind": "Machine", "metadata": meta(),
			"spec": map[string]any{
				"clusterName": plan.Name, "version": before, "providerID": "openstack:///" + name,
				"bootstrap":         map[string]any{"dataSecretName": name},
				"infrastructureRef": map[string]any{"apiGroup": infrastructureGroup, "kind": "OpenStackMachine", "name": name},
			},
		}
		server := map[string]any{
			"apiVersion": infrastructureGroup + "/v1beta2", "kind": "OpenStackMachine", "metadata": meta(),
			"spec": map[string]any{"flavor": map[string]any{"id": "m1"}, "image": map[string]any{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01"}},
		}
		out = append(out,
			stored{place(coreGroup+"/v1beta2", "Machine", plan.Namespace), machine, status("Machine", machine)},
			stored{place(infrastructureGroup+"/v1beta2", "OpenStackMachine", plan.Namespace), server, status("OpenStackMachine", server)})
	}
	return driver.Ref{Cluster: cluster.Cluster, Template: cluster.Template, NodeGroups: cluster.NodeGroups}, out
}

func place(version, kind, namespace string) string {
	base := "/apis/" + version
	if version == "v1" {
		base = "/api/v1"
	}
	if namespace != "" {
		base += "/namespaces/" + namespace
	}
	return base + "/" + strings.ToLower(kind) + "s"
}

// status is that of an object at rest, with as many conditions as the
// controllers write.
func status(kind string, o map[string]any) map[string]any {
	var conditions []any
	add := func(value string, names ...string) {
		for _, n := range names {
			conditions = append(conditions, map[string]any{
				"type": n, "status": value, "reason": n + "AsItShouldBe", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
			})
		}
	}
	add("False", "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused")
	add("True", "Available", "Ready", "ResourcesApplied", "InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable", "ControlPlaneMachinesReady",
		"WorkersAvailable", "WorkerMachinesReady", "RemoteConnectionProbe", "NodeReady", "NodeHealthy", "EtcdClusterHealthy")
	s := map[string]any{"conditions": conditions, "observedGeneration": 1}
	spec, _ := o["spec"].(map[string]any)
	switch kind {
	case "KubeadmControlPlane", "MachineDeployment":
		n := spec["replicas"]
		version, ok := spec["version"]
		if !ok {
			version = spec["template"].(map[string]any)["spec"].(map[string]any)["version"]
		}
		for _, f := range []string{"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"} {
			s[f] = n
		}
		s["versions"] = []any{map[string]any{"version": version, "replicas": n}}
	case "Machine":
		s["nodeRef"] = map[string]any{"name": "node"}
		s["addresses"] = []any{map[string]any{"type": "InternalIP", "address": "10.0.0.9"}}
	case "OpenStackCluster", "OpenStackMachine":
		delete(s, "observedGeneration")
	}
	return map[string]any{"status": s}
}

func write(b *testing.B, c rest.Interface, objects []stored) error {
	for _, s := range objects {
		for k, v := range s.status {
			s.object[k] = v
		}
		body, err := json.Marshal(s.object)
		if err != nil {
			return err
		}
		err = c.Post().RequestURI(s.path).SetHeader("Content-Type", "application/json").Body(body).Do(b.Context()).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) { // a namespace is
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	return nil
}
