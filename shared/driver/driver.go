// Package driver is the contract between the conductor and what really builds
// clusters. A driver is told what should be, not what to do (ARCHITECTURE §5).
package driver

import (
	"context"
	"time"

	"carafe/shared/magnum"
)

// ClusterType is what a driver can build.
type ClusterType struct {
	ServerType string // vm or bm
	OS         string // os_distro of the image
	COE        string // kubernetes
}

// Description is what a driver says of itself; it never changes.
type Description struct {
	Name         string
	Beta         bool
	ClusterTypes []ClusterType
	// RotateCA, RotateLeaf and RotateCredential are checked before an operation
	// of that kind is stored.
	RotateCA         bool
	RotateLeaf       bool
	RotateCredential bool
	// FollowsTemplate says that with an upgrade the rows take the new template's
	// image and labels, where the user had not set others.
	FollowsTemplate bool
	// Credential asks for an application credential of the user's, made in
	// the create request.
	Credential bool
}

// Cluster is the desired state, whole: what a driver needs to build it.
type Cluster struct {
	magnum.Cluster
	Template   magnum.ClusterTemplate
	NodeGroups []magnum.NodeGroup // those that should be; one in DELETE_IN_PROGRESS should go
	// Operation is what brought this state about; its Kind and arguments carry
	// max_batch_size and nodes_to_remove.
	Operation magnum.Operation
	// NodesToRemove names, by node group uuid, the nodes that a resize must take.
	NodesToRemove map[string][]string
	// Certificates are nil in Check and Observe.
	Certificates *Certificates
	// Credential is nil where none is kept, and in Check and Observe.
	Credential *Credential
}

// KeyPair is a PEM certificate and its PEM PKCS#8 key, in the clear: it stays in memory.
type KeyPair struct{ Certificate, Key []byte }

// Certificates are the authorities of one cluster in one epoch.
type Certificates struct {
	Epoch      int
	Kubernetes KeyPair
	Etcd       KeyPair
	FrontProxy KeyPair
	Client     KeyPair // admin of system:masters, signed by Kubernetes; also the service account key
}

// Credential is an application credential of the user who made the cluster.
type Credential struct {
	Epoch  int
	ID     string
	Secret string
}

// Ref is what Observe, Delete and Health need: the rows, no secrets.
type Ref struct {
	magnum.Cluster
	Template   magnum.ClusterTemplate
	NodeGroups []magnum.NodeGroup
	Operation  *magnum.Operation // the latest that is not finished; nil if none
}

// Progress says how far something is.
type Progress int

const (
	InProgress Progress = iota // not there yet
	Complete                   // as desired
	Failed                     // will not get there by itself
	Gone                       // does not exist (any more)
)

// NodeGroupObservation is what was seen of one node group.
type NodeGroupObservation struct {
	Progress      Progress
	Reason        string // one sentence: what is waited for, or what is wrong
	NodeAddresses []string
	ReadyNodes    int
	StackID       string
	// NodeCount is what an autoscaler has made of the group; nil: the row's stands.
	NodeCount *int
}

// Observation is what was seen of one cluster. Empty strings leave a row's value.
type Observation struct {
	Progress         Progress
	Reason           string // one sentence for status_reason
	ErrorCode        string // a fault.Reason, when Failed
	APIAddress       string
	COEVersion       string
	ContainerVersion string
	StackID          string
	NodeGroups       map[string]NodeGroupObservation // by node group uuid; absent: unchanged
}

// Driver builds clusters. Errors are fault.Errors: Unavailable and Internal are
// tried again, everything else ends the operation with the error's text.
type Driver interface {
	Describe() Description
	// Check refuses what the driver cannot do, inside the HTTP request.
	// current is nil for a create. It has no side effects.
	Check(ctx context.Context, current *Ref, desired Cluster) error
	// Apply brings about the desired state and returns once it is accepted.
	// It may run any number of times.
	Apply(ctx context.Context, desired Cluster) (Accepted, error)
	// Observe looks, and changes nothing that a user could see.
	Observe(ctx context.Context, ref Ref) (Observation, error)
	// Delete begins the removal of everything; Observe says Gone when it is.
	// It may run any number of times, also for a cluster that never was.
	Delete(ctx context.Context, ref Ref) error
}

// Accepted is what is known as soon as the driver took the desired state.
type Accepted struct {
	StackID string // empty: unchanged
}

// CARotator is a Driver that can move a cluster to new authorities.
// desired.Certificates are the new epoch's.
type CARotator interface {
	RotateCA(ctx context.Context, desired Cluster) error
}

// CredentialRotator is a Driver that can move a cluster to a new credential.
// RotateCredential returns once the cluster works with desired.Credential, for
// then the old one is revoked; while it still takes it up, it returns an
// Unavailable fault that says what it waits for, and is called again.
type CredentialRotator interface {
	RotateCredential(ctx context.Context, desired Cluster) error
}

// LeafRotator is a Driver that can renew the certificates that the control
// plane shows, under the same authorities: those from before at.
type LeafRotator interface {
	RotateLeaf(ctx context.Context, ref Ref, at time.Time) error
}

// Forgetter is a Driver that can let go of a cluster whose cloud does not answer.
type Forgetter interface {
	// Forget begins the removal, as Delete does, and lets go of what would wait for
	// the cloud. It tells what it left there, and whether nothing is left to let go
	// of; else it is called again.
	Forget(ctx context.Context, ref Ref) (left []string, gone bool, err error)
}

// BatchObserver is a Driver that observes many clusters with few calls. Each
// result stands at the place of its ref.
type BatchObserver interface {
	ObserveAll(ctx context.Context, refs []Ref) []Result
}

// Result is the outcome of one observation.
type Result struct {
	Observation Observation
	Err         error
}

// NodeLister is a Driver that can tell the nodes of a cluster one by one.
type NodeLister interface {
	// Nodes gives the nodes that there are or will be, by node group uuid, each
	// group's by index.
	Nodes(ctx context.Context, ref Ref) (map[string][]Node, error)
}

// Node is one machine of a node group.
type Node struct {
	Index      string // in its group; never another node's
	Name       string // of the Kubernetes node
	ServerID   string // Nova's, and the systemUUID that the node reports; empty: there is none yet
	ProviderID string
	Address    string
	Fault      string // why there is no server; empty: nothing is known to be wrong
}

// HealthObserver is a Driver that knows the health of its clusters without
// reaching into them.
type HealthObserver interface {
	Health(ctx context.Context, ref Ref) (Health, error)
}

// Health is a verdict with its reasons (spec/conductor.md §3.4).
type Health struct {
	Status  magnum.HealthStatus
	Reasons map[string]string
}

// Federator is a Driver that can join clusters into federations. Both may run
// any number of times.
type Federator interface {
	// Federate brings about the federation's members and properties.
	Federate(ctx context.Context, f magnum.Federation) error
	// Dissolve ends the federation; its clusters stay.
	Dissolve(ctx context.Context, f magnum.Federation) error
}
