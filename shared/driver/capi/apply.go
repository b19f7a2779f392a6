package capi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/fault"
)

const (
	// annotationScaled is the operation that last sized an autoscaled group.
	annotationScaled = ourDomain + "scaled-by"
	// resizeManager sizes an autoscaled group once, without owning its size.
	resizeManager = "magnum-resize"

	applyParallel = 8
	templateAge   = time.Hour
)

// generation is the version of the rows that the cluster's objects are of.
func generation(s *Snapshot) int64 {
	if s == nil || s.Cluster == nil {
		return 0
	}
	n, _ := strconv.ParseInt(s.Cluster.Annotations[annotationGeneration], 10, 64) // none: 0
	return n
}

// stale is for rows that have changed since they were read: a function that
// slept must read them again before it writes.
func stale() error {
	return fault.New(fault.Unavailable, "The cluster has changed meanwhile; its rows are read again")
}

// apply brings a plan about. Each step can be done again.
func (d *Driver) apply(ctx context.Context, p Plan, s *Snapshot) error {
	for i, wave := range p.Waves {
		if i == waveCluster {
			if err := d.admit(ctx, p, s); err != nil {
				return err
			}
			rest := slices.Clone(wave)
			at := slices.IndexFunc(rest, func(o Object) bool { return o.GroupVersionKind() == clusterKind })
			cluster := rest[at]
			rest = slices.Delete(rest, at, at+1)
			// The Cluster first: it is the fence before all that follows.
			if err := d.applyFenced(ctx, cluster, s.Cluster); err != nil {
				return err
			}
			wave = rest
		}
		if i == waveGroups {
			if err := d.mark(ctx, p); err != nil {
				return err
			}
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(applyParallel)
		for _, o := range wave {
			g.Go(func() error { return d.applyOne(ctx, o) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	for name, n := range p.Scale {
		_, err := d.client.merge(ctx, deploymentKind, p.Namespace, name, resizeManager, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotationScaled: p.scaledBy}},
			"spec":     map[string]any{"replicas": n},
		})
		if err != nil {
			return err
		}
	}
	for _, k := range p.Delete {
		if err := d.client.delete(ctx, k.Kind, p.Namespace, k.Name); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) applyOne(ctx context.Context, o Object) error {
	if kind, _ := o.Object["type"].(string); kind == certificateType {
		return d.applyCertificate(ctx, o)
	}
	_, err := d.client.apply(ctx, o)
	return err
}

// applyCertificate writes a pair that is not there yet. One that is there and
// differs is never written over: a control plane may stand on it.
func (d *Driver) applyCertificate(ctx context.Context, o Object) error {
	var live corev1.Secret
	found, err := d.client.get(ctx, secretKind, o.GetNamespace(), o.GetName(), &live)
	if err != nil {
		return err
	}
	if found {
		data, _ := o.Object["data"].(map[string]any)
		want, _ := data["tls.crt"].(string)
		if base64.StdEncoding.EncodeToString(live.Data["tls.crt"]) != want {
			return fault.New(fault.Invalid, "The management cluster already holds other certificates under this cluster's name.").WithReason(fault.ReasonConfiguration)
		}
		return nil
	}
	_, err = d.client.apply(ctx, o)
	return err
}

// applyFenced writes the Cluster only if nobody with later rows has: it names
// the version that it has looked at. Cluster API writes to it too, so a conflict
// is looked at again.
func (d *Driver) applyFenced(ctx context.Context, o Object, live *clusterv1.Cluster) error {
	o = o.DeepCopy() // the plan's own stays as rendered
	mine, _ := strconv.ParseInt(o.GetAnnotations()[annotationGeneration], 10, 64)
	for attempt := 0; ; attempt++ {
		if attempt > 0 || live == nil {
			live = nil
			if err := getInto(ctx, d.client, clusterKind, o.GetNamespace(), o.GetName(), &live); err != nil {
				return err
			}
		}
		if live != nil {
			if !live.DeletionTimestamp.IsZero() {
				return fault.New(fault.Conflict, "The cluster is being deleted on the management cluster.")
			}
			if generation(&Snapshot{Cluster: live}) > mine {
				return stale()
			}
			o.SetResourceVersion(live.ResourceVersion)
		}
		_, err := d.client.apply(ctx, o)
		if !apierrors.IsConflict(err) || attempt == 9 {
			return err
		}
	}
}

// mark makes named machines the first to go, and lets those stay that an
// operation before this one had marked.
func (d *Driver) mark(ctx context.Context, p Plan) error {
	set := func(names []string, value any) error {
		for _, n := range names {
			_, err := d.client.merge(ctx, machineKind, p.Namespace, n, manager, map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{deleteMark: value}},
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return errors.Join(set(p.Mark, manager), set(p.Unmark, nil))
}

// admission is who may be between a first object and a running control plane.
type admission map[string]time.Time // namespace/name → since

const (
	admissionName = "carafe-admission"
	// admissionEnds frees the place of a creation that hangs.
	admissionEnds = 30 * time.Minute
	// admissionGrace is the time from a place to the Cluster object.
	admissionGrace = 2 * time.Minute
)

// admit waits in line: more than a few creations at once can stall Cluster
// API's controllers, and then none finishes. The list is one ConfigMap, written
// only by who has read it, so that no two processes count apart.
func (d *Driver) admit(ctx context.Context, p Plan, s *Snapshot) error {
	if s.Cluster != nil {
		return nil
	}
	namespace := d.config.NamespacePrefix + "-system"
	self := p.Namespace + "/" + p.Name
	for range 20 {
		var live corev1.ConfigMap
		found, err := d.client.get(ctx, configMapKind, namespace, admissionName, &live)
		if err != nil {
			return err
		}
		list := admission{}
		if found {
			if err := json.Unmarshal([]byte(live.Data["creating"]), &list); err != nil {
				list = admission{} // written by hand: start anew
			}
		}
		if _, ok := list[self]; ok {
			return nil
		}
		if len(list) >= d.config.CreateParallel {
			if err := d.prune(ctx, list); err != nil {
				return err
			}
		}
		if len(list) >= d.config.CreateParallel {
			return fault.New(fault.Unavailable, "The creation is queued behind %d others", len(list))
		}
		list[self] = d.now().UTC().Truncate(time.Second)
		ok, err := d.writeAdmission(ctx, namespace, list, found, live.ResourceVersion)
		if ok || err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "The creation is queued behind others")
}

func (d *Driver) writeAdmission(ctx context.Context, namespace string, list admission, found bool, version string) (bool, error) {
	data, err := json.Marshal(list)
	if err != nil {
		return false, err
	}
	o := object(configMapKind, metav1.ObjectMeta{Name: admissionName, Namespace: namespace, Labels: map[string]string{managedBy: manager}},
		map[string]any{"data": map[string]any{"creating": string(data)}})
	if found {
		o.SetResourceVersion(version)
		_, err := d.client.apply(ctx, o)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	}
	ns := object(namespaceKind, metav1.ObjectMeta{Name: namespace, Labels: map[string]string{managedBy: manager}}, nil)
	if _, err := d.client.apply(ctx, ns); err != nil {
		return false, err
	}
	return d.client.create(ctx, o)
}

// prune takes those off the list whose control plane runs, who are gone, and
// who have hung for too long.
func (d *Driver) prune(ctx context.Context, list admission) error {
	live := map[string]*clusterv1.Cluster{}
	err := each(ctx, d.client, clusterKind, "", managedBy+"="+manager, false, func(c *clusterv1.Cluster) {
		live[c.Namespace+"/"+c.Name] = c
	})
	if err != nil {
		return err
	}
	for name, since := range list {
		c, age := live[name], d.now().Sub(since)
		gone := c == nil && age > admissionGrace
		up := c != nil && (!c.DeletionTimestamp.IsZero() || (&Snapshot{Cluster: c}).initialized())
		if gone || up || age > admissionEnds {
			delete(list, name)
		}
	}
	return nil
}

// cleanUp deletes templates that nothing refers to any more. Young ones stay:
// a set that scales down may still look at them.
func (d *Driver) cleanUp(ctx context.Context, p Plan, s *Snapshot, dialect Dialect) error {
	if s.Cluster == nil {
		return nil
	}
	used := map[string]bool{}
	if s.ControlPlane != nil {
		used[s.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name] = true
	}
	for _, live := range s.Deployments {
		used[live.Spec.Template.Spec.InfrastructureRef.Name] = true
		used[live.Spec.Template.Spec.Bootstrap.ConfigRef.Name] = true
	}
	for _, wave := range p.Waves {
		for _, o := range wave {
			used[o.GetName()] = true
			if o.GroupVersionKind() == deploymentKind || o.GroupVersionKind() == controlPlaneKind {
				for _, name := range references(o.Object) {
					used[name] = true
				}
			}
		}
	}
	selector := clusterv1.ClusterNameLabel + "=" + p.Name + "," + managedBy + "=" + manager
	err := each(ctx, d.client, machineSetKind, p.Namespace, clusterv1.ClusterNameLabel+"="+p.Name, false, func(m *clusterv1.MachineSet) {
		used[m.Spec.Template.Spec.InfrastructureRef.Name] = true
		used[m.Spec.Template.Spec.Bootstrap.ConfigRef.Name] = true
	})
	if err != nil {
		return err
	}
	for _, kind := range []kindOf{dialect.kind("OpenStackMachineTemplate"), bootstrapKind} {
		var old []string
		err := each(ctx, d.client, kind, p.Namespace, selector, false, func(o *metav1.PartialObjectMetadata) {
			if !used[o.Name] && d.now().Sub(o.CreationTimestamp.Time) > templateAge {
				old = append(old, o.Name)
			}
		})
		if err != nil {
			return err
		}
		for _, name := range old {
			if err := d.client.delete(ctx, kind, p.Namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// references are the names in all of an object's …Ref fields.
func references(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if m, ok := x.(map[string]any); ok && strings.HasSuffix(k, "Ref") {
				if name, ok := m["name"].(string); ok {
					out = append(out, name)
				}
			}
			out = append(out, references(x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, references(x)...)
		}
	}
	return out
}
