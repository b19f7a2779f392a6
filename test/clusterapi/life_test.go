//go:build clusterapi

package clusterapi

import (
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// One cluster's whole life, in the order in which a user could live it.
func TestLife(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	s := newSubject(t, d)
	o := s.create()
	if o.COEVersion != before {
		t.Errorf("coe_version %s, want %s", o.COEVersion, before)
	}
	for _, g := range s.NodeGroups {
		if n := o.NodeGroups[g.UUID]; len(n.NodeAddresses) != 1 || n.ReadyNodes != 1 || n.Progress != driver.Complete {
			t.Errorf("%s: %+v, want one node", g.Name, n)
		}
	}
	s.trustsOurAuthority(o)
	s.appliedTwiceChangesNothing()

	worker := s.groupNamed(magnum.DefaultWorker)
	s.resize(worker, 3)
	gone := s.machines(worker)[1]
	s.resize(worker, 2, gone.Name)
	if slices.ContainsFunc(s.machines(worker), func(m clusterv1.Machine) bool { return m.Name == gone.Name }) {
		t.Errorf("the named node %s is still there", gone.Name)
	}
	s.refusesNodes(worker)
	s.replace(worker)
	s.resize(worker, 0)
	s.resize(worker, 2)
	s.resize(s.groupNamed(magnum.DefaultMaster), 3)

	s.upgrade(after)
	s.refusesUpgrade(beyond+".skip", "v1.37.0", fault.Invalid)
	s.refusesUpgrade("back", before, fault.Invalid)

	h, err := d.Health(t.Context(), s.ref())
	if err != nil || h.Status != magnum.Healthy || h.Reasons["api"] != "ok" {
		t.Errorf("health %+v, %v; want HEALTHY", h, err)
	}
	s.delete()
	s.leftNothing()
}

// trustsOurAuthority reaches the workload's API with nothing but Magnum's own
// certificates, and finds them in the kubeconfig that Cluster API made.
func (s *subject) trustsOurAuthority(o driver.Observation) {
	s.t.Helper()
	var nodes corev1.NodeList
	get(s.t, s.workload(o), "/api/v1/nodes", &nodes)
	if len(nodes.Items) != 2 {
		s.t.Errorf("the workload's API lists %d nodes, want 2", len(nodes.Items))
	}
	var secret corev1.Secret
	get(s.t, theBed.Config, "/api/v1/namespaces/"+s.namespace()+"/secrets/"+*s.StackID+"-kubeconfig", &secret)
	made, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range made.Clusters {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(c.CertificateAuthorityData)
		ours := x509.NewCertPool()
		ours.AppendCertsFromPEM(s.Certificates.Kubernetes.Certificate)
		if !pool.Equal(ours) {
			s.t.Error("the kubeconfig has another authority than ours")
		}
	}
	for _, name := range []string{"ca", "etcd", "proxy", "sa"} {
		var pair corev1.Secret
		get(s.t, theBed.Config, "/api/v1/namespaces/"+s.namespace()+"/secrets/"+*s.StackID+"-"+name, &pair)
		if len(pair.OwnerReferences) == 0 || pair.OwnerReferences[0].Kind != "KubeadmControlPlane" {
			s.t.Errorf("%s belongs to %v, want the KubeadmControlPlane: else it stays behind", name, pair.OwnerReferences)
		}
	}
}

// appliedTwiceChangesNothing applies the same operation again.
func (s *subject) appliedTwiceChangesNothing() {
	s.t.Helper()
	old := s.generations()
	s.apply()
	for name, g := range s.generations() {
		if old[name] != g {
			s.t.Errorf("%s: generation %d after a second apply, %d before", name, g, old[name])
		}
	}
}

func (s *subject) resize(g *magnum.NodeGroup, count int, nodes ...string) {
	s.t.Helper()
	previous := s.ref()
	previous.NodeGroups = slices.Clone(previous.NodeGroups)
	arguments := magnum.ResizeArguments{NodeCount: count, PreviousNodeCount: g.NodeCount, NodesToRemove: nodes}
	data, err := json.Marshal(arguments)
	if err != nil {
		s.t.Fatal(err)
	}
	s.begin(magnum.ClusterResize, g, string(data))
	g.NodeCount, g.Status = count, magnum.UpdateInProgress
	s.NodesToRemove = nil
	if len(nodes) > 0 {
		s.NodesToRemove = map[string][]string{g.UUID: nodes}
	}
	if err := s.d.Check(s.t.Context(), &previous, s.Cluster); err != nil {
		s.t.Fatalf("check: %v", err)
	}
	s.apply()
	o := s.complete()
	if n := o.NodeGroups[g.UUID]; len(n.NodeAddresses) != count {
		s.t.Errorf("%s has %d addresses after the resize to %d", g.Name, len(n.NodeAddresses), count)
	}
	s.NodesToRemove = nil
}

// refusesNodes tries names that are not the group's, and too many of them.
func (s *subject) refusesNodes(g *magnum.NodeGroup) {
	s.t.Helper()
	machines := s.machines(g)
	for name, nodes := range map[string][]string{
		"a stranger":    {"no-such-node"},
		"more than one": {machines[0].Name, machines[1].Name},
	} {
		current, wish := s.ref(), s.Cluster
		wish.NodeGroups = slices.Clone(s.NodeGroups)
		for i := range wish.NodeGroups {
			if wish.NodeGroups[i].UUID == g.UUID {
				wish.NodeGroups[i].NodeCount = 1
			}
		}
		wish.Operation.Kind = magnum.ClusterResize
		wish.NodesToRemove = map[string][]string{g.UUID: nodes}
		if err := s.d.Check(s.t.Context(), &current, wish); !fault.Is(err, fault.Invalid) {
			s.t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

// replace names a node without changing the count: that one goes, another comes.
func (s *subject) replace(g *magnum.NodeGroup) {
	s.t.Helper()
	old := s.machines(g)[0]
	id := old.Spec.ProviderID[strings.LastIndex(old.Spec.ProviderID, "/")+1:]
	s.resize(g, g.NodeCount, id)
	for _, m := range s.machines(g) {
		if m.Name == old.Name {
			s.t.Errorf("the node %s was to be replaced and is still there", old.Name)
		}
	}
}

func (s *subject) upgrade(version string) {
	s.t.Helper()
	current := s.ref()
	s.Template.UUID, s.Template.Labels = "template-"+version, map[string]string{"kube_tag": version}
	s.ClusterTemplateID = s.Template.UUID
	s.begin(magnum.ClusterUpgrade, nil, `{"max_batch_size": 1}`)
	if err := s.d.Check(s.t.Context(), &current, s.Cluster); err != nil {
		s.t.Fatalf("check: %v", err)
	}
	s.apply()
	// The order: no worker may be asked to move before every control plane node has.
	o := s.until("upgraded", 20*time.Minute, func(o driver.Observation) bool {
		if o.Progress == driver.Failed {
			s.t.Fatalf("failed: %s", o.Reason)
		}
		if o.COEVersion != version {
			for _, d := range s.deployments() {
				if d.Spec.Template.Spec.Version == version {
					s.t.Fatalf("%s was asked for %s while the control plane was on %s", d.Name, version, o.COEVersion)
				}
			}
		}
		return o.Progress == driver.Complete
	})
	if o.COEVersion != version {
		s.t.Errorf("coe_version %s, want %s", o.COEVersion, version)
	}
	for _, g := range s.NodeGroups {
		for _, m := range s.machines(&g) {
			if m.Spec.Version != version {
				s.t.Errorf("%s is on %s, want %s", m.Name, m.Spec.Version, version)
			}
		}
	}
}

func (s *subject) refusesUpgrade(what, version string, kind fault.Kind) {
	s.t.Helper()
	current, wish := s.ref(), s.Cluster
	wish.Template.Labels = map[string]string{"kube_tag": version}
	wish.ClusterTemplateID = "template-" + version
	wish.Operation.Kind = magnum.ClusterUpgrade
	err := s.d.Check(s.t.Context(), &current, wish)
	if !fault.Is(err, kind) {
		s.t.Errorf("%s: %v, want a refusal", what, err)
	}
	s.t.Logf("%s: %v", what, err)
}
