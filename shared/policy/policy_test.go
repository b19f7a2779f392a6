package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// The callers of the tables: one word per property that a rule may look at.
var callers = map[string]identity.Caller{
	"admin":         {UserID: "root", ProjectID: "admin-project", Roles: []string{"Admin"}, IsAdmin: true},
	"creator":       {UserID: "u1", ProjectID: "p1", Roles: []string{"member", "reader"}},
	"creatorReader": {UserID: "u1", ProjectID: "p1", Roles: []string{"reader"}},
	"member":        {UserID: "u2", ProjectID: "p1", Roles: []string{"Member", "reader"}},
	"memberOnly":    {UserID: "u2", ProjectID: "p1", Roles: []string{"member"}},
	"reader":        {UserID: "u3", ProjectID: "p1", Roles: []string{"reader"}},
	"stranger":      {UserID: "u4", ProjectID: "p2", Roles: []string{"member", "reader"}},
	"noRole":        {UserID: "u5", ProjectID: "p1"},
}

var object = map[string]string{"project_id": "p1", "user_id": "u1"}

func defaultConfig() Config {
	return Config{DefaultRule: "default", EnforceNewDefaults: true, EnforceScope: true}
}

func newEnforcer(t *testing.T, cfg Config) *Enforcer {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// who passes on an object of project p1 made by user u1
const (
	nobodyButAdmin = "admin"
	writers        = "admin creator member memberOnly"
	readers        = "admin creator creatorReader member reader"
	makerWrites    = "admin creator"
	makerReads     = "admin creator creatorReader"
)

var wantOnObject = map[string]string{
	"context_is_admin": nobodyButAdmin,
	"admin_or_owner":   "admin creator creatorReader member memberOnly reader noRole",
	"admin_or_user":    "admin creator creatorReader",
	"is_user":          "creator creatorReader",
	"project_member":   "creator member memberOnly",
	"project_reader":   "creator creatorReader member reader",

	"admin_or_project_reader":                      readers,
	"admin_or_project_member":                      writers,
	"admin_or_project_member_user":                 makerWrites,
	"admin_or_project_member_user_or_cluster_user": makerWrites,
	"project_member_deny_cluster_user":             "creator member memberOnly",
	"admin_or_project_member_deny_cluster_user":    writers,
	"project_reader_deny_cluster_user":             "creator creatorReader member reader",
	"admin_or_project_reader_deny_cluster_user":    readers,
	"admin_or_project_reader_user":                 makerReads,

	"certificate:create":    makerWrites,
	"certificate:get":       makerReads,
	"certificate:rotate_ca": writers,

	"cluster:create": writers, "cluster:delete": writers, "cluster:update": writers,
	"cluster:resize": writers, "cluster:upgrade": writers,
	"cluster:detail": readers, "cluster:get": readers, "cluster:get_all": readers,
	"cluster:update_health_status": makerWrites,

	"clustertemplate:create": writers, "clustertemplate:delete": writers, "clustertemplate:update": writers,
	"clustertemplate:detail": readers, "clustertemplate:get": readers, "clustertemplate:get_all": readers,
	"clustertemplate:publish": nobodyButAdmin,

	"credential:rotate": writers,

	"federation:create": writers, "federation:delete": writers, "federation:update": writers,
	"federation:detail": readers, "federation:get": readers, "federation:get_all": readers,

	"magnum-service:get_all": nobodyButAdmin,

	"nodegroup:get": readers, "nodegroup:get_all": readers,
	"nodegroup:create": writers, "nodegroup:delete": writers, "nodegroup:update": writers,

	"quota:create": nobodyButAdmin, "quota:delete": nobodyButAdmin,
	"quota:get_all": nobodyButAdmin, "quota:update": nobodyButAdmin,
	"quota:get": readers, "stats:get_all": readers,
}

func TestEveryDefaultRuleForEveryCaller(t *testing.T) {
	t.Parallel()
	e := newEnforcer(t, defaultConfig())
	for _, d := range defaults {
		want, ok := wantOnObject[d.name]
		if strings.HasSuffix(d.name, "_all_projects") {
			want, ok = nobodyButAdmin, true
		}
		if !ok {
			t.Errorf("no expectation for %s", d.name)
			continue
		}
		pass := " " + want + " "
		for name, caller := range callers {
			err := e.Enforce(caller, d.name, object)
			if allowed, wanted := err == nil, strings.Contains(pass, " "+name+" "); allowed != wanted {
				t.Errorf("%s: %s allowed = %v, want %v", d.name, name, allowed, wanted)
			}
			if err != nil && (!fault.Is(err, fault.Forbidden) ||
				fault.Text(err) != "Policy doesn't allow "+d.name+" to be performed.") {
				t.Errorf("%s: refusal is %v", d.name, err)
			}
		}
	}
}

func TestDefaultTargetIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	e := newEnforcer(t, defaultConfig())
	for _, tc := range []struct {
		caller, rule string
		want         bool
	}{
		{"stranger", "cluster:create", true},
		{"reader", "cluster:create", false},
		{"stranger", "cluster:update_health_status", true},
		{"memberOnly", "cluster:get_all", false}, // a member needs reader too
		{"noRole", "cluster:get_all", false},
	} {
		if got := e.Allows(callers[tc.caller], tc.rule, nil); got != tc.want {
			t.Errorf("%s %s = %v, want %v", tc.caller, tc.rule, got, tc.want)
		}
	}
}

