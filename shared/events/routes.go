package events

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/robfig/cron/v3"
	"sigs.k8s.io/yaml"
)

// Routes are the Knative manifests that say which function gets which event.
type Routes struct {
	Triggers  []Trigger
	Schedules []Schedule
}

// Trigger hands the events that pass its filter to a function.
type Trigger struct {
	Name     string
	Function string // the subscriber
	Delivery Delivery
	filter   filter
}

// Type is the one type of the events that pass, empty if the filter is of
// another shape.
func (t Trigger) Type() string { return t.filter.attributes["type"] }

// Delivery is what is done about an event that a function did not take.
type Delivery struct {
	Retry          int // after the first attempt
	Backoff        time.Duration
	Exponential    bool   // else linear
	DeadLetterSink string // a function; empty: none
}

// Schedule is a PingSource: a function that gets a tick at set times.
type Schedule struct {
	Name     string
	Source   string // of its events
	Function string // the sink
	Spec     string // as the manifest has it
	Cron     cron.Schedule
}

// Every replaces all schedules: a tick comes each d, which may be less than a
// second. For tests that would wait for cron.
func (r *Routes) Every(d time.Duration) {
	for i := range r.Schedules {
		r.Schedules[i].Cron = every(d)
	}
}

type every time.Duration

func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// ReadRoutes reads all manifests of a folder. Fields that neither Knative nor we
// know are refused: a misspelt filter would let everything through.
func ReadRoutes(fsys fs.FS) (*Routes, error) {
	files, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the triggers: %w", err)
	}
	r := &reader{brokers: map[string]Delivery{}}
	for _, file := range files {
		if file == "kustomization.yaml" {
			continue
		}
		raw, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read the triggers: %w", err)
		}
		for _, doc := range documents.Split(string(raw), -1) {
			if strings.TrimSpace(doc) == "" {
				continue
			}
			if err := r.read([]byte(doc)); err != nil {
				return nil, fmt.Errorf("%s: %w", path.Base(file), err)
			}
		}
	}
	return r.routes()
}

// Match gives the triggers that the event passes, in the order of their names.
func (r *Routes) Match(e event.Event) []Trigger {
	var matched []Trigger
	for _, t := range r.Triggers {
		if t.filter.passes(e) {
			matched = append(matched, t)
		}
	}
	return matched
}

