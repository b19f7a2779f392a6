package simulated

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// kubernetes is the API server of whichever cluster a request was sent to: its
// health, its version, and its nodes as the rows have them, for reading.
type kubernetes struct{ driver *Driver }

// ServeHTTP implements http.Handler. Who gets here has a certificate of the
// cluster's CA; what it may see is decided as RBAC would: system:masters all,
// others what everyone may.
func (k *kubernetes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "a simulated cluster can be read only")
		return
	}
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/")
	switch path := r.URL.Path; {
	case path == "/healthz" || path == "/livez" || path == "/readyz":
		fmt.Fprint(w, "ok")
	case path == "/version":
		k.nodesOrVersion(w, r, "")
	case path == "/api":
		write(w, http.StatusOK, document{"kind": "APIVersions", "versions": []string{"v1"}})
	case path == "/apis":
		write(w, http.StatusOK, document{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}})
	case path == "/api/v1":
		write(w, http.StatusOK, document{"kind": "APIResourceList", "groupVersion": "v1", "resources": []document{
			{"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "shortNames": []string{"no"}, "verbs": []string{"get", "list"}}}})
	case path == "/api/v1/nodes" || one && name != "" && !strings.Contains(name, "/"):
		if user := r.TLS.PeerCertificates[0].Subject; !slices.Contains(user.Organization, "system:masters") {
			refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("nodes is forbidden: User %q cannot read resource \"nodes\" in API group \"\" at the cluster scope", user.CommonName))
			return
		}
		k.nodesOrVersion(w, r, name)
	default:
		refuse(w, http.StatusNotFound, "NotFound", "a simulated cluster serves its health, its version and its nodes only")
	}
}

type document map[string]any

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who has gone does not miss it
}

// refuse answers with a Status object, as clients expect.
func refuse(w http.ResponseWriter, status int, reason, message string) {
	write(w, status, document{"kind": "Status", "apiVersion": "v1", "metadata": document{}, "status": "Failure",
		"message": message, "reason": reason, "code": status})
}

// nodesOrVersion answers what needs the rows.
func (k *kubernetes) nodesOrVersion(w http.ResponseWriter, r *http.Request, name string) {
	c, err := k.cluster(r)
	if err != nil {
		if !fault.Is(err, fault.NotFound) {
			slog.ErrorContext(r.Context(), "read simulated cluster", "err", err)
		}
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "the cluster cannot be read now")
		return
	}
	if r.URL.Path == "/version" {
		parts := append(strings.Split(strings.TrimPrefix(c.version, "v"), "."), "", "")
		write(w, http.StatusOK, document{"major": parts[0], "minor": parts[1], "gitVersion": c.version, "platform": "linux/amd64"})
		return
	}
	q := r.URL.Query()
	if watch, _ := strconv.ParseBool(q.Get("watch")); watch {
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "a simulated cluster cannot be watched")
		return
	}
	if selected, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
		c.nodes = slices.DeleteFunc(c.nodes, func(n nodeObject) bool { return n.Metadata.Name != selected })
	} else if name != "" {
		c.nodes = slices.DeleteFunc(c.nodes, func(n nodeObject) bool { return n.Metadata.Name != name })
		if len(c.nodes) == 0 {
			refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("nodes %q not found", name))
			return
		}
	}
	table := strings.Contains(r.Header.Get("Accept"), "as=Table")
	switch {
	case table:
		page, meta := c.page(q.Get("limit"), q.Get("continue"))
		write(w, http.StatusOK, tableOf(page, meta, k.driver.now()))
	case name != "":
		write(w, http.StatusOK, c.nodes[0])
	default:
		page, meta := c.page(q.Get("limit"), q.Get("continue"))
		write(w, http.StatusOK, document{"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": page})
	}
}

// cluster is a cluster as Kubernetes tells it.
type cluster struct {
	version string
	nodes   []nodeObject
}

// page is the part of the list that a client asked for.
func (c *cluster) page(limit, from string) ([]nodeObject, document) {
	meta := document{"resourceVersion": "1"}
	start, _ := strconv.Atoi(from)
	start = min(max(start, 0), len(c.nodes))
	end := len(c.nodes)
	if n, err := strconv.Atoi(limit); err == nil && n > 0 && start+n < end {
		end = start + n
		meta["continue"], meta["remainingItemCount"] = strconv.Itoa(end), len(c.nodes)-end
	}
	return c.nodes[start:end], meta
}

// nodeObject is a Node of core/v1, as far as anyone asks for it.
type nodeObject struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		Labels            map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ProviderID string              `json:"providerID"`
		Taints     []map[string]string `json:"taints,omitempty"`
	} `json:"spec"`
	Status struct {
		Conditions []map[string]string `json:"conditions"`
		Addresses  []map[string]string `json:"addresses"`
		NodeInfo   map[string]string   `json:"nodeInfo"`
		Capacity   map[string]string   `json:"capacity"`
	} `json:"status"`
}

