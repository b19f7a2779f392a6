// Package openapitest checks answers against the description of the API, for
// tests that drive it.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"carafe/shared/api/openapi"
)

// Checker knows the description. It is safe for concurrent use.
type Checker struct {
	paths    map[string]any
	document any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

const location = "https://carafe.invalid/openapi.json"

// New reads the description that the tables give.
func New() (*Checker, error) {
	encoded, err := json.Marshal(openapi.Document())
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	c := &Checker{document: document, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.paths = document.(map[string]any)["paths"].(map[string]any)
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	return c, nil
}

// Check says what an answer has that the description has not: path is the
// template of the route, such as /v1/clusters/{cluster_ident}.
func (c *Checker) Check(method, path string, status int, header http.Header, body []byte) error {
	operation, ok := at(c.paths, path, strings.ToLower(method))
	if !ok {
		return fmt.Errorf("%s %s is not described", method, path)
	}
	pointer := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(status)
	response, ok := at(operation, "responses", strconv.Itoa(status))
	if !ok {
		return fmt.Errorf("%s %s: status %d is not described", method, path, status)
	}
	if ref, ok := at(response, "$ref"); ok {
		pointer = ref.(string)
		response, _ = at(c.document, strings.Split(strings.TrimPrefix(pointer, "#/"), "/")...)
	}
	headers, _ := at(response, "headers")
	for name, h := range headers.(map[string]any) {
		if ref, ok := at(h, "$ref"); ok {
			h, _ = at(c.document, strings.Split(strings.TrimPrefix(ref.(string), "#/"), "/")...)
		}
		if required, _ := at(h, "required"); required == true && header.Get(name) == "" {
			return fmt.Errorf("%s %s: %d without %s", method, path, status, name)
		}
	}
	if _, ok := at(response, "content"); !ok {
		if len(body) > 0 {
			return fmt.Errorf("%s %s: %d with a body", method, path, status)
		}
		return nil
	}
	if contentType := header.Get("Content-Type"); contentType != "application/json" {
		return fmt.Errorf("%s %s: %d of type %q", method, path, status, contentType)
	}
	schema, err := c.schema(location + pointer + "/content/application~1json/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, path, status, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, path, status, err)
	}
	return nil
}

// Body says what is wrong with the body of a request.
func (c *Checker) Body(method, path string, body []byte) error {
	schema, err := c.schema(location + "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" +
		strings.ToLower(method) + "/requestBody/content/application~1json/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (c *Checker) schema(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := c.compiler.Compile(pointer)
	if err == nil {
		c.compiled[pointer] = s
	}
	return s, err
}

func at(v any, keys ...string) (any, bool) {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[k]; !ok {
			return nil, false
		}
	}
	return v, true
}
