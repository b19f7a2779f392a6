package capi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Addons are the manifests that an operator gives: <add-on>/<minor>/*.yaml,
// such as calico/1.35/calico.yaml. Carafe brings none of its own, only what
// ties them to a cluster: the cloud's configuration, the storage classes, the
// values of placeholders, the images' prefix.
type Addons struct {
	sets map[string]map[string]*addon // by name, by minor
}

type addon struct {
	name, minor string
	files       map[string][]map[string]any // by file, each object parsed
	removed     *removed
}

// removed is removed.yaml: what an earlier version of the add-on held and this
// one does not. Cluster API never takes such things away.
type removed struct {
	Image   string `json:"image"` // has kubectl
	Objects []struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
	} `json:"objects"`
}

// addonTags are the add-ons and the label that gives their ${TAG}.
var addonTags = map[string]string{
	"ccm": "cloud_provider_tag", "calico": "calico_tag", "cilium": "cilium_tag",
	"csi-cinder": "cinder_csi_plugin_tag", "csi-manila": "manila_csi_plugin_tag",
	"keystone-auth": "", "metrics-server": "", "dashboard": "", "monitoring": "",
}

// Cluster API applies one Secret as one piece, and a Secret holds 1 MiB.
const addonBytes = 900 << 10

var (
	minorForm       = regexp.MustCompile(`^1\.\d+$`)
	placeholderForm = regexp.MustCompile(`\$\{([A-Z_]+)(:-([^}]*))?\}`)
	placeholders    = []string{"TAG", "CLUSTER_NAME", "CLUSTER_UUID", "PROJECT_ID", "POD_CIDR", "SERVICE_CIDR", "DNS_DOMAIN", "AUTH_URL", "REGION", "SHARE_NETWORK", "EXTERNAL_NETWORK"}
)

// LoadAddons reads a folder of add-ons; all that is wrong with it is in the
// error.
func LoadAddons(folder string) (*Addons, error) {
	a := &Addons{sets: map[string]map[string]*addon{}}
	names, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the add-ons: %w", err)
	}
	var errs []error
	for _, n := range names {
		// A mounted ConfigMap has hidden folders of its own.
		if strings.HasPrefix(n.Name(), ".") || !isFolder(filepath.Join(folder, n.Name())) {
			continue
		}
		if _, ok := addonTags[n.Name()]; !ok {
			errs = append(errs, fmt.Errorf("%s: no add-on of that name; there are %s", n.Name(), strings.Join(slices.Sorted(maps.Keys(addonTags)), ", ")))
			continue
		}
		minors, err := os.ReadDir(filepath.Join(folder, n.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, m := range minors {
			where := filepath.Join(folder, n.Name(), m.Name())
			if strings.HasPrefix(m.Name(), ".") || !isFolder(where) {
				continue
			}
			if !minorForm.MatchString(m.Name()) {
				errs = append(errs, fmt.Errorf("%s/%s: the folder is not named by a minor version such as 1.35", n.Name(), m.Name()))
				continue
			}
			one, err := loadAddon(n.Name(), m.Name(), os.DirFS(where))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if a.sets[one.name] == nil {
				a.sets[one.name] = map[string]*addon{}
			}
			a.sets[one.name][one.minor] = one
		}
	}
	return a, errors.Join(errs...)
}

// isFolder follows links: a mounted folder is made of them.
func isFolder(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// Verify checks a folder of add-ons for `carafe addons verify`; it gives what
// is there, one line each.
func Verify(folder string) ([]string, error) {
	a, err := LoadAddons(folder)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.sets)) {
		for _, minor := range slices.Sorted(maps.Keys(a.sets[name])) {
			objects := 0
			for _, f := range a.sets[name][minor].files {
				objects += len(f)
			}
			out = append(out, fmt.Sprintf("%s %s: %d objects in %d files", name, minor, objects, len(a.sets[name][minor].files)))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no add-on: it should have folders such as calico/1.35", folder)
	}
	return out, nil
}

func loadAddon(name, minor string, folder fs.FS) (*addon, error) {
	a := &addon{name: name, minor: minor, files: map[string][]map[string]any{}}
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	var errs []error
	bytes := 0
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		data, err := fs.ReadFile(folder, e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		where := name + "/" + minor + "/" + e.Name()
		if e.Name() == "removed.yaml" {
			a.removed = &removed{}
			if err := yaml.UnmarshalStrict(data, a.removed); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", where, err))
			} else if a.removed.Image == "" || len(a.removed.Objects) == 0 {
				errs = append(errs, fmt.Errorf("%s: needs image (with kubectl) and objects", where))
			}
			continue
		}
		objects, err := parseManifests(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
			continue
		}
		bytes += len(data)
		a.files[e.Name()] = objects
	}
	if len(a.files) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s/%s: no manifest in it", name, minor))
	}
	if bytes > addonBytes {
		errs = append(errs, fmt.Errorf("%s/%s: %d bytes; at most %d fit into a Secret", name, minor, bytes, addonBytes))
	}
	return a, errors.Join(errs...)
}

var documentEnd = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?$`)

func parseManifests(data []byte) ([]map[string]any, error) {
	var out []map[string]any
	var errs []error
	for i, part := range documentEnd.Split(string(data), -1) {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i+1, err))
			continue
		}
		if len(o) == 0 {
			continue
		}
		kind, _ := o["kind"].(string)
		version, _ := o["apiVersion"].(string)
		meta, _ := o["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if kind == "" || version == "" || name == "" {
			errs = append(errs, fmt.Errorf("document %d: has no apiVersion, kind or name", i+1))
			continue
		}
		eachString(o, func(s string) string {
			for _, m := range placeholderForm.FindAllStringSubmatch(s, -1) {
				if !slices.Contains(placeholders, m[1]) {
					errs = append(errs, fmt.Errorf("document %d (%s %s): unknown placeholder %s; there are %s", i+1, kind, name, m[0], strings.Join(placeholders, ", ")))
				}
			}
			return s
		})
		out = append(out, o)
	}
	return out, errors.Join(errs...)
}

// eachString replaces every string value in place.
func eachString(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case map[string]any:
		for k, x := range v {
			v[k] = eachString(x, f)
		}
	case []any:
		for i, x := range v {
			v[i] = eachString(x, f)
		}
	}
	return v
}

// has reports whether there is an add-on for a version of Kubernetes.
func (a *Addons) has(name, version string) bool {
	return a != nil && a.sets[name][minorName(version)] != nil
}

// supports refuses a version that the add-ons every cluster needs are not
// there for.
func (a *Addons) supports(version string, needed ...string) error {
	if a == nil {
		return nil
	}
	for _, name := range needed {
		if a.has(name, version) {
			continue
		}
		minors := slices.Collect(maps.Keys(a.sets[name]))
		slices.SortFunc(minors, func(x, y string) int { return minor(x) - minor(y) })
		if len(minors) == 0 {
			return fault.New(fault.Invalid, "This installation has no add-on %s.", name).WithReason(fault.ReasonConfiguration)
		}
		return fault.New(fault.Invalid, "This installation supports Kubernetes %s with the add-on %s, not %s.", strings.Join(minors, ", "), name, minorName(version)).WithReason(fault.ReasonConfiguration)
	}
	return nil
}

// keystoneAuth reports whether users sign in with Keystone tokens.
func (r *render) keystoneAuth() bool {
	if r.set("keystone_auth_enabled") {
		return r.truth("keystone_auth_enabled")
	}
	return r.Addons.has("keystone-auth", r.version)
}

// chosenAddons are the add-ons of this cluster, in the order of their need.
func (r *render) chosenAddons(version string) ([]string, error) {
	if version == unknownVersion {
		return nil, nil
	}
	needed := []string{"ccm", r.networkDriver()}
	if err := r.Addons.supports(version, needed...); err != nil {
		return nil, err
	}
	var out []string
	if r.Addons != nil {
		out = needed
	}
	optional := func(name string, wanted, asked bool) error {
		if !wanted {
			return nil
		}
		if r.Addons.has(name, version) {
			out = append(out, name)
			return nil
		}
		if asked {
			return fault.New(fault.Invalid, "This installation has no add-on %s for Kubernetes %s.", name, minorName(version)).WithReason(fault.ReasonConfiguration)
		}
		return nil
	}
	asked := func(label string) bool { return r.set(label) && r.truth(label) }
	volumes := r.truth("cinder_csi_enabled")
	return out, errors.Join(
		optional("csi-cinder", volumes, volumes && first(r.Template.VolumeDriver) == "cinder" && r.Addons != nil || asked("cinder_csi_enabled")),
		optional("csi-manila", r.truth("manila_csi_enabled"), true),
		optional("keystone-auth", r.keystoneAuth(), asked("keystone_auth_enabled")),
		optional("metrics-server", !r.set("metrics_server_enabled") || r.truth("metrics_server_enabled"), asked("metrics_server_enabled")),
		optional("dashboard", r.truth("kube_dashboard_enabled"), true),
		optional("monitoring", r.truth("monitoring_enabled"), true),
	)
}

// addons renders the add-ons' secrets and the set that applies them. In an
// upgrade they move to the new minor after the control plane has.
func (r *render) addons() error {
	version := r.cpVersion
	if r.Observed.ControlPlane != nil && !r.Observed.level(version) {
		version = r.lowestVersion()
	}
	if op := r.desired().Operation; op.Kind == magnum.ClusterCreate || op.Kind == magnum.ClusterUpgrade {
		if _, err := r.chosenAddons(r.version); err != nil {
			return err
		}
	}
	names, err := r.chosenAddons(version)
	if err != nil {
		return err
	}
	meta := r.meta(r.name, nil)
	meta.Annotations = map[string]string{}
	var resources []any
	var content []any
	put := func(name string, files map[string]string) {
		if files != nil {
			if name != "cloud-config" {
				content = append(content, name, files)
			}
			data := map[string][]byte{}
			for k, v := range files {
				data[k] = []byte(v)
			}
			r.add(waveTemplates, r.secret(addonName(r.name, name), "addons.cluster.x-k8s.io/resource-set", data))
		}
		resources = append(resources, map[string]any{"kind": "Secret", "name": addonName(r.name, name)})
	}

	sum := ""
	if r.Config.AuthURL != "" {
		files := r.cloudConfigAddon()
		if files != nil {
			sum = contentHash(files)[:16]
		} else if live := r.Observed.ResourceSet; live != nil {
			sum = live.Annotations[annotationContentHash]
		}
		if sum != "" {
			meta.Annotations[annotationContentHash] = sum
			put("cloud-config", files)
		}
	}
	put("rbac", map[string]string{"rbac.yaml": adminBinding})
	for _, name := range names {
		put(name, r.addonFiles(r.Addons.sets[name][minorName(version)], sum))
	}
	if slices.Contains(names, "csi-cinder") {
		put("storage-classes", map[string]string{"storage-classes.yaml": r.storageClasses()})
	}
	meta.Annotations[annotationSpecHash] = contentHash(content)[:26]
	r.add(waveCluster, object(resourceSetKind, meta, map[string]any{"spec": map[string]any{
		"strategy":        "Reconcile",
		"clusterSelector": map[string]any{"matchLabels": map[string]any{labelClusterUUID: r.UUID}},
		"resources":       resources,
	}}))
	return nil
}

// adminBinding is for the certificates that Magnum signs for "admin".
const adminBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: magnum-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: admin}]
`

// cloudConfigAddon is the secret that the cloud controller and the CSI drivers
// read; nil without a credential at hand.
func (r *render) cloudConfigAddon() map[string]string {
	if r.desired().Credential == nil {
		return nil
	}
	data := map[string]any{}
	for k, v := range r.cloudConfig() {
		data[k] = base64.StdEncoding.EncodeToString(v)
	}
	return map[string]string{"cloud-config.yaml": manifest(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{"name": "cloud-config", "namespace": "kube-system"}, "data": data,
	})}
}

func manifest(objects ...map[string]any) string {
	var parts []string
	for _, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			panic(fmt.Sprintf("render: %v", err))
		}
		parts = append(parts, string(data))
	}
	return strings.Join(parts, "---\n")
}

// addonFiles fills in an add-on's manifests. A value goes into a parsed string
// and cannot become structure.
func (r *render) addonFiles(a *addon, sum string) map[string]string {
	network := first(r.Template.ExternalNetworkID)
	if id := r.Resolved.Networks[network]; id != "" {
		network = id
	}
	values := map[string]string{
		"CLUSTER_NAME": r.name, "CLUSTER_UUID": r.UUID, "PROJECT_ID": r.ProjectID,
		"POD_CIDR": r.podCIDR(), "SERVICE_CIDR": r.text("service_cluster_ip_range"), "DNS_DOMAIN": r.text("dns_cluster_domain"),
		"AUTH_URL": r.Config.AuthURL, "REGION": r.Config.Region, "SHARE_NETWORK": r.text("manila_csi_share_network_id"), "EXTERNAL_NETWORK": network,
	}
	if label := addonTags[a.name]; label != "" {
		values["TAG"] = r.text(label)
	}
	prefix := strings.TrimSuffix(r.text("container_infra_prefix"), "/")
	out := map[string]string{}
	for name, objects := range a.files {
		var filled []map[string]any
		for _, o := range objects {
			o = plain(o).(map[string]any)
			eachString(o, func(s string) string {
				return placeholderForm.ReplaceAllStringFunc(s, func(p string) string {
					m := placeholderForm.FindStringSubmatch(p)
					if v := values[m[1]]; v != "" {
						return v
					}
					return m[3]
				})
			})
			if prefix != "" {
				prefixImages(o, prefix)
			}
			if sum != "" && (a.name == "ccm" || strings.HasPrefix(a.name, "csi-") || a.name == "keystone-auth") {
				annotatePods(o, sum)
			}
			filled = append(filled, o)
		}
		out[name] = manifest(filled...)
	}
	if a.removed != nil {
		out["zz-removed.yaml"] = removal(a, prefix)
	}
	return out
}

// prefixImages keeps the last part of each image's path and puts the prefix before it.
func prefixImages(v any, prefix string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if s, ok := x.(string); ok && k == "image" {
				v[k] = prefix + "/" + s[strings.LastIndex(s, "/")+1:]
				continue
			}
			prefixImages(x, prefix)
		}
	case []any:
		for _, x := range v {
			prefixImages(x, prefix)
		}
	}
}

// annotatePods makes pods start anew when the cloud's configuration changes.
func annotatePods(o map[string]any, sum string) {
	spec, _ := o["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	if template == nil || !slices.Contains([]any{"Deployment", "DaemonSet", "StatefulSet"}, o["kind"]) {
		return
	}
	meta, _ := template["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		template["metadata"] = meta
	}
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	annotations[annotationContentHash] = sum
}

// removal is a Job that deletes what the add-on no longer has.
func removal(a *addon, prefix string) string {
	image := a.removed.Image
	if prefix != "" {
		image = prefix + "/" + image[strings.LastIndex(image, "/")+1:]
	}
	name := "carafe-removed-" + a.name + "-" + contentHash(a.removed)[:8]
	var containers []any
	for i, o := range a.removed.Objects {
		group, version, ok := strings.Cut(o.APIVersion, "/")
		kind := o.Kind
		if ok {
			kind += "." + version + "." + group
		}
		command := []any{"kubectl", "delete", "--ignore-not-found", kind, o.Name}
		if o.Namespace != "" {
			command = append(command, "--namespace", o.Namespace)
		}
		containers = append(containers, map[string]any{"name": "delete-" + strconv.Itoa(i), "image": image, "command": command})
	}
	meta := func() map[string]any { return map[string]any{"name": name, "namespace": "kube-system"} }
	return manifest(
		map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta()},
		map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}},
		},
		map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": meta(),
			"spec": map[string]any{"backoffLimit": 10, "template": map[string]any{"spec": map[string]any{
				"serviceAccountName": name, "restartPolicy": "OnFailure", "hostNetwork": true,
				"tolerations":    []any{map[string]any{"operator": "Exists"}},
				"initContainers": containers[:len(containers)-1], "containers": containers[len(containers)-1:],
			}}},
		})
}

// storageClasses has one class for each volume type; the first is the default.
func (r *render) storageClasses() string {
	types := r.Config.VolumeTypes
	if len(types) == 0 {
		types = []string{""}
	}
	var out []map[string]any
	for i, t := range types {
		meta := map[string]any{"name": "cinder"}
		parameters := map[string]any{"availability": r.text("csi_cinder_availability_zone"), "csi.storage.k8s.io/fstype": r.text("csi_cinder_fstype")}
		if t != "" {
			meta["name"] = "cinder-" + slug(t, 50)
			parameters["type"] = t
		}
		if i == 0 {
			meta["annotations"] = map[string]any{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		out = append(out, map[string]any{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta,
			"provisioner": "cinder.csi.openstack.org", "parameters": parameters,
			"reclaimPolicy": r.text("csi_cinder_reclaim_policy"), "volumeBindingMode": r.text("csi_cinder_volume_binding_mode"),
			"allowVolumeExpansion": r.truth("csi_cinder_allow_volume_expansion"),
		})
	}
	return manifest(out...)
}
