package kubeprobe

import (
	"encoding/json"
	"errors"
	"io"
)

// node is what is decoded of a Kubernetes node.
type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// ready is the Ready condition; none is not ready.
func (n *node) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

var (
	errNoList = errors.New("it is no JSON list of nodes")
	errNoName = errors.New("a node has no name")
)

// decodeNodes reads one page of a NodeList as it comes in: never more than one
// node is in memory whole.
func decodeNodes(r io.Reader) (page []Node, next string, err error) {
	d := json.NewDecoder(r)
	if err := expect(d, '{'); err != nil {
		return nil, "", err
	}
	listed := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, "", errNoList
		}
		switch key {
		case "metadata":
			var meta struct {
				Continue string `json:"continue"`
			}
			if err := d.Decode(&meta); err != nil {
				return nil, "", errNoList
			}
			next = meta.Continue
		case "items":
			if page, err = decodeItems(d); err != nil {
				return nil, "", err
			}
			listed = true
		default:
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return nil, "", errNoList
			}
		}
	}
	if err := expect(d, '}'); err != nil {
		return nil, "", err
	}
	if !listed {
		return nil, "", errNoList
	}
	return page, next, nil
}

func decodeItems(d *json.Decoder) ([]Node, error) {
	t, err := d.Token()
	if err == nil && t == nil {
		return nil, nil // items: null
	}
	if err != nil || t != json.Delim('[') {
		return nil, errNoList
	}
	var list []Node
	for d.More() {
		var n node
		if err := d.Decode(&n); err != nil {
			return nil, errNoList
		}
		if n.Metadata.Name == "" {
			return nil, errNoName
		}
		list = append(list, Node{Name: n.Metadata.Name, Ready: n.ready()})
	}
	return list, expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	if t, err := d.Token(); err != nil || t != want {
		return errNoList
	}
	return nil
}

// messageOf is the message of a Kubernetes Status object, empty if text is none.
func messageOf(text string) string {
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(text), &status) != nil || status.Kind != "Status" || status.Message == "" {
		return ""
	}
	return clean(status.Message)
}
