// Package magnum holds the domain's words and rules: clusters, node groups,
// templates, their statuses and gates. It imports nothing but the standard
// library and shared/fault.
package magnum

import (
	"slices"
	"strings"
)

// Status is the lifecycle status of a cluster or a node group
// (spec/conductor.md §1.9). An empty Status is a null in the API.
type Status string

const (
	CreateInProgress   Status = "CREATE_IN_PROGRESS"
	CreateFailed       Status = "CREATE_FAILED"
	CreateComplete     Status = "CREATE_COMPLETE"
	UpdateInProgress   Status = "UPDATE_IN_PROGRESS"
	UpdateFailed       Status = "UPDATE_FAILED"
	UpdateComplete     Status = "UPDATE_COMPLETE"
	DeleteInProgress   Status = "DELETE_IN_PROGRESS"
	DeleteFailed       Status = "DELETE_FAILED"
	DeleteComplete     Status = "DELETE_COMPLETE"
	ResumeComplete     Status = "RESUME_COMPLETE"
	ResumeFailed       Status = "RESUME_FAILED"
	RestoreComplete    Status = "RESTORE_COMPLETE"
	RollbackInProgress Status = "ROLLBACK_IN_PROGRESS"
	RollbackFailed     Status = "ROLLBACK_FAILED"
	RollbackComplete   Status = "ROLLBACK_COMPLETE"
	SnapshotComplete   Status = "SNAPSHOT_COMPLETE"
	CheckComplete      Status = "CHECK_COMPLETE"
	AdoptComplete      Status = "ADOPT_COMPLETE"
)

// Statuses are all statuses in the order in which Magnum declares them.
var Statuses = []Status{
	CreateInProgress, CreateFailed, CreateComplete,
	UpdateInProgress, UpdateFailed, UpdateComplete,
	DeleteInProgress, DeleteFailed, DeleteComplete,
	ResumeComplete, ResumeFailed, RestoreComplete,
	RollbackInProgress, RollbackFailed, RollbackComplete,
	SnapshotComplete, CheckComplete, AdoptComplete,
}

// InProgress reports whether something is being done to the resource.
func (s Status) InProgress() bool { return strings.HasSuffix(string(s), "_IN_PROGRESS") }

// Failed reports whether the last operation failed.
func (s Status) Failed() bool { return strings.HasSuffix(string(s), "_FAILED") }

// Complete reports whether the last operation succeeded.
func (s Status) Complete() bool { return strings.HasSuffix(string(s), "_COMPLETE") }

// Verb is CREATE, UPDATE, DELETE or ROLLBACK: the part that says what is done.
func (s Status) Verb() string {
	verb, _, _ := strings.Cut(string(s), "_")
	return verb
}

// To gives the status of the same verb with another ending: IN_PROGRESS,
// COMPLETE or FAILED.
func (s Status) To(ending string) Status { return Status(s.Verb() + "_" + ending) }

// HealthStatus is what is known of the health of a cluster; empty is a null.
type HealthStatus string

const (
	Healthy       HealthStatus = "HEALTHY"
	Unhealthy     HealthStatus = "UNHEALTHY"
	UnknownHealth HealthStatus = "UNKNOWN"
)

// HealthStatuses are all of them in the order in which Magnum declares them.
var HealthStatuses = []HealthStatus{Healthy, Unhealthy, UnknownHealth}

// Gate is a set of statuses in which an operation is allowed
// (spec/conductor.md §2.2).
type Gate []Status

// Steady is gate G1: nothing is being done and nothing failed.
var Steady = Gate{
	CreateComplete, UpdateComplete, ResumeComplete, RestoreComplete,
	RollbackComplete, SnapshotComplete, CheckComplete, AdoptComplete,
}

// Changing is gate G2: steady, or an update that runs or failed.
var Changing = append(slices.Clone(Steady), UpdateFailed, UpdateInProgress)

// Allows reports whether the gate lets an operation through in this status.
func (g Gate) Allows(s Status) bool { return slices.Contains(g, s) }
