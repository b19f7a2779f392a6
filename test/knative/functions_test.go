package knative

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// served is one line of `carafe functions`.
type served struct {
	kind  string
	takes []string // "POST /v1/clusters", "event magnum…", "tick …"
}

// registry asks Carafe itself which functions there are.
var registry = sync.OnceValues(func() (map[string]served, error) {
	cmd := exec.Command("go", "run", "./functions/carafe", "functions")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	all := map[string]served{}
	name := ""
	columns := regexp.MustCompile(`\s{2,}`)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n")[1:] {
		fields := columns.Split(line, 3)
		if fields[0] != "" {
			name = fields[0]
			all[name] = served{kind: fields[1]}
		}
		f := all[name]
		f.takes = append(f.takes, fields[len(fields)-1])
		all[name] = f
	}
	return all, nil
})

func functions(t *testing.T) map[string]served {
	t.Helper()
	all, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// hosted are the functions of a Service, by its arguments.
func hosted(o object) []string {
	args := strs(o, "spec", "template", "spec", "containers", 0, "args")
	if len(args) < 2 || args[0] != "serve" {
		return nil
	}
	return args[1:]
}

func TestEveryFunctionIsServedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		var got []string
		for _, s := range i.of(serving, "Service") {
			got = append(got, hosted(s)...)
		}
		slices.Sort(got)
		want := names(functions(t))
		if !slices.Equal(got, want) {
			t.Errorf("the Services serve %v\nthe registry has  %v", got, want)
		}
	})
}

func TestTheBaseHasAServiceForEachFunction(t *testing.T) {
	t.Parallel()
	for _, s := range render(t, root+"/knative/base").of(serving, "Service") {
		f := functions(t)[s.name()]
		if h := hosted(s); len(h) != 1 || h[0] != s.name() {
			t.Errorf("%s serves %v", s, h)
		}
		if c := text(s, "metadata", "labels", "app.kubernetes.io/component"); c != f.kind {
			t.Errorf("%s is of the kind %s, its label says %s", s, f.kind, c)
		}
	}
}

