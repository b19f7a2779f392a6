package golden

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carafe/test/golden/cloud"
	"carafe/test/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// parts of the prober, each replayed against a Carafe and a cloud of its own,
// all side by side: they wait more than they work.
var parts = []string{
	"root", "stats", "clustertemplates", "clusters", "actions", "nodegroups",
	"certificates", "credentials", "mservices", "federations", "quotas",
}

// keep names a directory that gets what Carafe answered, for the prober's own
// differ and for the eye.
var keep = os.Getenv("CARAFE_GOLDEN_OUT")

// TestReplay asks Carafe everything that Magnum was asked. Against a server
// that runs already, with the users and images of the recordings:
//
//	CARAFE_GOLDEN_URL=http://… CARAFE_GOLDEN_AUTH_URL=http://…/v3 go test ./test/golden
func TestReplay(t *testing.T) {
	rows, err := Differences("differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	only := parts
	if s := os.Getenv("CARAFE_GOLDEN_ONLY"); s != "" {
		only = strings.Split(s, ",")
	}
	dir := t.TempDir()
	if keep != "" {
		dir = keep
	}
	logs := make([]string, len(only))
	if url := os.Getenv("CARAFE_GOLDEN_URL"); url != "" {
		logs[0], err = probe(t.Context(), url, os.Getenv("CARAFE_GOLDEN_AUTH_URL"), dir, only...)
		if err != nil {
			t.Fatalf("%v\n%s", err, logs[0])
		}
	} else {
		var wait sync.WaitGroup
		for i, part := range only {
			c := cloud.Start()
			t.Cleanup(c.Close)
			carafe := instance.Start(t, instance.Config{Env: c.Settings()})
			wait.Add(1)
			go func() {
				defer wait.Done()
				log, err := probe(t.Context(), carafe.URL, c.AuthURL(), dir, part)
				logs[i] = log
				if err != nil {
					t.Errorf("%s: %v\n%s", part, err, log)
				}
			}()
		}
		wait.Wait()
	}

	var equal, deliberate, unexplained int
	for i, part := range only {
		recorded, err := Load("recorded", "api-"+part)
		if err != nil {
			t.Fatal(err)
		}
		answered, err := Load(dir, "api-"+part)
		if err != nil {
			t.Errorf("%v\n%s", err, logs[min(i, len(logs)-1)])
			continue
		}
		r := Compare(recorded, answered, rows)
		equal, deliberate, unexplained = equal+r.Equal, deliberate+r.Deliberate, unexplained+len(r.Unexplained)
		t.Logf("%-18s %4d equal, %4d deliberate, %3d unexplained, %3d not in the recording", part,
			r.Equal, r.Deliberate, len(r.Unexplained), len(r.Unrecorded))
		for _, u := range r.Unexplained {
			t.Errorf("%s: %s", part, u)
		}
		// What was not recorded here is recorded elsewhere: at least it works.
		for _, u := range r.Unrecorded {
			if u.Status == 0 || u.Status >= 500 && u.Status != 501 {
				t.Errorf("%s: %s: answered %d: %s", part, u.Case, u.Status, u.detail())
			}
		}
		if logs[i] != "" && strings.Contains(logs[i], "Traceback") {
			t.Errorf("%s: the prober broke off:\n%s", part, logs[i])
		}
	}
	boxes := map[string]int{}
	for _, d := range rows {
		boxes[d.Box] += d.Used
		if d.Used == 0 && !d.Sometimes && len(only) == len(parts) {
			t.Errorf("differences.yaml: the row %q explains nothing", d)
		}
	}
	for _, b := range slices.Sorted(maps.Keys(boxes)) {
		t.Logf("%-10s explains %d", b, boxes[b])
	}
	// The line that a run is read by.
	fmt.Printf("golden: %d equal / %d deliberate / %d unexplained\n", equal, deliberate, unexplained)
}

// probe runs the prober and returns what it wrote.
func probe(ctx context.Context, url, authURL, dir string, parts ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, "python3", "record.py", "--url", url, "--auth-url", authURL, "--password", cloud.Password,
		"--out", dir, "--only", strings.Join(parts, ","), "--wait", "60")
	cmd.Stdout, cmd.Stderr = &log, &log
	// It must not outlive the test, however that ends; the signal follows the
	// thread that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	return log.String(), err
}

// TestRecordingsExplainThemselves: a recording compared with itself is equal
// throughout, and every row is about some recorded case.
func TestRecordingsExplainThemselves(t *testing.T) {
	rows, err := Differences("differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	about := map[*Difference]bool{}
	for _, part := range parts {
		recorded, err := Load("recorded", "api-"+part)
		if err != nil {
			t.Fatal(err)
		}
		r := Compare(recorded, recorded, nil)
		if r.Equal != len(recorded) {
			t.Errorf("%s: %d of %d equal to themselves: %v", part, r.Equal, len(recorded), r.Unexplained)
		}
		for _, e := range recorded {
			if d := anyFirst(e); d != "" {
				t.Errorf("%s: %s, had another object come first: %s", part, e.Case, d)
			}
			want := e
			for _, d := range rows {
				if d.applies(want) {
					about[d] = true
					want = d.wanted(want, e)
				}
			}
			if want.Status == 0 || want.Status == 500 {
				t.Errorf("%s: %s: the peer broke down (%d %s) and no row says what is right", part, e.Case, e.Status, e.detail())
			}
		}
	}
	for _, d := range rows {
		if !about[d] {
			t.Errorf("the row %q is about no recorded case", d)
		}
	}
	if _, err := os.Stat(filepath.Join("recorded", "api-root.jsonl")); err != nil {
		t.Error(err)
	}
}

// anyFirst compares a list whose order is another in each run with itself, each of
// its objects first in turn, and gives the first difference.
func anyFirst(e Exchange) string {
	document, ok := e.Body.(map[string]any)
	if !ok || !wide.MatchString(e.Case) {
		return ""
	}
	for name, v := range document {
		list, _ := v.([]any)
		for i := range list {
			turned := e
			body := maps.Clone(document)
			body[name] = slices.Concat(list[i:], list[:i])
			turned.Body = body
			if d := difference(e, turned, nil); d != "" {
				return d
			}
		}
	}
	return ""
}
