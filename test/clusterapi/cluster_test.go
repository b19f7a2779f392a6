//go:build clusterapi

package clusterapi

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/magnum"
)

func config() capi.Config {
	return capi.Config{
		NamespacePrefix: "magnum", QPS: 200, Burst: 400, PageSize: 500, CallTimeout: 15 * time.Second, CreateParallel: 10,
		Interface: "public", DeleteVolumes: "never", FaultAfter: 2 * time.Second, StuckAfter: 10 * time.Minute,
	}
}

func newDriver(t *testing.T, change ...func(*capi.Config, *rest.Config)) *capi.Driver {
	t.Helper()
	c, r := config(), rest.CopyConfig(theBed.Config)
	for _, f := range change {
		f(&c, r)
	}
	d, err := capi.NewFor(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var sequence atomic.Int64

// subject is one cluster with its rows, as the conductor would hold them.
type subject struct {
	t *testing.T
	d *capi.Driver
	driver.Cluster
	last driver.Observation
}

const (
	before = "v1.34.3"
	after  = "v1.35.1"
	beyond = "v1.36.0"
)

// newSubject is a cluster of one control plane node and one worker. Each test
// has its own project, so its own namespace.
func newSubject(t *testing.T, d *capi.Driver) *subject {
	t.Helper()
	id := uuid.NewString()
	project := strings.ReplaceAll(uuid.NewString(), "-", "")
	network := "14c15d33-175c-424e-88ba-361a875e0c5c"
	s := &subject{t: t, d: d}
	s.Cluster = driver.Cluster{
		Cluster: magnum.Cluster{
			UUID: id, ProjectID: project, Name: t.Name(), ClusterTemplateID: "template-" + before, Status: magnum.CreateInProgress,
			MasterLBEnabled: true, FloatingIPEnabled: true, Labels: map[string]string{}, CreatedAt: time.Now(),
		},
		Template: magnum.ClusterTemplate{
			UUID: "template-" + before, COE: "kubernetes", ImageID: "5b6dd6d3-6b5e-4f0e-9f3b-6b1d8a1c7e01", ExternalNetworkID: &network,
			FlavorID: pointer("m1"), MasterFlavorID: pointer("m2"), Labels: map[string]string{"kube_tag": before, "auto_healing_enabled": "true"},
		},
		Certificates: certificates(t),
	}
	s.addGroup(magnum.DefaultMaster, magnum.RoleMaster, 1)
	s.addGroup(magnum.DefaultWorker, "worker", 1)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Logf("last observation: %+v", s.last)
	})
	return s
}

func pointer[T any](v T) *T { return &v }

func (s *subject) addGroup(name, role string, count int) *magnum.NodeGroup {
	s.NodeGroups = append(s.NodeGroups, magnum.NodeGroup{
		ID: int64(len(s.NodeGroups) + 1), UUID: uuid.NewString(), Name: name, Role: role, ClusterID: s.UUID, ProjectID: s.ProjectID,
		NodeCount: count, MinNodeCount: 0, IsDefault: strings.HasPrefix(name, "default-"), Status: magnum.CreateInProgress,
	})
	return &s.NodeGroups[len(s.NodeGroups)-1]
}

func (s *subject) groupNamed(name string) *magnum.NodeGroup {
	s.t.Helper()
	for i := range s.NodeGroups {
		if s.NodeGroups[i].Name == name {
			return &s.NodeGroups[i]
		}
	}
	s.t.Fatalf("no group %s", name)
	return nil
}

// begin puts an operation on the cluster.
func (s *subject) begin(kind magnum.OperationKind, group *magnum.NodeGroup, arguments string) {
	s.Version++
	s.Operation = magnum.Operation{
		Seq: sequence.Add(1), ID: uuid.NewString(), Kind: kind, ClusterID: s.UUID, State: magnum.Running,
		RequestID: "req-" + uuid.NewString(), Arguments: []byte(arguments),
	}
	if arguments == "" {
		s.Operation.Arguments = []byte("{}")
	}
	if group != nil {
		s.Operation.NodeGroupID = &group.UUID
	}
}

