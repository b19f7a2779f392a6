package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is a line of the walk-through and what the README shows for it.
type step struct{ command, output string }

// TestWalkthrough pastes the README's walk-through into a shell, line by line,
// with the real client, and holds what it prints against what the README shows.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	steps := walkthrough(t)
	carafe := start(t)
	const marker = "~~~walkthrough~~~"
	var script strings.Builder
	for _, s := range steps {
		// Each command's output, both streams, between markers.
		fmt.Fprintf(&script, "{ %s\n} 2>&1 </dev/null\necho; echo '%s'\n", s.command, marker)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c",
		strings.ReplaceAll(script.String(), "http://127.0.0.1:9511", carafe.URL))
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "PATH="+client(t, "openstack")+":"+os.Getenv("PATH"), "SHELL=/bin/bash",
		"PYTHONWARNINGS=ignore", "COLUMNS=200")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Errorf("the walk-through: %v", err)
	}
	said := strings.Split(string(out), "\n"+marker+"\n")
	if os.Getenv("CARAFE_WALKTHROUGH_PRINT") != "" {
		for i, s := range steps {
			if i < len(said) {
				fmt.Printf("$ %s\n%s\n", s.command, strings.TrimRight(said[i], "\n"))
			}
		}
	}
	for i, s := range steps {
		if i >= len(said) {
			t.Fatalf("$ %s: never ran", s.command)
		}
		if got, want := mask(said[i]), mask(s.output); got != want {
			t.Errorf("$ %s\nprinted\n%s\nand not\n%s", s.command, said[i], s.output)
		}
	}
}

// walkthrough reads the steps: the console block below the heading.
func walkthrough(t *testing.T) []step {
	t.Helper()
	file := filepath.Join("..", "..", "README.md")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "## Walk-through")
	_, block, ok := strings.Cut(after, "```console\n")
	if !ok {
		t.Fatalf("%s has no console block below its walk-through", file)
	}
	block, _, _ = strings.Cut(block, "\n```")
	var steps []step
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: strings.TrimSpace(command)})
		} else if len(steps) > 0 {
			steps[len(steps)-1].output += line
		}
	}
	if len(steps) < 10 {
		t.Fatalf("%s: only %d steps", file, len(steps))
	}
	return steps
}

var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00`), "TIME"},
	{regexp.MustCompile(`https?://[0-9a-z.\[\]]+:\d+`), "URL"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`-{3,}`), "---"}, // columns are as wide as what is in them
	{regexp.MustCompile(`[ \t]+`), " "},
}

// mask replaces what is another in each run.
func mask(s string) string {
	for _, m := range masks {
		s = m.pattern.ReplaceAllString(s, m.with)
	}
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
