package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"carafe/test/golden"
	"carafe/test/golden/cloud"
	"carafe/test/instance"
)

// exempt is a row of commands.yaml: lines of a transcript that are another on
// purpose.
type exempt struct {
	Box     string `yaml:"box"`
	Reason  string `yaml:"reason"`
	Command string `yaml:"command"` // a regular expression, with the user
	// Recorded and Printed are regular expressions for lines that are left out
	// on either side; Anything leaves out all.
	Recorded string `yaml:"recorded"`
	Printed  string `yaml:"printed"`
	Anything bool   `yaml:"anything"`

	command, recorded, printed *regexp.Regexp
	used                       bool
}

// TestCommands runs every command that was recorded with the openstack client
// against Magnum, and holds what it prints against what it printed there.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := cloud.Start()
	t.Cleanup(c.Close)
	carafe := instance.Start(t, instance.Config{Env: c.Settings()})
	out := t.TempDir()
	if keep := os.Getenv("CARAFE_COMMANDS_OUT"); keep != "" {
		out = keep
	}
	recorder := record(t, carafe.URL, out)
	c.Register("container-infra", "magnum", recorder+"/v1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, filepath.Join(client(t, "openstack"), "python3"), "commands.py", "recorded", out, carafe.URL, recorder, c.AuthURL(), cloud.Password)
	// The client sends tags in the order of a set: one order, as in the recordings.
	script.Env = append(os.Environ(), "PYTHONHASHSEED=0")
	if said, err := script.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("commands.py: %v\n%s", err, said)
	}
	files, err := filepath.Glob("recorded/cli-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings")
	}
	transcripts(t, out, files)
	exchanges(t, out, files)
}

// transcripts compares what the client printed.
func transcripts(t *testing.T, out string, files []string) {
	t.Helper()
	var rows []*exempt
	b, err := os.ReadFile("commands.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		r.command = regexp.MustCompile(`^(?:` + r.Command + `)$`)
		r.recorded, r.printed = regexp.MustCompile(r.Recorded), regexp.MustCompile(r.Printed)
	}

	equal, deliberate := 0, 0
	for _, file := range files {
		want, got := transcript(t, file), transcript(t, filepath.Join(out, filepath.Base(file)))
		if len(want) != len(got) {
			t.Errorf("%s: %d commands, not %d", file, len(got), len(want))
			continue
		}
		for i, w := range want {
			a, b := maskCommand(w.output), maskCommand(got[i].output)
			if a == b {
				equal++
				continue
			}
			for _, r := range rows {
				if r.command.MatchString(w.command) {
					a2, b2 := r.leaveOut(a, r.recorded, r.Recorded), r.leaveOut(b, r.printed, r.Printed)
					if a2 != a || b2 != b {
						r.used = true
					}
					a, b = a2, b2
				}
			}
			if a == b {
				deliberate++
				continue
			}
			t.Errorf("%s: $ %s\nprinted\n%s\nand not\n%s", filepath.Base(file), w.command, b, a)
		}
	}
	for _, r := range rows {
		if !r.used {
			t.Errorf("commands.yaml: the row %s %q explains nothing", r.Box, r.Command)
		}
	}
	t.Logf("%d commands equal, %d deliberately not", equal, deliberate)
}

// exchanges holds what the client was answered in each scenario against what
// Magnum answered it, by the rows of the API's replay and the client's own.
func exchanges(t *testing.T, out string, files []string) {
	t.Helper()
	var rows []*golden.Difference
	own := 0
	for i, file := range []string{"exchanges.yaml", "../golden/differences.yaml"} {
		r, err := golden.Differences(file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			own = len(r)
		}
		rows = append(rows, r...)
	}
	var equal, deliberate, unexplained int
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "cli-"), ".txt")
		recorded, err := golden.Load("../golden/recorded", name)
		if err != nil {
			t.Fatal(err)
		}
		answered, err := golden.Load(out, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(answered) != len(recorded) {
			t.Errorf("%s: the client asked %d times, not %d", name, len(answered), len(recorded))
		}
		r := golden.Compare(recorded, answered, rows)
		equal, deliberate, unexplained = equal+r.Equal, deliberate+r.Deliberate, unexplained+len(r.Unexplained)
		for _, u := range r.Unexplained {
			t.Errorf("%s: %s", name, u)
		}
	}
	for _, d := range rows[:own] {
		if d.Used == 0 && !d.Sometimes {
			t.Errorf("exchanges.yaml: the row %q explains nothing", d)
		}
	}
	fmt.Printf("golden, openstack client: %d equal / %d deliberate / %d unexplained\n", equal, deliberate, unexplained)
}

