package magnum

import (
	"encoding/json"
	"time"
)

// ClusterTemplate is what clusters are made from (spec/api.md §4.1.1).
// A nil pointer is a null in the API.
type ClusterTemplate struct {
	Seq     int64 // sort_key=id
	UUID    string
	Version int64 // of the row, for conditional writes and the ETag

	ProjectID, UserID string
	Name              string
	COE               string
	ImageID           string
	FlavorID          *string
	MasterFlavorID    *string
	DNSNameserver     *string
	KeypairID         *string
	ExternalNetworkID *string
	FixedNetwork      *string
	FixedSubnet       *string
	NetworkDriver     *string
	APIServerPort     *int
	DockerVolumeSize  *int // GB
	ClusterDistro     *string
	HTTPProxy         *string
	HTTPSProxy        *string
	NoProxy           *string
	VolumeDriver      *string
	RegistryEnabled   bool
	Labels            map[string]string
	TLSDisabled       bool
	Public            bool
	ServerType        string
	InsecureRegistry  *string

	DockerStorageDriver *string
	MasterLBEnabled     bool
	FloatingIPEnabled   bool
	Hidden              bool
	Tags                *string
	Driver              *string

	CreatedAt time.Time
	UpdatedAt *time.Time
}

// Cluster is one Kubernetes cluster (spec/api.md §4.2.1, spec/conductor.md §1.2).
type Cluster struct {
	Seq     int64
	UUID    string
	Version int64

	ProjectID, UserID  string
	Name               string
	ClusterTemplateID  string
	Keypair            *string
	DockerVolumeSize   *int // GB
	Labels             map[string]string
	MasterFlavorID     *string
	FlavorID           *string
	StackID            *string // the driver's own name for it
	APIAddress         *string
	Status             Status
	StatusReason       *string
	HealthStatus       HealthStatus
	HealthStatusReason map[string]string
	HealthCheckedAt    *time.Time
	CreateTimeout      *int // minutes; 0 and nil: no limit
	DiscoveryURL       *string
	COEVersion         *string
	ContainerVersion   *string
	FixedNetwork       *string
	FixedSubnet        *string
	FloatingIPEnabled  bool
	MasterLBEnabled    bool
	Driver             string // resolved when the cluster was made, fixed since

	CreatedAt time.Time
	UpdatedAt *time.Time
}

// RoleMaster is the only role with a meaning of its own.
const RoleMaster = "master"

// Names of the two node groups that every cluster is made with.
const (
	DefaultMaster = "default-master"
	DefaultWorker = "default-worker"
)

// NodeGroup is a set of like nodes of one cluster (spec/api.md §4.3.1).
type NodeGroup struct {
	ID       int64 // shown in the API
	UUID     string
	Revision int64 // of the row, for conditional writes and the ETag

	Name             string
	ClusterID        string
	ProjectID        string
	DockerVolumeSize *int // GB
	Labels           map[string]string
	FlavorID         *string
	ImageID          *string
	NodeAddresses    []string
	NodeCount        int // desired
	Role             string
	MinNodeCount     int
	MaxNodeCount     *int // nil or 0: no limit
	IsDefault        bool
	StackID          *string
	Status           Status
	StatusReason     *string
	Release          *string // "version" in the API; Magnum never sets it
	NodeLabels       map[string]string
	NodeTaints       []map[string]string

	CreatedAt time.Time
	UpdatedAt *time.Time
}

// IsMaster reports whether the group holds the control plane.
func (n *NodeGroup) IsMaster() bool { return n.Role == RoleMaster }

// Quota limits what a project may have (spec/api.md §4.6).
type Quota struct {
	ID        int64
	ProjectID string
	Resource  string
	HardLimit int
	CreatedAt time.Time
	UpdatedAt *time.Time
}

// ResourceCluster is the only resource with a quota.
const ResourceCluster = "Cluster"

// Federation groups clusters (spec/api.md §4.9).
type Federation struct {
	Seq           int64
	UUID          string
	Version       int64
	ProjectID     string
	Name          string
	HostClusterID string
	MemberIDs     []string
	Status        Status
	StatusReason  *string
	Properties    map[string]string
	CreatedAt     time.Time
	UpdatedAt     *time.Time
}

