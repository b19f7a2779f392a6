package conductor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carafe/shared/events"
	"carafe/shared/magnum"
)

// cadf is a notification's data: the CADF event that Magnum sends
// (spec/conductor.md §7.2), with its identities mended (PB-76).
type cadf struct {
	TypeURI   string        `json:"typeURI"`
	EventType string        `json:"eventType"`
	ID        string        `json:"id"`
	EventTime string        `json:"eventTime"`
	Action    string        `json:"action"`
	Outcome   string        `json:"outcome"`
	Observer  cadfObserver  `json:"observer"`
	Initiator cadfInitiator `json:"initiator"`
	Target    cadfTarget    `json:"target"`
	// Operation is Carafe's addition: which operation, of what kind, and why it failed.
	Operation *cadfOperation `json:"operation,omitempty"`
}

type cadfObserver struct {
	ID      string `json:"id"`
	TypeURI string `json:"typeURI"`
}

type cadfInitiator struct {
	ID        string `json:"id"`
	TypeURI   string `json:"typeURI"`
	UserID    string `json:"user_id,omitempty"`
	ProjectID string `json:"project_id,omitempty"`
	DomainID  string `json:"domain_id,omitempty"`
}

type cadfTarget struct {
	ID          string           `json:"id"`
	Name        string           `json:"name"`
	TypeURI     string           `json:"typeURI"`
	Attachments []cadfAttachment `json:"attachments"`
}

type cadfAttachment struct {
	TypeURI string      `json:"typeURI"`
	Name    string      `json:"name"`
	Content clusterData `json:"content"`
}

type cadfOperation struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	NodeGroupID string `json:"nodegroup_id,omitempty"`
	NodeGroup   string `json:"nodegroup,omitempty"`
	Error       string `json:"error,omitempty"`
	ErrorCode   string `json:"error_code,omitempty"`
}

type clusterData struct {
	Status             string            `json:"status"`
	StatusReason       *string           `json:"status_reason"`
	ProjectID          string            `json:"project_id"`
	CreatedAt          string            `json:"created_at"`
	UpdatedAt          *string           `json:"updated_at"`
	ClusterTemplateID  string            `json:"cluster_template_id"`
	Keypair            *string           `json:"keypair"`
	DockerVolumeSize   *int              `json:"docker_volume_size"`
	Labels             map[string]string `json:"labels"`
	MasterFlavorID     *string           `json:"master_flavor_id"`
	FlavorID           *string           `json:"flavor_id"`
	StackID            *string           `json:"stack_id"`
	HealthStatus       *string           `json:"health_status"`
	HealthStatusReason map[string]string `json:"health_status_reason,omitempty"`
	CreateTimeout      *int              `json:"create_timeout"`
	APIAddress         *string           `json:"api_address"`
	DiscoveryURL       *string           `json:"discovery_url"`
	NodeAddresses      []string          `json:"node_addresses"`
	MasterAddresses    []string          `json:"master_addresses"`
	NodeCount          int               `json:"node_count"`
	MasterCount        int               `json:"master_count"`
	// Magnum's own spelling of docker_volume_size; subscribers know it (PB-77).
	DockerVolumeSizeColon *int `json:"docker_volume_size:"`
}

const (
	clusterURI = "service/magnum/cluster"
	// cadfTime has no fraction beyond microseconds and no zone but UTC, as Magnum's.
	cadfTime = "2006-01-02T15:04:05.000000"
)

// observerID is the same for every event of an installation's source.
func observerID(source string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(source)).String()
}

// notificationType is the event type of an operation's notifications, empty for
// operations that are not about a cluster.
func notificationType(kind magnum.OperationKind) string {
	switch kind {
	case magnum.ClusterCreate:
		return events.NotifyClusterCreate
	case magnum.ClusterDelete:
		return events.NotifyClusterDelete
	case magnum.FederationCreate, magnum.FederationUpdate, magnum.FederationDelete:
		return ""
	default:
		return events.NotifyClusterUpdate
	}
}

