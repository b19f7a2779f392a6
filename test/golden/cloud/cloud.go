// Package cloud is the OpenStack around the replay: Keystone, Glance, Nova and
// Neutron on one listener, as far as Carafe and the prober ask them, holding
// the users, images, flavors, keypairs and networks that the recordings were
// made with. It answers from memory and forgets everything when it is closed.
//
// It is no general double: what the real services refuse is refused here only
// where a recorded answer depends on it. Carafe against the real services is
// tested in test/e2e.
package cloud

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Password is that of every user.
const Password = "rigpass"

// Cloud is a running set of services.
type Cloud struct {
	server *httptest.Server

	mu          sync.Mutex
	users       map[string]*user // by name
	projects    map[string]*project
	tokens      map[string]*token
	credentials map[string]*credential
	images      []object
	flavors     []object
	networks    []object
	subnets     []object
	keypairs    map[string]bool // user id + "/" + name
	failing     map[string]bool // by the path that a service is below
	registered  [][3]string     // type, name and address of more services
}

type (
	object map[string]any

	project struct{ id, name string }

	user struct {
		id, name string
		roles    map[string][]string // by project name
		system   []string
	}

	token struct {
		id      string
		user    *user
		project *project // nil without a project
		system  bool
		roles   []string
		issued  time.Time
		expires time.Time
	}

	credential struct {
		id, name, secret string
		user             *user
		project          *project
		roles            []string
	}
)

// Start brings the services up on a free port of the loopback.
func Start() *Cloud {
	c := &Cloud{
		users: map[string]*user{}, projects: map[string]*project{}, tokens: map[string]*token{},
		credentials: map[string]*credential{}, keypairs: map[string]bool{}, failing: map[string]bool{},
	}
	c.seed()
	mux := http.NewServeMux()
	c.identity(mux)
	c.resources(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "Not Found", fmt.Sprintf("The cloud of the replay has no %s %s.", r.Method, r.URL.Path))
	})
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.broken(r) {
			fail(w, http.StatusInternalServerError, "Internal Server Error", "It was told to fail.")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return c
}

// Close ends the services.
func (c *Cloud) Close() { c.server.Close() }

// AuthURL is Keystone's v3 address.
func (c *Cloud) AuthURL() string { return c.server.URL + "/v3" }

// Settings make a Carafe the Magnum of this cloud, as the recordings' was: its
// service user, its driver by name, and clocks that keep nobody waiting.
func (c *Cloud) Settings() map[string]string {
	return map[string]string{
		"CARAFE_KEYSTONE_URL":                 c.AuthURL(),
		"CARAFE_KEYSTONE_USERNAME":            "magnum",
		"CARAFE_KEYSTONE_PASSWORD":            Password,
		"CARAFE_SEAL_KEYS":                    "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"CARAFE_CERTIFICATES":                 "database",
		"CARAFE_DRIVERS":                      "simulated",
		"CARAFE_ENABLE_PROXY_HEADERS_PARSING": "true",
		"CARAFE_SIMULATED_DELAY":              "700ms", // about the recordings' poll
		"CARAFE_SIMULATED_NAME":               "k8s_rig_v1",
		"CARAFE_DEFAULT_DRIVER":               "k8s_rig_v1",
		"CARAFE_HEALTH_INTERVAL":              "0s", // the recordings' driver has no health
		"CARAFE_TICK_EVERY":                   "200ms",
		"CARAFE_SYNC_INTERVAL":                "1s", // as the recordings' poll
	}
}

// Register adds an endpoint to the catalogue of the tokens given from now on.
func (c *Cloud) Register(kind, name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered = append(c.registered, [3]string{kind, name, url})
}

// ProjectID is the id of a project of that name.
func (c *Cloud) ProjectID(name string) string { return c.projects[name].id }

