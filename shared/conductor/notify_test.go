package conductor

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"carafe/shared/magnum"
)

const schemas = "../../schema/events"

func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(filepath.Join(schemas, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func notifier() (*Conductor, *Subject) {
	c := &Conductor{Settings: Settings{Region: "RegionOne"}, NewID: func() string { return uuid.Must(uuid.NewV7()).String() }}
	s := &Subject{
		Cluster: magnum.Cluster{UUID: uuid.NewString(), Name: "c1", ProjectID: "p", ClusterTemplateID: uuid.NewString(),
			Status: magnum.CreateInProgress, CreatedAt: time.Date(2026, 12, 1, 10, 0, 0, 5000, time.UTC)},
		NodeGroups: []magnum.NodeGroup{{UUID: uuid.NewString(), Name: "default-worker", Role: "worker", NodeCount: 2, NodeAddresses: []string{"10.0.0.1"}}},
	}
	return c, s
}

func TestEventsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	c, s := notifier()
	now := s.Cluster.CreatedAt.Add(time.Minute)
	for _, kind := range magnum.OperationKinds {
		o := magnum.Operation{ID: uuid.NewString(), Kind: kind, ClusterID: s.Cluster.UUID, NodeGroupID: &s.NodeGroups[0].UUID,
			UserID: "u", ProjectID: "p", DomainID: "d"}
		if err := compile(t, "magnum.conductor.command").Validate(decoded(t, c.command(o, now).Data)); err != nil {
			t.Errorf("command of %s: %v", kind, err)
		}
		if notificationType(kind) == "" {
			continue
		}
		for _, outcome := range []magnum.Outcome{magnum.OutcomePending, magnum.OutcomeSuccess, magnum.OutcomeFailure} {
			e := c.notification(s, o, outcome, "why", "quota", now)
			if err := compile(t, e.Type).Validate(decoded(t, e.Data)); err != nil {
				t.Errorf("%s of %s: %v", outcome, kind, err)
			}
		}
	}
	e := c.HealthNotification(s, now)
	if err := compile(t, e.Type).Validate(decoded(t, e.Data)); err != nil {
		t.Error(err)
	}
}

// TestNotificationsHaveAllThatMagnumsHave: every attribute of every recorded
// notification is in ours, with a value of the same kind.
func TestNotificationsHaveAllThatMagnumsHave(t *testing.T) {
	t.Parallel()
	c, s := notifier()
	ours := map[string]map[string]any{}
	for _, kind := range []magnum.OperationKind{magnum.ClusterCreate, magnum.ClusterUpdate, magnum.ClusterDelete} {
		o := magnum.Operation{ID: uuid.NewString(), Kind: kind, UserID: "u", ProjectID: "p"}
		e := c.notification(s, o, magnum.OutcomePending, "", "", s.Cluster.CreatedAt)
		ours[e.Type], _ = decoded(t, e.Data).(map[string]any)
	}
	f, err := os.Open("../../test/golden/recorded/notifications.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var recorded struct {
			EventType string         `json:"event_type"`
			Payload   map[string]any `json:"payload"`
		}
		if err := json.Unmarshal(lines.Bytes(), &recorded); err != nil {
			t.Fatal(err)
		}
		contains(t, recorded.EventType, recorded.Payload, ours[recorded.EventType])
	}
	if n == 0 {
		t.Error("no recorded notification was read")
	}
}

func contains(t *testing.T, at string, theirs, ours any) {
	t.Helper()
	switch v := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			t.Errorf("%s is %T", at, ours)
			return
		}
		for k := range v {
			if _, ok := o[k]; !ok {
				t.Errorf("%s.%s is missing", at, k)
				continue
			}
			if k != "labels" {
				contains(t, at+"."+k, v[k], o[k])
			}
		}
	case []any:
		o, ok := ours.([]any)
		if !ok {
			t.Errorf("%s is %T", at, ours)
			return
		}
		if len(v) > 0 && len(o) > 0 {
			contains(t, at+"[0]", v[0], o[0])
		}
	}
}
