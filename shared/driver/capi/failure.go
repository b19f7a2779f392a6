package capi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"carafe/shared/fault"
)

// trouble is something that is wrong with a cluster or its machines.
type trouble struct {
	text      string // cleaned, for people
	code      fault.Reason
	permanent bool // will not pass by itself
	since     time.Time
}

var (
	httpForm    = regexp.MustCompile(`(?s)Expected HTTP response code \[[^\]]*\].*?but got (\d{3})(?: instead)?:?\s*(.*)`)
	urlForm     = regexp.MustCompile(`https?://[^\s"'\]]+`)
	requestForm = regexp.MustCompile(`\(?(?:[Rr]equest[- ][Ii][Dd]|[Rr]equest):? ?:? ?req-[0-9a-f-]+\)?|req-[0-9a-f-]{36}`)
	logsForm    = regexp.MustCompile(`(?i)\.? ?please check controller logs for errors\.?`)
	bulletForm  = regexp.MustCompile(`(?m)^\s*\* (?:[A-Za-z]+ [^\s:]+: ?|[A-Za-z]+: ?)?`)
	fieldForm   = regexp.MustCompile(` ?\(spec\.[^)]*\)`)
	spaceForm   = regexp.MustCompile(`\s+`)
)

// clean makes a provider's message readable: what OpenStack answered, without
// addresses, ids of requests, and JSON around it.
func clean(message string) string {
	s := message
	if m := httpForm.FindStringSubmatch(s); m != nil {
		s = m[2]
		if s == "" {
			s = "HTTP " + m[1]
		}
	}
	if i := strings.IndexByte(s, '{'); i >= 0 {
		if inner := innerMessage(s[i:]); inner != "" {
			s = inner
		}
	}
	s = logsForm.ReplaceAllString(s, "")
	s = urlForm.ReplaceAllString(s, "")
	s = requestForm.ReplaceAllString(s, "")
	s = fieldForm.ReplaceAllString(s, "")
	s = bulletForm.ReplaceAllString(s, "")
	s = strings.TrimSpace(spaceForm.ReplaceAllString(s, " "))
	return strings.TrimRight(s, " .:")
}

// innerMessage finds the text in an answer's JSON, however it is nested.
func innerMessage(s string) string {
	var v any
	if err := json.NewDecoder(strings.NewReader(s)).Decode(&v); err != nil {
		return ""
	}
	return deepest(v)
}

func deepest(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for _, key := range []string{"message", "faultstring", "detail"} {
		if text, ok := m[key].(string); ok && text != "" {
			return text
		}
	}
	for _, x := range m {
		if text := deepest(x); text != "" {
			return text
		}
	}
	return ""
}

// judge says what kind of trouble a message is (spec/capi-driver.md §10.2).
func judge(reason, message string) trouble {
	t := trouble{text: clean(message), code: fault.ReasonDependency}
	low := strings.ToLower(message)
	code := ""
	if m := httpForm.FindStringSubmatch(message); m != nil {
		code = m[1]
	}
	switch {
	case isCredential(reason, low, code):
		t.code = fault.ReasonCredential
	case strings.Contains(low, "quota") || strings.Contains(low, "no more ip addresses") || strings.Contains(low, "exceeded"):
		t.code = fault.ReasonQuota
	case code == "400" || code == "404" || strings.Contains(low, "could not be found") || strings.Contains(low, "no match found") || strings.Contains(low, "provider") && strings.Contains(low, "not"):
		t.code, t.permanent = fault.ReasonConfiguration, true
	}
	return t
}

func isCredential(reason, low, code string) bool {
	return reason == "OpenStackAuthenticationFailed" || strings.Contains(low, "application credential") ||
		code == "401" || strings.Contains(low, "authentication failed")
}