// cluster reads the cluster that the request was sent to.
func (k *kubernetes) cluster(r *http.Request) (*cluster, error) {
	ctx, d := r.Context(), k.driver
	local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	which, _ := numberOf(local)
	state, err := d.db.Simulations.ByNumber(ctx, which)
	if err != nil {
		return nil, err
	}
	row, err := d.db.Clusters.ByUUID(ctx, state.ClusterID)
	if err != nil {
		return nil, err
	}
	groups, err := d.db.NodeGroups.OfCluster(ctx, state.ClusterID)
	if err != nil {
		return nil, err
	}
	c := &cluster{version: defaultTag}
	if row.COEVersion != nil {
		c.version = *row.COEVersion
	}
	for _, n := range groups {
		for i, index := range d.present(state, row, n) {
			ready := i >= number(n.Labels, "test_not_ready", 0)
			c.nodes = append(c.nodes, nodeOf(node(row, n, index), row, n, c.version, ready))
		}
	}
	return c, nil
}

func nodeOf(is driver.Node, c magnum.Cluster, n magnum.NodeGroup, version string, ready bool) nodeObject {
	o := nodeObject{Kind: "Node", APIVersion: "v1"}
	o.Metadata.Name, o.Metadata.UID, o.Metadata.ResourceVersion, o.Metadata.CreationTimestamp = is.Name, is.ServerID, "1", n.CreatedAt.UTC().Truncate(time.Second)
	labels := map[string]string{"kubernetes.io/hostname": is.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"magnum.openstack.org/nodegroup": n.Name, "magnum.openstack.org/role": n.Role}
	maps.Copy(labels, n.NodeLabels)
	o.Spec.Taints = n.NodeTaints
	if n.IsMaster() {
		labels["node-role.kubernetes.io/control-plane"] = ""
		o.Spec.Taints = append(slices.Clone(o.Spec.Taints), map[string]string{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
	}
	o.Metadata.Labels, o.Spec.ProviderID = labels, is.ProviderID
	condition := map[string]string{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
	if !ready {
		condition = map[string]string{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "the label test_not_ready says so"}
	}
	condition["lastTransitionTime"], condition["lastHeartbeatTime"] = o.Metadata.CreationTimestamp.Format(time.RFC3339), o.Metadata.CreationTimestamp.Format(time.RFC3339)
	o.Status.Conditions = []map[string]string{condition}
	o.Status.Addresses = []map[string]string{{"type": "InternalIP", "address": is.Address}, {"type": "Hostname", "address": is.Name}}
	o.Status.NodeInfo = map[string]string{"systemUUID": is.ServerID, "machineID": strings.ReplaceAll(is.ServerID, "-", ""), "bootID": is.ServerID,
		"kubeletVersion": version, "kubeProxyVersion": version, "operatingSystem": "linux", "architecture": "amd64", "osImage": "simulated",
		"kernelVersion": "simulated", "containerRuntimeVersion": "simulated://" + strings.TrimPrefix(version, "v")}
	o.Status.Capacity = map[string]string{"cpu": "2", "memory": "4Gi", "pods": "110"}
	return o
}

// tableOf is the list as kubectl prints it.
func tableOf(nodes []nodeObject, meta document, now time.Time) document {
	columns := []document{}
	for _, name := range []string{"Name", "Status", "Roles", "Age", "Version"} {
		columns = append(columns, document{"name": name, "type": "string", "format": map[bool]string{true: "name"}[name == "Name"], "description": name, "priority": 0})
	}
	for _, name := range []string{"Internal-IP", "OS-Image"} {
		columns = append(columns, document{"name": name, "type": "string", "format": "", "description": name, "priority": 1})
	}
	rows := []document{}
	for _, n := range nodes {
		status := map[string]string{"True": "Ready"}[n.Status.Conditions[0]["status"]]
		if status == "" {
			status = "NotReady"
		}
		role := "<none>"
		if _, ok := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]; ok {
			role = "control-plane"
		}
		rows = append(rows, document{
			"cells":  []string{n.Metadata.Name, status, role, age(now.Sub(n.Metadata.CreationTimestamp)), n.Status.NodeInfo["kubeletVersion"], n.Status.Addresses[0]["address"], n.Status.NodeInfo["osImage"]},
			"object": document{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": n.Metadata},
		})
	}
	return document{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows}
}

// age is a time span in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return strconv.Itoa(int(d.Hours())/24) + "d"
	case d >= time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	case d >= time.Minute:
		return strconv.Itoa(int(d.Minutes())) + "m"
	default:
		return strconv.Itoa(max(int(d.Seconds()), 0)) + "s"
	}
}
