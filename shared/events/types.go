// Package events moves CloudEvents: it receives them for a function, sends them
// to a broker, and, where there is none, is the broker, over the same outbox and
// the same Knative manifests. It is the only package that knows the CloudEvents
// HTTP binding. What an event means is the business of the function that takes it.
package events

import "carafe/shared/magnum"

// commandPrefix begins the type of every internal command. Commands carry ids
// only; what is to be done is in the operation's row.
const commandPrefix = "magnum.conductor."

// Types of the commands.
const (
	ClusterCreate  = commandPrefix + "cluster.create"
	ClusterUpdate  = commandPrefix + "cluster.update"
	ClusterResize  = commandPrefix + "cluster.resize"
	ClusterUpgrade = commandPrefix + "cluster.upgrade"
	ClusterDelete  = commandPrefix + "cluster.delete"

	NodeGroupCreate = commandPrefix + "nodegroup.create"
	NodeGroupUpdate = commandPrefix + "nodegroup.update"
	NodeGroupDelete = commandPrefix + "nodegroup.delete"

	CARotate         = commandPrefix + "ca.rotate"
	CredentialRotate = commandPrefix + "credential.rotate"

	FederationCreate = commandPrefix + "federation.create"
	FederationUpdate = commandPrefix + "federation.update"
	FederationDelete = commandPrefix + "federation.delete"

	Sync   = commandPrefix + "sync"   // a batch of clusters to observe
	Health = commandPrefix + "health" // a batch of clusters whose health is due
)

// Tick is the type of every event that a PingSource sends: Knative gives them
// no other, and the source says which one it was.
const Tick = "dev.knative.sources.ping"

// Types of the notifications that the world gets.
const (
	NotifyClusterCreate = "magnum.cluster.create"
	NotifyClusterUpdate = "magnum.cluster.update"
	NotifyClusterDelete = "magnum.cluster.delete"
	NotifyClusterHealth = "magnum.cluster.health"
	// NotifyCertificateCreate tells of each certificate that was signed (PB-61).
	NotifyCertificateCreate = "magnum.certificate.create"
)

// Names of the extension attributes that Carafe's events carry.
const (
	ExtensionOutcome     = "outcome"  // pending, success, failure
	ExtensionPriority    = "priority" // info, error
	ExtensionProject     = "projectid"
	ExtensionRequest     = "requestid"
	ExtensionOperation   = "operationid"
	ExtensionTraceparent = "traceparent"  // the CloudEvents distributed tracing extension
	ExtensionPartition   = "partitionkey" // the CloudEvents partitioning extension: Kafka keeps its order
)

// Extensions that a broker adds to what it could not deliver
// (knative/eventing pkg/kncloudevents/attributes/knative_error.go).
const (
	ExtensionErrorDest = "knativeerrordest"
	ExtensionErrorCode = "knativeerrorcode"
	ExtensionErrorData = "knativeerrordata"

	errorDataLength = 1024
)

// CommandFor is the type of the command for an operation of this kind.
func CommandFor(kind magnum.OperationKind) string { return commandPrefix + string(kind) }
