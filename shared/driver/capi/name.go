package capi

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"carafe/shared/magnum"
)

// Every name is a function of rows that never change (the cluster's own name
// at creation is kept in stack_id). Lengths leave room for what Cluster API
// appends: a machine is <MachineDeployment>-<5>-<5> and must be a host name,
// so 51 characters are the most that a MachineDeployment may have.

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// hash is n characters of the lower-case base32 of a SHA-256.
func hash(n int, content []byte) string {
	sum := sha256.Sum256(content)
	return base32Lower.EncodeToString(sum[:])[:n]
}

// slug turns any text into at most n characters that may begin an object's
// name: lower-case letters, digits and single dashes, a letter first.
func slug(text string, n int) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(text) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
			continue
		}
		dash = true
	}
	s := b.String()
	if s == "" {
		return "k8s"
	}
	if s[0] >= '0' && s[0] <= '9' {
		s = "k" + s
	}
	if len(s) > n {
		s = s[:n]
	}
	return strings.TrimRight(s, "-")
}

// namespaceName is the namespace of a project: one for each, so that no
// project's objects stand beside another's.
func namespaceName(prefix, projectID string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(projectID) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		}
	}
	project := b.String()
	if project != projectID || len(project) > 40 || project == "" {
		project = project[:min(len(project), 24)]
		if project != "" {
			project += "-"
		}
		project += hash(8, []byte(projectID))
	}
	return prefix + "-" + project
}

// ClusterName is the name of a cluster's objects, and its stack_id. A cluster
// that has a stack_id keeps it, whatever it is called later.
func ClusterName(c magnum.Cluster) string {
	if c.StackID != nil && *c.StackID != "" {
		return *c.StackID
	}
	return slug(c.Name, 14) + "-" + hash(12, []byte(c.UUID))
}

// groupName is the name of a worker group's MachineDeployment. It carries a
// hash, so that Foo, foo and foo_ are three groups.
func groupName(cluster string, g magnum.NodeGroup) string {
	return cluster + "-" + slug(g.Name, 16) + "-" + hash(6, []byte(g.UUID))
}

// controlPlaneName is the name of the KubeadmControlPlane.
func controlPlaneName(cluster string) string { return cluster + "-cp" }

// nodesName is the name of what makes the nodes of a group.
func nodesName(cluster string, g magnum.NodeGroup) string {
	if g.IsMaster() {
		return controlPlaneName(cluster)
	}
	return groupName(cluster, g)
}

func cloudConfigName(cluster string) string   { return cluster + "-cloud-config" }
func addonName(cluster, addon string) string  { return cluster + "-addon-" + addon }
func autoscalerName(cluster string) string    { return cluster + "-autoscaler" }
func caName(cluster, authority string) string { return cluster + "-" + authority }
