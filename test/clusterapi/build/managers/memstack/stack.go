package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	core           = "cluster.x-k8s.io"
	finalizer      = "memstack.carafe/shadow"
	touched        = "memstack.carafe/touched"

	soon  = 400 * time.Millisecond
	later = 2 * time.Second
)

func object(group, kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: kind})
	return u
}

type stack struct {
	client.Client
	live client.Reader // past the cache: a fault must show at the next look
}

func (s *stack) faults(ctx context.Context) map[string]string {
	var m corev1.ConfigMap
	if err := s.live.Get(ctx, types.NamespacedName{Namespace: "capi-system", Name: "memstack"}, &m); err != nil {
		return nil
	}
	return m.Data
}

// conditions are set on u; what stands already keeps its transition time.
type conditions struct{ u *unstructured.Unstructured }

func (c conditions) set(kind string, ok bool, reason, message string) {
	all, _, _ := unstructured.NestedSlice(c.u.Object, "status", "conditions")
	status := "True"
	if !ok {
		status = "False"
	}
	next := map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": c.u.GetGeneration(),
	}
	for i, v := range all {
		old := v.(map[string]any)
		if old["type"] != kind {
			continue
		}
		if old["status"] == status {
			next["lastTransitionTime"] = old["lastTransitionTime"]
		}
		all[i] = next
		_ = unstructured.SetNestedSlice(c.u.Object, all, "status", "conditions")
		return
	}
	_ = unstructured.SetNestedSlice(c.u.Object, append(all, next), "status", "conditions")
}

// shadow is the in-memory object behind u, made if need be. A changed touch is
// written to it, so that its controller looks again.
func (s *stack) shadow(ctx context.Context, u *unstructured.Unstructured, kind, touch string, memory map[string]any) (*unstructured.Unstructured, error) {
	d := object(infrastructure, kind)
	err := s.Get(ctx, client.ObjectKeyFromObject(u), d)
	if apierrors.IsNotFound(err) {
		d = object(infrastructure, kind)
		d.SetNamespace(u.GetNamespace())
		d.SetName(u.GetName())
		d.SetLabels(u.GetLabels())
		// Without any annotation the in-memory backend would write into a nil map.
		d.SetAnnotations(map[string]string{touched: touch})
		d.SetOwnerReferences(u.GetOwnerReferences())
		if err := unstructured.SetNestedMap(d.Object, map[string]any{"inMemory": memory}, "spec", "backend"); err != nil {
			return nil, err
		}
		return d, s.Create(ctx, d)
	}
	if err != nil || d.GetAnnotations()[touched] == touch {
		return d, err
	}
	old := d.DeepCopy()
	annotations := d.GetAnnotations()
	annotations[touched] = touch
	d.SetAnnotations(annotations)
	return d, s.Patch(ctx, d, client.MergeFrom(old))
}

// vanish deletes the shadow and reports whether it has gone.
func (s *stack) vanish(ctx context.Context, u *unstructured.Unstructured, kind string) (bool, error) {
	d := object(infrastructure, kind)
	// Past the cache: a shadow that was made a moment ago must not be missed.
	err := s.live.Get(ctx, client.ObjectKeyFromObject(u), d)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err == nil && d.GetDeletionTimestamp() == nil {
		err = s.Delete(ctx, d)
	}
	return false, client.IgnoreNotFound(err)
}

// save writes what changed of u, its status apart.
func (s *stack) save(ctx context.Context, u, old *unstructured.Unstructured) error {
	wanted := u.DeepCopy()
	if err := s.Patch(ctx, u, client.MergeFrom(old)); err != nil {
		return client.IgnoreNotFound(err)
	}
	base := u.DeepCopy()
	u.Object["status"] = wanted.Object["status"]
	return client.IgnoreNotFound(s.Status().Patch(ctx, u, client.MergeFrom(base)))
}

func ownedBy(u *unstructured.Unstructured, kind string) string {
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == kind {
			return o.Name
		}
	}
	return ""
}