// notification makes the event that tells how an operation stands. why is the
// reason of a failure, empty otherwise.
func (c *Conductor) notification(s *Subject, o magnum.Operation, outcome magnum.Outcome, why, code string, now time.Time) magnum.Event {
	eventType := notificationType(o.Kind)
	e := c.event(eventType, s.Cluster.UUID, now)
	e.PartitionKey, e.OperationID, e.Outcome, e.Priority = s.Cluster.UUID, o.ID, outcome, "info"
	e.ProjectID, e.RequestID, e.Traceparent = s.Cluster.ProjectID, o.RequestID, o.Traceparent
	if outcome == magnum.OutcomeFailure {
		e.Priority = "error"
	}
	operation := &cadfOperation{ID: o.ID, Kind: string(o.Kind), Error: why, ErrorCode: code}
	if o.NodeGroupID != nil {
		operation.NodeGroupID = *o.NodeGroupID
		if n := s.NodeGroup(*o.NodeGroupID); n != nil {
			operation.NodeGroup = n.Name
		}
	}
	e.Data = c.payload(s, e, actionOf(eventType), cadfInitiator{
		ID: o.UserID, UserID: o.UserID, ProjectID: o.ProjectID, DomainID: o.DomainID}, operation)
	return e
}

// HealthNotification makes the event that tells of a changed verdict.
func (c *Conductor) HealthNotification(s *Subject, now time.Time) magnum.Event {
	e := c.event(events.NotifyClusterHealth, s.Cluster.UUID, now)
	e.PartitionKey, e.Outcome, e.Priority, e.ProjectID = s.Cluster.UUID, magnum.OutcomeSuccess, "info", s.Cluster.ProjectID
	if s.Cluster.HealthStatus == magnum.Unhealthy {
		e.Priority = "error"
	}
	e.Data = c.payload(s, e, "health", cadfInitiator{ID: observerID(c.Source())}, nil)
	return e
}

// command makes the event that wakes an operation's function. It carries ids only.
func (c *Conductor) command(o magnum.Operation, now time.Time) magnum.Event {
	e := c.event(events.CommandFor(o.Kind), o.ClusterID, now)
	e.OperationID, e.ProjectID, e.RequestID, e.Traceparent = o.ID, o.ProjectID, o.RequestID, o.Traceparent
	e.Data = mustJSON(Command{OperationID: o.ID, ClusterID: o.ClusterID})
	return e
}

// Command is the data of every command event.
type Command struct {
	OperationID string `json:"operation_id"`
	ClusterID   string `json:"cluster_uuid"`
}

func (c *Conductor) event(eventType, subject string, now time.Time) magnum.Event {
	return magnum.Event{ID: c.NewID(), Type: eventType, Source: c.Source(), Subject: subject, CreatedAt: now}
}

func actionOf(eventType string) string { return eventType[len("magnum.cluster."):] }

func (c *Conductor) payload(s *Subject, e magnum.Event, action string, initiator cadfInitiator, o *cadfOperation) json.RawMessage {
	initiator.TypeURI = "service/security/account/user"
	if initiator.ID == "" {
		initiator.ID = observerID(c.Source())
	}
	return mustJSON(cadf{
		TypeURI: "http://schemas.dmtf.org/cloud/audit/1.0/event", EventType: "activity", ID: e.ID,
		EventTime: e.CreatedAt.UTC().Format(cadfTime) + "+0000", Action: action, Outcome: string(e.Outcome),
		Observer:  cadfObserver{ID: observerID(c.Source()), TypeURI: clusterURI},
		Initiator: initiator,
		Target: cadfTarget{ID: s.Cluster.UUID, Name: s.Cluster.Name, TypeURI: clusterURI,
			Attachments: []cadfAttachment{{TypeURI: clusterURI, Name: "cluster_data", Content: contentOf(s)}}},
		Operation: o,
	})
}

func contentOf(s *Subject) clusterData {
	k := s.Cluster
	d := clusterData{
		Status: string(k.Status), StatusReason: k.StatusReason, ProjectID: k.ProjectID,
		CreatedAt: k.CreatedAt.UTC().Format(cadfTime), ClusterTemplateID: k.ClusterTemplateID, Keypair: k.Keypair,
		DockerVolumeSize: k.DockerVolumeSize, DockerVolumeSizeColon: k.DockerVolumeSize, Labels: k.Labels,
		MasterFlavorID: k.MasterFlavorID, FlavorID: k.FlavorID, StackID: k.StackID,
		HealthStatusReason: k.HealthStatusReason, CreateTimeout: k.CreateTimeout, APIAddress: k.APIAddress,
		DiscoveryURL: k.DiscoveryURL,
	}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	if k.UpdatedAt != nil {
		at := k.UpdatedAt.UTC().Format(cadfTime)
		d.UpdatedAt = &at
	}
	if k.HealthStatus != "" {
		d.HealthStatus = (*string)(&k.HealthStatus)
	}
	d.NodeCount, d.MasterCount = s.counts()
	d.NodeAddresses, d.MasterAddresses = s.addresses()
	return d
}

// mustJSON encodes our own structs, which cannot fail.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
