package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

var now = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func newTemplate(t *testing.T, db *postgres.DB, change func(*magnum.ClusterTemplate)) magnum.ClusterTemplate {
	t.Helper()
	ct := magnum.ClusterTemplate{UUID: uuid.NewString(), ProjectID: "p1", UserID: "u1", Name: "ct", COE: "kubernetes",
		ImageID: "ubuntu", ServerType: "vm", Labels: map[string]string{"l1": "a"}, CreatedAt: now}
	if change != nil {
		change(&ct)
	}
	ct, err := db.Templates.Create(t.Context(), ct)
	if err != nil {
		t.Fatal(err)
	}
	return ct
}

func newCluster(t *testing.T, db *postgres.DB, ct magnum.ClusterTemplate, change func(*magnum.Cluster)) magnum.Cluster {
	t.Helper()
	c := magnum.Cluster{UUID: uuid.NewString(), ProjectID: "p1", UserID: "u1", Name: "c1", ClusterTemplateID: ct.UUID,
		Labels: map[string]string{"l1": "b"}, Status: magnum.CreateComplete, Driver: "simulated", CreatedAt: now}
	if change != nil {
		change(&c)
	}
	if err := db.Clusters.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, n := range []magnum.NodeGroup{
		{Name: magnum.DefaultMaster, Role: "master", NodeCount: 1, IsDefault: true},
		{Name: magnum.DefaultWorker, Role: "worker", NodeCount: 2, IsDefault: true},
	} {
		n.UUID, n.ClusterID, n.ProjectID, n.Status, n.CreatedAt = uuid.NewString(), c.UUID, c.ProjectID, c.Status, now
		if _, err := db.NodeGroups.Create(t.Context(), n, c.Name); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestMigrationsFromSeveralProcessesAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
			if err := db.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestReadySaysWhatToDoWithoutSchema(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Empty(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ready(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestClusterIsReadBackWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ct := newTemplate(t, db, nil)
	want := newCluster(t, db, ct, func(c *magnum.Cluster) {
		c.Keypair, c.DockerVolumeSize, c.CreateTimeout = ptr("k"), ptr(7), ptr(0)
		c.FloatingIPEnabled = true
	})
	got, err := db.Clusters.Get(t.Context(), postgres.Scope{ProjectID: "p1"}, postgres.Ident{Text: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	want.Seq, want.Version, want.HealthStatusReason = got.Seq, 1, map[string]string{}
	row := postgres.ClusterRow{Cluster: want, NodeCount: 2, MasterCount: 1, NodeAddresses: []string{}, MasterAddresses: []string{},
		TemplateLabels: map[string]string{"l1": "a"}, Faults: map[string]string{}}
	if d := cmp.Diff(row, got); d != "" {
		t.Error(d)
	}
}

func TestPagesWalkTheWholeListInOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ct := newTemplate(t, db, nil)
	for i, keypair := range []*string{ptr("b"), nil, ptr("a"), ptr("b"), nil} {
		newCluster(t, db, ct, func(c *magnum.Cluster) { c.Keypair, c.Name = keypair, string(rune('c'+i)) })
	}
	for _, tc := range []struct {
		name string
		page postgres.Page
		want []string
	}{
		{"ById", postgres.Page{}, []string{"c", "d", "e", "f", "g"}},
		{"ByIdDown", postgres.Page{Desc: true}, []string{"g", "f", "e", "d", "c"}},
		{"NullsFirst", postgres.Page{SortKey: "keypair"}, []string{"d", "g", "e", "c", "f"}},
		{"NullsLastDown", postgres.Page{SortKey: "keypair", Desc: true}, []string{"f", "c", "e", "g", "d"}},
		{"KeyThatWeDoNotHave", postgres.Page{SortKey: "ca_cert_ref"}, []string{"c", "d", "e", "f", "g"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for limit := 1; limit <= 6; limit++ {
				var got []string
				p := tc.page
				p.Limit = limit
				for {
					rows, err := db.Clusters.List(t.Context(), postgres.Scope{ProjectID: "p1"}, postgres.ClusterFilter{}, p, limit%2 == 0)
					if err != nil {
						t.Fatal(err)
					}
					if len(rows) == 0 {
						break
					}
					for _, r := range rows {
						got = append(got, r.Name)
					}
					p.Marker = rows[len(rows)-1].UUID
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("limit %d: %s", limit, d)
				}
			}
		})
	}
	_, err := db.Clusters.List(t.Context(), postgres.Scope{ProjectID: "other"}, postgres.ClusterFilter{},
		postgres.Page{Limit: 1, Marker: uuid.NewString()}, false)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("unknown marker: %v", err)
	}
}

func TestTemplateVisibility(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, change := range map[string]func(*magnum.ClusterTemplate){
		"private":        func(*magnum.ClusterTemplate) {},
		"public":         func(c *magnum.ClusterTemplate) { c.Public = true },
		"public hidden":  func(c *magnum.ClusterTemplate) { c.Public, c.Hidden = true, true },
		"private hidden": func(c *magnum.ClusterTemplate) { c.Hidden = true },
	} {
		newTemplate(t, db, func(c *magnum.ClusterTemplate) { c.Name = name; change(c) })
	}
	for _, tc := range []struct {
		name  string
		scope postgres.Scope
		want  []string
	}{ // spec/conductor.md §1.4
		{"Owner", postgres.Scope{ProjectID: "p1"}, []string{"private", "private hidden", "public", "public hidden"}},
		{"OtherProject", postgres.Scope{ProjectID: "p2"}, []string{"public"}},
		{"AdminOfOtherProject", postgres.Scope{ProjectID: "p2", Admin: true}, []string{"public", "public hidden"}},
		{"AdminOfAll", postgres.Scope{ProjectID: "p2", Admin: true, AllProjects: true}, []string{"private", "private hidden", "public", "public hidden"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := db.Templates.List(t.Context(), tc.scope, postgres.Page{Limit: 10, SortKey: "name"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list {
				got = append(got, c.Name)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReserveNeverPassesTheLimit(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ct := newTemplate(t, db, nil)
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			err := db.InTx(t.Context(), func(tx *postgres.Store) error {
				if err := tx.Clusters.Reserve(t.Context(), "p1", 3); err != nil {
					return err
				}
				return tx.Clusters.Create(t.Context(), magnum.Cluster{UUID: uuid.NewString(), ProjectID: "p1", UserID: "u",
					Name: "c", ClusterTemplateID: ct.UUID, Status: magnum.CreateInProgress, Driver: "d", CreatedAt: now})
			})
			if err != nil && !fault.Is(err, fault.Forbidden) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n, _, err := db.Clusters.Stats(t.Context(), "p1"); err != nil || n != 3 {
		t.Errorf("%d clusters, %v", n, err)
	}
}

func TestClaimIsExclusiveInTheCluster(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clusterID := uuid.NewString()
	var ids []string
	for range 3 {
		o := magnum.Operation{ID: uuid.NewString(), Kind: magnum.ClusterResize, ClusterID: clusterID, ProjectID: "p1", CreatedAt: now}
		if err := db.Operations.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, o.ID)
	}
	claim := func(id string, at time.Time) (o magnum.Operation, ok bool) {
		err := db.InTx(t.Context(), func(tx *postgres.Store) (err error) {
			o, ok, err = tx.Operations.Claim(t.Context(), id, clusterID, "me", at, at.Add(time.Minute))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return o, ok
	}
	var group sync.WaitGroup
	won := make(chan magnum.Operation, len(ids))
	for _, id := range ids {
		group.Go(func() {
			if o, ok := claim(id, now); ok {
				won <- o
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Fatalf("%d claims won", len(won))
	}
	first := <-won
	if _, ok := claim(first.ID, now.Add(30*time.Second)); ok {
		t.Error("a held lease was claimed again")
	}
	second, ok := claim(first.ID, now.Add(2*time.Minute))
	if !ok {
		t.Fatal("a lease that ran out was not claimed")
	}
	if held, err := db.Operations.RecordStep(t.Context(), first, "late"); err != nil || held {
		t.Errorf("a lost lease could write: %v, %v", held, err)
	}
	if held, err := db.Operations.RecordStep(t.Context(), second, "step"); err != nil || !held {
		t.Errorf("the holder could not write: %v, %v", held, err)
	}
}

func TestEventsKeepTheOrderOfTheirPartition(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	add := func(partition string) string {
		e := magnum.Event{ID: uuid.NewString(), Type: "t", Source: "s", Subject: "x", PartitionKey: partition, Data: []byte("{}"), CreatedAt: now}
		if err := db.Events.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	first, second, command := add("c"), add("c"), add("")
	claimed := func() (ids []string) {
		list, err := db.Events.Claim(t.Context(), "me", now, now.Add(time.Minute), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		return ids
	}
	if got := claimed(); !cmp.Equal(got, []string{first, command}) && !cmp.Equal(got, []string{command, first}) {
		t.Errorf("first claim: %v", got)
	}
	if got := claimed(); got != nil {
		t.Errorf("claimed again under a lease: %v", got)
	}
	if err := db.Events.MarkPublished(t.Context(), []string{first}, "me", now); err != nil {
		t.Fatal(err)
	}
	if got := claimed(); !cmp.Equal(got, []string{second}) {
		t.Errorf("after the first left: %v", got)
	}
}

func TestOneFinalNotification(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	operation := uuid.NewString()
	for range 2 {
		e := magnum.Event{ID: uuid.NewString(), Type: "magnum.cluster.create", Source: "s", Subject: "c", PartitionKey: "c",
			OperationID: operation, Outcome: magnum.OutcomeSuccess, Priority: "info", Data: []byte("{}"), CreatedAt: now}
		if err := db.Events.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	list, err := db.Events.OfCluster(t.Context(), "c", 0, 10)
	if err != nil || len(list) != 1 {
		t.Errorf("%d notifications, %v", len(list), err)
	}
}
