// Package policy decides who may do what. It evaluates Magnum's rules
// (spec/api.md §2.4) as oslo.policy does (§2.5), so that an operator's
// policy.yaml works unchanged. The defaults are one table, rules.go.
//
// It knows nothing of resources: a handler says which rule, for whom and on
// what attributes.
package policy

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// Config is the environment of the policy engine.
type Config struct {
	// File holds the operator's rules; it need not exist. [oslo_policy] policy_file.
	File string `envconfig:"CARAFE_POLICY_FILE" default:"policy.yaml"`
	// Dirs hold more files, applied on top in the order of their names. [oslo_policy] policy_dirs.
	Dirs []string `envconfig:"CARAFE_POLICY_DIRS" default:"policy.d"`
	// DefaultRule answers for a rule that is not defined; without it such a
	// rule refuses. [oslo_policy] policy_default_rule.
	DefaultRule string `envconfig:"CARAFE_POLICY_DEFAULT_RULE" default:"default"`
	// EnforceNewDefaults, when false, also lets pass whom the defaults before
	// release 2023.2 let pass. [oslo_policy] enforce_new_defaults.
	EnforceNewDefaults bool `envconfig:"CARAFE_POLICY_ENFORCE_NEW_DEFAULTS" default:"true"`
	// EnforceScope refuses system- and domain-scoped tokens where a rule is
	// for projects. Magnum lets them pass, and operators work with a system
	// administrator's token: so it is a switch, and off (B07). [oslo_policy]
	// enforce_scope.
	EnforceScope bool `envconfig:"CARAFE_POLICY_ENFORCE_SCOPE" default:"false"`
	// ReloadEvery is how often the files are looked at; 0 means at each decision.
	ReloadEvery time.Duration `envconfig:"CARAFE_POLICY_RELOAD_EVERY" default:"1s"`
	// RemoteTimeout bounds an http: or https: check. [oslo_policy] remote_timeout.
	RemoteTimeout time.Duration `envconfig:"CARAFE_POLICY_REMOTE_TIMEOUT" default:"10s"`
	// RemoteJSON sends one JSON document to an http: or https: check instead
	// of form fields. [oslo_policy] remote_content_type.
	RemoteJSON bool `envconfig:"CARAFE_POLICY_REMOTE_JSON"`
}

// Enforcer holds the rules in force. It may be used by many goroutines.
type Enforcer struct {
	cfg     Config
	rules   atomic.Pointer[ruleSet]
	checked atomic.Int64 // when the files were last looked at, Unix ns

	mu   sync.Mutex // one reload at a time
	seen string     // what the files looked like when they were last read
}

// New reads the files and builds the rules. A file that cannot be read or a
// rule that cannot be understood is an error that names file and line.
func New(cfg Config) (*Enforcer, error) {
	e := &Enforcer{cfg: cfg}
	e.seen = fingerprint(cfg)
	set, err := load(cfg)
	if err != nil {
		return nil, err
	}
	e.rules.Store(set)
	e.checked.Store(time.Now().UnixNano())
	return e, nil
}

// Enforce refuses the caller with a Forbidden fault unless the rule lets it
// pass. target holds the attributes of the object as text, a null as "None";
// nil means the default target, the caller's own project and user, for which
// comparisons of ownership hold trivially.
func (e *Enforcer) Enforce(caller identity.Caller, rule string, target map[string]string) error {
	if !e.allows(&caller, rule, target) {
		return fault.New(fault.Forbidden, "Policy doesn't allow %s to be performed.", rule)
	}
	return nil
}

// Allows is Enforce for those who want to know and not to refuse.
func (e *Enforcer) Allows(caller identity.Caller, rule string, target map[string]string) bool {
	return e.allows(&caller, rule, target)
}

// IsAdmin evaluates context_is_admin on an empty target. Whoever
// authenticates a request puts the answer into Caller.IsAdmin.
func (e *Enforcer) IsAdmin(caller identity.Caller) bool {
	caller.IsAdmin = false
	return e.allows(&caller, contextIsAdmin, noTarget)
}

