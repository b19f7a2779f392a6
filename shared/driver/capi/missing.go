package capi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// missing names the first object of a plan that the management cluster does
// not have as rendered; empty: it has all. Templates and secrets need no look:
// they are applied before what refers to them, or hashed into it.
func (p Plan) missing(s *Snapshot) string {
	for name := range p.Scale {
		return "the size of " + name
	}
	for _, wave := range p.Waves {
		for _, o := range wave {
			if !present(o, s) {
				return fmt.Sprintf("%s %s", o.GetKind(), o.GetName())
			}
		}
	}
	for _, k := range p.Delete {
		if _, ok := s.Deployments[k.Name]; ok && k.Kind == deploymentKind || k.Kind == podDeploymentKind && s.Autoscaler != nil {
			return fmt.Sprintf("the end of %s %s", k.Kind.Kind, k.Name)
		}
	}
	return ""
}

// present reports whether the live object says all that the rendered one does.
func present(o Object, s *Snapshot) bool {
	spec := o.Object["spec"]
	switch o.GroupVersionKind() {
	case clusterKind:
		c := s.Cluster
		return c != nil && covers(plain(c.Spec), spec) &&
			c.Annotations[annotationCredential] == o.GetAnnotations()[annotationCredential] &&
			c.Annotations[annotationTemplate] == o.GetAnnotations()[annotationTemplate]
	case controlPlaneKind:
		return s.ControlPlane != nil && covers(plain(s.ControlPlane.Spec), spec)
	case deploymentKind:
		d := s.Deployments[o.GetName()]
		return d != nil && covers(plain(d.Spec), spec) && says(d.ObjectMeta, o)
	case resourceSetKind:
		return s.ResourceSet != nil && covers(plain(s.ResourceSet.Spec), spec) && says(s.ResourceSet.ObjectMeta, o)
	case podDeploymentKind:
		return s.Autoscaler != nil && says(s.Autoscaler.ObjectMeta, o)
	}
	if o.GetKind() == "OpenStackCluster" {
		return s.Infrastructure != nil && covers(plain(s.Infrastructure.Spec), spec)
	}
	return true
}

func says(live metav1.ObjectMeta, o Object) bool {
	for k, v := range o.GetAnnotations() {
		if live.Annotations[k] != v {
			return false
		}
	}
	return true
}
