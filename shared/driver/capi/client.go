package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	retry "github.com/sethvargo/go-retry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"carafe/shared/fault"
	"carafe/shared/telemetry"
)

// client speaks to the management cluster: a few verbs on objects whose names
// are known. It reads its kubeconfig again when the file changes.
type client struct {
	config Config
	fixed  *rest.Config // of a test; nil: from the kubeconfig
	// telemetry of the calls; nil: none.
	telemetry *telemetry.Telemetry

	mu       sync.Mutex
	rest     rest.Interface
	modified time.Time
	dialect  Dialect
	asked    time.Time // when the dialect was
}

func (c *client) connect() (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var modified time.Time
	if c.fixed == nil && c.config.Kubeconfig != "" {
		info, err := os.Stat(c.config.Kubeconfig)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the management cluster's kubeconfig cannot be read")
		}
		modified = info.ModTime()
	}
	if c.rest != nil && modified.Equal(c.modified) {
		return c.rest, nil
	}
	config := c.fixed
	if config == nil {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", c.config.Kubeconfig); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the management cluster's kubeconfig cannot be used")
		}
	}
	config = rest.CopyConfig(config)
	// The time-out is a call's, not the wait's for its turn among QPS others.
	config.QPS, config.Burst, config.Timeout = c.config.QPS, c.config.Burst, c.config.CallTimeout
	config.UserAgent = "carafe"
	// Packing and unpacking lists costs both sides more time than the network.
	config.DisableCompression = true
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return c.telemetry.Transport("cluster-api", next) })
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	r, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	c.rest, c.modified = r, modified
	return r, nil
}

// path is the address of one object, or of all of a kind with no name.
func path(kind schema.GroupVersionKind, namespace, name string) []string {
	p := []string{"/apis", kind.Group, kind.Version}
	if kind.Group == "" {
		p = []string{"/api", kind.Version}
	}
	if namespace != "" && kind != namespaceKind {
		p = append(p, "namespaces", namespace)
	}
	p = append(p, strings.ToLower(kind.Kind)+"s")
	if name != "" {
		p = append(p, name)
	}
	return p
}

// do sends one request and gives its body.
func (c *client) do(ctx context.Context, what string, build func(rest.Interface) *rest.Request) ([]byte, error) {
	var data []byte
	err := c.patiently(ctx, what, func(ctx context.Context, r rest.Interface) error {
		result := build(r).Do(ctx)
		// Error, not Raw's: it reads what the server says of a refusal.
		err := result.Error()
		if err == nil {
			data, err = result.Raw()
		}
		return err
	})
	return data, err
}

// open sends one request and gives its body to read and close.
func (c *client) open(ctx context.Context, what string, build func(rest.Interface) *rest.Request) (io.ReadCloser, error) {
	var body io.ReadCloser
	err := c.patiently(ctx, what, func(ctx context.Context, r rest.Interface) error {
		var err error
		body, err = build(r).Stream(ctx)
		return err
	})
	return body, err
}

// patiently tries a call up to five times while the server is busy or away.
func (c *client) patiently(ctx context.Context, what string, call func(context.Context, rest.Interface) error) error {
	backoff := retry.WithMaxRetries(4, retry.WithJitterPercent(20, retry.NewExponential(200*time.Millisecond)))
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		r, err := c.connect()
		if err != nil {
			return err
		}
		if err = call(ctx, r); busy(err) {
			return retry.RetryableError(err)
		}
		return err
	})
	if err != nil {
		return &callError{what: what, err: err}
	}
	return nil
}

// busy reports whether the same request can succeed a little later.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// callError says what failed; it is turned into a fault at the driver's edge.
type callError struct {
	what string
	err  error
}

func (e *callError) Error() string { return e.what + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// classify turns an error of the management cluster's into a fault: what its
// webhooks and schemas refuse is the wish's, all else passes.
func classify(err error) error {
	var call *callError
	var f *fault.Error
	if err == nil || errors.As(err, &f) || !errors.As(err, &call) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fault.Wrap(fault.Unavailable, err, "The management cluster does not answer").WithReason(fault.ReasonDependency)
	}
	s := status.Status()
	denied := s.Code == http.StatusForbidden && !strings.Contains(s.Message, "denied the request")
	switch {
	case s.Code == http.StatusUnauthorized || denied:
		return fault.Wrap(fault.Unavailable, err, "The management cluster does not let Carafe %s", call.what).WithReason(fault.ReasonConfiguration)
	case s.Code == http.StatusUnprocessableEntity || s.Code == http.StatusBadRequest || s.Code == http.StatusForbidden:
		return fault.Wrap(fault.Invalid, err, "The management cluster refuses to %s: %s", call.what, refusal(s)).WithReason(fault.ReasonConfiguration)
	case s.Code == http.StatusNotFound:
		return fault.Wrap(fault.Unavailable, err, "The management cluster lacks what it takes to %s", call.what).WithReason(fault.ReasonDependency)
	}
	return fault.Wrap(fault.Unavailable, err, "The management cluster cannot %s now", call.what).WithReason(fault.ReasonDependency)
}

// refusal is the part of a refusal that says why.
func refusal(s metav1.Status) string {
	if s.Details != nil && len(s.Details.Causes) > 0 {
		var out []string
		for _, c := range s.Details.Causes {
			out = append(out, strings.TrimSpace(c.Field+" "+c.Message))
		}
		return strings.Join(out, "; ")
	}
	_, text, found := strings.Cut(s.Message, "denied the request: ")
	if found {
		return text
	}
	return s.Message
}