// noTarget is not nil: a nil target is the default one.
var noTarget = map[string]string{}

func (e *Enforcer) allows(caller *identity.Caller, name string, target map[string]string) bool {
	e.reload()
	set := e.rules.Load()
	r := set.lookup(name)
	if r == nil {
		return false
	}
	if r.projectOnly && e.cfg.EnforceScope && (caller.SystemScope || caller.DomainID != "") {
		return false
	}
	return r.check.allows(&request{caller: caller, rule: name, target: target, cfg: &e.cfg})
}

// reload takes up changed files. A bad file is logged once, and the last good
// rules stay in force: a slip of the editor must not lock everybody out, or in.
func (e *Enforcer) reload() {
	now := time.Now().UnixNano()
	last := e.checked.Load()
	if now-last < int64(e.cfg.ReloadEvery) || !e.checked.CompareAndSwap(last, now) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := fingerprint(e.cfg)
	if seen == e.seen {
		return
	}
	e.seen = seen
	set, err := load(e.cfg)
	if err != nil {
		slog.Error("the changed policy is refused, the last good rules stay in force", "err", err)
		return
	}
	e.rules.Store(set)
	slog.Info("policy reloaded", "file", e.cfg.File)
}

// ruleSet is one consistent state of all rules; it never changes.
type ruleSet struct {
	rules    map[string]*rule
	fallback *rule // of Config.DefaultRule; nil if not defined
}

// rule is one named rule, its references resolved.
type rule struct {
	name        string
	check       check
	projectOnly bool
	where       string // file:line, empty for a default
}

func (s *ruleSet) lookup(name string) *rule {
	if r := s.rules[name]; r != nil {
		return r
	}
	return s.fallback
}

// build joins the defaults and the files' rules, resolves references and
// refuses cycles.
func build(cfg Config, files []fileRule) (*ruleSet, error) {
	s := &ruleSet{rules: make(map[string]*rule, len(defaults)+len(files))}
	for _, f := range files {
		s.rules[f.name] = &rule{name: f.name, check: f.check, where: f.where}
	}
	overridden := func(name string) (check, bool) {
		if r := s.rules[name]; r != nil && r.where != "" {
			return r.check, true
		}
		return nil, false
	}
	for _, d := range defaults {
		if r := s.rules[d.name]; r != nil {
			r.projectOnly = d.scope == project
			continue
		}
		c := mustParse(d.check)
		if d.before != nil {
			// oslo_policy/policy.py, Enforcer._handle_deprecated_rule
			if old, ok := overridden(d.before.name); ok {
				c = old
			} else if !cfg.EnforceNewDefaults {
				c = anyOf{c, mustParse(d.before.check)}
			}
		}
		s.rules[d.name] = &rule{name: d.name, check: c, projectOnly: d.scope == project}
	}
	s.fallback = s.rules[cfg.DefaultRule]
	if err := s.link(); err != nil {
		return nil, err
	}
	return s, nil
}

// link resolves every rule: reference to the rule itself, once, so that a
// decision follows pointers only.
func (s *ruleSet) link() error {
	state := map[*rule]int{} // 1: on the path, 2: done
	var visit func(r *rule) error
	visit = func(r *rule) error {
		switch state[r] {
		case 1:
			return fmt.Errorf("%s: rule %q refers to itself", r.place(), r.name)
		case 2:
			return nil
		}
		state[r] = 1
		defer func() { state[r] = 2 }()
		return references(r.check, func(ref *reference) error {
			ref.rule = s.lookup(ref.name)
			if ref.rule == nil {
				slog.Warn("policy rule refers to a rule that does not exist and so refuses",
					"rule", r.name, "reference", ref.name, "where", r.place())
				return nil
			}
			return visit(ref.rule)
		})
	}
	for _, r := range s.rules {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) place() string {
	if r.where == "" {
		return "default policy"
	}
	return r.where
}
