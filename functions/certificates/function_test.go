package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"carafe/shared/driver"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
	"carafe/shared/pki"
)

func request(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func body(t *testing.T, fields map[string]any) string {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestShow(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	made := b.Certify(t, b.Cluster.UUID)
	bare := b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "bare"; c.Status = magnum.CreateInProgress })
	b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "twin" })
	b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "twin" })
	for _, tc := range []struct {
		name, path, who, roles string
		status                 int
		pem                    []byte
		detail                 string
	}{
		{name: "ByUUID", path: b.Cluster.UUID, status: 200, pem: made.Kubernetes.Certificate},
		{name: "ByName", path: "c1", status: 200, pem: made.Kubernetes.Certificate},
		{name: "Query", path: "c1?ca_cert_type=etcd", status: 200, pem: made.Etcd.Certificate},
		{name: "Path", path: "c1/front-proxy", status: 200, pem: made.FrontProxy.Certificate},
		{name: "OtherSpelling", path: "c1?ca_cert_type=front_proxy", status: 200, pem: made.FrontProxy.Certificate},
		{name: "Kubelet", path: "c1?ca_cert_type=kubelet", status: 200, pem: made.Kubernetes.Certificate},
		{name: "UnknownType", path: "c1?ca_cert_type=magnum", status: 400, // B75
			detail: "Invalid input for field/attribute ca_cert_type. Value: 'magnum'. Value should be one of: kubernetes, kubelet, etcd, front-proxy, front_proxy"},
		{name: "UnknownArgument", path: "c1?x=1", status: 400, detail: `Unknown argument: "x"`},
		{name: "NotYet", path: bare.UUID + "/etcd", status: 404, detail: "Cluster " + bare.UUID + " has no etcd CA."}, // PB-63
		{name: "NotThere", path: "zz", status: 404, detail: "Cluster zz could not be found."},
		{name: "Twin", path: "twin", status: 409, detail: "Multiple clusters exist with same name. Please use the cluster uuid instead."},
		{name: "NotItsMaker", path: "c1", who: "p1/u2", status: 403, detail: "Policy doesn't allow certificate:get to be performed."},
		{name: "OtherProject", path: b.Cluster.UUID, who: "p2/u1", status: 404, detail: "Cluster " + b.Cluster.UUID + " could not be found."},
		{name: "AdminOfAnotherProject", path: b.Cluster.UUID, who: "p2/a", roles: "admin", status: 200, pem: made.Kubernetes.Certificate}, // B62
		{name: "MemberAlone", path: "c1", roles: "member", status: 403, detail: "Policy doesn't allow certificate:get to be performed."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := b.Call(t, Function(), functiontest.Request{Method: "GET", Path: "/v1/certificates/" + tc.path, Who: tc.who, Roles: tc.roles})
			if a.Status != tc.status {
				t.Fatalf("%d %s", a.Status, a.Text)
			}
			if tc.status != 200 {
				if got := a.Detail(); got != tc.detail {
					t.Errorf("%q, want %q", got, tc.detail)
				}
				return
			}
			if a.Body["pem"] != string(tc.pem) || a.Body["cluster_uuid"] != b.Cluster.UUID || len(a.Body) != 3 {
				t.Errorf("answer %s", a.Text)
			}
			if want := "/v1/certificates/" + b.Cluster.UUID + `","rel":"self"`; !strings.Contains(a.Text, want) {
				t.Errorf("no link %s in %s", want, a.Text)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	made := b.Certify(t, b.Cluster.UUID)
	csr := request(t)
	for _, tc := range []struct {
		name, body, who, roles string
		status                 int
		ca                     driver.KeyPair
		detail                 string
	}{
		{name: "Kubernetes", body: body(t, map[string]any{"cluster_uuid": b.Cluster.UUID, "csr": csr}), status: 201, ca: made.Kubernetes},
		{name: "ByName", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr, "pem": "ignored"}), status: 201, ca: made.Kubernetes},
		{name: "Etcd", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr, "ca_cert_type": "etcd"}), status: 201, ca: made.Etcd},
		{name: "NullType", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr, "ca_cert_type": nil}), status: 201, ca: made.Kubernetes},
		{name: "Nonsense", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": "nonsense"}), status: 400,
			detail: "Received invalid csr: no PEM block CERTIFICATE REQUEST found."},
		{name: "UnknownType", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr, "ca_cert_type": "nothing"}), status: 400,
			detail: "Invalid input for field/attribute ca_cert_type. Value: 'nothing'. Value should be one of: kubernetes, kubelet, etcd, front-proxy, front_proxy"},
		{name: "NotThere", body: body(t, map[string]any{"cluster_uuid": "zz", "csr": csr}), status: 400, detail: "Cluster zz could not be found."}, // B78
		{name: "NoCluster", body: body(t, map[string]any{"csr": csr}), status: 400,
			detail: "Invalid input for field/attribute cluster_uuid. Value: 'None'. Mandatory field missing."}, // B74
		{name: "NullCSR", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": nil}), status: 400,
			detail: "Invalid input for field/attribute csr. Value: 'None'. Mandatory field missing."},
		{name: "EmptyCSR", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": ""}), status: 400,
			detail: "Invalid input for field/attribute csr. Value: ''. Value should have a minimum character requirement of 1"},
		{name: "Empty", body: "", status: 400, detail: `Missing argument: "certificate"`},
		{name: "NotItsMaker", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr}), who: "p1/u2", status: 403,
			detail: "Policy doesn't allow certificate:create to be performed."},
		{name: "Reader", body: body(t, map[string]any{"cluster_uuid": "c1", "csr": csr}), roles: "reader", status: 403,
			detail: "Policy doesn't allow certificate:create to be performed."},
		{name: "OtherProject", body: body(t, map[string]any{"cluster_uuid": b.Cluster.UUID, "csr": csr}), who: "p2/u1", status: 400,
			detail: "Cluster " + b.Cluster.UUID + " could not be found."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(b.Events(t, b.Cluster.UUID))
			a := b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/certificates", Body: tc.body, Who: tc.who, Roles: tc.roles})
			if a.Status != tc.status {
				t.Fatalf("%d %s", a.Status, a.Text)
			}
			told := len(b.Events(t, b.Cluster.UUID)) - before
			if tc.status != 201 {
				if got := a.Detail(); got != tc.detail || told != 0 {
					t.Errorf("%q and %d events, want %q", got, told, tc.detail)
				}
				return
			}
			leaf, err := pki.ParseCertificate([]byte(a.Body["pem"].(string)))
			if err != nil {
				t.Fatal(err)
			}
			ca, err := pki.ParseCertificate(tc.ca.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			if err := leaf.CheckSignatureFrom(ca); err != nil {
				t.Error(err)
			}
			if a.Body["csr"] != csr || a.Body["cluster_uuid"] != b.Cluster.UUID || strings.HasSuffix(a.Body["pem"].(string), "\n") {
				t.Errorf("answer %s", a.Text)
			}
			if _, has := a.Body["ca_cert_type"]; has != strings.Contains(tc.body, `"ca_cert_type":`) {
				t.Errorf("ca_cert_type in the answer: %v", has)
			}
			if told != 1 {
				t.Errorf("%d events of the signature, want 1", told)
			}
		})
	}
	if all := b.Events(t, b.Cluster.UUID); !slices.Contains(all, "magnum.certificate.create success") {
		t.Errorf("events %v", all)
	}
}

