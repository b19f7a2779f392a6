// Package golden holds Carafe to the answers that were recorded from Magnum
// 23.0.0. The prober (record.py) asks Carafe the same questions, over the same
// starting objects, and every answer must be equal, modulo what cannot be equal
// (identifiers, times, hosts, what a driver chooses), or be explained by a row
// of differences.yaml. Nothing else may differ.
//
// It compares answers, not rows or events; what a recording does not show is
// tested next to the functions.
package golden

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Exchange is one recorded question with its answer.
type Exchange struct {
	Part   string // of the prober: root, clusters, …
	Case   string `json:"case"`
	User   string `json:"user"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// Status 0: the peer broke down and closed the connection.
	Status  int               `json:"status"`
	Headers map[string]string `json:"response_headers"` // names in lower case
	Body    any               `json:"response_body"`
}

// Load reads a recording: api-<part>.jsonl, or the exchanges of a client, whose
// cases are named by their place. Numbers stay as they were written.
func Load(dir, name string) ([]Exchange, error) {
	f, err := os.Open(filepath.Join(dir, name+".jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Exchange
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		var e Exchange
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", f.Name(), len(all)+1, err)
		}
		e.Part = strings.TrimPrefix(name, "api-")
		if e.Case == "" {
			e.Case = fmt.Sprintf("%02d %s %s", len(all), e.Method, anyProject.ReplaceAllString(anyUUID.ReplaceAllString(e.Path, "UUID"), "PROJECT"))
		}
		lower := map[string]string{}
		for k, v := range e.Headers {
			lower[strings.ToLower(k)] = v
		}
		e.Headers = lower
		all = append(all, e)
	}
	return all, lines.Err()
}

var anyProject = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// fault is the first entry of an error body, nil if the body is none.
func (e Exchange) fault() map[string]any {
	body, _ := e.Body.(map[string]any)
	list, _ := body["errors"].([]any)
	if len(list) == 0 {
		return nil
	}
	first, _ := list[0].(map[string]any)
	return first
}

// detail is what a user was told, empty if nothing.
func (e Exchange) detail() string {
	f := e.fault()
	for _, key := range []string{"detail", "description"} {
		switch s := f[key].(type) {
		case string:
			return s
		case like:
			return s.String()
		}
	}
	return ""
}