// Machine conditions that say only that something else is awaited.
var waiting = []string{
	"WaitingForBootstrapData", "WaitingForClusterInfrastructureReady", "WaitingForControlPlaneAvailable", "WaitingForInfrastructure",
	"InstanceNotReady", "NotReady", "NotProvisioned", "Provisioning", "NotYetReported", "ConditionNotYetReported", "Deleting", "DeletionInProgress", "InstanceDeleted", "",
}

// machineTrouble is what keeps a machine from coming up; nil if nothing is known.
func machineTrouble(s *Snapshot, m *clusterv1.Machine, now time.Time) *trouble {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	if server := s.Servers[m.Spec.InfrastructureRef.Name]; server != nil {
		c := condition(server.Status.Conditions, server.Generation, "InstanceReady")
		if c == nil {
			c = condition(server.Status.Conditions, server.Generation, "Ready")
		}
		if c != nil && c.Status == metav1.ConditionFalse && !slices.Contains(waiting, c.Reason) {
			t := judge(c.Reason, c.Message)
			t.since = c.LastTransitionTime.Time
			if c.Reason == "InstanceStateError" {
				t.permanent = false
				if text := server.Annotations[annotationFault]; text != "" {
					t = judge(c.Reason, text)
					t.permanent, t.since = false, c.LastTransitionTime.Time
				} else {
					t.text = "the server went into ERROR"
				}
			}
			return &t
		}
	}
	c := condition(m.Status.Conditions, m.Generation, clusterv1.InfrastructureReadyCondition)
	if c != nil && c.Status == metav1.ConditionFalse && c.Message != "" && !slices.Contains(waiting, c.Reason) {
		t := judge(c.Reason, c.Message)
		t.since = c.LastTransitionTime.Time
		return &t
	}
	booted := c != nil && c.Status == metav1.ConditionTrue
	if booted && m.Status.NodeRef.Name == "" && now.Sub(c.LastTransitionTime.Time) > startupSeconds*time.Second {
		return &trouble{
			text:  fmt.Sprintf("booted, but no node joined within %d min: look at the image, the network to the API endpoint, or cloud-init", startupSeconds/60),
			code:  fault.ReasonConfiguration,
			since: c.LastTransitionTime.Time,
		}
	}
	return nil
}

// annotationFault is where Nova's own words about a server in ERROR are kept
// within a snapshot; the provider drops them.
const annotationFault = ourDomain + "server-fault"

// credentialRefused reports whether Keystone refuses the cluster's credential.
func credentialRefused(s *Snapshot) bool {
	if s.Infrastructure != nil {
		o := s.Infrastructure
		if isFalse(o.Status.Conditions, o.Generation, "OpenStackAuthenticationSucceeded") {
			return true
		}
		for _, c := range o.Status.Conditions {
			if c.Status == metav1.ConditionFalse && judge(c.Reason, c.Message).code == fault.ReasonCredential {
				return true
			}
		}
	}
	for _, m := range s.Servers {
		c := condition(m.Status.Conditions, m.Generation, "InstanceReady")
		if c != nil && c.Status == metav1.ConditionFalse && judge(c.Reason, c.Message).code == fault.ReasonCredential {
			return true
		}
	}
	return false
}

// parts of the infrastructure, as people call them.
var parts = []struct{ condition, name string }{
	{"NetworkReady", "Network"}, {"RouterReady", "Router"}, {"SecurityGroupsReady", "Security groups"},
	{"BastionReady", "Bastion"}, {"APIEndpointReady", "Load balancer of the API"}, {"Ready", "Infrastructure"},
}

// infrastructureTrouble is what keeps the network or the load balancer from
// coming up.
func infrastructureTrouble(s *Snapshot) *trouble {
	o := s.Infrastructure
	if o == nil {
		return nil
	}
	for _, p := range parts {
		c := condition(o.Status.Conditions, o.Generation, p.condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Message == "" || slices.Contains(waiting, c.Reason) {
			continue
		}
		t := judge(c.Reason, c.Message)
		t.text, t.since = p.name+": "+t.text, c.LastTransitionTime.Time
		return &t
	}
	return nil
}