// TestSignatureIsToldAsDescribed compares the event with schema/events.
func TestSignatureIsToldAsDescribed(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Certify(t, b.Cluster.UUID)
	a := b.Call(t, Function(), functiontest.Request{Method: "POST", Path: "/v1/certificates",
		Body: body(t, map[string]any{"cluster_uuid": "c1", "csr": request(t), "ca_cert_type": "front_proxy"})})
	if a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	told, err := b.DB.Events.OfCluster(t.Context(), b.Cluster.UUID, 0, 1)
	if err != nil || len(told) != 1 {
		t.Fatalf("%d events, %v", len(told), err)
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "schema", "events", told[0].Type+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(told[0].Data, &data); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(data); err != nil {
		t.Error(err)
	}
	leaf, err := pki.ParseCertificate([]byte(a.Body["pem"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"cluster_uuid": b.Cluster.UUID, "ca_cert_type": "front-proxy", "serial": leaf.SerialNumber.Text(16),
		"subject": "CN=admin,O=system:masters", "user_id": "u1", "project_id": "p1", "not_after": "2027-12-01T12:00:00+00:00"} {
		if data[key] != want {
			t.Errorf("%s is %v, want %v", key, data[key], want)
		}
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	old := b.Certify(t, b.Cluster.UUID)
	plain := b.NewCluster(t, func(c *magnum.ClusterTemplate) { c.TLSDisabled = true }, func(c *magnum.Cluster) { c.Name = "plain" })
	failed := b.NewCluster(t, nil, func(c *magnum.Cluster) { c.Name = "failed"; c.Status = magnum.CreateFailed })

	call := func(path, who, roles, body string) functiontest.Answer {
		return b.Call(t, Function(), functiontest.Request{Method: "PATCH", Path: "/v1/certificates" + path, Who: who, Roles: roles, Body: body})
	}
	for _, tc := range []struct {
		name, path, who, roles, body string
		status                       int
		detail                       string
	}{
		{"NoTLS", "/" + plain.UUID, "", "", "", 400, "Rotating the CA certificate on a non-TLS cluster is not supported"},
		{"Failed", "/" + failed.UUID, "", "", "", 400, `Updating a cluster when status is "CREATE_FAILED" is not supported.`},
		{"Reader", "/c1", "", "reader", "", 403, "Policy doesn't allow certificate:rotate_ca to be performed."},
		{"OtherProject", "/" + b.Cluster.UUID, "p2/u1", "", "", 404, "Cluster " + b.Cluster.UUID + " could not be found."},
		{"Body", "/c1", "", "", `{"x": 1}`, 400, `Unknown argument: "x"`},
		{"NoCluster", "", "", "", "", 400, `Missing argument: "cluster_ident"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if a := call(tc.path, tc.who, tc.roles, tc.body); a.Status != tc.status || a.Detail() != tc.detail {
				t.Errorf("%d %q, want %d %q", a.Status, a.Detail(), tc.status, tc.detail)
			}
		})
	}

	b.Driver.Description.RotateCA = false
	if a := call("/c1", "", "", ""); a.Status != 400 || a.Detail() != "'rotate_ca_certificate' is not supported by this driver." {
		t.Errorf("unsupported: %d %q", a.Status, a.Detail())
	}
	if a := call("/c1", "", "", `{"leaf": true}`); a.Status != 400 || a.Detail() != "Renewing the certificates of the control plane is not supported by this driver." {
		t.Errorf("leaf, unsupported: %d %q", a.Status, a.Detail())
	}
	b.Driver.Description.RotateLeaf = true
	if a := call("/c1", "", "", ""); a.Status != 400 || !strings.Contains(a.Detail(), `{"leaf": true}`) {
		t.Errorf("without the hint: %d %q", a.Status, a.Detail())
	}
	b.Driver.Description.RotateCA = true
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.CreateComplete || c.Version != b.Cluster.Version || len(b.Events(t, c.UUID)) != 0 {
		t.Errorf("the refusals left traces: %s, events %v", c.Status, b.Events(t, c.UUID))
	}

	a := call("/c1", "p1/u2", "", "{}") // any member may
	if a.Status != 202 || a.Body["uuid"] != b.Cluster.UUID || len(a.Body) != 1 {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.UpdateInProgress {
		t.Errorf("status %s", c.Status)
	}
	if o := b.Operation(t, b.Cluster.UUID); o.Kind != magnum.CARotate || string(o.Arguments) != `{"epoch": 2}` || o.UserID != "u2" {
		t.Errorf("operation %s %s of %s", o.Kind, o.Arguments, o.UserID)
	}
	if got := b.Events(t, b.Cluster.UUID); !slices.Equal(got, []string{"magnum.cluster.update pending"}) {
		t.Errorf("events %v", got)
	}
	shown := b.Call(t, Function(), functiontest.Request{Method: "GET", Path: "/v1/certificates/c1"})
	if shown.Body["pem"] != string(old.Kubernetes.Certificate) {
		t.Error("the CA in force changed before the driver installed another")
	}
	if a := call("/c1", "", "", ""); a.Status != 400 || a.Detail() != `Updating a cluster when status is "UPDATE_IN_PROGRESS" is not supported.` {
		t.Errorf("twice: %d %q", a.Status, a.Detail())
	}
}

func TestRotateLeaf(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Certify(t, b.Cluster.UUID)
	b.Driver.Description.RotateLeaf = true
	a := b.Call(t, Function(), functiontest.Request{Method: "PATCH", Path: "/v1/certificates/c1", Body: `{"leaf": true}`})
	if a.Status != 202 || a.Body["uuid"] != b.Cluster.UUID {
		t.Fatalf("%d %s", a.Status, a.Text)
	}
	if o := b.Operation(t, b.Cluster.UUID); o.Kind != magnum.CARotate || string(o.Arguments) != `{"leaf": true, "epoch": 0}` {
		t.Errorf("operation %s %s", o.Kind, o.Arguments)
	}
}