// seed makes what the reference rig's seed.py makes.
func (c *Cloud) seed() {
	for _, name := range []string{"admin", "service", "demo", "other", "demo-b", "other-b"} {
		c.projects[name] = &project{id: hexID(), name: name}
	}
	// Keystone adds what a role implies: admin has manager, member and reader.
	admin := []string{"admin", "manager", "member", "reader"}
	member := []string{"member", "reader"}
	grant := func(name, project string, roles ...string) *user {
		u := c.users[name]
		if u == nil {
			u = &user{id: hexID(), name: name, roles: map[string][]string{}}
			c.users[name] = u
		}
		u.roles[project] = append(u.roles[project], roles...)
		return u
	}
	grant("admin", "admin", admin...).system = admin
	for _, name := range []string{"barbican", "glance", "nova", "neutron", "magnum"} {
		grant(name, "service", append([]string{"service"}, admin...)...)
	}
	for _, suffix := range []string{"", "-b"} {
		grant("demo"+suffix, "demo"+suffix, member...)
		grant("demo2"+suffix, "demo"+suffix, member...)
		grant("reader"+suffix, "demo"+suffix, "reader")
		grant("other"+suffix, "other"+suffix, member...)
	}
	for _, name := range []string{"admin", "demo", "other", "demo2", "demo-b", "demo2-b", "other-b"} {
		c.keypairs[c.users[name].id+"/testkey"] = true
	}

	for _, f := range []struct {
		name      string
		ram, disk int
	}{{"m1.small", 2048, 20}, {"m1.medium", 4096, 40}, {"m1.nodisk", 2048, 0}} {
		c.flavors = append(c.flavors, object{"id": uuid(), "name": f.name, "ram": f.ram, "vcpus": 2, "disk": f.disk,
			"swap": "", "rxtx_factor": 1.0, "os-flavor-access:is_public": true,
			"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false})
	}

	network := func(project, name string, external bool) string {
		id := uuid()
		c.networks = append(c.networks, object{"id": id, "name": name, "project_id": c.projects[project].id,
			"tenant_id": c.projects[project].id, "router:external": external, "shared": false,
			"status": "ACTIVE", "admin_state_up": true, "subnets": []string{}})
		return id
	}
	subnet := func(project, network, name, cidr string) {
		c.subnets = append(c.subnets, object{"id": uuid(), "name": name, "network_id": network, "ip_version": 4, "cidr": cidr,
			"project_id": c.projects[project].id, "tenant_id": c.projects[project].id, "enable_dhcp": true})
	}
	subnet("admin", network("admin", "public", true), "public-subnet", "172.24.4.0/24")
	subnet("demo", network("demo", "private", false), "private-subnet", "10.0.0.0/24")
	subnet("other", network("other", "other-private", false), "other-private-subnet", "10.0.1.0/24")
	for _, cidr := range []string{"10.0.2.0/24", "10.0.3.0/24"} {
		subnet("demo", network("demo", "dup-net", false), "dup-subnet", cidr)
	}

	image := func(name string, properties object) {
		i := object{"id": uuid(), "name": name, "status": "active", "visibility": "public", "disk_format": "raw",
			"container_format": "bare", "min_ram": 0, "min_disk": 0, "size": 3, "protected": false, "tags": []string{},
			"owner": c.projects["admin"].id, "os_hidden": false,
			"created_at": "2026-12-01T00:00:00Z", "updated_at": "2026-12-01T00:00:00Z"}
		for k, v := range properties {
			i[k] = v
		}
		c.images = append(c.images, i)
	}
	image("ubuntu-k8s", object{"os_distro": "ubuntu", "kube_version": "v1.34.1"})
	image("ubuntu-k8s-next", object{"os_distro": "ubuntu", "kube_version": "v1.35.0"})
	image("flatcar-k8s", object{"os_distro": "flatcar", "kube_version": "v1.34.1"})
	image("fedora", object{"os_distro": "fedora-coreos"})
	image("no-distro", nil)
	image("with-driver", object{"os_distro": "ubuntu", "magnum_driver": "k8s_rig_v1"})
	image("with-bad-driver", object{"os_distro": "ubuntu", "magnum_driver": "k8s_nobody"})
	image("dup-image", object{"os_distro": "ubuntu"})
	image("dup-image", object{"os_distro": "ubuntu"})

	// What the observations of the specification's appendices were made with.
	image("ubuntu", object{"os_distro": "ubuntu"})
	c.flavors = append(c.flavors, object{"id": uuid(), "name": "m0", "ram": 2048, "vcpus": 2, "disk": 0})
	network("admin", "dup", true)
	network("admin", "dup", true)
}

// AddProject makes a project known to Keystone.
func (c *Cloud) AddProject(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.projects[id] = &project{id: id, name: id}
}

// Token is one that Keystone would have given such a user, who owns a keypair
// called kp.
func (c *Cloud) Token(projectID, userID string, roles ...string) string {
	c.AddProject(projectID)
	c.mu.Lock()
	defer c.mu.Unlock()
	u := &user{id: userID, name: userID, roles: map[string][]string{projectID: roles}}
	c.users[userID+" in "+projectID+" "+strings.Join(roles, ",")] = u
	c.keypairs[userID+"/kp"] = true
	t := &token{id: "gAAAAA-" + hexID() + hexID(), user: u, project: c.projects[projectID], roles: roles,
		issued: time.Now(), expires: time.Now().Add(tokenLife)}
	c.tokens[t.id] = t
	return t.id
}

// Credentials are the application credentials that there are, as "user name", sorted.
func (c *Cloud) Credentials() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, a := range c.credentials {
		out = append(out, a.user.name+" "+a.name)
	}
	slices.Sort(out)
	return out
}

// Fail makes the service below a path answer 500, or no longer.
func (c *Cloud) Fail(path string, fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing[path] = fail
}

// broken says whether the service of a request was told to fail.
func (c *Cloud) broken(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, fails := range c.failing {
		if fails && strings.HasPrefix(r.URL.Path, path) {
			return true
		}
	}
	return false
}

func hexID() string { return strings.ReplaceAll(uuid(), "-", "") }

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}

// fail answers as Keystone does; the clients of the other services read no
// more than the status of theirs.
func fail(w http.ResponseWriter, status int, title, message string) {
	answer(w, status, object{"error": object{"code": status, "title": title, "message": message}})
}
