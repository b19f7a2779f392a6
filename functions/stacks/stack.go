package stacks

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

// tree is a cluster as Heat would have it.
type tree struct {
	cluster magnum.Cluster
	groups  []magnum.NodeGroup
	nodes   map[string][]driver.Node // by node group uuid
}

// stack is one level of it.
type stack struct {
	id, name  string
	status    magnum.Status
	reason    string
	created   time.Time
	updated   *time.Time
	outputs   map[string]any
	resources []resource
}

// resource is a part of a stack. One that is a stack itself is nested.
type resource struct {
	name, physicalID, kind string
	status                 magnum.Status
	reason                 string
	nested                 *stack
}

// Types of resources, as Heat's and Magnum's templates name them.
const (
	groupType  = "OS::Heat::ResourceGroup"
	nodeType   = "file:///kubeminion.yaml"
	serverType = "OS::Nova::Server"
	setupType  = "OS::Heat::SoftwareDeployment"
)

// find gives the stack of the id: the cluster's, a node group's, the one of its
// nodes, or of one node.
func (t *tree) find(id, groupID, index string) *stack {
	if t.cluster.StackID != nil && *t.cluster.StackID == id {
		return t.top(id, t.cluster.Status, t.cluster.StatusReason, t.cluster.CreatedAt, t.cluster.UpdatedAt, true)
	}
	for _, n := range t.groups {
		switch {
		case n.UUID == groupID && index == "":
			return t.nodesOf(n)
		case n.UUID == groupID:
			for _, r := range t.nodesOf(n).resources {
				if r.name == index {
					return r.nested
				}
			}
		case n.StackID != nil && *n.StackID == id:
			return t.top(id, n.Status, n.StatusReason, n.CreatedAt, n.UpdatedAt, false, n)
		}
	}
	return nil
}

// top is the stack of the cluster, with its default groups, or of one group.
func (t *tree) top(id string, status magnum.Status, reason *string, created time.Time, updated *time.Time, whole bool, groups ...magnum.NodeGroup) *stack {
	s := &stack{id: id, name: id, status: status, reason: text(reason), created: created, updated: updated}
	if whole {
		for _, n := range t.groups {
			if n.IsDefault {
				groups = append(groups, n)
			}
		}
	}
	for _, n := range groups {
		name := "kube_minions"
		if n.IsMaster() {
			name = "kube_masters"
		}
		nodes := t.nodesOf(n)
		s.resources = append(s.resources, resource{name: name, physicalID: nodes.id, kind: groupType, status: n.Status, reason: nodes.reason, nested: nodes})
	}
	return s
}

// nodesOf is the stack of a group's nodes. An index without a server has the
// value in refs_map that it has in Heat until there is one.
func (t *tree) nodesOf(n magnum.NodeGroup) *stack {
	server := "kube-minion"
	if n.IsMaster() {
		server = "kube-master"
	}
	s := &stack{id: n.UUID, name: n.Name + "-" + n.UUID[:8], status: n.Status, reason: text(n.StatusReason), created: n.CreatedAt, updated: n.UpdatedAt}
	refs := map[string]string{}
	for _, x := range t.nodes[n.UUID] {
		status, reason := magnum.CreateComplete, ""
		refs[x.Index] = x.ServerID
		if x.ServerID == "" {
			refs[x.Index], status = server, magnum.CreateInProgress
			if n.Status == magnum.CreateFailed || n.Status == magnum.UpdateFailed {
				status, reason = magnum.CreateFailed, s.reason
			}
			if x.Fault != "" {
				status, reason = magnum.CreateFailed, x.Fault
			}
		}
		one := &stack{id: n.UUID + "-" + x.Index, name: s.name + "-" + x.Index, status: status, reason: reason, created: n.CreatedAt, resources: []resource{
			{name: server, physicalID: x.ServerID, kind: serverType, status: status, reason: reason},
			{name: "node_config_deployment", physicalID: x.ServerID, kind: setupType, status: status, reason: reason},
		}}
		s.resources = append(s.resources, resource{name: x.Index, physicalID: one.id, kind: nodeType, status: status, reason: reason, nested: one})
	}
	s.outputs = map[string]any{"refs_map": refs}
	return s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// base is the address below which a request has found its stack.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: r.Host, Path: path + "/v1/" + chi.URLParam(r, "project") + "/stacks"}
	return u.String()
}

