package knative

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	serving  = "serving.knative.dev"
	eventing = "eventing.knative.dev"
	sources  = "sources.knative.dev"
)

// problems collects what the webhooks would say.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// What Knative Eventing's webhooks refuse although the schema lets it pass
// (knative/eventing pkg/apis/eventing/v1, sources/v1, duck/v1: *_validation.go).
func eventingRules(o object) problems {
	var p problems
	switch {
	case o.is(eventing, "Broker"):
		deliveryRules(&p, at(o, "spec", "delivery"))
		if class := text(o, "metadata", "annotations", "eventing.knative.dev/broker.class"); class != "" && at(o, "spec", "config") == nil {
			p.add("a broker of the class %s needs a config", class)
		}
	case o.is(eventing, "Trigger"):
		if text(o, "spec", "broker") == "" {
			p.add("spec.broker is missing")
		}
		attributes, _ := at(o, "spec", "filter", "attributes").(map[string]any)
		attributeRules(&p, attributes)
		for _, f := range list(o, "spec", "filters") {
			filterRules(&p, f)
		}
		destinationRules(&p, "subscriber", at(o, "spec", "subscriber"))
		deliveryRules(&p, at(o, "spec", "delivery"))
	case o.is(sources, "PingSource"):
		schedule := text(o, "spec", "schedule")
		if strings.Contains(schedule, "@every") {
			p.add("schedule: @every is not supported")
		}
		if zone := text(o, "spec", "timezone"); zone != "" {
			schedule = "CRON_TZ=" + zone + " " + schedule
		}
		parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
		if _, err := parser.Parse(schedule); err != nil {
			p.add("schedule: %v", err)
		}
		if at(o, "spec", "data") != nil && at(o, "spec", "dataBase64") != nil {
			p.add("data and dataBase64")
		}
		destinationRules(&p, "sink", at(o, "spec", "sink"))
	case o.is(sources, "SinkBinding"):
		destinationRules(&p, "sink", at(o, "spec", "sink"))
		if text(o, "spec", "subject", "name") == "" && at(o, "spec", "subject", "selector") == nil {
			p.add("the subject has neither a name nor a selector")
		}
	case o.is(eventing, "EventPolicy"):
		for _, from := range list(o, "spec", "from") {
			if (at(from, "ref") == nil) == (at(from, "sub") == nil) {
				p.add("from: one of ref and sub")
			}
		}
		for _, to := range list(o, "spec", "to") {
			if (at(to, "ref") == nil) == (at(to, "selector") == nil) {
				p.add("to: one of ref and selector")
			}
		}
	}
	return p
}

var attributeName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

func attributeRules(p *problems, attributes map[string]any) {
	for name := range attributes {
		if !attributeName.MatchString(name) {
			p.add("filter attribute %q: lower-case letters and digits, a letter first", name)
		}
	}
}

// filterRules allow one dialect in each filter.
func filterRules(p *problems, f any) {
	filter, _ := f.(map[string]any)
	if len(filter) != 1 {
		p.add("a filter has one dialect, not %v", slices.Collect(maps.Keys(filter)))
	}
	for _, dialect := range []string{"exact", "prefix", "suffix"} {
		attributes, _ := filter[dialect].(map[string]any)
		attributeRules(p, attributes)
	}
	for _, dialect := range []string{"all", "any"} {
		for _, inner := range list(filter, dialect) {
			filterRules(p, inner)
		}
	}
	if inner := filter["not"]; inner != nil {
		filterRules(p, inner)
	}
}

// Durations of a delivery are ISO 8601.
var iso8601 = regexp.MustCompile(`^P(?:\d+(?:\.\d+)?[YMWD])*(?:T(?:\d+(?:\.\d+)?[HMS])+)?$`)

func deliveryRules(p *problems, delivery any) {
	if delivery == nil {
		return
	}
	if retry := number(at(delivery, "retry")); retry < 0 {
		p.add("delivery.retry is %d", retry)
	}
	for _, field := range []string{"timeout", "backoffDelay", "retryAfterMax"} {
		d := text(delivery, field)
		if d != "" && (!iso8601.MatchString(d) || d == "P") {
			p.add("delivery.%s is %q: an ISO 8601 duration such as PT0.5S", field, d)
		}
	}
	if at(delivery, "retryAfterMax") != nil {
		p.add("delivery.retryAfterMax: off by default on the platform (delivery-retryafter)")
	}
	if policy := text(delivery, "backoffPolicy"); policy != "" && policy != "linear" && policy != "exponential" {
		p.add("delivery.backoffPolicy is %q", policy)
	}
	if sink := at(delivery, "deadLetterSink"); sink != nil {
		destinationRules(p, "deadLetterSink", sink)
	}
}

// destinationRules: a ref, to which a uri is relative, or an absolute uri.
func destinationRules(p *problems, field string, d any) {
	uri := text(d, "uri")
	if at(d, "ref") == nil {
		if !strings.Contains(uri, "://") {
			p.add("%s has no ref and no absolute uri", field)
		}
		return
	}
	for _, name := range []string{"apiVersion", "kind", "name"} {
		if text(d, "ref", name) == "" {
			p.add("%s.ref.%s is missing", field, name)
		}
	}
	if strings.Contains(uri, "://") {
		p.add("%s has a ref and an absolute uri", field)
	}
}

