//go:build clusterapi

package clusterapi

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/driver/capi/capitest"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// With a credential: names are looked up, the credential is changed without
// replacing a node, and what was made from inside of the cluster is swept away
// before its network goes.
func TestCredentialAndSweep(t *testing.T) {
	t.Parallel()
	o := capitest.New(t)
	flavor := func(id, name string) map[string]any {
		return map[string]any{"id": id, "name": name, "vcpus": 2, "ram": 4096, "disk": 40, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0}
	}
	o.Put("/compute/v2.1/flavors/detail flavors", flavor("f1", "m1"), flavor("f2", "m2"))
	o.Put("/image/v2/images images", map[string]any{"id": "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", "name": "ubuntu-kube", "os_distro": "ubuntu", "kube_version": before})
	o.Put("/network/v2.0/networks networks")
	o.Put("/network/v2.0/floatingips floatingips")
	o.Put("/network/v2.0/security-groups security_groups")
	o.Put("/compute/v2.1/os-server-groups server_groups")
	o.Put("/lb/v2.0/lbaas/loadbalancers loadbalancers")

	s := newSubject(t, newDriver(t, func(c *capi.Config, _ *rest.Config) { c.AuthURL, c.Region = o.URL+"/v3/", "RegionOne" }))
	s.Credential = &driver.Credential{Epoch: 1, ID: "first", Secret: "one"}
	s.create()
	machines := s.machines(s.groupNamed(magnum.DefaultWorker))
	if got := s.secret("-cloud-config", "clouds.yaml"); !strings.Contains(got, "first") {
		t.Errorf("clouds.yaml: %s", got)
	}

	s.Credential = &driver.Credential{Epoch: 2, ID: "second", Secret: "two"}
	s.begin(magnum.CredentialRotate, nil, `{"epoch":2}`)
	for begin := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		err := s.d.RotateCredential(t.Context(), s.Cluster)
		if err == nil {
			break
		}
		if !fault.Is(err, fault.Unavailable) || time.Since(begin) > 5*time.Minute {
			t.Fatal(err)
		}
		t.Log(err)
	}
	s.complete()
	for _, name := range []string{"-cloud-config", "-addon-cloud-config"} {
		key := map[string]string{"-cloud-config": "clouds.yaml", "-addon-cloud-config": "cloud-config.yaml"}[name]
		if got := s.secret(name, key); strings.Contains(got, "first") {
			t.Errorf("%s still has the first credential", name)
		}
	}
	if now := s.machines(s.groupNamed(magnum.DefaultWorker)); now[0].Name != machines[0].Name {
		t.Errorf("the rotation replaced %s by %s", machines[0].Name, now[0].Name)
	}

	// The control plane's own certificates: its node is replaced, once.
	masters := s.machines(s.groupNamed(magnum.DefaultMaster))
	at := time.Now()
	for range 2 {
		if err := s.d.RotateLeaf(t.Context(), s.ref(), at); err != nil {
			t.Fatal(err)
		}
	}
	s.until("the control plane is new", 12*time.Minute, func(o driver.Observation) bool {
		now := s.machines(s.groupNamed(magnum.DefaultMaster))
		return o.Progress == driver.Complete && len(now) == 1 && now[0].Name != masters[0].Name
	})
	s.begin(magnum.CredentialRotate, nil, `{"epoch":2}`)
	s.apply() // another operation does not take the rotation back
	s.complete()

	o.Put("/lb/v2.0/lbaas/loadbalancers loadbalancers",
		map[string]any{"id": "ours", "name": "kube_service_" + *s.StackID + "_default_web", "provisioning_status": "ACTIVE"},
		map[string]any{"id": "theirs", "name": "kube_service_other_default_web", "provisioning_status": "ACTIVE"})
	s.delete()
	got := strings.Join(o.Deleted(), " ")
	if !strings.Contains(got, "loadbalancers/ours") || strings.Contains(got, "theirs") || strings.Count(got, "server_groups/") != 2 {
		t.Errorf("swept: %s", got)
	}
	s.leftNothing()
}

func (s *subject) secret(suffix, key string) string {
	s.t.Helper()
	var out corev1.Secret
	get(s.t, theBed.Config, s.path("", "secrets", *s.StackID+suffix), &out)
	return string(out.Data[key])
}

// Of five creations two are let through at a time; the others say that they
// wait, and come when there is room.
func TestCreationsWaitInLine(t *testing.T) {
	t.Parallel()
	d := newDriver(t, func(c *capi.Config, _ *rest.Config) { c.NamespacePrefix, c.CreateParallel = "line", 2 })
	var all []*subject
	for range 5 {
		s := newSubject(t, d)
		s.begin(magnum.ClusterCreate, nil, "")
		all = append(all, s)
	}
	started := map[*subject]bool{}
	for begin := time.Now(); len(started) < len(all); time.Sleep(time.Second) {
		if time.Since(begin) > 12*time.Minute {
			t.Fatalf("%d of %d have begun", len(started), len(all))
		}
		room := 0
		for _, s := range all {
			if started[s] {
				o, err := d.Observe(t.Context(), s.ref())
				if err != nil {
					t.Fatal(err)
				}
				s.last = o
				if o.COEVersion == "" {
					room++ // still without a control plane
				}
				continue
			}
			accepted, err := d.Apply(t.Context(), s.Cluster)
			switch {
			case err == nil:
				s.StackID, started[s] = &accepted.StackID, true
				room++
			case !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "queued behind 2 others"):
				t.Fatal(err)
			}
		}
		if room > 3 { // the list is cleared when the control plane runs, a moment before we see its version
			t.Fatalf("%d are being created", room)
		}
	}
	for _, s := range all {
		s.begin(magnum.ClusterDelete, nil, "")
		s.Status = magnum.DeleteInProgress
		if err := d.Delete(t.Context(), s.ref()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		s.until("gone", 12*time.Minute, func(o driver.Observation) bool { return o.Progress == driver.Gone })
	}
}

// The doctor finds all that the driver needs here, and says what a poorer user
// may not do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, f := range newDriver(t).Doctor(t.Context()) {
		t.Logf("%v %s: %s", f.OK, f.What, f.Text)
		if !f.OK && f.What != "add-ons" && f.What != "credential" {
			t.Errorf("%s: %s", f.What, f.Text)
		}
	}
	nobody := newDriver(t, func(_ *capi.Config, r *rest.Config) { r.Impersonate.UserName = "nobody" })
	found := false
	for _, f := range nobody.Doctor(t.Context()) {
		found = found || f.What == "rights" && !f.OK && strings.Contains(f.Text, "create clusters.cluster.x-k8s.io")
	}
	if !found {
		t.Error("the doctor does not tell that nobody may create clusters")
	}
}
