package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileRule is one rule that a file sets.
type fileRule struct {
	name  string
	check check
	where string // file:line
}

// files are the policy files that exist, in the order in which they apply.
func files(cfg Config) ([]string, error) {
	var paths []string
	if cfg.File != "" {
		switch _, err := os.Stat(cfg.File); {
		case err == nil:
			paths = append(paths, cfg.File)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	for _, dir := range cfg.Dirs {
		entries, err := os.ReadDir(dir) // sorted by name
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			// Stat follows links: a mounted ConfigMap is made of them.
			if info, err := os.Stat(path); err != nil || info.IsDir() || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// fingerprint changes when a file appears, vanishes or is written.
func fingerprint(cfg Config) string {
	paths, err := files(cfg)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", path, info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}

// load reads all files and builds the rules.
func load(cfg Config) (*ruleSet, error) {
	paths, err := files(cfg)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var all []fileRule
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		rules, err := parseFile(path, data)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		all = append(all, rules...)
	}
	set, err := build(cfg, all)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return set, nil
}

// parseFile understands a YAML (and so also a JSON) object of rules. Every
// error says file:line.
func parseFile(path string, data []byte) ([]fileRule, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil // only comments
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: not an object of rules", path, root.Line)
	}
	rules := make([]fileRule, 0, len(root.Content)/2)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		where := fmt.Sprintf("%s:%d", path, key.Line)
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, fmt.Errorf("%s: the name of a rule is not a text", where)
		}
		c, err := parseValue(value)
		if err != nil {
			return nil, fmt.Errorf("%s: rule %q: %w", where, key.Value, err)
		}
		rules = append(rules, fileRule{name: key.Value, check: c, where: where})
	}
	return rules, nil
}

var errNoValue = errors.New(`has no value; to let everybody pass write "@"`)

// parseValue understands a rule's text, or its old form: a list of
// alternatives, each a check or a list of checks that must all hold.
func parseValue(n *yaml.Node) (check, error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return parse(n.Value)
	}
	if n.Tag == "!!null" {
		return nil, errNoValue
	}
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("is neither a text nor a list")
	}
	if len(n.Content) == 0 {
		return constant(true), nil
	}
	var any anyOf
	for _, alternative := range n.Content {
		all, err := parseAlternative(alternative)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			any = append(any, all)
		}
	}
	return any, nil
}

func parseAlternative(n *yaml.Node) (allOf, error) {
	parts := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		parts = n.Content
	}
	var all allOf
	for _, p := range parts {
		if p.Kind != yaml.ScalarNode || p.Tag != "!!str" {
			return nil, fmt.Errorf("line %d: a check in a list is not a text", p.Line)
		}
		if p.Value == "" {
			continue
		}
		c, err := parseCheck(p.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