// Each event and tick of the registry arrives at the Service that hosts its function,
// and no other of Carafe's own does. (What an overlay brings from elsewhere has filters
// of its own, and is no command.)
func TestEventsAndTicksArriveAtTheirFunctions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		hosts := map[string]string{}
		for _, s := range i.of(serving, "Service") {
			for _, f := range hosted(s) {
				hosts[f] = s.name()
			}
		}
		var got, want []string
		for _, trigger := range i.of(eventing, "Trigger") {
			if at(trigger, "spec", "filters") != nil {
				continue
			}
			got = append(got, text(trigger, "spec", "subscriber", "ref", "name")+" event "+text(trigger, "spec", "filter", "attributes", "type"))
		}
		for _, ping := range i.of(sources, "PingSource") {
			got = append(got, text(ping, "spec", "sink", "ref", "name")+" tick "+text(ping, "spec", "schedule"))
		}
		for name, f := range functions(t) {
			for _, takes := range f.takes {
				if strings.HasPrefix(takes, "event ") || strings.HasPrefix(takes, "tick ") {
					want = append(want, hosts[name]+" "+takes)
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the manifests bring\n%s\nthe registry wants\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	t.Parallel()
	// What the operator makes; ../../knative/README.md says how.
	secrets := []string{"carafe-database", "carafe-seal-keys", "carafe-keystone", "carafe-capi"}
	each(t, func(t *testing.T, i installation) {
		leads := func(o object, what, group, kind, name string) {
			t.Helper()
			if !i.has(group, kind, name) {
				t.Errorf("%s: %s leads to no %s %q", o, what, kind, name)
			}
		}
		ref := func(o object, what string, r any) {
			group, _, found := strings.Cut(text(r, "apiVersion"), "/")
			if !found {
				group = ""
			}
			leads(o, what, group, text(r, "kind"), text(r, "name"))
		}
		pod := func(o object, spec any) {
			if account := text(spec, "serviceAccountName"); account != "" {
				leads(o, "serviceAccountName", "", "ServiceAccount", account)
			}
			for _, from := range list(spec, "containers", 0, "envFrom") {
				if name := text(from, "configMapRef", "name"); name != "" {
					leads(o, "envFrom", "", "ConfigMap", name)
				} else if name := text(from, "secretRef", "name"); !slices.Contains(secrets, name) {
					t.Errorf("%s: Secret %q is none that operators are told to make", o, name)
				}
			}
			for _, v := range list(spec, "volumes") {
				if name := text(v, "configMap", "name"); name != "" {
					leads(o, "volume", "", "ConfigMap", name)
				}
				if name := text(v, "secret", "secretName"); name != "" && !slices.Contains(secrets, name) {
					t.Errorf("%s: Secret %q is none that operators are told to make", o, name)
				}
			}
		}
		for _, o := range i.objects {
			switch {
			case o.is(eventing, "Broker"):
				ref(o, "dead letters", at(o, "spec", "delivery", "deadLetterSink", "ref"))
				if config := at(o, "spec", "config"); config != nil {
					ref(o, "config", config)
				}
			case o.is(eventing, "Trigger"):
				leads(o, "broker", eventing, "Broker", text(o, "spec", "broker"))
				ref(o, "subscriber", at(o, "spec", "subscriber", "ref"))
				if sink := at(o, "spec", "delivery", "deadLetterSink", "ref"); sink != nil {
					ref(o, "dead letters", sink)
				}
			case o.is(sources, "PingSource"), o.is(sources, "SinkBinding"):
				ref(o, "sink", at(o, "spec", "sink", "ref"))
			case o.is(sources, "ApiServerSource"):
				ref(o, "sink", at(o, "spec", "sink", "ref"))
				leads(o, "serviceAccountName", "", "ServiceAccount", text(o, "spec", "serviceAccountName"))
			case o.is(serving, "Service"):
				pod(o, at(o, "spec", "template", "spec"))
			case o.is("batch", "Job"):
				pod(o, at(o, "spec", "template", "spec"))
			case o.is("gateway.networking.k8s.io", "HTTPRoute"):
				for _, parent := range list(o, "spec", "parentRefs") {
					leads(o, "parentRefs", "gateway.networking.k8s.io", "Gateway", text(parent, "name"))
				}
			case o.is("rbac.authorization.k8s.io", "ClusterRoleBinding"):
				leads(o, "role", "rbac.authorization.k8s.io", "ClusterRole", text(o, "roleRef", "name"))
				leads(o, "subject", "", "ServiceAccount", text(o, "subjects", 0, "name"))
			}
		}
	})
}

func TestWhoeverIsNotTheAPIIsClusterLocal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		gateway := len(i.of("gateway.networking.k8s.io", "Gateway")) > 0
		for _, s := range i.of(serving, "Service") {
			local := text(s, "metadata", "labels", "networking.knative.dev/visibility") == "cluster-local"
			public := functions(t)[hosted(s)[0]].kind == "http" && !gateway
			if local == public {
				t.Errorf("%s: cluster-local is %v", s, local)
			}
		}
	})
}

func TestFunctionsRunWithTheLeastRights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		inCluster := i.has("rbac.authorization.k8s.io", "ClusterRole", "carafe-conductor")
		for _, o := range i.objects {
			if !o.is(serving, "Service") && !o.is("batch", "Job") {
				continue
			}
			spec := at(o, "spec", "template", "spec")
			account := text(spec, "serviceAccountName")
			drives := inCluster && (account == "carafe-conductor" || account == "carafe-checks")
			if token := at(spec, "automountServiceAccountToken"); (token == nil) != drives || !drives && token != false {
				t.Errorf("%s: automountServiceAccountToken is %v", o, token)
			}
			if account == "" {
				t.Errorf("%s runs as the namespace's default account", o)
			}
			c := at(spec, "containers", 0)
			security := at(c, "securityContext")
			if at(security, "runAsNonRoot") != true || at(security, "readOnlyRootFilesystem") != true || at(security, "allowPrivilegeEscalation") != false ||
				!slices.Equal(strs(security, "capabilities", "drop"), []string{"ALL"}) || text(security, "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s: securityContext is %v", o, security)
			}
			if text(c, "resources", "requests", "cpu") == "" || text(c, "resources", "limits", "memory") == "" {
				t.Errorf("%s has no bounds: %v", o, at(c, "resources"))
			}
		}
	})
}

// A drained instance may finish what it has begun.
func TestTimeoutsCoverTheStepsOfOperations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		for _, s := range i.of(serving, "Service") {
			timeout := number(at(s, "spec", "template", "spec", "timeoutSeconds"))
			if http := functions(t)[hosted(s)[0]].kind == "http"; !http && timeout < 60 || timeout < 30 {
				t.Errorf("%s: timeoutSeconds is %d", s, timeout)
			}
		}
	})
}