// depth is how many levels below the stack a list goes.
func depth(r *http.Request) int {
	n, _ := strconv.Atoi(r.URL.Query().Get("nested_depth")) // 0 if it is no number
	return min(n, 5)
}

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

func (s *stack) href(base string) string { return base + "/" + url.PathEscape(s.name) + "/" + s.id }

// stackDocument is a stack as the API shows it.
type stackDocument struct {
	ID           string            `json:"id"`
	Name         string            `json:"stack_name"`
	Status       magnum.Status     `json:"stack_status"`
	StatusReason string            `json:"stack_status_reason"`
	CreationTime string            `json:"creation_time"`
	UpdatedTime  *string           `json:"updated_time"`
	Description  string            `json:"description"`
	Parameters   map[string]string `json:"parameters"`
	Outputs      []output          `json:"outputs"`
	Links        []link            `json:"links"`
	Tags         []string          `json:"tags"`
	Capabilities []string          `json:"capabilities"`
	Topics       []string          `json:"notification_topics"`
}

type output struct {
	Key         string `json:"output_key"`
	Value       any    `json:"output_value"`
	Description string `json:"description"`
}

func (s *stack) document(base string) stackDocument {
	d := stackDocument{ID: s.id, Name: s.name, Status: s.status, StatusReason: s.reason, CreationTime: moment(s.created),
		Description: "A part of a cluster; there is no Heat behind it.", Outputs: []output{},
		Parameters: map[string]string{"OS::stack_id": s.id, "OS::stack_name": s.name},
		Links:      []link{{s.href(base), "self"}}, Tags: []string{}, Capabilities: []string{}, Topics: []string{}}
	if s.updated != nil {
		at := moment(*s.updated)
		d.UpdatedTime = &at
	}
	for key, value := range s.outputs {
		d.Outputs = append(d.Outputs, output{Key: key, Value: value})
	}
	return d
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// resourceDocument is a resource as the API shows it.
type resourceDocument struct {
	Name         string        `json:"resource_name"`
	LogicalID    string        `json:"logical_resource_id"`
	PhysicalID   string        `json:"physical_resource_id"`
	Type         string        `json:"resource_type"`
	Status       magnum.Status `json:"resource_status"`
	StatusReason string        `json:"resource_status_reason"`
	CreationTime string        `json:"creation_time"`
	UpdatedTime  string        `json:"updated_time"`
	RequiredBy   []string      `json:"required_by"`
	Links        []link        `json:"links"`
	Parent       string        `json:"parent_resource,omitempty"`
}

// document shows a resource of the stack, which is itself the resource parent of
// another one or, at the top, none.
func (x resource) document(base string, of *stack, parent string) resourceDocument {
	d := resourceDocument{Name: x.name, LogicalID: x.name, PhysicalID: x.physicalID, Type: x.kind, Status: x.status, StatusReason: x.reason,
		CreationTime: moment(of.created), UpdatedTime: moment(of.created), RequiredBy: []string{}, Parent: parent,
		Links: []link{{of.href(base) + "/resources/" + url.PathEscape(x.name), "self"}, {of.href(base), "stack"}}}
	if x.nested != nil {
		d.Links = append(d.Links, link{x.nested.href(base), "nested"})
	}
	return d
}

// list gives the resources of the stack and of those below it, so many levels.
func (s *stack) list(base string, depth int) []resourceDocument {
	return s.append([]resourceDocument{}, base, depth, "")
}

func (s *stack) append(all []resourceDocument, base string, depth int, parent string) []resourceDocument {
	for _, x := range s.resources {
		all = append(all, x.document(base, s, parent))
		if x.nested != nil && depth > 0 {
			all = x.nested.append(all, base, depth-1, x.name)
		}
	}
	return all
}