// get reads one object into out; false if there is none.
func (c *client) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string, out any) (bool, error) {
	data, err := c.do(ctx, "read "+kind.Kind+" "+name, func(r rest.Interface) *rest.Request {
		return r.Get().AbsPath(path(kind, namespace, name)...)
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return false, fmt.Errorf("read %s %s: %w", kind.Kind, name, err)
	}
	return true, nil
}

// each reads all objects of a kind, in pages, and gives each to f as it comes:
// no page is held in memory. cached takes them from the server's watch cache,
// which may lag a moment.
func each[T any](ctx context.Context, c *client, kind schema.GroupVersionKind, namespace, selector string, cached bool, f func(*T)) error {
	next := ""
	for {
		body, err := c.open(ctx, "list "+kind.Kind+"s", func(r rest.Interface) *rest.Request {
			q := r.Get().AbsPath(path(kind, namespace, "")...).Param("limit", fmt.Sprint(c.config.PageSize))
			if selector != "" {
				q.Param("labelSelector", selector)
			}
			if next != "" {
				return q.Param("continue", next)
			}
			if cached {
				q.Param("resourceVersion", "0")
			}
			return q
		})
		if err != nil {
			return err
		}
		next, err = decodeList(body, f)
		_ = body.Close() // it has been read
		if err != nil {
			return &callError{what: "list " + kind.Kind + "s", err: err}
		}
		if next == "" {
			return nil
		}
	}
}

// decodeList gives each item of a LIST's answer to f, and where the next page
// begins.
func decodeList[T any](body io.Reader, f func(*T)) (next string, err error) {
	d := json.NewDecoder(body)
	if _, err := d.Token(); err != nil { // {
		return "", err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		switch key {
		case "items":
			begin, err := d.Token() // [, or null
			if err != nil {
				return "", err
			}
			if begin == nil {
				continue
			}
			for d.More() {
				item := new(T)
				if err := d.Decode(item); err != nil {
					return "", err
				}
				f(item)
			}
			if _, err := d.Token(); err != nil { // ]
				return "", err
			}
		case "metadata":
			var m metav1.ListMeta
			if err := d.Decode(&m); err != nil {
				return "", err
			}
			next = m.Continue
		default:
			var rest json.RawMessage
			if err := d.Decode(&rest); err != nil {
				return "", err
			}
		}
	}
	_, err = d.Token() // }
	return next, err
}

// apply writes what we own of an object, by server-side apply, and gives the
// object as it is then.
func (c *client) apply(ctx context.Context, o Object) (Object, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	data, err := c.do(ctx, "write "+o.GetKind()+" "+o.GetName(), func(r rest.Interface) *rest.Request {
		return r.Patch(types.ApplyYAMLPatchType).AbsPath(path(o.GroupVersionKind(), o.GetNamespace(), o.GetName())...).
			Param("fieldManager", manager).Param("force", "true").Body(body)
	})
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}

// create writes an object that must not exist; false if it does.
func (c *client) create(ctx context.Context, o Object) (bool, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return false, fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	_, err = c.do(ctx, "write "+o.GetKind()+" "+o.GetName(), func(r rest.Interface) *rest.Request {
		return r.Post().AbsPath(path(o.GroupVersionKind(), o.GetNamespace(), "")...).Param("fieldManager", manager).
			SetHeader("Content-Type", "application/json").Body(body)
	})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// merge changes a few fields of an object as another field manager; false if
// there is no such object.
func (c *client) merge(ctx context.Context, kind schema.GroupVersionKind, namespace, name, as string, patch map[string]any) (bool, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return false, err
	}
	_, err = c.do(ctx, "change "+kind.Kind+" "+name, func(r rest.Interface) *rest.Request {
		return r.Patch(types.MergePatchType).AbsPath(path(kind, namespace, name)...).Param("fieldManager", as).Body(body)
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// delete removes an object and what it owns, children first to last by Cluster
// API's own controllers: a foreground deletion would take the infrastructure
// away under the machines.
func (c *client) delete(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error {
	_, err := c.do(ctx, "delete "+kind.Kind+" "+name, func(r rest.Interface) *rest.Request {
		return r.Delete().AbsPath(path(kind, namespace, name)...).
			SetHeader("Content-Type", "application/json").
			Body([]byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`))
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// served are the versions of a group that the management cluster serves, the
// preferred one first; none: no such group.
func (c *client) served(ctx context.Context, group string) ([]string, error) {
	data, err := c.do(ctx, "list the versions of "+group, func(r rest.Interface) *rest.Request {
		return r.Get().AbsPath("/apis", group)
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var g metav1.APIGroup
	if err := json.Unmarshal(data, &g); err != nil {
		return nil, fmt.Errorf("list the versions of %s: %w", group, err)
	}
	out := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		out = append(out, v.Version)
	}
	return out, nil
}

// infrastructureDialect is the provider's, asked for every ten minutes: an
// operator may upgrade it under a running Carafe.
func (c *client) infrastructureDialect(ctx context.Context) (Dialect, error) {
	c.mu.Lock()
	dialect, asked := c.dialect, c.asked
	c.mu.Unlock()
	if dialect != "" && time.Since(asked) < 10*time.Minute {
		return dialect, nil
	}
	versions, err := c.served(ctx, infrastructureGroup)
	if err != nil {
		return "", err
	}
	switch {
	case slices.Contains(versions, string(V1Beta2)):
		dialect = V1Beta2
	case slices.Contains(versions, string(V1Beta1)):
		dialect = V1Beta1
	default:
		return "", fault.New(fault.Unavailable, "The management cluster has no Cluster API Provider OpenStack").WithReason(fault.ReasonDependency)
	}
	c.mu.Lock()
	c.dialect, c.asked = dialect, time.Now()
	c.mu.Unlock()
	return dialect, nil
}
