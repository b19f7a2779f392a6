package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// remote is http://URL or https://URL: another service decides. It answers the
// text True to let pass (oslo_policy/_external.py).
type remote struct {
	scheme string
	rest   template // from the // on
}

func (c remote) allows(r *request) bool {
	rest, ok := c.rest.expand(r)
	if !ok {
		return false
	}
	address := c.scheme + ":" + rest
	allowed, err := c.ask(r, address)
	if err != nil {
		// Who cannot be asked does not let pass.
		slog.Error("remote policy check", "rule", r.rule, "url", address, "err", err)
	}
	return allowed
}

func (c remote) ask(r *request, address string) (bool, error) {
	target := r.target
	if target == nil {
		target = map[string]string{"project_id": r.caller.ProjectID, "user_id": r.caller.UserID}
	}
	creds := map[string]any{"roles": r.caller.Roles}
	for key, value := range credentials {
		creds[key] = value(r.caller)
	}
	creds["is_admin"] = r.caller.IsAdmin

	var body []byte
	contentType := "application/x-www-form-urlencoded"
	if r.cfg.RemoteJSON {
		contentType = "application/json"
		body, _ = json.Marshal(map[string]any{"rule": r.rule, "target": target, "credentials": creds})
	} else {
		form := url.Values{}
		for key, value := range map[string]any{"rule": r.rule, "target": target, "credentials": creds} {
			text, _ := json.Marshal(value) // maps of texts always marshal
			form.Set(key, string(text))
		}
		body = []byte(form.Encode())
	}
	client := &http.Client{Timeout: r.cfg.RemoteTimeout}
	resp, err := client.Post(address, contentType, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or given up: nothing to lose
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return false, err
	}
	return strings.Trim(string(answer), "\" \t\r\n") == "True", nil
}
