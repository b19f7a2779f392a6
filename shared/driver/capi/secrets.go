package capi

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"carafe/shared/driver"
)

// cloudName is the name of the only cloud in clouds.yaml.
const cloudName = "default"

// Kubeadm's control plane becomes the owner of a certificate's secret only if
// it has this type, and then the garbage collector removes it with the cluster.
const certificateType = "cluster.x-k8s.io/secret"

// secrets renders the cluster's certificates and the credential; what is not
// at hand (in an observation) stays as it is.
func (r *render) secrets() {
	d := r.desired()
	if d.Certificates != nil {
		for _, a := range authorities(d.Certificates) {
			r.add(waveSecrets, r.secret(caName(r.name, a.name), certificateType, map[string][]byte{"tls.crt": a.pair.Certificate, "tls.key": a.pair.Key}))
		}
	}
	if d.Credential == nil && (r.Config.AuthURL != "" || r.Observed.Cluster != nil) {
		return
	}
	s := r.secret(cloudConfigName(r.name), "Opaque", r.cloudConfig())
	labels := s.GetLabels()
	labels["clusterctl.cluster.x-k8s.io/move"] = ""
	s.SetLabels(labels)
	if d.Credential != nil {
		s.SetAnnotations(map[string]string{annotationCredential: strconv.Itoa(d.Credential.Epoch)})
	}
	r.add(waveSecrets, s)
}

func (r *render) secret(name, kind string, data map[string][]byte) Object {
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString(v)
	}
	return object(secretKind, r.meta(name, nil), map[string]any{"type": kind, "data": encoded})
}

type authority struct {
	name string
	pair driver.KeyPair
}

// authorities are the pairs that kubeadm takes. The service accounts' pair is
// a bare public key and its private key: kubeadm writes them as sa.pub and sa.key.
func authorities(c *driver.Certificates) []authority {
	return []authority{
		{"ca", c.Kubernetes}, {"etcd", c.Etcd}, {"proxy", c.FrontProxy},
		{"sa", driver.KeyPair{Certificate: publicKey(c.Client.Key), Key: c.Client.Key}},
	}
}

// publicKey is the PEM public half of a PEM private key; nil if it is none.
func publicKey(private []byte) []byte {
	block, _ := pem.Decode(private)
	if block == nil {
		return nil
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// cloudsFile is clouds.yaml as OpenStack's clients read it.
type cloudsFile struct {
	Clouds map[string]cloud `json:"clouds"`
}

type cloud struct {
	AuthType    string    `json:"auth_type,omitempty"`
	Auth        cloudAuth `json:"auth,omitempty"`
	RegionName  string    `json:"region_name,omitempty"`
	Interface   string    `json:"interface,omitempty"`
	IdentityAPI int       `json:"identity_api_version,omitempty"`
	CACertFile  string    `json:"cacert,omitempty"`
	Verify      bool      `json:"verify"`
}

type cloudAuth struct {
	AuthURL string `json:"auth_url,omitempty"`
	ID      string `json:"application_credential_id,omitempty"`
	Secret  string `json:"application_credential_secret,omitempty"`
}

func (r *render) clouds() cloudsFile {
	c := cloud{Verify: true}
	if credential := r.desired().Credential; credential != nil {
		c = cloud{
			AuthType:   "v3applicationcredential",
			Auth:       cloudAuth{AuthURL: r.Config.AuthURL, ID: credential.ID, Secret: credential.Secret},
			RegionName: r.Config.Region, Interface: r.Config.Interface, IdentityAPI: 3, Verify: true,
		}
	}
	return cloudsFile{Clouds: map[string]cloud{cloudName: c}}
}

// cloudConfig is the content of the provider's and the add-ons' secret.
func (r *render) cloudConfig() map[string][]byte {
	clouds, err := yaml.Marshal(r.clouds())
	if err != nil {
		panic(fmt.Sprintf("render: %v", err))
	}
	data := map[string][]byte{"clouds.yaml": clouds, "cloud.conf": []byte(r.cloudConf())}
	if len(r.CACert) > 0 {
		data["cacert"] = r.CACert
	}
	return data
}

// cloudConf is the INI file of the cloud controller and the CSI drivers. All
// that goes into it has been checked: no line breaks, brackets or quotes.
func (r *render) cloudConf() string {
	var b strings.Builder
	section := func(name string, lines ...string) {
		b.WriteString("[" + name + "]\n")
		for i := 0; i+1 < len(lines); i += 2 {
			if lines[i+1] != "" {
				b.WriteString(lines[i] + "=" + lines[i+1] + "\n")
			}
		}
	}
	ca := ""
	if len(r.CACert) > 0 {
		ca = "/etc/config/cacert"
	}
	section("Global", "use-clouds", "true", "clouds-file", "/etc/config/clouds.yaml", "cloud", cloudName, "ca-file", ca)
	provider, method := r.text("octavia_provider"), r.text("octavia_lb_algorithm")
	if method == "" {
		method = "ROUND_ROBIN"
		if provider == "ovn" {
			method = "SOURCE_IP_PORT"
		}
	}
	network := first(r.Template.ExternalNetworkID)
	if id := r.Resolved.Networks[network]; id != "" {
		network = id
	}
	if !uuidForm.MatchString(network) {
		network = ""
	}
	monitor := strconv.FormatBool(r.truth("octavia_lb_healthcheck"))
	section("LoadBalancer", "lb-provider", provider, "lb-method", method, "create-monitor", monitor, "floating-network-id", network)
	section("BlockStorage", "ignore-volume-az", "true")
	return b.String()
}

// credentialOf reads a credential back from clouds.yaml; nil if there is none.
func credentialOf(data []byte) (*cloud, error) {
	var f cloudsFile
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read clouds.yaml: %w", err)
	}
	c, ok := f.Clouds[cloudName]
	if !ok || c.Auth.ID == "" {
		return nil, nil
	}
	return &c, nil
}