// Service is a function that has been seen at work (spec/api.md §4.8).
type Service struct {
	ID          int64
	Host        string
	Binary      string
	ReportCount int
	LastSeenUp  time.Time
	CreatedAt   time.Time
	UpdatedAt   *time.Time
}

// OperationKind says what an operation does.
type OperationKind string

const (
	ClusterCreate    OperationKind = "cluster.create"
	ClusterUpdate    OperationKind = "cluster.update"
	ClusterResize    OperationKind = "cluster.resize"
	ClusterUpgrade   OperationKind = "cluster.upgrade"
	ClusterDelete    OperationKind = "cluster.delete"
	NodeGroupCreate  OperationKind = "nodegroup.create"
	NodeGroupUpdate  OperationKind = "nodegroup.update"
	NodeGroupDelete  OperationKind = "nodegroup.delete"
	CARotate         OperationKind = "ca.rotate"
	CredentialRotate OperationKind = "credential.rotate"
	FederationCreate OperationKind = "federation.create"
	FederationUpdate OperationKind = "federation.update"
	FederationDelete OperationKind = "federation.delete"
)

// OperationKinds are all kinds.
var OperationKinds = []OperationKind{
	ClusterCreate, ClusterUpdate, ClusterResize, ClusterUpgrade, ClusterDelete,
	NodeGroupCreate, NodeGroupUpdate, NodeGroupDelete, CARotate, CredentialRotate,
	FederationCreate, FederationUpdate, FederationDelete,
}

// OperationState is where an operation stands (ARCHITECTURE §4).
type OperationState string

const (
	Pending    OperationState = "pending"    // recorded; nobody works on it
	Running    OperationState = "running"    // a handler holds its lease
	Waiting    OperationState = "waiting"    // the driver accepted it; statussync watches
	Succeeded  OperationState = "succeeded"  // done
	FailedOp   OperationState = "failed"     // ended without success
	Superseded OperationState = "superseded" // a later wish took its place
)

// Terminal reports whether nothing more happens to the operation.
func (s OperationState) Terminal() bool {
	return s == Succeeded || s == FailedOp || s == Superseded
}

// Operation is the durable command that every accepted change leaves.
type Operation struct {
	Seq         int64
	ID          string // UUID v7
	Kind        OperationKind
	ClusterID   string // the cluster's, or the federation's, uuid
	NodeGroupID *string
	Arguments   json.RawMessage // the kind's own struct, see arguments.go
	State       OperationState
	Steps       []string // names of the steps that are done
	Attempt     int
	Error       *string // for people
	ErrorCode   *string // a fault.Reason
	// SupersededBy is the later operation whose wish counts instead. One that
	// runs keeps its lease until its handler notices.
	SupersededBy *string

	UserID, ProjectID, DomainID string // who asked
	RequestID                   string
	Traceparent                 string

	LeaseOwner *string
	LeaseUntil *time.Time
	Fence      int64 // grows with each claim: a write must name the current one

	CreatedAt  time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
	DueAt      time.Time  // not before
	DeadlineAt *time.Time // nil: none
}

// Done reports whether a step of the operation has been recorded.
func (o *Operation) Done(step string) bool {
	for _, s := range o.Steps {
		if s == step {
			return true
		}
	}
	return false
}

// Outcome is how an operation stands in its notifications.
type Outcome string

const (
	OutcomePending Outcome = "pending"
	OutcomeSuccess Outcome = "success"
	OutcomeFailure Outcome = "failure"
)

// Event is one CloudEvent of the outbox, and afterwards of the history.
type Event struct {
	Seq     int64
	ID      string // UUID v7
	Type    string
	Source  string
	Subject string // the cluster's (or federation's) uuid
	// PartitionKey keeps an order: an event leaves after all earlier ones of its
	// partition. Empty for commands, which wait for nobody.
	PartitionKey string
	OperationID  string
	Outcome      Outcome // empty for commands
	Priority     string  // info or error; empty for commands
	ProjectID    string
	RequestID    string
	Traceparent  string
	Data         json.RawMessage

	CreatedAt   time.Time
	DueAt       time.Time
	Attempt     int
	LastError   string
	PublishedAt *time.Time
}
