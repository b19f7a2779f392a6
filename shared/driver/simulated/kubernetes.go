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

// routes are all that is served.
func (k *kubernetes) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	}
	mux.HandleFunc("/version", k.read(showVersion))
	mux.HandleFunc("/api", discover(document{"kind": "APIVersions", "versions": []string{"v1"}}))
	mux.HandleFunc("/apis", discover(document{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}}))
	mux.HandleFunc("/api/v1", discover(document{"kind": "APIResourceList", "groupVersion": "v1", "resources": []document{
		{"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "shortNames": []string{"no"}, "verbs": []string{"get", "list"}}}}))
	mux.HandleFunc("/api/v1/nodes", k.read(k.nodes))
	mux.HandleFunc("/api/v1/nodes/{name}", k.read(k.nodes))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "NotFound", "a simulated cluster serves its health, its version and its nodes only")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "a simulated cluster can be read only")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func discover(d document) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, d) }
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

// read answers with what the rows say of the cluster.
func (k *kubernetes) read(answer func(http.ResponseWriter, *http.Request, *cluster)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := k.cluster(r)
		if err == nil {
			answer(w, r, c)
			return
		}
		if !fault.Is(err, fault.NotFound) && r.Context().Err() == nil {
			slog.ErrorContext(r.Context(), "read simulated cluster", "err", err)
		}
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "the cluster cannot be read now")
	}
}

func showVersion(w http.ResponseWriter, _ *http.Request, c *cluster) {
	parts := append(strings.Split(strings.TrimPrefix(c.version, "v"), "."), "")
	write(w, http.StatusOK, document{"major": parts[0], "minor": parts[1], "gitVersion": c.version, "platform": "linux/amd64"})
}

// nodes lists the nodes, or gives one. Who gets here has a certificate of the
// cluster's CA; nodes are for system:masters, as RBAC would have it.
func (k *kubernetes) nodes(w http.ResponseWriter, r *http.Request, c *cluster) {
	if user := r.TLS.PeerCertificates[0].Subject; !slices.Contains(user.Organization, "system:masters") {
		refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("nodes is forbidden: User %q cannot read resource \"nodes\" in API group \"\" at the cluster scope", user.CommonName))
		return
	}
	q, name := r.URL.Query(), r.PathValue("name")
	if watch, _ := strconv.ParseBool(q.Get("watch")); watch {
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "a simulated cluster cannot be watched")
		return
	}
	wanted, one := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	if name != "" {
		wanted, one = name, true
	}
	if one {
		c.nodes = slices.DeleteFunc(c.nodes, func(n nodeObject) bool { return n.Metadata.Name != wanted })
	}
	if name != "" && len(c.nodes) == 0 {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("nodes %q not found", name))
		return
	}
	page, meta := c.page(q.Get("limit"), q.Get("continue"))
	switch {
	case strings.Contains(r.Header.Get("Accept"), "as=Table"):
		write(w, http.StatusOK, tableOf(page, meta, k.driver.now()))
	case name != "":
		write(w, http.StatusOK, page[0])
	default:
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
	condition["lastTransitionTime"] = o.Metadata.CreationTimestamp.Format(time.RFC3339)
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
	var columns []document
	for i, name := range []string{"Name", "Status", "Roles", "Age", "Version", "Internal-IP", "OS-Image"} {
		c := document{"name": name, "type": "string", "format": "", "description": "", "priority": i / 5} // the last two are for -o wide
		if i == 0 {
			c["format"] = "name"
		}
		columns = append(columns, c)
	}
	rows := []document{}
	for _, n := range nodes {
		status, role := "Ready", "<none>"
		if n.Status.Conditions[0]["status"] != "True" {
			status = "NotReady"
		}
		if _, ok := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]; ok {
			role = "control-plane"
		}
		rows = append(rows, document{
			"cells": []string{n.Metadata.Name, status, role, age(now.Sub(n.Metadata.CreationTimestamp)), n.Status.NodeInfo["kubeletVersion"],
				n.Status.Addresses[0]["address"], n.Status.NodeInfo["osImage"]},
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
