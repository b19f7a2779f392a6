package capi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/magnum"
	"carafe/shared/telemetry"
)

// management serves the LISTs of a management cluster, in pages.
type management struct {
	lists map[string][]any // by the last part of the path
	calls atomic.Int64

	mu      sync.Mutex
	deleted []string
}

func (m *management) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	m.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	if q.Method == http.MethodDelete {
		m.mu.Lock()
		m.deleted = append(m.deleted, q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:])
		m.mu.Unlock()
		_, _ = w.Write([]byte("{}"))
		return
	}
	if strings.HasSuffix(q.URL.Path, "/"+infrastructureGroup) {
		_ = json.NewEncoder(w).Encode(metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{Version: "v1beta2"}}})
		return
	}
	items := m.lists[q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]]
	from, _ := strconv.Atoi(q.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(q.URL.Query().Get("limit"))
	to, next := len(items), ""
	if from+limit < to {
		to = from + limit
		next = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"continue": next}, "items": items[from:to]})
}

// put adds a settled cluster with a project and a name of its own.
func (m *management) put(t *testing.T, i int) driver.Ref {
	t.Helper()
	ref, s := settled(t)
	ref.ProjectID, ref.UUID = fmt.Sprintf("%032d", i%7), fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
	name := ClusterName(ref.Cluster)
	at := func(o *metav1.ObjectMeta, called string) {
		o.Namespace, o.Name = namespaceName("magnum", ref.ProjectID), called
		labels := maps.Clone(o.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels["cluster.x-k8s.io/cluster-name"], labels[labelClusterUUID] = name, ref.UUID
		o.Labels = labels
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	}
	at(&s.Cluster.ObjectMeta, name)
	at(&s.ControlPlane.ObjectMeta, controlPlaneName(name))
	at(&s.Infrastructure.ObjectMeta, name)
	at(&s.ResourceSet.ObjectMeta, name)
	m.lists["clusters"] = append(m.lists["clusters"], s.Cluster)
	m.lists["kubeadmcontrolplanes"] = append(m.lists["kubeadmcontrolplanes"], s.ControlPlane)
	m.lists["openstackclusters"] = append(m.lists["openstackclusters"], s.Infrastructure)
	m.lists["clusterresourcesets"] = append(m.lists["clusterresourcesets"], s.ResourceSet)
	for _, g := range ref.NodeGroups {
		if d := s.Deployments[nodesName(s.Cluster.Name, g)]; d != nil {
			t.Fatal("the name has not changed")
		}
		for old, d := range s.Deployments {
			if d.Labels[labelNodeGroup] == g.UUID {
				at(&d.ObjectMeta, nodesName(name, g))
				m.lists["machinedeployments"] = append(m.lists["machinedeployments"], d)
				delete(s.Deployments, old)
			}
		}
	}
	for n, machine := range s.Machines {
		at(&machine.ObjectMeta, fmt.Sprintf("%s-%d", name, n))
		m.lists["machines"] = append(m.lists["machines"], machine)
	}
	ref.Operation = nil
	return ref
}

// However many clusters there are, one look costs the same calls; only pages
// come on top.
func TestObserveAllCallsDoNotGrow(t *testing.T) {
	cost := func(clusters int, page int64) int64 {
		m := &management{lists: map[string][]any{}}
		server := httptest.NewServer(m)
		defer server.Close()
		var refs []driver.Ref
		for i := range clusters {
			refs = append(refs, m.put(t, i))
		}
		slices.Reverse(refs) // results stand at the places of their refs
		c := smallest().Config
		c.CreateParallel, c.QPS, c.Burst, c.PageSize = 10, 1000, 1000, page
		d, err := NewFor(t.Context(), c, &rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range d.ObserveAll(t.Context(), refs) {
			if r.Err != nil || r.Observation.Progress != driver.Complete || r.Observation.StackID != ClusterName(refs[i].Cluster) {
				t.Fatalf("%d of %d: %+v, %v", i, clusters, r.Observation, r.Err)
			}
		}
		return m.calls.Load()
	}
	few, many := cost(5, 1000), cost(50, 1000)
	if few != many || few > 10 {
		t.Errorf("5 clusters cost %d calls, 50 cost %d", few, many)
	}
	// 50 clusters in pages of 25: two pages of each kind of one object, more of
	// machines and groups.
	if paged := cost(50, 25); paged < 2*many-4 || paged > 60 {
		t.Errorf("in pages: %d calls", paged)
	}
}

// Calls to the management cluster and looks at a cluster that does not move are counted.
func TestTelemetry(t *testing.T) {
	m := &management{lists: map[string][]any{}}
	server := httptest.NewServer(m)
	defer server.Close()
	tel, err := telemetry.Start(t.Context(), telemetry.Config{MetricsAddress: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	var refs []driver.Ref
	for i := range 3 {
		refs = append(refs, m.put(t, i))
	}
	refs[1].Operation = &magnum.Operation{Seq: 9, Kind: magnum.ClusterResize}
	refs[1].NodeGroups[1].NodeCount++ // nobody writes it: the rows are older than the objects
	refs[1].Version = -1
	c := smallest().Config
	c.CreateParallel, c.QPS, c.Burst, c.PageSize = 10, 1000, 1000, 500
	d, err := NewFor(t.Context(), c, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d.telemetry, d.client.telemetry, d.now = tel, tel, func() time.Time { return testTime.Add(time.Hour) }
	for i, r := range d.ObserveAll(t.Context(), refs) {
		if r.Err != nil || i == 1 && !strings.Contains(r.Observation.Reason, "No progress for 60 min") {
			t.Errorf("%d: %+v, %v", i, r.Observation, r.Err)
		}
	}
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`carafe_stuck_observations_total{driver="k8s_capi"} 1`, fmt.Sprintf(`carafe_call_duration_seconds_count{code="200",method="GET",service="cluster-api"} %d`, m.calls.Load())} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("there is no %s in\n%s", line, w.Body)
		}
	}
}

func TestOneThatCannotBeReadSparesTheOthers(t *testing.T) {
	m := &management{lists: map[string][]any{}}
	server := httptest.NewServer(m)
	defer server.Close()
	var refs []driver.Ref
	for i := range 4 {
		refs = append(refs, m.put(t, i))
	}
	refs[2].UUID = "another" // its name is the first's, and the object there is not its own
	stack := ClusterName(refs[0].Cluster)
	refs[2].StackID, refs[2].ProjectID = &stack, refs[0].ProjectID
	c := smallest().Config
	c.CreateParallel, c.QPS, c.Burst, c.PageSize = 10, 1000, 1000, 500
	d, err := NewFor(t.Context(), c, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range d.ObserveAll(t.Context(), refs) {
		if (r.Err != nil) != (i == 2) {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
}

// Only a template that nobody refers to goes, and only when it is old: not the
// control plane's, though an operation on one group does not mention it.
func TestOldTemplatesGo(t *testing.T) {
	m := &management{lists: map[string][]any{}}
	server := httptest.NewServer(m)
	defer server.Close()
	c := smallest().Config
	c.CreateParallel, c.QPS, c.Burst, c.PageSize = 10, 1000, 1000, 500
	d, err := NewFor(t.Context(), c, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d.now = func() time.Time { return testTime }
	in := groupInput(t)
	first, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	template := func(name string, age time.Duration) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(testTime.Add(-age))}}
	}
	for _, o := range first.Waves[waveTemplates] {
		if strings.HasSuffix(o.GetKind(), "Template") {
			kind := strings.ToLower(o.GetKind()) + "s"
			m.lists[kind] = append(m.lists[kind], template(o.GetName(), 48*time.Hour))
		}
	}
	m.lists["openstackmachinetemplates"] = append(m.lists["openstackmachinetemplates"], template("old", 2*time.Hour), template("young", time.Minute))
	m.lists["kubeadmconfigtemplates"] = append(m.lists["kubeadmconfigtemplates"], template("old-config", 2*time.Hour))

	s := live(t, first)
	in.Observed = s
	in.Cluster.Operation = magnum.Operation{Seq: 8, Kind: magnum.ClusterResize, NodeGroupID: &in.Cluster.NodeGroups[2].UUID}
	plan, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cleanUp(t.Context(), plan, s, V1Beta2); err != nil {
		t.Fatal(err)
	}
	slices.Sort(m.deleted)
	if want := []string{"old", "old-config"}; !slices.Equal(m.deleted, want) {
		t.Errorf("deleted %v, want %v", m.deleted, want)
	}
}