// Functions are the names of all functions that the manifests mention.
func (r *Routes) Functions() []string {
	var names []string
	for _, t := range r.Triggers {
		names = append(names, t.Function, t.Delivery.DeadLetterSink)
	}
	for _, s := range r.Schedules {
		names = append(names, s.Function)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

var documents = regexp.MustCompile(`(?m)^---\s*$`)

// The manifests, as far as they can mean something in one process.
type (
	header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	destination struct {
		Ref *struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Namespace  string `json:"namespace"`
		} `json:"ref"`
	}
	deliverySpec struct {
		Retry          *int         `json:"retry"`
		BackoffPolicy  string       `json:"backoffPolicy"`
		BackoffDelay   string       `json:"backoffDelay"`
		DeadLetterSink *destination `json:"deadLetterSink"`
	}
	brokerManifest struct {
		header
		Metadata metadata `json:"metadata"`
		Spec     struct {
			Delivery *deliverySpec `json:"delivery"`
		} `json:"spec"`
	}
	triggerManifest struct {
		header
		Metadata metadata `json:"metadata"`
		Spec     struct {
			Broker string `json:"broker"`
			Filter *struct {
				Attributes map[string]string `json:"attributes"`
			} `json:"filter"`
			Filters    []filter      `json:"filters"`
			Subscriber destination   `json:"subscriber"`
			Delivery   *deliverySpec `json:"delivery"`
		} `json:"spec"`
	}
	pingManifest struct {
		header
		Metadata metadata `json:"metadata"`
		Spec     struct {
			Schedule string      `json:"schedule"`
			Timezone string      `json:"timezone"`
			Sink     destination `json:"sink"`
		} `json:"spec"`
	}
)

type reader struct {
	brokers   map[string]Delivery
	triggers  []triggerManifest
	schedules []Schedule
}

func (r *reader) read(doc []byte) error {
	var h header
	if err := yaml.Unmarshal(doc, &h); err != nil {
		return err
	}
	switch h.APIVersion + " " + h.Kind {
	case "eventing.knative.dev/v1 Broker":
		var m brokerManifest
		if err := yaml.UnmarshalStrict(doc, &m); err != nil {
			return err
		}
		d, err := delivery(m.Spec.Delivery)
		if err != nil {
			return fmt.Errorf("broker %s: %w", m.Metadata.Name, err)
		}
		r.brokers[m.Metadata.Name] = d
	case "eventing.knative.dev/v1 Trigger":
		var m triggerManifest
		if err := yaml.UnmarshalStrict(doc, &m); err != nil {
			return err
		}
		r.triggers = append(r.triggers, m)
	case "sources.knative.dev/v1 PingSource":
		var m pingManifest
		if err := yaml.UnmarshalStrict(doc, &m); err != nil {
			return err
		}
		s, err := schedule(m)
		if err != nil {
			return fmt.Errorf("ping source %s: %w", m.Metadata.Name, err)
		}
		r.schedules = append(r.schedules, s)
	default:
		return fmt.Errorf("%s %s is not among the triggers: there are Broker, Trigger and PingSource", h.APIVersion, h.Kind)
	}
	return nil
}

// routes puts together what was read: a Trigger without a delivery spec has its
// broker's.
func (r *reader) routes() (*Routes, error) {
	routes := &Routes{Schedules: r.schedules}
	for _, m := range r.triggers {
		d, ok := r.brokers[m.Spec.Broker]
		if !ok {
			return nil, fmt.Errorf("trigger %s: there is no broker %q", m.Metadata.Name, m.Spec.Broker)
		}
		if m.Spec.Delivery != nil {
			own, err := delivery(m.Spec.Delivery)
			if err != nil {
				return nil, fmt.Errorf("trigger %s: %w", m.Metadata.Name, err)
			}
			d = own
		}
		function, err := m.Spec.Subscriber.function()
		if err != nil {
			return nil, fmt.Errorf("trigger %s: %w", m.Metadata.Name, err)
		}
		t := Trigger{Name: m.Metadata.Name, Function: function, Delivery: d, filter: filter{All: m.Spec.Filters}}
		// "filters" wins over "filter" (Trigger API, spec.filters).
		if len(m.Spec.Filters) == 0 && m.Spec.Filter != nil {
			t.filter = filter{attributes: m.Spec.Filter.Attributes}
		}
		if err := t.filter.check(); err != nil {
			return nil, fmt.Errorf("trigger %s: %w", m.Metadata.Name, err)
		}
		routes.Triggers = append(routes.Triggers, t)
	}
	slices.SortFunc(routes.Triggers, func(a, b Trigger) int { return strings.Compare(a.Name, b.Name) })
	return routes, nil
}

// function is the name of the Knative Service that the destination refers to.
func (d destination) function() (string, error) {
	if d.Ref == nil || d.Ref.Name == "" || d.Ref.Kind != "Service" || d.Ref.APIVersion != "serving.knative.dev/v1" {
		return "", errors.New("in one process a destination is a ref to a serving.knative.dev/v1 Service")
	}
	return d.Ref.Name, nil
}

func delivery(spec *deliverySpec) (Delivery, error) {
	var d Delivery
	if spec == nil {
		return d, nil
	}
	if spec.Retry != nil {
		if d.Retry = *spec.Retry; d.Retry < 0 {
			return d, errors.New("delivery.retry is negative")
		}
	}
	switch spec.BackoffPolicy {
	case "", "linear":
	case "exponential":
		d.Exponential = true
	default:
		return d, fmt.Errorf("delivery.backoffPolicy is %q: it takes linear or exponential", spec.BackoffPolicy)
	}
	if spec.BackoffDelay != "" {
		var err error
		if d.Backoff, err = isoDuration(spec.BackoffDelay); err != nil {
			return d, fmt.Errorf("delivery.backoffDelay: %w", err)
		}
	}
	if spec.DeadLetterSink != nil {
		var err error
		if d.DeadLetterSink, err = spec.DeadLetterSink.function(); err != nil {
			return d, fmt.Errorf("delivery.deadLetterSink: %w", err)
		}
	}
	return d, nil
}

// wait is the rest before the attempt-th retry, counted from 0
// (knative/eventing pkg/kncloudevents/retries.go, RetryConfigFromDeliverySpec).
func (d Delivery) wait(retry int) time.Duration {
	const most = 10 * time.Minute
	times := float64(retry)
	if d.Exponential {
		times = math.Exp2(times)
	}
	if w := float64(d.Backoff) * times; w < float64(most) {
		return time.Duration(w)
	}
	return most
}

var isoPattern = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// isoDuration reads an ISO 8601 duration of days at most: P1DT2H3M4.5S.
func isoDuration(s string) (time.Duration, error) {
	m := isoPattern.FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(s, "P") || strings.HasSuffix(s, "T") {
		return 0, fmt.Errorf("%q is not an ISO 8601 duration such as PT0.5S", s)
	}
	var total time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %w", s, err)
		}
		total += time.Duration(n * float64(unit))
	}
	return total, nil
}