// record runs a proxy that writes down the exchanges of each scenario, as the
// recordings were made, and gives its address.
func record(t *testing.T, to, dir string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	var file *os.File
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := strings.CutPrefix(r.URL.Path, "/scenario/"); ok {
			mu.Lock()
			defer mu.Unlock()
			if file != nil {
				_ = file.Close() // read by this test, which would notice
				file = nil
			}
			if name != "" {
				if file, err = os.Create(filepath.Join(dir, name+".jsonl")); err != nil {
					t.Error(err)
				}
			}
			return
		}
		answer := httptest.NewRecorder()
		path := r.URL.RequestURI()
		proxy.ServeHTTP(answer, r)
		var body any
		if answer.Body.Len() > 0 && json.Unmarshal(answer.Body.Bytes(), &body) != nil {
			body = map[string]any{"__text__": answer.Body.String()}
		}
		headers := map[string]string{}
		for k := range answer.Header() {
			headers[k] = answer.Header().Get(k)
			w.Header().Set(k, answer.Header().Get(k))
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client would notice
		mu.Lock()
		defer mu.Unlock()
		if file != nil {
			line, err := json.Marshal(map[string]any{"method": r.Method, "path": path, "status": answer.Code,
				"response_headers": headers, "response_body": body})
			if err != nil {
				t.Error(err)
			}
			_, _ = file.Write(append(line, '\n'))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (e *exempt) leaveOut(s string, lines *regexp.Regexp, given string) string {
	if e.Anything {
		return ""
	}
	if given == "" {
		return s
	}
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if !lines.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// transcript reads commands with their output.
func transcript(t *testing.T, file string) []step {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	open := false
	for line := range strings.Lines(string(b)) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps, open = append(steps, step{command: strings.TrimSpace(command)}), true
		} else if open {
			steps[len(steps)-1].output += line
			open = !strings.HasPrefix(line, "[exit ")
		}
	}
	return steps
}

var commandMasks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]+)-----.*?-----END [A-Z ]+-----`), "PEM $1"},
	{regexp.MustCompile(`req-[0-9a-f-]{36}`), "REQUEST"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HEX"},
	{regexp.MustCompile(`\b(c1|c2|c4|oc1|cfail|craise|rfail|ufail|upf|delf|keep)-[0-9a-z]{8,}\b`), "STACK"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+(:\d+)?\b`), "IP"},
	{regexp.MustCompile(`\b(rig|simulated) driver: `), "DRIVER: "},
	{regexp.MustCompile(`"(cluster_id|stack_id)": "[^"]*"`), `"$1": "STACK"`},
	{regexp.MustCompile(`(?m)^\| id( +)\| [^|]*\|`), `| id | NUMBER |`},
	{regexp.MustCompile(`\| [^|]*\| magnum-conductor`), `| HOST | magnum-conductor`},
	{regexp.MustCompile(`\| (cluster_id|stack_id)( +)\| [^|]*\|`), `| $1 | STACK |`},
}

func maskCommand(s string) string {
	var v any
	if d := json.NewDecoder(strings.NewReader(s)); d.Decode(&v) == nil { // -f json: in the order of no recording
		if ordered, err := json.MarshalIndent(v, "", " "); err == nil {
			s = string(ordered) + "\n" + s[d.InputOffset():]
		}
	}
	for _, m := range commandMasks {
		s = m.pattern.ReplaceAllString(s, m.with)
	}
	s = dictionary.ReplaceAllStringFunc(s, func(d string) string { // in the order of no recording
		entries := strings.Split(strings.Trim(d, "{}"), ", ")
		slices.Sort(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	})
	return mask(s)
}

// dictionary is one as Python prints it.
var dictionary = regexp.MustCompile(`\{'[^{}\n]*\}`)
