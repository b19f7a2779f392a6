package scenario

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// caller sends requests with the headers of one kind of client.
type caller struct {
	t       testing.TB
	url     string // of the endpoint, with /v1
	headers map[string]string
}

// reply is an answer as JSON clients read it.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

func (r reply) text(key string) string { s, _ := r.body[key].(string); return s }

func (r reply) number(key string) int { n, _ := r.body[key].(float64); return int(n) }

// send sends a body, given as JSON text; empty is none.
func (c caller) send(method, path, body string) reply {
	c.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, reader)
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header}
	if len(b) > 0 && json.Unmarshal(b, &r.body) != nil {
		c.t.Fatalf("%s %s: %d without JSON: %.300s", method, path, r.status, b)
	}
	return r
}

// want sends, and fails unless the answer has the status.
func (c caller) want(status int, method, path, body string) reply {
	c.t.Helper()
	r := c.send(method, path, body)
	if r.status != status {
		c.t.Fatalf("%s %s %s: %d, not %d: %v", method, path, body, r.status, status, r.body)
	}
	return r
}

// until polls the object until it has one of the statuses, and fails on any
// status that is not among those that may come before.
func (c caller) until(path string, pending []string, target ...string) reply {
	c.t.Helper()
	seen := []string{}
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r := c.send("GET", path, "")
		status := r.text("status")
		if r.status == http.StatusNotFound {
			status = "gone"
		}
		if len(seen) == 0 || seen[len(seen)-1] != status {
			seen = append(seen, status)
		}
		for _, s := range target {
			if s == status {
				return r
			}
		}
		ok := pending == nil
		for _, s := range pending {
			ok = ok || s == status
		}
		if !ok {
			c.t.Fatalf("%s is %s (%s), on the way to %v; the client gives up", path, status, r.text("status_reason"), target)
		}
	}
	c.t.Fatalf("%s does not become %v; it was %v", path, target, seen)
	return reply{}
}

// template makes a template and gives its uuid.
func (c caller) template(name, labels string) string {
	c.t.Helper()
	return c.want(201, "POST", "/clustertemplates", `{"name": "`+name+`", "coe": "kubernetes", "image_id": "ubuntu", "external_network_id": "public",
		"flavor_id": "m1.small", "master_flavor_id": "m1.small", "keypair_id": "key", "labels": `+labels+`}`).text("uuid")
}

// latest is a client that asks for the newest version.
func latest(t testing.TB, url string) caller {
	return caller{t: t, url: url + "/v1", headers: map[string]string{"OpenStack-API-Version": "container-infra latest"}}
}

func at(t testing.TB, url, version string) caller {
	return caller{t: t, url: url + "/v1", headers: map[string]string{"OpenStack-API-Version": "container-infra " + version}}
}