func TestIsAdminComesFromTheRule(t *testing.T) {
	t.Parallel()
	e := newEnforcer(t, defaultConfig())
	if !e.IsAdmin(identity.Caller{Roles: []string{"ADMIN"}}) {
		t.Error("role admin is not admin")
	}
	if e.IsAdmin(identity.Caller{Roles: []string{"member"}, IsAdmin: true}) {
		t.Error("IsAdmin believes what the caller already says")
	}
	// The target is empty: a rule on the target never holds.
	cfg := write(t, `context_is_admin: "project_id:%(project_id)s"`)
	if newEnforcer(t, cfg).IsAdmin(identity.Caller{ProjectID: "p1"}) {
		t.Error("a rule on the target makes an admin")
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	system := identity.Caller{UserID: "root", SystemScope: true, Roles: []string{"admin"}, IsAdmin: true}
	domain := identity.Caller{UserID: "root", DomainID: "d1", Roles: []string{"admin"}, IsAdmin: true}
	strict := newEnforcer(t, defaultConfig())
	cfg := defaultConfig()
	cfg.EnforceScope = false
	lenient := newEnforcer(t, cfg)
	for _, caller := range []identity.Caller{system, domain} {
		if strict.Allows(caller, "cluster:get_all", nil) {
			t.Error("a token without a project passes a rule for projects")
		}
		if !strict.Allows(caller, "quota:get_all", nil) {
			t.Error("a rule without scope refuses a system administrator")
		}
		if !lenient.Allows(caller, "cluster:get_all", nil) {
			t.Error("with EnforceScope off the administrator is refused")
		}
	}
	// An operator's rule keeps the scope of the default.
	cfg = write(t, `"cluster:get_all": "@"`)
	if newEnforcer(t, cfg).Allows(system, "cluster:get_all", nil) {
		t.Error("an overridden rule lost its scope")
	}
}

func TestOldDefaults(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig()
	cfg.EnforceNewDefaults = false
	e := newEnforcer(t, cfg)
	for _, tc := range []struct {
		caller, rule string
		want         bool
	}{
		{"noRole", "cluster:create", true}, // the owner's project was enough
		{"stranger", "cluster:create", false},
		{"creatorReader", "certificate:create", true}, // the maker was enough
		{"member", "certificate:create", false},
	} {
		if got := e.Allows(callers[tc.caller], tc.rule, object); got != tc.want {
			t.Errorf("%s %s = %v, want %v", tc.caller, tc.rule, got, tc.want)
		}
	}
	cfg = write(t, `admin_or_project_member_deny_cluster_user: "role:boss"`)
	cfg.EnforceNewDefaults = false
	if newEnforcer(t, cfg).Allows(callers["noRole"], "cluster:create", object) {
		t.Error("the old default holds beside an overridden rule")
	}
	cfg = write(t, `"rule:admin_or_owner": "role:boss"`)
	if newEnforcer(t, cfg).Allows(callers["member"], "cluster:create", object) {
		t.Error("an overridden old name does not count")
	}
}

// write puts a policy file into a folder of its own.
func write(t *testing.T, text string) Config {
	t.Helper()
	cfg := defaultConfig()
	cfg.File = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(cfg.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	caller := identity.Caller{
		UserID: "u1", UserName: "alice", ProjectID: "p1", Roles: []string{"Member", "auditor"},
	}
	target := map[string]string{"project_id": "p1", "user_id": "u2", "name": "a", "cluster.name": "x", "role": "MEMBER"}
	for rule, want := range map[string]bool{
		``:                                  true,
		`   `:                               true,
		`@`:                                 true,
		`!`:                                 false,
		`not !`:                             true,
		`not @`:                             false,
		`not not @`:                         true,
		`@ or !`:                            true,
		`@ and !`:                           false,
		`@ or @ and !`:                      true, // and binds more tightly
		`(@ or @) and !`:                    false,
		`not ! and !`:                       false, // not binds most tightly
		`NOT (! OR !) And @`:                true,
		`((role:member))`:                   true,
		`role:MEMBER`:                       true,
		`role:%(role)s`:                     true,
		`role:%(missing)s`:                  false,
		`role:admin`:                        false,
		`roles:auditor`:                     true,
		`roles:Auditor`:                     false,
		`user_id:u1`:                        true,
		`user_id:%(user_id)s`:               false,
		`project_id:%(project_id)s`:         true,
		`project_id:%(missing)s`:            false,
		`project_id:p%%1`:                   false,
		`user_name:alice and not user_id:x`: true,
		`domain_id:None`:                    true,
		`is_admin:True`:                     false,
		`is_admin:False`:                    true,
		`True:True`:                         true,
		`None:%(name)s`:                     false,
		`'a':%(name)s`:                      true,
		`"b":%(name)s`:                      false,
		`'x':%(cluster.name)s`:              true,
		`'a-p1':%(name)s-%(project_id)s`:    true,
		`1:1`:                               true,
		`unknown_attribute:None`:            false,
		`rule:yes and not rule:no`:          true,
		`rule:nowhere`:                      false,
		`project_id:%(project_id)s and (role:member or role:admin)`: true,
	} {
		cfg := write(t, `{"yes": "@", "no": "!", "x": `+quote(rule)+`}`)
		if got := newEnforcer(t, cfg).Allows(caller, "x", target); got != want {
			t.Errorf("%q = %v, want %v", rule, got, want)
		}
	}
}

func quote(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

func TestListForm(t *testing.T) {
	t.Parallel()
	caller := identity.Caller{UserID: "u1", Roles: []string{"member"}}
	for rule, want := range map[string]bool{
		`[]`:                                true,
		`[[]]`:                              false,
		`["@"]`:                             true,
		`["role:admin", "role:member"]`:     true,
		`[["role:member", "user_id:u1"]]`:   true,
		`[["role:member", "user_id:u2"]]`:   false,
		`[["role:admin"], ["role:member"]]`: true,
		`["rule:context_is_admin", ["user_id:u1"]]`: true,
	} {
		if got := newEnforcer(t, write(t, "x: "+rule)).Allows(caller, "x", nil); got != want {
			t.Errorf("%s = %v, want %v", rule, got, want)
		}
	}
}

func TestUnknownRuleAsksTheDefaultRule(t *testing.T) {
	t.Parallel()
	caller := callers["creator"]
	if newEnforcer(t, defaultConfig()).Allows(caller, "no:such", nil) {
		t.Error("an unknown rule lets pass")
	}
	e := newEnforcer(t, write(t, "default: role:member\nx: rule:nowhere"))
	if !e.Allows(caller, "no:such", nil) || !e.Allows(caller, "x", nil) {
		t.Error("the default rule does not answer")
	}
}

func TestBadFilesAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: \"@\"\n\"cluster:get\": \"role:admin or\"": `policy.yaml:2: rule "cluster:get": ends where a check`,
		"a: \"@\"\nb: (role:x":                         `policy.yaml:2: rule "b": a ( is not closed`,
		"b: role:x)":                                   `policy.yaml:1: rule "b": unexpected ")"`,
		"b: admin":                                     `policy.yaml:1: rule "b": "admin" is not a check`,
		"b: and role:x":                                `"and" where a check is expected`,
		"b: project_id:%(x)d":                          `a % must begin`,
		"b: project_id:%x":                             `a % must begin`,
		"b:":                                           `has no value`,
		"b: 3":                                         `neither a text nor a list`,
		"b: {c: d}":                                    `neither a text nor a list`,
		"- a":                                          `policy.yaml:1: not an object`,
		"a: rule:b\nb: not rule:a":                     `refers to itself`,
		"a: rule:a":                                    `policy.yaml:1: rule "a" refers to itself`,
		"a: [":                                         `yaml: `,
		"a: \"@\"\nb: \"x":                             `line 2`,
		"? [a]\n: b":                                   `the name of a rule`,
		"b: " + strings.Repeat("(", 500) + "@" + strings.Repeat(")", 500): "too deeply",
	} {
		_, err := New(write(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestFilesApplyInOrder(t *testing.T) {
	t.Parallel()
	cfg := write(t, "a: role:one\nb: role:one\n")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"20-last.yaml": "a: role:three", "10-first.json": `{"a": "role:two", "b": "role:two"}`,
		".hidden": "a: '!'", "empty": "# nothing\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "30-dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Dirs = []string{dir, filepath.Join(dir, "absent")}
	e := newEnforcer(t, cfg)
	if !e.Allows(identity.Caller{Roles: []string{"three"}}, "a", nil) ||
		!e.Allows(identity.Caller{Roles: []string{"two"}}, "b", nil) {
		t.Error("later files do not win")
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	cfg := write(t, "x: role:one")
	e := newEnforcer(t, cfg)
	one, two := identity.Caller{Roles: []string{"one"}}, identity.Caller{Roles: []string{"two"}}
	change := func(text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(cfg.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(age)
		if err := os.Chtimes(cfg.File, when, when); err != nil {
			t.Fatal(err)
		}
	}
	change("x: role:two", time.Second)
	if e.Allows(one, "x", nil) || !e.Allows(two, "x", nil) {
		t.Error("a changed file is not taken up")
	}
	change("x: (role:one", 2*time.Second)
	if !e.Allows(two, "x", nil) || e.Allows(one, "x", nil) {
		t.Error("a bad file changes the rules")
	}
	change("x: role:one", 3*time.Second)
	if !e.Allows(one, "x", nil) {
		t.Error("a repaired file is not taken up")
	}
	if err := os.Remove(cfg.File); err != nil {
		t.Fatal(err)
	}
	if e.Allows(one, "x", nil) || !e.Allows(callers["admin"], "quota:create", nil) {
		t.Error("without the file the defaults do not hold")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "@", "!", "role:admin", "not (a:b and c:%(d)s) or rule:x", "((", "))", "'a':%(b)s", "%(x)s:%%", "a:%", "http://x/%(y)s",
	} {
		f.Add(seed)
	}
	caller := identity.Caller{UserID: "u", ProjectID: "p", Roles: []string{"member"}}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text)
		if err != nil || strings.Contains(text, "http") {
			return
		}
		r := &request{caller: &caller, target: object}
		if c.allows(r) == (not{c}).allows(r) {
			t.Error("a rule and its negation agree")
		}
	})
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("a: role:b\nc: [[x:y], '@']"))
	f.Add([]byte(`{"a": "&x"}`))
	f.Add([]byte("a: &x [*x]"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = parseFile("policy.yaml", data) // must only not crash or hang
	})
}

func BenchmarkEnforce(b *testing.B) {
	cfg := defaultConfig()
	cfg.ReloadEvery = time.Second
	e, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	caller := callers["reader"]
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Enforce(caller, "cluster:get", object); err != nil {
			b.Fatal(err)
		}
	}
}
