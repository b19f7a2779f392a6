package kubeprobe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	up := func(nodes ...Node) Result { return Result{Reached: true, OK: true, Listed: true, Nodes: nodes} }
	for _, tc := range []struct {
		name   string
		result Result
		wanted int
		status magnum.HealthStatus
		why    map[string]string
		missed bool
	}{
		{"AllReady", up(Node{"n1", true}, Node{"n2", true}), 2, magnum.Healthy,
			map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True"}, false},
		{"NoNodesWanted", up(), 0, magnum.Healthy, map[string]string{"api": "ok"}, false},
		{"NoNodesThere", up(), 3, magnum.Unhealthy, map[string]string{"api": "ok", "nodes": "0 of 3 nodes are Ready."}, false},
		{"ANodeIsNotReady", up(Node{"n1", true}, Node{"n2", false}), 2, magnum.Unhealthy,
			map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "False"}, false},
		{"ANodeIsGone", up(Node{"n1", true}), 2, magnum.Unhealthy,
			map[string]string{"api": "ok", "n1.Ready": "True", "nodes": "1 of 2 nodes are Ready."}, false},
		{"MoreThanWanted", up(Node{"n1", true}, Node{"n2", true}), 1, magnum.Healthy,
			map[string]string{"api": "ok", "n1.Ready": "True", "n2.Ready": "True"}, false},
		{"NotOK", Result{Reached: true, Problem: "etcd is slow"}, 2, magnum.Unhealthy, map[string]string{"api": "etcd is slow"}, false},
		{"NodesNotListed", Result{Reached: true, OK: true, Problem: "The nodes cannot be listed."}, 2, magnum.Unhealthy,
			map[string]string{"api": "The nodes cannot be listed."}, false},
		{"NotReached", Result{Problem: "The API server at h refuses the connection."}, 2, magnum.UnknownHealth,
			map[string]string{"api": "The API server at h refuses the connection."}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, missed := Verdict(tc.result, tc.wanted)
			if diff := cmp.Diff(driver.Health{Status: tc.status, Reasons: tc.why}, h); diff != "" || missed != tc.missed {
				t.Errorf("missed %v\n%s", missed, diff)
			}
		})
	}
}

func TestVerdictOfAHugeCluster(t *testing.T) {
	t.Parallel()
	var nodes []Node
	for i := range 5000 {
		nodes = append(nodes, Node{fmt.Sprintf("n%d", i), false})
	}
	h, _ := Verdict(Result{Reached: true, OK: true, Listed: true, Nodes: nodes}, 5000)
	if len(h.Reasons) != maxReasons+2 || h.Reasons["nodes"] != "0 of 5000 nodes are Ready." {
		t.Errorf("%d reasons, %q", len(h.Reasons), h.Reasons["nodes"])
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	address := "https://10.0.0.1:6443"
	inaccessible := &driver.Health{Status: magnum.UnknownHealth, Reasons: map[string]string{"api": "The cluster c1 is not accessible."}}
	healed := map[string]string{"auto_healing_enabled": "True", "auto_healing_controller": "magnum-auto-healer"}
	for _, tc := range []struct {
		name    string
		cluster magnum.Cluster
		probe   bool
		want    *driver.Health
	}{
		{"Steady", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, FloatingIPEnabled: true}, true, nil},
		{"Updating", magnum.Cluster{Status: magnum.UpdateInProgress, APIAddress: &address, FloatingIPEnabled: true}, true, nil},
		{"Creating", magnum.Cluster{Status: magnum.CreateInProgress, APIAddress: &address, FloatingIPEnabled: true}, false, nil},
		{"Deleting", magnum.Cluster{Status: magnum.DeleteInProgress, APIAddress: &address, FloatingIPEnabled: true}, false, nil},
		{"NoAddress", magnum.Cluster{Status: magnum.CreateComplete, FloatingIPEnabled: true}, false, nil},
		{"Healer", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, FloatingIPEnabled: true, Labels: healed}, false, nil},
		{"OtherHealer", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, FloatingIPEnabled: true,
			Labels: map[string]string{"auto_healing_enabled": "true", "auto_healing_controller": "draino"}}, true, nil},
		{"HealerOff", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, FloatingIPEnabled: true,
			Labels: map[string]string{"auto_healing_enabled": "false", "auto_healing_controller": "magnum-auto-healer"}}, true, nil},
		{"Private", magnum.Cluster{Name: "c1", Status: magnum.CreateComplete, APIAddress: &address}, false, inaccessible},
		{"PrivateNodesPublicLB", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, MasterLBEnabled: true,
			Labels: map[string]string{"master_lb_floating_ip_enabled": "true"}}, true, nil},
		{"PublicNodesPrivateLB", magnum.Cluster{Name: "c1", Status: magnum.CreateComplete, APIAddress: &address, MasterLBEnabled: true, FloatingIPEnabled: true,
			Labels: map[string]string{"master_lb_floating_ip_enabled": "false"}}, false, inaccessible},
		{"LBAsTheCluster", magnum.Cluster{Status: magnum.CreateComplete, APIAddress: &address, MasterLBEnabled: true, FloatingIPEnabled: true}, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cluster.Name = "c1"
			probe, h := Decide(tc.cluster)
			if diff := cmp.Diff(tc.want, h); diff != "" || probe != tc.probe {
				t.Errorf("probe %v\n%s", probe, diff)
			}
		})
	}
}
