package capi

import (
	"context"
	"maps"

	"carafe/shared/magnum"
)

// resolve asks OpenStack for what the rows name and the Cluster does not know
// yet. What is known stays: a renamed image must not change a running cluster.
func (d *Driver) resolve(ctx context.Context, in Input) (Resolved, error) {
	r := in.Resolved
	if d.cloud == nil || in.Cluster.Credential == nil {
		return r, nil
	}
	c, err := d.cloud(ctx, cloud{
		Auth:       cloudAuth{AuthURL: d.config.AuthURL, ID: in.Cluster.Credential.ID, Secret: in.Cluster.Credential.Secret},
		RegionName: d.config.Region, Interface: d.config.Interface,
	})
	if err != nil {
		return r, err
	}
	w, err := read(in.Cluster, d.config, r.merge(unlooked(in.Cluster)))
	if err != nil {
		return r, err
	}
	r = Resolved{
		Flavors: maps.Clone(r.Flavors), Images: maps.Clone(r.Images), Networks: maps.Clone(r.Networks),
		Subnets: maps.Clone(r.Subnets), ServerGroups: maps.Clone(r.ServerGroups), Upgrade: r.Upgrade, Crowded: r.Crowded,
	}.merge(Resolved{})
	for _, g := range append([]group{w.masters}, w.workers...) {
		if err := look(ctx, &r.Flavors, g.flavor, c.Flavor); err != nil {
			return r, err
		}
		if err := look(ctx, &r.Images, g.image, c.Image); err != nil {
			return r, err
		}
		for _, n := range g.list("extra_network_names") {
			if err := look(ctx, &r.Networks, n, c.Network); err != nil {
				return r, err
			}
		}
		policy := g.text("server_group_policies")
		err := look(ctx, &r.ServerGroups, g.name, func(ctx context.Context, name string) (string, error) {
			return c.ServerGroup(ctx, name, policy)
		})
		if err != nil {
			return r, err
		}
	}
	t, rows := in.Cluster.Template, in.Cluster.Cluster
	for _, n := range []string{first(t.ExternalNetworkID), first(rows.FixedNetwork, t.FixedNetwork)} {
		if err := look(ctx, &r.Networks, n, c.Network); err != nil {
			return r, err
		}
	}
	if err := look(ctx, &r.Subnets, first(rows.FixedSubnet, t.FixedSubnet), c.Subnet); err != nil {
		return r, err
	}
	return r, r.lookForRoom(ctx, c, w)
}

// lookForRoom asks once in an upgrade whether the project has room for one more
// server of any group: later the upgrade itself takes it.
func (r *Resolved) lookForRoom(ctx context.Context, c openStack, w *wish) error {
	op := w.Operation
	if op.Kind != magnum.ClusterUpgrade || op.ID == r.Upgrade {
		return nil
	}
	var largest Flavor
	for _, g := range append([]group{w.masters}, w.workers...) {
		if f := r.Flavors[g.flavor]; w.upgrades(&g) {
			largest.VCPUs, largest.RAM = max(largest.VCPUs, f.VCPUs), max(largest.RAM, f.RAM)
		}
	}
	room, err := c.HasRoom(ctx, largest)
	if err != nil {
		return err
	}
	r.Upgrade, r.Crowded = op.ID, !room
	return nil
}

func look[V any](ctx context.Context, known *map[string]V, name string, ask func(context.Context, string) (V, error)) error {
	if _, ok := (*known)[name]; ok || name == "" {
		return nil
	}
	v, err := ask(ctx, name)
	if err != nil {
		return err
	}
	if *known == nil {
		*known = map[string]V{}
	}
	(*known)[name] = v
	return nil
}

// askNova adds Nova's own words to servers in ERROR: the provider drops them.
// Without an answer the bare fact stands.
func (d *Driver) askNova(ctx context.Context, s *Snapshot) {
	if d.cloud == nil || s == nil || s.Cluster == nil {
		return
	}
	var c openStack
	asked := 0
	for _, m := range s.Servers {
		if m.Status.InstanceState != "ERROR" || m.Status.InstanceID == "" || asked == 3 {
			continue
		}
		if c == nil {
			var err error
			if c, err = d.cloudOf(ctx, s.Cluster.Namespace, s.Cluster.Name); err != nil || c == nil {
				return
			}
		}
		asked++
		text, err := c.ServerFault(ctx, m.Status.InstanceID)
		if err != nil || text == "" {
			continue
		}
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[annotationFault] = text
	}
}