// What Knative Serving's webhook refuses with the platform's default features
// (knative/serving pkg/apis/serving, autoscaling: *_validation.go, fieldmask.go).
func servingRules(o object) problems {
	var p problems
	for name := range annotations(o) {
		if strings.HasPrefix(name, "autoscaling.knative.dev/") {
			p.add("%s belongs on spec.template", name)
		}
	}
	template := at(o, "spec", "template")
	scalingRules(&p, annotations(template))
	spec := at(template, "spec").(map[string]any)
	allowed := []string{
		"containers", "volumes", "serviceAccountName", "imagePullSecrets", "enableServiceLinks", "automountServiceAccountToken",
		"containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds",
	}
	for field := range spec {
		if !slices.Contains(allowed, field) {
			p.add("%s needs a feature that platforms have off by default", field)
		}
	}
	if spec["automountServiceAccountToken"] == true {
		p.add("automountServiceAccountToken may be set to false only")
	}
	if n := number(spec["containerConcurrency"]); n < 0 || n > 1000 {
		p.add("containerConcurrency is %v", n)
	}
	if n := number(spec["timeoutSeconds"]); n < 0 || n > 600 {
		p.add("timeoutSeconds is %v: the platform's limit is 600", n)
	}
	containers := list(spec, "containers")
	if len(containers) != 1 {
		p.add("%d containers", len(containers))
		return p
	}
	containerRules(&p, containers[0], volumes(&p, spec))
	return p
}

func annotations(o any) map[string]any {
	a, _ := at(o, "metadata", "annotations").(map[string]any)
	return a
}

// number is a number as YAML's decoders give it.
func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

func scalingRules(p *problems, annotations map[string]any) {
	value := func(name string) (string, bool) {
		s, ok := annotations["autoscaling.knative.dev/"+name].(string)
		return s, ok
	}
	scale := map[string]int{}
	for _, name := range []string{"min-scale", "max-scale"} {
		if s, ok := value(name); ok {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				p.add("%s is %q", name, s)
			}
			scale[name] = n
		}
	}
	if m := scale["max-scale"]; m != 0 && m < scale["min-scale"] {
		p.add("max-scale is below min-scale")
	}
	if s, ok := value("window"); ok {
		if d, err := time.ParseDuration(s); err != nil || d < 6*time.Second || d > time.Hour || d%time.Second != 0 {
			p.add("window is %q: whole seconds from 6s to 1h", s)
		}
	}
	for _, name := range []string{"scale-to-zero-pod-retention-period", "scale-down-delay"} {
		if s, ok := value(name); ok {
			if d, err := time.ParseDuration(s); err != nil || d < 0 || d > time.Hour {
				p.add("%s is %q", name, s)
			}
		}
	}
	if s, ok := value("metric"); ok && s != "concurrency" && s != "rps" {
		p.add("metric is %q", s)
	}
	if s, ok := value("target-burst-capacity"); ok {
		if f, err := strconv.ParseFloat(s, 64); err != nil || f < 0 && f != -1 {
			p.add("target-burst-capacity is %q", s)
		}
	}
	known := []string{"min-scale", "max-scale", "window", "scale-to-zero-pod-retention-period", "scale-down-delay", "metric", "target-burst-capacity"}
	for name := range annotations {
		if short, ok := strings.CutPrefix(name, "autoscaling.knative.dev/"); ok && !slices.Contains(known, short) {
			p.add("annotation %s is none that this test knows", name)
		}
	}
}

func volumes(p *problems, spec map[string]any) map[string]bool {
	names := map[string]bool{}
	for _, v := range list(spec, "volumes") {
		name := text(v, "name")
		names[name] = true
		for kind := range v.(map[string]any) {
			if !slices.Contains([]string{"name", "secret", "configMap", "projected", "emptyDir"}, kind) {
				p.add("volume %s: %s needs a feature that platforms have off by default", name, kind)
			}
		}
	}
	return names
}

// Ports that queue-proxy has for itself, and names and paths that Knative keeps.
var (
	reservedPorts = []int{8008, 8012, 8013, 8022, 9090, 9091}
	reservedEnv   = []string{"PORT", "K_SERVICE", "K_CONFIGURATION", "K_REVISION"}
	reservedPaths = []string{"/", "/dev", "/dev/log"}
)

