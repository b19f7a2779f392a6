package conductor

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"carafe/shared/driver"
	"carafe/shared/magnum"
)

func subject(status magnum.Status, groups []magnum.NodeGroup, open ...magnum.Operation) *Subject {
	return &Subject{Cluster: magnum.Cluster{UUID: "c", Status: status}, NodeGroups: groups, Open: open}
}

func group(uuid string, status magnum.Status) magnum.NodeGroup {
	return magnum.NodeGroup{UUID: uuid, Name: uuid, Role: "worker", NodeCount: 2, Status: status, IsDefault: true}
}

func waiting(id string, kind magnum.OperationKind, nodeGroup string) magnum.Operation {
	o := magnum.Operation{ID: id, Kind: kind, State: magnum.Waiting, Steps: []string{ApplyStep}, Arguments: json.RawMessage("{}")}
	if nodeGroup != "" {
		o.NodeGroupID = &nodeGroup
	}
	return o
}

// outcome is what a table expects: statuses, and what became of the operations.
type outcome struct {
	Cluster, Reason string
	Groups          string
	Ended           string
	Resumed         int
	Kept            string // what failed while others go on
}

func look(s *Subject, o driver.Observation, failure *string) outcome {
	seen := s.See(o)
	var ended []string
	for _, e := range seen.Ended {
		s.End(e)
		ended = append(ended, fmt.Sprintf("%s %s", e.Operation.ID, e.Outcome()))
	}
	kept := s.Aggregate(seen.Ended, failure)
	got := outcome{Cluster: string(s.Cluster.Status), Ended: sentence(ended), Resumed: len(seen.Resumed)}
	if s.Cluster.StatusReason != nil {
		got.Reason = *s.Cluster.StatusReason
	}
	if kept != nil {
		got.Kept = *kept
	}
	var groups []string
	for _, n := range s.NodeGroups {
		groups = append(groups, string(n.Status))
	}
	got.Groups = sentence(groups)
	return got
}