func (s *subject) ref() driver.Ref {
	op := s.Operation
	return driver.Ref{Cluster: s.Cluster.Cluster, Template: s.Template, NodeGroups: s.NodeGroups, Operation: &op}
}

func (s *subject) apply() {
	s.t.Helper()
	accepted, err := s.d.Apply(s.t.Context(), s.Cluster)
	if err != nil {
		s.t.Fatalf("apply: %v", err)
	}
	s.StackID = &accepted.StackID
}

// until observes as the statussync function does, until done says so.
func (s *subject) until(what string, limit time.Duration, done func(driver.Observation) bool) driver.Observation {
	s.t.Helper()
	begin := time.Now()
	said := ""
	for {
		o, err := s.d.Observe(s.t.Context(), s.ref())
		if err != nil {
			s.t.Fatalf("observe: %v", err)
		}
		s.last = o
		if o.Reason != said {
			said = o.Reason
			s.t.Logf("%5.1f s %s", time.Since(begin).Seconds(), said)
		}
		if done(o) {
			s.t.Logf("%5.1f s %s", time.Since(begin).Seconds(), what)
			return o
		}
		if time.Since(begin) > limit {
			s.t.Fatalf("%s: not within %s; %+v", what, limit, o)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// complete waits until the operation is done.
func (s *subject) complete() driver.Observation {
	s.t.Helper()
	return s.until(string(s.Operation.Kind)+" complete", 12*time.Minute, func(o driver.Observation) bool {
		if o.Progress == driver.Failed {
			s.t.Fatalf("failed: %s", o.Reason)
		}
		return o.Progress == driver.Complete
	})
}

func (s *subject) create() driver.Observation {
	s.t.Helper()
	s.begin(magnum.ClusterCreate, nil, "")
	if err := s.d.Check(s.t.Context(), nil, s.Cluster); err != nil {
		s.t.Fatalf("check: %v", err)
	}
	s.apply()
	return s.complete()
}

func (s *subject) delete() {
	s.t.Helper()
	s.begin(magnum.ClusterDelete, nil, "")
	s.Status = magnum.DeleteInProgress
	if err := s.d.Delete(s.t.Context(), s.ref()); err != nil {
		s.t.Fatalf("delete: %v", err)
	}
	s.until("deleted", 10*time.Minute, func(o driver.Observation) bool { return o.Progress == driver.Gone })
}

var pairs struct {
	sync.Mutex
	made *driver.Certificates
}

// certificates are three authorities and a pair for the service accounts, made
// once: RSA keys cost time.
func certificates(t *testing.T) *driver.Certificates {
	t.Helper()
	pairs.Lock()
	defer pairs.Unlock()
	if pairs.made == nil {
		pairs.made = makeCertificates(t)
	}
	return pairs.made
}

func makeCertificates(t *testing.T) *driver.Certificates {
	t.Helper()
	c := &driver.Certificates{Kubernetes: authority(t, "kubernetes"), Etcd: authority(t, "etcd"), FrontProxy: authority(t, "front-proxy")}
	c.Client = signed(t, c.Kubernetes, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	return c
}

func authority(t *testing.T, name string) driver.KeyPair {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return driver.KeyPair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: pkcs8(t, key)}
}

// signed is a client's pair, as POST /v1/certificates signs it.
func signed(t *testing.T, ca driver.KeyPair, subject pkix.Name) driver.KeyPair {
	t.Helper()
	block, _ := pem.Decode(ca.Certificate)
	parent, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(ca.Key)
	caKey, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	return driver.KeyPair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: pkcs8(t, key)}
}

func pkcs8(t *testing.T, key *rsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// workload is a connection to a cluster's own API with nothing but its
// authority and a certificate that it signed.
func (s *subject) workload(o driver.Observation) *rest.Config {
	return &rest.Config{Host: o.APIAddress, Timeout: 10 * time.Second, TLSClientConfig: rest.TLSClientConfig{
		CAData: s.Certificates.Kubernetes.Certificate, CertData: s.Certificates.Client.Certificate, KeyData: s.Certificates.Client.Key,
	}}
}