// Each route of the API reaches its function through the Gateway, and no other.
func TestTheGatewayLeadsEachPathToItsFunction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, i installation) {
		routes := i.of("gateway.networking.k8s.io", "HTTPRoute")
		if len(routes) == 0 {
			t.Skip("without a Gateway")
		}
		variable := regexp.MustCompile(`\{[^}]*\}`)
		checked := 0
		for name, f := range functions(t) {
			if f.kind != "http" {
				continue
			}
			for _, takes := range f.takes {
				_, path, _ := strings.Cut(takes, " ")
				path = variable.ReplaceAllString(path, "8b7a3c1e-0000-4000-8000-000000000001")
				paths := []string{path}
				if short, ok := strings.CutPrefix(path, "/v1/"); ok && short != "" && name != "discovery" {
					paths = append(paths, "/"+short)
				}
				for _, p := range paths {
					checked++
					if to := leadsTo(t, routes, p); !slices.Equal(to, []string{name}) {
						t.Errorf("%s leads to %v, not to %s", p, to, name)
					}
				}
			}
		}
		if checked < 10 {
			t.Errorf("only %d paths were checked", checked)
		}
	})
}

func leadsTo(t *testing.T, routes []object, path string) []string {
	t.Helper()
	var to []string
	for _, r := range routes {
		for _, rule := range list(r, "spec", "rules") {
			host := ""
			for _, f := range list(rule, "filters") {
				if h := text(f, "urlRewrite", "hostname"); h != "" {
					host = h
				}
			}
			if host == "" {
				continue // the redirect to HTTPS
			}
			for _, m := range list(rule, "matches") {
				value, hit := text(m, "path", "value"), false
				switch text(m, "path", "type") {
				case "Exact":
					hit = path == value
				case "PathPrefix":
					hit = path == value || strings.HasPrefix(path, strings.TrimSuffix(value, "/")+"/")
				case "RegularExpression":
					hit = regexp.MustCompile(`^(?:` + value + `)$`).MatchString(path)
				}
				if hit {
					to = append(to, strings.TrimSuffix(host, ".carafe.svc.cluster.local"))
				}
			}
		}
	}
	return to
}

// func.yaml hosts all; its subscriptions are those of triggers/.
func TestFuncsSubscriptionsAreTheTriggers(t *testing.T) {
	t.Parallel()
	f := readFunc(t)
	var got, want []string
	for _, s := range list(f, "deploy", "subscriptions") {
		if text(s, "source") != "carafe" {
			t.Errorf("a subscription to the broker %q", text(s, "source"))
		}
		got = append(got, text(s, "filters", "type"))
	}
	want = append(want, "dev.knative.sources.ping")
	for _, trigger := range render(t, root+"/knative/base").of(eventing, "Trigger") {
		want = append(want, text(trigger, "spec", "filter", "attributes", "type"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("func.yaml subscribes to\n%v\nthe triggers are\n%v", got, want)
	}
	for _, o := range render(t, root+"/knative/func").objects {
		if o.is(eventing, "Trigger") {
			t.Errorf("%s would deliver what func's own subscription does", o)
		}
	}
}

// The folder of each function, its Service and its name are one.
func TestEveryFunctionHasItsFolder(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root + "/functions")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "carafe" {
			got = append(got, e.Name())
		}
	}
	if want := names(functions(t)); !slices.Equal(got, want) {
		t.Errorf("the folders are %v\nthe registry has %v", got, want)
	}
}

// The example that an operator starts from: one host everywhere, one image.
func TestTheExampleSetsHostAndImageEverywhere(t *testing.T) {
	t.Parallel()
	i := render(t, root+"/knative/overlays/production")
	host := text(i.of("gateway.networking.k8s.io", "Gateway")[0], "spec", "listeners", 0, "hostname")
	for _, o := range i.objects {
		var hosts []string
		switch {
		case o.is("gateway.networking.k8s.io", "Gateway"):
			for _, l := range list(o, "spec", "listeners") {
				hosts = append(hosts, text(l, "hostname"))
			}
		case o.is("gateway.networking.k8s.io", "HTTPRoute"):
			hosts = strs(o, "spec", "hostnames")
			for _, f := range list(o, "spec", "rules", 0, "filters") {
				if text(f, "type") == "RequestHeaderModifier" {
					hosts = append(hosts, text(f, "requestHeaderModifier", "set", 0, "value"))
				}
			}
		case o.is(serving, "Service"), o.is("batch", "Job"):
			if image := text(o, "spec", "template", "spec", "containers", 0, "image"); !strings.HasPrefix(image, "registry.example.org/carafe:") {
				t.Errorf("%s runs %s", o, image)
			}
		}
		for _, h := range hosts {
			if h != host {
				t.Errorf("%s has the host %s, not %s", o, h, host)
			}
		}
	}
}