func TestSee(t *testing.T) {
	t.Parallel()
	boom := "boom"
	for _, tc := range []struct {
		name    string
		subject *Subject
		seen    driver.Observation
		failure *string
		want    outcome
	}{
		{"CreateGoesOn", subject(magnum.CreateInProgress, []magnum.NodeGroup{group("w", magnum.CreateInProgress)}, waiting("o", magnum.ClusterCreate, "")),
			driver.Observation{Reason: "Waiting for the first control plane node."}, nil,
			outcome{Cluster: "CREATE_IN_PROGRESS", Reason: "Waiting for the first control plane node.", Groups: "CREATE_IN_PROGRESS"}},
		{"CreateIsDone", subject(magnum.CreateInProgress, []magnum.NodeGroup{group("w", magnum.CreateInProgress)}, waiting("o", magnum.ClusterCreate, "")),
			driver.Observation{Progress: driver.Complete}, nil,
			outcome{Cluster: "CREATE_COMPLETE", Groups: "CREATE_COMPLETE", Ended: "o success"}},
		{"CreateFails", subject(magnum.CreateInProgress, []magnum.NodeGroup{group("w", magnum.CreateInProgress)}, waiting("o", magnum.ClusterCreate, "")),
			driver.Observation{Progress: driver.Failed, Reason: "No quota."}, nil,
			outcome{Cluster: "CREATE_FAILED", Reason: "No quota.", Groups: "CREATE_FAILED", Ended: "o failure"}}, // PB-17
		{"CreateOfWhatIsGone", subject(magnum.CreateInProgress, nil, waiting("o", magnum.ClusterCreate, "")),
			driver.Observation{Progress: driver.Gone}, nil,
			outcome{Cluster: "CREATE_FAILED", Reason: "The driver does not know the cluster any more.", Ended: "o failure"}},
		{"DeleteGoesOnToTheSecrets", subject(magnum.DeleteInProgress, nil, waiting("o", magnum.ClusterDelete, "")),
			driver.Observation{Progress: driver.Gone}, nil, outcome{Cluster: "DELETE_IN_PROGRESS", Resumed: 1}},
		{"DeleteOfWhatIsStillThere", subject(magnum.DeleteInProgress, nil, waiting("o", magnum.ClusterDelete, "")),
			driver.Observation{Progress: driver.Complete}, nil, outcome{Cluster: "DELETE_IN_PROGRESS"}},
		{"DeleteFails", subject(magnum.DeleteInProgress, []magnum.NodeGroup{group("w", magnum.DeleteInProgress)}, waiting("o", magnum.ClusterDelete, "")),
			driver.Observation{Progress: driver.Failed, Reason: "in use"}, nil,
			outcome{Cluster: "DELETE_FAILED", Reason: "in use", Groups: "DELETE_FAILED", Ended: "o failure"}},
		{"ResizeOfOneGroupWhileAnotherGoesOn", subject(magnum.UpdateInProgress,
			[]magnum.NodeGroup{group("a", magnum.UpdateInProgress), group("b", magnum.UpdateInProgress)},
			waiting("oa", magnum.ClusterResize, "a"), waiting("ob", magnum.ClusterResize, "b")),
			driver.Observation{NodeGroups: map[string]driver.NodeGroupObservation{"a": {Progress: driver.Complete}, "b": {Progress: driver.InProgress}}}, nil,
			outcome{Cluster: "UPDATE_IN_PROGRESS", Groups: "UPDATE_COMPLETE, UPDATE_IN_PROGRESS", Ended: "oa success"}},
		{"FailureIsKeptWhileAnotherGoesOn", subject(magnum.UpdateInProgress,
			[]magnum.NodeGroup{group("a", magnum.UpdateInProgress), group("b", magnum.UpdateInProgress)},
			waiting("oa", magnum.ClusterResize, "a"), waiting("ob", magnum.ClusterResize, "b")),
			driver.Observation{NodeGroups: map[string]driver.NodeGroupObservation{"a": {Progress: driver.Failed, Reason: "boom"}, "b": {}}}, nil,
			outcome{Cluster: "UPDATE_IN_PROGRESS", Groups: "UPDATE_FAILED, UPDATE_IN_PROGRESS", Ended: "oa failure", Kept: "boom"}},
		{"FailureCountsAtTheEnd", subject(magnum.UpdateInProgress, []magnum.NodeGroup{group("b", magnum.UpdateInProgress)}, waiting("ob", magnum.ClusterResize, "b")),
			driver.Observation{NodeGroups: map[string]driver.NodeGroupObservation{"b": {Progress: driver.Complete}}}, &boom,
			outcome{Cluster: "UPDATE_FAILED", Reason: "boom", Groups: "UPDATE_COMPLETE", Ended: "ob success"}},
		{"CredentialRotationLeavesTheLifecycleAlone", subject(magnum.UpdateInProgress, []magnum.NodeGroup{group("a", magnum.UpdateInProgress)},
			waiting("r", magnum.CredentialRotate, ""), waiting("o", magnum.ClusterResize, "a")),
			driver.Observation{Progress: driver.Complete}, nil, // PB-37
			outcome{Cluster: "UPDATE_IN_PROGRESS", Groups: "UPDATE_IN_PROGRESS", Ended: "r success"}},
		{"CARotationGoesOn", subject(magnum.UpdateInProgress, nil, waiting("o", magnum.CARotate, "")),
			driver.Observation{Progress: driver.Complete}, nil, outcome{Cluster: "UPDATE_IN_PROGRESS", Resumed: 1}},
		{"UpgradeTakesAllGroups", subject(magnum.UpdateInProgress, []magnum.NodeGroup{group("a", magnum.UpdateInProgress), group("b", magnum.UpdateInProgress)},
			waiting("o", magnum.ClusterUpgrade, "a")),
			driver.Observation{Progress: driver.Complete, COEVersion: "v1.35.0"}, nil,
			outcome{Cluster: "UPDATE_COMPLETE", Groups: "UPDATE_COMPLETE, UPDATE_COMPLETE", Ended: "o success"}},
		{"ObservationWithoutTheGroup", subject(magnum.UpdateInProgress, []magnum.NodeGroup{group("a", magnum.UpdateInProgress)}, waiting("o", magnum.ClusterResize, "a")),
			driver.Observation{Progress: driver.Complete}, nil,
			outcome{Cluster: "UPDATE_IN_PROGRESS", Groups: "UPDATE_IN_PROGRESS"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tc.want, look(tc.subject, tc.seen, tc.failure)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTakeBackUnlessWishedAnew: what was never applied is taken back, but not
// over a later wish (spec/conductor.md, Appendix D, 10).
func TestTakeBackUnlessWishedAnew(t *testing.T) {
	t.Parallel()
	arguments, err := json.Marshal(magnum.ResizeArguments{NodeCount: 5, PreviousNodeCount: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		steps       []string
		count, want int
	}{
		{"NeverApplied", nil, 5, 2},
		{"WishedAnew", nil, 7, 7},
		{"Applied", []string{ApplyStep}, 5, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := group("a", magnum.UpdateInProgress)
			n.NodeCount = tc.count
			o := waiting("o", magnum.ClusterResize, "a")
			o.Steps, o.Arguments = tc.steps, arguments
			s := subject(magnum.UpdateInProgress, []magnum.NodeGroup{n}, o)
			s.End(Ending{Operation: o, Failed: true, Reason: "boom"})
			if got := s.NodeGroups[0].NodeCount; got != tc.want {
				t.Errorf("node_count %d, want %d", got, tc.want)
			}
		})
	}
}

// TestNoObservationLeavesTheGraph: whatever is seen, statuses keep their verb,
// nothing ends that did not wait, and a cluster at rest has no open operation.
func TestNoObservationLeavesTheGraph(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		verb := rapid.SampledFrom([]magnum.Status{magnum.CreateInProgress, magnum.UpdateInProgress, magnum.DeleteInProgress}).Draw(t, "status")
		progress := rapid.SampledFrom([]driver.Progress{driver.InProgress, driver.Complete, driver.Failed, driver.Gone})
		var groups []magnum.NodeGroup
		seen := driver.Observation{Progress: progress.Draw(t, "progress"), Reason: rapid.SampledFrom([]string{"", "why"}).Draw(t, "reason"),
			NodeGroups: map[string]driver.NodeGroupObservation{}}
		for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
			n := group(fmt.Sprintf("g%d", i), verb)
			groups = append(groups, n)
			if rapid.Bool().Draw(t, "observed") {
				seen.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: progress.Draw(t, "group progress")}
			}
		}
		kinds := map[magnum.Status][]magnum.OperationKind{
			magnum.CreateInProgress: {magnum.ClusterCreate},
			magnum.UpdateInProgress: {magnum.ClusterResize, magnum.NodeGroupUpdate, magnum.ClusterUpgrade, magnum.CARotate, magnum.CredentialRotate},
			magnum.DeleteInProgress: {magnum.ClusterDelete},
		}[verb]
		var open []magnum.Operation
		for i := range rapid.IntRange(1, 3).Draw(t, "operations") {
			o := waiting(fmt.Sprintf("o%d", i), rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom(groups).Draw(t, "of").UUID)
			o.State = rapid.SampledFrom([]magnum.OperationState{magnum.Waiting, magnum.Pending, magnum.Running}).Draw(t, "state")
			open = append(open, o)
		}
		s := subject(verb, groups, open...)
		result := s.See(seen)
		for _, e := range result.Ended {
			if e.Operation.State != magnum.Waiting {
				t.Fatalf("%s ended although it was %s", e.Operation.ID, e.Operation.State)
			}
			s.End(e)
		}
		s.Aggregate(result.Ended, nil)
		if s.Cluster.Status.Verb() != verb.Verb() {
			t.Fatalf("%s became %s", verb, s.Cluster.Status)
		}
		for _, n := range s.NodeGroups {
			if n.Status.Verb() != verb.Verb() {
				t.Fatalf("group: %s became %s", verb, n.Status)
			}
		}
		if len(s.Open)+len(result.Ended) != len(open) {
			t.Fatalf("%d of %d operations left, %d ended", len(s.Open), len(open), len(result.Ended))
		}
		for _, o := range s.Open {
			if o.Kind != magnum.CredentialRotate && !s.Cluster.Status.InProgress() {
				t.Fatalf("%s with %s open", s.Cluster.Status, o.Kind)
			}
		}
	})
}
