package capi

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// What Cluster API Provider OpenStack is told, in its two dialects.

// reference names something of OpenStack's by id, else by name.
func reference(nameOrID string, resolved map[string]string) map[string]any {
	if id := resolved[nameOrID]; id != "" {
		return map[string]any{"id": id}
	}
	if uuidForm.MatchString(nameOrID) {
		return map[string]any{"id": dashed(nameOrID)}
	}
	return map[string]any{"filter": map[string]any{"name": nameOrID}}
}

// dashed gives a UUID the dashes that its format wants.
func dashed(id string) string {
	id = strings.ToLower(strings.ReplaceAll(id, "-", ""))
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// ovnNodePorts are rules that ovn's load balancers need: they keep the
// client's address, so the nodes' ports must be open to all.
var ovnNodePorts = []any{
	map[string]any{"name": "node-ports-tcp", "direction": "ingress", "etherType": "IPv4", "protocol": "tcp", "portRangeMin": 30000, "portRangeMax": 32767, "description": "NodePort Services (ovn)"},
	map[string]any{"name": "node-ports-udp", "direction": "ingress", "etherType": "IPv4", "protocol": "udp", "portRangeMin": 30000, "portRangeMax": 32767, "description": "NodePort Services (ovn)"},
}

// infrastructureSpec is the spec of the OpenStackCluster as a new one gets it.
func (r *render) infrastructureSpec() map[string]any {
	d := r.desired()
	spec := map[string]any{
		"identityRef": map[string]any{"type": "Secret", "name": cloudConfigName(r.name), "cloudName": cloudName},
		"tags":        []any{"magnum", "magnum-cluster-" + r.UUID},
	}
	if network := first(r.Template.ExternalNetworkID); network != "" {
		spec["externalNetwork"] = reference(network, r.Resolved.Networks)
	}
	if network := first(d.FixedNetwork, r.Template.FixedNetwork); network != "" {
		spec["network"] = reference(network, r.Resolved.Networks)
		if subnet := first(d.FixedSubnet, r.Template.FixedSubnet); subnet != "" {
			spec["subnets"] = []any{reference(subnet, r.Resolved.Subnets)}
		}
	} else {
		subnet := map[string]any{"cidr": r.text("fixed_subnet_cidr")}
		if servers := split(first(r.Template.DNSNameserver)); len(servers) > 0 {
			subnet["dnsNameservers"] = servers
		}
		spec["managedSubnets"] = []any{subnet}
	}
	r.apiServer(spec)

	rules := "clusterNodesSecurityGroupRules"
	if r.Dialect == V1Beta1 {
		rules = "allNodesSecurityGroupRules"
	}
	groups := map[string]any{"allowAllInClusterTraffic": true}
	if r.text("octavia_provider") == "ovn" {
		groups[rules] = ovnNodePorts
	}
	spec["managedSecurityGroups"] = groups
	if zones := r.masterZones(); len(zones) > 0 {
		spec["controlPlaneAvailabilityZones"] = zones
	} else {
		spec["controlPlaneOmitAvailabilityZone"] = true
	}
	return spec
}

// masterZones are the zones of the control plane; none: wherever there is room.
func (r *render) masterZones() []string {
	if zones := r.masters.list("control_plane_availability_zones"); len(zones) > 0 {
		return zones
	}
	return split(r.masters.text("availability_zone"))
}

// floatingIP reports whether the API has a floating IP before it.
func (r *render) floatingIP() bool {
	if r.set("master_lb_floating_ip_enabled") {
		return r.truth("master_lb_floating_ip_enabled")
	}
	return r.desired().FloatingIPEnabled
}

func (r *render) apiPort() int {
	if p := r.Template.APIServerPort; p != nil && *p > 0 {
		return *p
	}
	return 6443
}

func (r *render) apiServer(spec map[string]any) {
	balancer := map[string]any{"enabled": r.desired().MasterLBEnabled}
	if r.desired().MasterLBEnabled {
		balancer["provider"] = r.text("octavia_provider")
		if cidrs := r.allowedCIDRs(); len(cidrs) > 0 {
			balancer["allowedCIDRs"] = cidrs
		}
		if f := r.text("api_server_lb_flavor"); f != "" {
			balancer["flavor"] = f
		}
		if z := r.text("api_server_lb_availability_zone"); z != "" {
			balancer["availabilityZone"] = z
		}
	}
	address := r.text("api_server_floating_ip")
	if r.Dialect == V1Beta1 {
		spec["apiServerPort"] = r.apiPort()
		spec["disableAPIServerFloatingIP"] = !r.floatingIP()
		spec["apiServerLoadBalancer"] = balancer
		if address != "" {
			spec["apiServerFloatingIP"] = address
		}
		return
	}
	server := map[string]any{"port": r.apiPort(), "enableFloatingIP": r.floatingIP(), "managedLoadBalancer": balancer}
	if address != "" {
		server["floatingIP"] = address
	}
	spec["apiServer"] = server
}

// allowedCIDRs are the user's and the management cluster's; none: everyone.
func (r *render) allowedCIDRs() []string {
	cidrs := r.list("master_lb_allowed_cidrs")
	if len(cidrs) == 0 {
		return nil
	}
	cidrs = append(cidrs, r.Config.ManagementCIDRs...)
	slices.Sort(cidrs)
	return slices.Compact(cidrs)
}

// changeable are the paths of an OpenStackCluster that the provider lets
// change after creation. What else a user asks for is kept as it is and told.
var changeable = map[Dialect][]string{
	V1Beta2: {
		"identityRef", "apiServer.managedLoadBalancer.allowedCIDRs", "managedSecurityGroups",
		"managedSubnets.0.dnsNameservers", "controlPlaneAvailabilityZones", "controlPlaneOmitAvailabilityZone",
	},
	V1Beta1: {
		"identityRef", "apiServerLoadBalancer.allowedCIDRs", "managedSecurityGroups",
		"managedSubnets.0.dnsNameservers", "controlPlaneAvailabilityZones", "controlPlaneOmitAvailabilityZone",
	},
}

// infrastructureCluster renders the OpenStackCluster. One that exists keeps
// all but what may change: a new release that renders another value must not
// run into a webhook that refuses it.
func (r *render) infrastructureCluster() {
	meta := r.meta(r.name, nil)
	// Its own finalizer keeps the network until the load balancers on it are
	// swept away (sweep.go).
	meta.Finalizers = []string{finalizer}
	spec := plain(r.infrastructureSpec()).(map[string]any)
	if live := r.Observed.Infrastructure; live != nil {
		if !live.DeletionTimestamp.IsZero() {
			return
		}
		kept := plain(live.Spec).(map[string]any)
		delete(kept, "controlPlaneEndpoint")
		delete(kept, "bastion")
		for _, path := range changeable[r.Dialect] {
			move(kept, spec, strings.Split(path, "."))
		}
		for key, value := range spec {
			if !covers(kept[key], value) {
				r.plan.Unchangeable = append(r.plan.Unchangeable, key)
			}
		}
		slices.Sort(r.plan.Unchangeable)
		spec = kept
	}
	r.add(waveTemplates, object(r.Dialect.kind("OpenStackCluster"), meta, map[string]any{"spec": spec}))
}

// move sets one path of to as it is in from, or takes it away.
func move(to, from map[string]any, path []string) {
	key := path[0]
	if len(path) == 1 {
		if v, ok := from[key]; ok {
			to[key] = v
			return
		}
		delete(to, key)
		return
	}
	a, aok := to[key]
	b, bok := from[key]
	if !aok || !bok {
		return
	}
	if path[1] == "0" {
		x, xok := a.([]any)
		y, yok := b.([]any)
		if !xok || !yok || len(x) == 0 || len(y) == 0 {
			return
		}
		a, b, path = x[0], y[0], path[1:]
	}
	x, xok := a.(map[string]any)
	y, yok := b.(map[string]any)
	if xok && yok {
		move(x, y, path[1:])
	}
}

// covers reports whether have says all that want says; the provider may have
// added defaults.
func covers(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(w) == 0
		}
		for k, v := range w {
			if !covers(h[k], v) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !covers(h[i], w[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(have, want)
}

// machineTemplate is the OpenStackMachineTemplate of a group: its spec is
// immutable, so its name is the hash of its content.
func (r *render) machineTemplate(g *group) Object {
	spec := map[string]any{"template": map[string]any{"spec": r.server(g)}}
	return r.template(r.Dialect.kind("OpenStackMachineTemplate"), g, spec)
}

func (r *render) server(g *group) map[string]any {
	s := map[string]any{
		"image": reference(g.image, imageIDs(r.Resolved.Images)),
		"serverMetadata": []any{
			map[string]any{"key": "magnum_cluster_uuid", "value": r.UUID},
			map[string]any{"key": "magnum_nodegroup_uuid", "value": g.UUID},
		},
		"tags": []any{"magnum", "magnum-cluster-" + r.UUID},
	}
	maps.Copy(s, r.flavor(g))
	if key := first(r.desired().Keypair, r.Template.KeypairID); key != "" {
		s["sshKeyName"] = key
	}
	if size := g.number("boot_volume_size"); size > 0 {
		s["rootVolume"] = volume(size, g.text("boot_volume_type"), g.text("boot_volume_availability_zone"))
	}
	var disks []any
	if size := g.number("etcd_volume_size"); size > 0 && g.IsMaster() {
		storage := map[string]any{"type": "Local"}
		if g.text("etcd_blockdevice_type") == "volume" {
			v := volume(0, g.text("etcd_volume_type"), g.text("etcd_blockdevice_volume_az"))
			storage = map[string]any{"type": "Volume", "volume": v}
		}
		disks = append(disks, map[string]any{"name": "etcd", "sizeGiB": size, "storage": storage})
	}
	if size := r.dockerVolume(g); size > 0 {
		v := volume(0, g.text("docker_volume_type"), "")
		disks = append(disks, map[string]any{"name": "docker", "sizeGiB": size, "storage": map[string]any{"type": "Volume", "volume": v}})
	}
	if len(disks) > 0 {
		s["additionalBlockDevices"] = disks
		s["configDrive"] = true // a disk is found by its tag, which the config drive tells
	}
	if extra := g.list("extra_network_names"); len(extra) > 0 {
		ports := []any{map[string]any{}} // the cluster's own network first
		for _, n := range extra {
			ports = append(ports, map[string]any{"network": reference(n, r.Resolved.Networks)})
		}
		s["ports"] = ports
	}
	if id := r.Resolved.ServerGroups[g.name]; id != "" {
		s["serverGroup"] = map[string]any{"id": id}
	}
	if g.truth("different_failure_domain") {
		s["schedulerHintAdditionalProperties"] = []any{
			map[string]any{"name": "different_failure_domain", "value": map[string]any{"type": "Bool", "bool": true}},
		}
	}
	return s
}

func (r *render) dockerVolume(g *group) int {
	for _, size := range []*int{g.DockerVolumeSize, r.desired().DockerVolumeSize, r.Template.DockerVolumeSize} {
		if size != nil {
			return *size
		}
	}
	return 0
}

func volume(size int, kind, zone string) map[string]any {
	v := map[string]any{"availabilityZone": map[string]any{"from": "Machine"}}
	if zone != "" {
		v["availabilityZone"] = map[string]any{"from": "Name", "name": zone}
	}
	if size > 0 {
		v["sizeGiB"] = size
	}
	if kind != "" {
		v["type"] = kind
	}
	return v
}

func (r *render) flavor(g *group) map[string]any {
	id := r.Resolved.Flavors[g.flavor].ID
	if id == "" && uuidForm.MatchString(g.flavor) {
		id = g.flavor
	}
	if r.Dialect == V1Beta1 {
		if id != "" {
			return map[string]any{"flavorID": id}
		}
		return map[string]any{"flavor": g.flavor}
	}
	if id != "" {
		return map[string]any{"flavor": map[string]any{"id": id}}
	}
	return map[string]any{"flavor": map[string]any{"filter": map[string]any{"name": g.flavor}}}
}

func imageIDs(images map[string]Image) map[string]string {
	out := map[string]string{}
	for name, i := range images {
		out[name] = i.ID
	}
	return out
}
