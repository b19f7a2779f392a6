// Package functiontest gives a test of a function the platform that it runs on:
// a real database, the real conductor and API, a clock that the test moves, and
// a driver that does what the test says.
package functiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"

	"carafe/shared/api"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/identity/noauth"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/openstack/named"
	"carafe/shared/pgtest"
	"carafe/shared/pki"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Bench is a platform with one cluster, CREATE_COMPLETE, of project p1 and user u1.
type Bench struct {
	*function.Platform
	Clock   time.Time
	Driver  *Driver
	Cluster magnum.Cluster
	Issuer  *pki.Issuer
}

// silent publishes nothing: the test delivers what it wants to.
type silent struct{}

func (silent) Publish(context.Context) {}

// New makes a bench.
func New(t testing.TB) *Bench {
	t.Helper()
	return On(t, pgtest.New(t))
}

// On makes a bench on a database that is there already.
func On(t testing.TB, db *postgres.DB) *Bench {
	t.Helper()
	b := &Bench{Clock: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Driver: &Driver{Description: driver.Description{
		Name: "scripted", RotateCA: true, RotateCredential: true,
		ClusterTypes: []driver.ClusterType{{ServerType: "vm", OS: "ubuntu", COE: "kubernetes"}},
	}}}
	now := func() time.Time { return b.Clock }
	newID := func() string { return uuid.Must(uuid.NewV7()).String() }
	settings := pki.DefaultSettings()
	settings.KeyAlgorithm = "ecdsa" // quick
	var err error
	if b.Issuer, err = pki.New(settings, now); err != nil {
		t.Fatal(err)
	}
	secrets, err := certstore.New(certstore.Config{Backend: certstore.Database, SealKeys: certstore.NewKey(),
		RetireAfter: 24 * time.Hour, CacheSize: 100, CacheFor: time.Minute}, db.Secrets, b.Issuer, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	enforcer, err := policy.New(policy.Config{EnforceNewDefaults: true, EnforceScope: true})
	if err != nil {
		t.Fatal(err)
	}
	drivers := driver.NewRegistry(driver.Selection{}, b.Driver)
	options, err := openstack.NewOptions(openstack.OptionsConfig{AllowedNetworkDrivers: []string{"all"}, DefaultNetworkDriver: "flannel"})
	if err != nil {
		t.Fatal(err)
	}
	b.Platform = &function.Platform{
		Cloud: named.Cloud{}, Checks: openstack.Checks{Cloud: named.Cloud{}}, Options: options,
		Now: now, NewID: newID, Publisher: silent{}, Owner: "test", DB: db, Drivers: drivers, Secrets: secrets, Policy: enforcer,
		API: api.Config{Authenticator: noauth.Authenticator{}, Now: now,
			IsAdmin: func(_ context.Context, c identity.Caller) bool { return enforcer.IsAdmin(c) }},
		Conductor: &conductor.Conductor{DB: db, Drivers: drivers, Secrets: secrets, Publisher: silent{}, Now: now, NewID: newID, Owner: "test",
			Settings: conductor.Settings{UpdateTimeout: time.Hour, DeleteTimeout: time.Hour, Lease: time.Minute, StepTimeout: time.Minute,
				SyncInterval: 10 * time.Second, HealthInterval: time.Minute, ObserveTimeout: time.Minute, Retention: time.Hour, Region: "RegionOne"}},
	}
	b.Cluster = b.NewCluster(t, nil, nil)
	return b
}

// NewCluster stores a cluster with a template of its own.
func (b *Bench) NewCluster(t testing.TB, changeTemplate func(*magnum.ClusterTemplate), change func(*magnum.Cluster)) magnum.Cluster {
	t.Helper()
	distro := "ubuntu"
	template := magnum.ClusterTemplate{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: "t1", COE: "kubernetes",
		ImageID: "image", ServerType: "vm", ClusterDistro: &distro, CreatedAt: b.Clock}
	if changeTemplate != nil {
		changeTemplate(&template)
	}
	if _, err := b.DB.Templates.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	cluster := magnum.Cluster{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: "c1", ClusterTemplateID: template.UUID,
		Status: magnum.CreateComplete, Driver: "scripted", CreatedAt: b.Clock}
	if change != nil {
		change(&cluster)
	}
	if err := b.DB.Clusters.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	stored := b.Reload(t, cluster.UUID)
	if cluster.APIAddress != nil { // no cluster is born with one
		stored.APIAddress = cluster.APIAddress
		if err := b.DB.Clusters.Update(t.Context(), &stored, b.Clock); err != nil {
			t.Fatal(err)
		}
	}
	return b.Reload(t, cluster.UUID)
}

// Reload reads a cluster.
func (b *Bench) Reload(t testing.TB, uuid string) magnum.Cluster {
	t.Helper()
	c, err := b.DB.Clusters.ByUUID(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Certify makes the certificates of a cluster and puts them in force.
func (b *Bench) Certify(t testing.TB, uuid string) driver.Certificates {
	t.Helper()
	if err := b.Secrets.Ensure(t.Context(), uuid, 1); err != nil {
		t.Fatal(err)
	}
	if err := certstore.Activate(t.Context(), b.DB.Secrets, uuid, 1); err != nil {
		t.Fatal(err)
	}
	c, err := b.Secrets.Load(t.Context(), uuid, certstore.Active)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Request is one call of the API. Who is "project/user", by default p1/u1; Roles
// are by default member and reader.
type Request struct {
	Method, Path, Body string
	Who, Roles         string
	Version            string // microversion
	Header             map[string]string
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Text   string
	Body   map[string]any
}

// Detail is the text of the first error.
func (a Answer) Detail() string {
	var e struct{ Errors []struct{ Detail string } }
	if json.Unmarshal([]byte(a.Text), &e) != nil || len(e.Errors) == 0 {
		return a.Text
	}
	return e.Errors[0].Detail
}

// Call sends a request to one HTTP function.
func (b *Bench) Call(t testing.TB, f function.Function, q Request) Answer {
	t.Helper()
	handlers, err := f.Handlers(t.Context(), b.Platform)
	if err != nil {
		t.Fatal(err)
	}
	router, err := api.NewRouter(b.API, f.Name, handlers)
	if err != nil {
		t.Fatal(err)
	}
	var body io.Reader
	if q.Body != "" {
		body = strings.NewReader(q.Body)
	}
	r := httptest.NewRequest(q.Method, q.Path, body)
	project, user, _ := strings.Cut(q.Who, "/")
	if q.Who == "" {
		project, user = "p1", "u1"
	}
	r.Header.Set("X-Project-Id", project)
	r.Header.Set("X-User-Id", user)
	r.Header.Set("X-Roles", q.Roles)
	r.Header.Set("Content-Type", "application/json")
	if q.Version == "" {
		q.Version = "1.14"
	}
	r.Header.Set("OpenStack-API-Version", "container-infra "+q.Version)
	for name, value := range q.Header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	router.ServeHTTP(w, r)
	a := Answer{Status: w.Code, Header: w.Header(), Text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.Body) // a body that is no object stays in Text
	return a
}

// Deliver sends the command of an operation to its function and gives the status
// of the answer.
func (b *Bench) Deliver(t testing.TB, f function.Function, eventType string, o magnum.Operation) int {
	t.Helper()
	h, err := f.Build(t.Context(), b.Platform)
	if err != nil {
		t.Fatal(err)
	}
	e := event.New()
	e.SetID(b.NewID())
	e.SetType(eventType)
	e.SetSource(b.Conductor.Source())
	e.SetSubject(o.ClusterID)
	if err := e.SetData(event.ApplicationJSON, conductor.Command{OperationID: o.ID, ClusterID: o.ClusterID}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(text)))
	r.Header.Set("Content-Type", event.ApplicationCloudEventsJSON)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Operation gives the cluster's latest operation.
func (b *Bench) Operation(t testing.TB, clusterUUID string) magnum.Operation {
	t.Helper()
	list, err := b.DB.Operations.History(t.Context(), clusterUUID, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatalf("no operation of cluster %s", clusterUUID)
	}
	return list[0]
}

// Events gives the cluster's events that are not commands, oldest first, as
// "type outcome".
func (b *Bench) Events(t testing.TB, clusterUUID string) []string {
	t.Helper()
	list, err := b.DB.Events.OfCluster(t.Context(), clusterUUID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Outcome != "" {
			names = append(names, fmt.Sprintf("%s %s", list[i].Type, list[i].Outcome))
		}
	}
	return names
}

// Driver does what its fields say; a nil field does nothing.
type Driver struct {
	Description        driver.Description
	Observation        driver.Observation
	OnApply            func(driver.Cluster) error
	OnObserve          func(driver.Ref) (driver.Observation, error)
	OnDelete           func(driver.Ref) error
	OnCheck            func(driver.Cluster) error
	OnRotateCA         func(driver.Cluster) error
	OnRotateLeaf       func(time.Time) error
	OnRotateCredential func(driver.Cluster) error
}

// Describe implements driver.Driver.
func (d *Driver) Describe() driver.Description { return d.Description }

// Check implements driver.Driver.
func (d *Driver) Check(_ context.Context, _ *driver.Ref, c driver.Cluster) error {
	return do(d.OnCheck, c)
}

// Apply implements driver.Driver.
func (d *Driver) Apply(_ context.Context, c driver.Cluster) (driver.Accepted, error) {
	return driver.Accepted{}, do(d.OnApply, c)
}

// Observe gives the Observation, unless OnObserve says more.
func (d *Driver) Observe(_ context.Context, ref driver.Ref) (driver.Observation, error) {
	if d.OnObserve == nil {
		return d.Observation, nil
	}
	return d.OnObserve(ref)
}

// Delete implements driver.Driver.
func (d *Driver) Delete(_ context.Context, ref driver.Ref) error { return do(d.OnDelete, ref) }

// RotateCA implements driver.CARotator.
func (d *Driver) RotateCA(_ context.Context, c driver.Cluster) error { return do(d.OnRotateCA, c) }

// RotateLeaf implements driver.LeafRotator.
func (d *Driver) RotateLeaf(_ context.Context, _ driver.Ref, at time.Time) error {
	return do(d.OnRotateLeaf, at)
}

// RotateCredential implements driver.CredentialRotator.
func (d *Driver) RotateCredential(_ context.Context, c driver.Cluster) error {
	return do(d.OnRotateCredential, c)
}

func do[T any](f func(T) error, about T) error {
	if f == nil {
		return nil
	}
	return f(about)
}