// parser takes what a PingSource takes: seconds are optional
// (knative/eventing pkg/apis/sources/v1/ping_validation.go).
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func schedule(m pingManifest) (Schedule, error) {
	function, err := m.Spec.Sink.function()
	if err != nil {
		return Schedule{}, err
	}
	spec := m.Spec.Schedule
	if strings.Contains(spec, "@every") {
		return Schedule{}, errors.New("schedule: PingSources take no @every")
	}
	zone := m.Spec.Timezone
	if zone == "" {
		zone = "UTC" // the zone of Knative's images
	}
	c, err := parser.Parse("CRON_TZ=" + zone + " " + spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule: %w", err)
	}
	namespace := m.Metadata.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return Schedule{
		Name:     m.Metadata.Name,
		Source:   fmt.Sprintf("/apis/v1/namespaces/%s/pingsources/%s", namespace, m.Metadata.Name),
		Function: function,
		Spec:     m.Spec.Schedule,
		Cron:     c,
	}, nil
}

// filter is one of the Trigger API's filters; only one of its fields is set.
type filter struct {
	attributes map[string]string // the older kind: exact, an empty value takes any

	Exact  map[string]string `json:"exact"`
	Prefix map[string]string `json:"prefix"`
	Suffix map[string]string `json:"suffix"`
	All    []filter          `json:"all"`
	Any    []filter          `json:"any"`
	Not    *filter           `json:"not"`
}

func (f filter) check() error {
	set := 0
	for _, m := range []map[string]string{f.Exact, f.Prefix, f.Suffix} {
		if m == nil {
			continue
		}
		set++
		for name, value := range m {
			if len(m) != 1 || name == "" || value == "" {
				return errors.New("a filter names one attribute and one value")
			}
		}
	}
	for _, list := range [][]filter{f.All, f.Any} {
		if list == nil {
			continue
		}
		set++
		for _, inner := range list {
			if err := inner.check(); err != nil {
				return err
			}
		}
	}
	if f.Not != nil {
		set++
		if err := f.Not.check(); err != nil {
			return err
		}
	}
	if set > 1 {
		return errors.New("a filter is of one dialect: exact, prefix, suffix, all, any or not")
	}
	return nil
}

// passes is the meaning of the filters (knative/eventing pkg/eventfilter).
func (f filter) passes(e event.Event) bool {
	has := func(want map[string]string, ok func(have, want string) bool) bool {
		for name, value := range want {
			have, found := attribute(e, name)
			if !found || !ok(have, value) {
				return false
			}
		}
		return true
	}
	equal := func(have, want string) bool { return have == want }
	switch {
	case f.attributes != nil:
		return has(f.attributes, func(have, want string) bool { return have == want || want == "" && have != "" })
	case f.Exact != nil:
		return has(f.Exact, equal)
	case f.Prefix != nil:
		return has(f.Prefix, strings.HasPrefix)
	case f.Suffix != nil:
		return has(f.Suffix, strings.HasSuffix)
	case f.Any != nil:
		return slices.ContainsFunc(f.Any, func(inner filter) bool { return inner.passes(e) })
	case f.Not != nil:
		return !f.Not.passes(e)
	default: // all of none is everything
		return !slices.ContainsFunc(f.All, func(inner filter) bool { return !inner.passes(e) })
	}
}

// attribute is the text of an attribute or extension of the event.
func attribute(e event.Event, name string) (string, bool) {
	switch name {
	case "specversion":
		return e.SpecVersion(), true
	case "id":
		return e.ID(), true
	case "type":
		return e.Type(), true
	case "source":
		return e.Source(), true
	case "subject":
		return e.Subject(), true
	case "time":
		return types.FormatTime(e.Time()), true
	case "dataschema":
		return e.DataSchema(), true
	case "datacontenttype":
		return e.DataContentType(), true
	}
	value, ok := e.Extensions()[name]
	if !ok {
		return "", false
	}
	text, err := types.Format(value)
	return text, err == nil
}
