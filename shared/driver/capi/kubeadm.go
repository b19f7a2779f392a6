package capi

import (
	"net/url"

	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// What kubeadm and the first boot of a node are told. No text of a user's
// reaches a shell: it goes into files and flags, and each was checked.

type args []bootstrapv1.Arg

func (a *args) set(name, value string) {
	*a = append(*a, bootstrapv1.Arg{Name: name, Value: ptr.To(value)})
}

func (a *args) setIf(name, value string) {
	if value != "" {
		a.set(name, value)
	}
}

// sorted gives each flag once, the last one wins.
func (a args) sorted() []bootstrapv1.Arg {
	last := map[string]bootstrapv1.Arg{}
	for _, x := range a {
		last[x.Name] = x
	}
	var out []bootstrapv1.Arg
	for _, x := range last {
		out = append(out, x)
	}
	slices.SortFunc(out, func(x, y bootstrapv1.Arg) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// ignition reports whether nodes boot by Ignition: what the image says, else
// the template.
func (r *render) ignition(g *group) bool {
	distro := r.Resolved.Images[g.image].Distro
	if distro == "" {
		distro = first(r.Template.ClusterDistro)
	}
	return strings.EqualFold(distro, "flatcar")
}

// registration is how a node of the group joins.
func (r *render) registration(g *group) bootstrapv1.NodeRegistrationOptions {
	var a args
	a.set("cloud-provider", "external")
	a.setIf("tls-cipher-suites", strings.Join(g.list("kubelet_tls_cipher_suites"), ","))
	plain := map[string]string{}
	for k, v := range g.NodeLabels {
		if !synced(k) {
			plain[k] = v
		}
	}
	a.setIf("node-labels", pairs(plain))
	for _, option := range g.list("kubelet_options") {
		name, value, _ := strings.Cut(strings.TrimPrefix(option, "--"), "=")
		a.set(name, value)
	}
	n := bootstrapv1.NodeRegistrationOptions{Name: "{{ local_hostname }}", KubeletExtraArgs: a.sorted()}
	if r.ignition(g) {
		n.Name = "${COREOS_OPENSTACK_HOSTNAME}"
	}
	if len(g.NodeTaints) > 0 {
		taints := []corev1.Taint{}
		for _, t := range g.NodeTaints {
			taints = append(taints, corev1.Taint{Key: t["key"], Value: t["value"], Effect: corev1.TaintEffect(t["effect"])})
		}
		n.Taints = &taints
	}
	return n
}

// nodeConfig is what nodes of every role have in common.
func (r *render) nodeConfig(g *group) bootstrapv1.KubeadmConfigSpec {
	spec := bootstrapv1.KubeadmConfigSpec{Format: bootstrapv1.CloudConfig}
	if r.ignition(g) {
		spec.Format = bootstrapv1.Ignition
		spec.Ignition.ContainerLinuxConfig.AdditionalConfig = flatcarUnits
		spec.PreKubeadmCommands = []string{
			"export COREOS_OPENSTACK_HOSTNAME=${COREOS_OPENSTACK_HOSTNAME%.*}",
			"envsubst < /etc/kubeadm.yml > /etc/kubeadm.yml.tmp",
			"mv /etc/kubeadm.yml.tmp /etc/kubeadm.yml",
		}
	}
	r.proxy(g, &spec)
	r.insecureRegistry(&spec)
	if r.dockerVolume(g) > 0 {
		disk(&spec, "docker", "/var/lib/containerd")
	}
	return spec
}

// flatcarUnits make kubeadm wait for the metadata that its file refers to.
const flatcarUnits = `systemd:
  units:
  - name: coreos-metadata-sshkeys@.service
    enabled: true
  - name: kubeadm.service
    enabled: true
    dropins:
    - name: 10-flatcar.conf
      contents: |
        [Unit]
        Requires=containerd.service coreos-metadata.service
        After=containerd.service coreos-metadata.service
        [Service]
        EnvironmentFile=/run/metadata/flatcar
`

// disk formats a volume, which is found by its tag, and mounts it.
func disk(spec *bootstrapv1.KubeadmConfigSpec, tag, where string) {
	label := tag + "_disk"
	spec.DiskSetup.Filesystems = append(spec.DiskSetup.Filesystems, bootstrapv1.Filesystem{
		Device: "/dev/disk/openstack/by-tag/" + tag, Filesystem: "ext4", Label: label, Overwrite: ptr.To(false),
	})
	spec.Mounts = append(spec.Mounts, bootstrapv1.MountPoints{"LABEL=" + label, where})
}

func file(path, content string) bootstrapv1.File {
	return bootstrapv1.File{Path: path, Owner: "root:root", Permissions: "0644", Content: content}
}

func (r *render) proxy(g *group, spec *bootstrapv1.KubeadmConfigSpec) {
	http, https := first(r.Template.HTTPProxy), first(r.Template.HTTPSProxy)
	if http == "" && https == "" {
		return
	}
	var unit, apt strings.Builder
	unit.WriteString("[Service]\n")
	for _, p := range []struct{ name, value, scheme string }{{"HTTP_PROXY", http, "http"}, {"HTTPS_PROXY", https, "https"}} {
		u, err := url.Parse(p.value)
		if p.value == "" || err != nil {
			continue
		}
		// A percent sign is special in a unit's file.
		unit.WriteString(`Environment="` + p.name + "=" + strings.ReplaceAll(u.String(), "%", "%%") + "\"\n")
		apt.WriteString("Acquire::" + p.scheme + `::Proxy "` + u.String() + "\";\n")
	}
	unit.WriteString(`Environment="NO_PROXY=` + strings.Join(r.noProxy(), ",") + "\"\n")
	for _, service := range []string{"containerd", "kubelet"} {
		spec.Files = append(spec.Files, file("/etc/systemd/system/"+service+".service.d/http-proxy.conf", unit.String()))
	}
	if !r.ignition(g) {
		spec.Files = append(spec.Files, file("/etc/apt/apt.conf.d/90proxy", apt.String()))
	}
	spec.PreKubeadmCommands = append(spec.PreKubeadmCommands, "systemctl daemon-reload", "systemctl restart containerd")
}

// noProxy is the user's list and what a cluster must reach by itself.
func (r *render) noProxy() []string {
	domain := r.text("dns_cluster_domain")
	out := append(split(first(r.Template.NoProxy)), "localhost", "127.0.0.1", "169.254.169.254", "."+domain, ".svc",
		r.podCIDR(), r.text("service_cluster_ip_range"))
	if first(r.desired().FixedNetwork, r.Template.FixedNetwork) == "" {
		out = append(out, r.text("fixed_subnet_cidr"))
	}
	if live := r.Observed.Cluster; live != nil && live.Spec.ControlPlaneEndpoint.Host != "" {
		out = append(out, live.Spec.ControlPlaneEndpoint.Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *render) insecureRegistry(spec *bootstrapv1.KubeadmConfigSpec) {
	for _, registry := range split(first(r.Template.InsecureRegistry)) {
		registry = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://"), "/")
		if strings.Contains(registry, "..") || strings.ContainsAny(registry, "/* ") {
			continue
		}
		spec.Files = append(spec.Files, file("/etc/containerd/certs.d/"+registry+"/hosts.toml",
			"server = \"https://"+registry+"\"\n\n[host.\"https://"+registry+"\"]\n  skip_verify = true\n"))
	}
}

// controlPlaneConfig is kubeadm's configuration of the control plane.
func (r *render) controlPlaneConfig(g *group) bootstrapv1.KubeadmConfigSpec {
	spec := r.nodeConfig(g)
	registration := r.registration(g)
	spec.InitConfiguration = bootstrapv1.InitConfiguration{NodeRegistration: registration}
	spec.JoinConfiguration = bootstrapv1.JoinConfiguration{NodeRegistration: registration}

	var scheduler, controllers, etcd args
	scheduler.set("profiling", "false")
	controllers.set("profiling", "false")
	controllers.set("cloud-provider", "external")
	// etcd on network storage: fewer elections, and room to grow.
	etcd.set("heartbeat-interval", "500")
	etcd.set("election-timeout", "5000")
	etcd.set("quota-backend-bytes", "4294967296")

	api, volumes := r.apiServerArgs(g, &spec)
	sans := g.list("api_server_cert_sans")
	if address := r.text("api_server_floating_ip"); address != "" {
		sans = append(sans, address)
	}
	slices.Sort(sans)
	spec.ClusterConfiguration = bootstrapv1.ClusterConfiguration{
		ImageRepository:   r.text("container_infra_prefix"),
		APIServer:         bootstrapv1.APIServer{ExtraArgs: api, ExtraVolumes: volumes, CertSANs: slices.Compact(sans)},
		ControllerManager: bootstrapv1.ControllerManager{ExtraArgs: controllers.sorted()},
		Scheduler:         bootstrapv1.Scheduler{ExtraArgs: scheduler.sorted()},
		// A folder inside the mount: kubeadm wants an empty one, and a file
		// system has its lost+found.
		Etcd: bootstrapv1.Etcd{Local: bootstrapv1.LocalEtcd{DataDir: "/var/lib/etcd/data", ExtraArgs: etcd.sorted()}},
	}
	if g.number("etcd_volume_size") > 0 {
		disk(&spec, "etcd", "/var/lib/etcd")
	}
	return spec
}

const (
	auditFolder    = "/etc/kubernetes/audit-policy"
	auditPolicy    = auditFolder + "/policy.yaml"
	auditLogs      = "/var/log/kubernetes/audit"
	keystoneFolder = "/etc/kubernetes/keystone-auth"
)

func (r *render) apiServerArgs(g *group, spec *bootstrapv1.KubeadmConfigSpec) ([]bootstrapv1.Arg, []bootstrapv1.HostPathMount) {
	var a args
	var volumes []bootstrapv1.HostPathMount
	a.set("profiling", "false")
	plugins := append([]string{"NodeRestriction"}, g.list("admission_control_list")...)
	slices.Sort(plugins)
	a.set("enable-admission-plugins", strings.Join(slices.Compact(plugins), ","))
	a.setIf("tls-cipher-suites", strings.Join(g.list("api_server_tls_cipher_suites"), ","))
	if issuer := g.text("oidc_issuer_url"); issuer != "" {
		a.set("oidc-issuer-url", issuer)
		a.setIf("oidc-client-id", g.text("oidc_client_id"))
		a.setIf("oidc-username-claim", g.text("oidc_username_claim"))
		a.setIf("oidc-username-prefix", g.text("oidc_username_prefix"))
		a.setIf("oidc-groups-claim", g.text("oidc_groups_claim"))
		a.setIf("oidc-groups-prefix", g.text("oidc_groups_prefix"))
	}
	if g.truth("audit_log_enabled") {
		a.set("audit-policy-file", auditPolicy)
		a.set("audit-log-path", auditLogs+"/kube-apiserver.log")
		a.set("audit-log-maxage", g.text("audit_log_max_age"))
		a.set("audit-log-maxbackup", g.text("audit_log_max_backup"))
		a.set("audit-log-maxsize", g.text("audit_log_max_size"))
		spec.Files = append(spec.Files, file(auditPolicy, auditRules))
		volumes = append(volumes,
			bootstrapv1.HostPathMount{Name: "audit-policy", HostPath: auditFolder, MountPath: auditFolder, ReadOnly: ptr.To(true), PathType: corev1.HostPathDirectoryOrCreate},
			bootstrapv1.HostPathMount{Name: "audit-logs", HostPath: auditLogs, MountPath: auditLogs, ReadOnly: ptr.To(false), PathType: corev1.HostPathDirectoryOrCreate})
	}
	if r.keystoneAuth() {
		a.set("authentication-token-webhook-config-file", keystoneFolder+"/webhook.yaml")
		a.set("authorization-config", keystoneFolder+"/authorization.yaml")
		spec.Files = append(spec.Files, file(keystoneFolder+"/webhook.yaml", keystoneWebhook), file(keystoneFolder+"/authorization.yaml", keystoneAuthorization))
		volumes = append(volumes, bootstrapv1.HostPathMount{Name: "keystone-auth", HostPath: keystoneFolder, MountPath: keystoneFolder, ReadOnly: ptr.To(true), PathType: corev1.HostPathDirectoryOrCreate})
	}
	return a.sorted(), volumes
}

// auditRules keep who changed what, and nothing that is in a secret.
const auditRules = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: [watch]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version"]
- level: Metadata
  resources:
  - group: ""
    resources: [secrets, configmaps, serviceaccounts/token]
  - group: authentication.k8s.io
    resources: [tokenreviews]
- level: None
  verbs: [get, list, watch]
- level: Request
`

// The add-on keystone-auth listens on each control plane node.
const keystoneWebhook = `apiVersion: v1
kind: Config
clusters:
- name: keystone-auth
  cluster: {server: "https://127.0.0.1:8443/webhook", insecure-skip-tls-verify: true}
users:
- {name: keystone-auth}
contexts:
- {name: keystone-auth, context: {cluster: keystone-auth, user: keystone-auth}}
current-context: keystone-auth
`

const keystoneAuthorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- {type: RBAC, name: rbac}
- type: Webhook
  name: keystone-auth
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: ` + keystoneFolder + `/webhook.yaml}
`