func (s *stack) cluster(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	u := object(infrastructure, "OpenStackCluster")
	if err := s.Get(ctx, r.NamespacedName, u); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ownedBy(u, "Cluster") == "" {
		return reconcile.Result{}, nil
	}
	old, faults, is := u.DeepCopy(), s.faults(ctx), conditions{u}
	name := u.GetName()
	if u.GetDeletionTimestamp() != nil {
		if message := faults["delete."+name]; message != "" {
			is.set("Ready", false, "DeleteFailed", message)
			return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
		}
		gone, err := s.vanish(ctx, u, "DevCluster")
		if err != nil || !gone {
			return reconcile.Result{RequeueAfter: soon}, err
		}
		controllerutil.RemoveFinalizer(u, finalizer)
		return reconcile.Result{}, client.IgnoreNotFound(s.Patch(ctx, u, client.MergeFrom(old)))
	}
	controllerutil.AddFinalizer(u, finalizer)

	credential := faults["credential."+name]
	is.set("OpenStackAuthenticationSucceeded", credential == "", either(credential, "OpenStackAuthenticationFailed"), credential)
	failed := credential
	for _, part := range []struct{ fault, kind, reason string }{
		{"network.", "NetworkReady", "NetworkReconcileFailed"},
		{"endpoint.", "APIEndpointReady", "APIEndpointReconcileFailed"},
	} {
		if message := faults[part.fault+name]; message != "" {
			is.set(part.kind, false, part.reason, message)
			failed = message
		}
	}
	if failed != "" {
		is.set("Ready", false, "OpenStackError", failed)
		return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
	}

	d, err := s.shadow(ctx, u, "DevCluster", string(u.GetUID()), map[string]any{})
	if err != nil {
		return reconcile.Result{}, err
	}
	host, _, _ := unstructured.NestedString(d.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, _ := unstructured.NestedInt64(d.Object, "spec", "controlPlaneEndpoint", "port")
	up, _, _ := unstructured.NestedBool(d.Object, "status", "initialization", "provisioned")
	if !up || host == "" {
		is.set("Ready", false, "NotReady", "")
		return reconcile.Result{RequeueAfter: soon}, s.save(ctx, u, old)
	}
	_ = unstructured.SetNestedMap(u.Object, map[string]any{"host": host, "port": port}, "spec", "controlPlaneEndpoint")
	_ = unstructured.SetNestedField(u.Object, true, "status", "initialization", "provisioned")
	_ = unstructured.SetNestedSlice(u.Object, zones(u), "status", "failureDomains")
	for _, kind := range []string{"NetworkReady", "RouterReady", "SecurityGroupsReady", "APIEndpointReady", "Ready"} {
		is.set(kind, true, "Ready", "")
	}
	return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
}

func either(fault, reason string) string {
	if fault == "" {
		return "Ready"
	}
	return reason
}

// zones are those that the cluster asks for, else one.
func zones(u *unstructured.Unstructured) []any {
	names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "controlPlaneAvailabilityZones")
	if len(names) == 0 {
		names = []string{"nova"}
	}
	var out []any
	for _, n := range names {
		out = append(out, map[string]any{"name": n, "controlPlane": true})
	}
	return out
}

func (s *stack) machine(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	u := object(infrastructure, "OpenStackMachine")
	if err := s.Get(ctx, r.NamespacedName, u); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner := ownedBy(u, "Machine")
	if owner == "" {
		return reconcile.Result{}, nil
	}
	old, faults, is := u.DeepCopy(), s.faults(ctx), conditions{u}
	if u.GetDeletionTimestamp() != nil {
		gone, err := s.vanish(ctx, u, "DevMachine")
		if err != nil || !gone {
			return reconcile.Result{RequeueAfter: soon}, err
		}
		controllerutil.RemoveFinalizer(u, finalizer)
		return reconcile.Result{}, client.IgnoreNotFound(s.Patch(ctx, u, client.MergeFrom(old)))
	}
	controllerutil.AddFinalizer(u, finalizer)
	ready := func(ok bool, reason, message string) {
		is.set("InstanceReady", ok, reason, message)
		is.set("Ready", ok, reason, message)
	}

	switch kind, message, _ := strings.Cut(faults["server."+flavor(u)], ":"); kind {
	case "refuse":
		ready(false, "InstanceCreateFailed", message)
		return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
	case "port":
		ready(false, "PortCreateFailed", message)
		return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
	case "error": // the provider drops what Nova says of it
		_ = unstructured.SetNestedField(u.Object, "ERROR", "status", "instanceState")
		_ = unstructured.SetNestedField(u.Object, string(u.GetUID()), "status", "instanceID")
		ready(false, "InstanceStateError", "Instance is in ERROR state")
		return reconcile.Result{RequeueAfter: later}, s.save(ctx, u, old)
	}

	m := object(core, "Machine")
	if err := s.Get(ctx, types.NamespacedName{Namespace: u.GetNamespace(), Name: owner}, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	boot := faults["boot"]
	if boot == "" {
		boot = "1s"
	}
	after := func(d string) map[string]any {
		return map[string]any{"provisioning": map[string]any{"startupDuration": d}}
	}
	data, _, _ := unstructured.NestedString(m.Object, "spec", "bootstrap", "dataSecretName")
	d, err := s.shadow(ctx, u, "DevMachine", data, map[string]any{
		"vm": after(boot), "node": after("0s"), "apiServer": after("0s"), "etcd": after("0s"),
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	id, _, _ := unstructured.NestedString(d.Object, "spec", "providerID")
	if id == "" {
		if data == "" {
			ready(false, "WaitingForBootstrapData", "")
		} else {
			ready(false, "InstanceNotReady", "Instance is building")
		}
		return reconcile.Result{RequeueAfter: soon}, s.save(ctx, u, old)
	}
	_ = unstructured.SetNestedField(u.Object, id, "spec", "providerID")
	_ = unstructured.SetNestedField(u.Object, true, "status", "initialization", "provisioned")
	_ = unstructured.SetNestedField(u.Object, string(u.GetUID()), "status", "instanceID")
	_ = unstructured.SetNestedField(u.Object, "ACTIVE", "status", "instanceState")
	_ = unstructured.SetNestedSlice(u.Object, []any{
		map[string]any{"type": "InternalIP", "address": address(string(u.GetUID()))},
		map[string]any{"type": "InternalDNS", "address": u.GetName()},
	}, "status", "addresses")
	ready(true, "Ready", "")
	return reconcile.Result{}, s.save(ctx, u, old)
}

// flavor is the id, or the name that was asked for.
func flavor(u *unstructured.Unstructured) string {
	if id, _, _ := unstructured.NestedString(u.Object, "spec", "flavor", "id"); id != "" {
		return id
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "flavor", "filter", "name")
	return name
}

// address is made up from a UID.
func address(uid string) string {
	var a, b int
	_, _ = fmt.Sscanf(uid[len(uid)-4:], "%02x%02x", &a, &b)
	return fmt.Sprintf("10.0.%d.%d", a, b)
}
