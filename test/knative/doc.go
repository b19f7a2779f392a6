// Package knative checks what operators apply: every manifest of every overlay, as
// kustomize renders it, against the schemas of the APIs that it names, with unknown
// fields refused, and by the rules that Knative's webhooks add. It is a module of its
// own, so that Kubernetes' packages stay out of Carafe's.
//
// Knative Eventing's and func's schemas are not to be had as Go modules: they are read
// from shared/crds beside the checkout, or from the folder that CARAFE_CRDS names, and
// a run without them says so.
package knative