func containerRules(p *problems, c any, volumes map[string]bool) {
	if text(c, "name") == "queue-proxy" {
		p.add("the container's name is Knative's own")
	}
	if at(c, "lifecycle") != nil || at(c, "stdin") != nil {
		p.add("lifecycle and stdin are not allowed")
	}
	if text(c, "image") == "" {
		p.add("no image")
	}
	ports := list(c, "ports")
	if len(ports) > 1 {
		p.add("more than one port")
	}
	for _, port := range ports {
		if slices.Contains(reservedPorts, number(at(port, "containerPort"))) {
			p.add("port %v is reserved", at(port, "containerPort"))
		}
		if !slices.Contains([]string{"", "http1", "h2c"}, text(port, "name")) {
			p.add("a port's name is http1 or h2c")
		}
	}
	for _, e := range list(c, "env") {
		if slices.Contains(reservedEnv, text(e, "name")) {
			p.add("env %s is reserved", text(e, "name"))
		}
		if at(e, "valueFrom", "fieldRef") != nil || at(e, "valueFrom", "resourceFieldRef") != nil {
			p.add("env %s: fieldRef is off by default", text(e, "name"))
		}
	}
	mounted := map[string]bool{}
	for _, m := range list(c, "volumeMounts") {
		mounted[text(m, "name")] = true
		if !volumes[text(m, "name")] {
			p.add("mount %s has no volume", text(m, "name"))
		}
		if at(m, "readOnly") != true {
			p.add("mount %s must be read-only", text(m, "name"))
		}
		if slices.Contains(reservedPaths, text(m, "mountPath")) {
			p.add("mount path %s is reserved", text(m, "mountPath"))
		}
	}
	for name := range volumes {
		if !mounted[name] {
			p.add("volume %s is not mounted", name)
		}
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		if port := at(c, probe, "httpGet", "port"); port != nil && number(port) != 8080 {
			p.add("%s asks another port than the function's", probe)
		}
	}
	if uid := number(at(c, "securityContext", "runAsUser")); uid < 0 {
		p.add("runAsUser is %d", uid)
	}
}

func TestManifestsPassKnativesWebhooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		for _, o := range i.objects {
			p := eventingRules(o)
			if o.is(serving, "Service") {
				p = servingRules(o)
			}
			for _, problem := range p {
				t.Errorf("%s: %s", o, problem)
			}
		}
	}, root+"/knative/func")
}

func TestTheRulesBite(t *testing.T) {
	t.Parallel()
	function := func(template string) string {
		return `{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x}, spec: {template: ` + template + `}}`
	}
	for name, manifest := range map[string]string{
		"EverySchedule":   `{apiVersion: sources.knative.dev/v1, kind: PingSource, metadata: {name: x}, spec: {schedule: "@every 10s", sink: {uri: "http://x"}}}`,
		"SevenFields":     `{apiVersion: sources.knative.dev/v1, kind: PingSource, metadata: {name: x}, spec: {schedule: "* * * * * * *", sink: {uri: "http://x"}}}`,
		"NoSink":          `{apiVersion: sources.knative.dev/v1, kind: PingSource, metadata: {name: x}, spec: {schedule: "* * * * *"}}`,
		"AttributeName":   `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: b, filter: {attributes: {project_id: p}}, subscriber: {uri: "http://x"}}}`,
		"TwoDialects":     `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: b, filters: [{exact: {type: a}, prefix: {type: b}}], subscriber: {uri: "http://x"}}}`,
		"Duration":        `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: b, subscriber: {uri: "http://x"}, delivery: {backoffDelay: 500ms}}}`,
		"NegativeRetry":   `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: b, subscriber: {uri: "http://x"}, delivery: {retry: -1}}}`,
		"NoSubscriber":    `{apiVersion: eventing.knative.dev/v1, kind: Trigger, metadata: {name: x}, spec: {broker: b}}`,
		"ScaleOnService":  `{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x, annotations: {autoscaling.knative.dev/min-scale: "1"}}, spec: {template: {spec: {containers: [{image: x}]}}}}`,
		"MaxBelowMin":     function(`{metadata: {annotations: {autoscaling.knative.dev/min-scale: "3", autoscaling.knative.dev/max-scale: "2"}}, spec: {containers: [{image: x}]}}`),
		"Window":          function(`{metadata: {annotations: {autoscaling.knative.dev/window: 5s}}, spec: {containers: [{image: x}]}}`),
		"PodSecurity":     function(`{spec: {securityContext: {runAsNonRoot: true}, containers: [{image: x}]}}`),
		"TimeoutTooLong":  function(`{spec: {timeoutSeconds: 900, containers: [{image: x}]}}`),
		"WritableMount":   function(`{spec: {volumes: [{name: v, secret: {secretName: s}}], containers: [{image: x, volumeMounts: [{name: v, mountPath: /v}]}]}}`),
		"ReservedPort":    function(`{spec: {containers: [{image: x, ports: [{containerPort: 9090}]}]}}`),
		"ReservedEnv":     function(`{spec: {containers: [{image: x, env: [{name: PORT, value: "1"}]}]}}`),
		"HostPath":        function(`{spec: {volumes: [{name: v, hostPath: {path: /}}], containers: [{image: x, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}]}}`),
		"UnmountedVolume": function(`{spec: {volumes: [{name: v, secret: {secretName: s}}], containers: [{image: x}]}}`),
	} {
		o := parse(t, manifest)
		p := eventingRules(o)
		if o.is(serving, "Service") {
			p = servingRules(o)
		}
		if len(p) == 0 {
			t.Errorf("%s is let through: %s", name, manifest)
		}
	}
}
