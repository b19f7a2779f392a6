package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// Router answers the API, or the part of it that one function serves. What
// exists is decided from the whole table in any case, so that all functions in
// one process and one function alone answer 404 and 405 alike.
type Router struct {
	cfg    Config
	health Handler
	root   *endpoint
	v1     *endpoint
	// mux only matches: the endpoint is found under its pattern and method.
	mux       *chi.Mux
	endpoints map[string]map[string]*endpoint // pattern, method
	allow     map[string]string               // function: its methods, sorted
	public    map[string]bool
	contexts  sync.Pool
}

// endpoint is a path with a method.
type endpoint struct {
	route   *Route
	handler Handler  // nil: another function has it
	keys    []string // names of the path's parameters
	last    string   // the query parameter that the path's last segment is; see Route.Also
	missing string   // the argument that the path lacks; see deriveMissing
	junk    bool     // the path has a segment that Magnum takes for the body
	closed  bool     // see closedPaths
}

// counts reports whether the endpoint makes its path exist.
func (e *endpoint) counts() bool { return e.last == "" && !e.junk }

// closedMethod stands for "no method" in the matcher; no client sends it with a path.
const closedMethod = http.MethodConnect

var tableMethods = [...]string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete, closedMethod}

// NewRouter builds the router of one function, or with All of the whole API,
// from the table. handlers must have exactly the operations of the function;
// the operation healthcheck is optional.
func NewRouter(cfg Config, function string, handlers map[string]Handler) (*Router, error) {
	if cfg.Authenticator == nil {
		return nil, errors.New("api: no authenticator")
	}
	rt := &Router{
		cfg:       cfg.withDefaults(),
		mux:       chi.NewRouter(),
		endpoints: map[string]map[string]*endpoint{},
		allow:     map[string]string{},
		public:    map[string]bool{},
	}
	rt.contexts.New = func() any { return chi.NewRouteContext() }
	for _, p := range rt.cfg.PublicRoutes {
		if p = strings.TrimSpace(p); p != "/" {
			p = strings.TrimRight(p, "/")
			rt.public[p+".json"] = true
		}
		rt.public[p] = true
	}
	left := maps.Clone(handlers)
	rt.health = left["healthcheck"]
	delete(left, "healthcheck")
	methods := map[string][]string{}
	for i := range Routes {
		r := &Routes[i]
		h := left[r.Operation]
		if mine := function == All || function == r.Function; mine && h == nil {
			return nil, fmt.Errorf("api: no handler for %s", r.Operation)
		} else if !mine && h != nil {
			return nil, fmt.Errorf("api: %s is of function %s, not of %s", r.Operation, r.Function, function)
		}
		delete(left, r.Operation)
		rt.add(r, h)
		if !slices.Contains(methods[r.Function], r.Method) {
			methods[r.Function] = append(methods[r.Function], r.Method)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("api: no route for %s", joinSorted(slices.Collect(maps.Keys(left))))
	}
	rt.derive()
	for fn, m := range methods {
		if fn != noAllow {
			rt.allow[fn] = joinSorted(m)
		}
	}
	return rt, nil
}

func (rt *Router) add(r *Route, h Handler) {
	switch r.Path {
	case rootPath:
		rt.root = &endpoint{route: r, handler: h}
		return
	case v1Path:
		rt.v1 = &endpoint{route: r, handler: h}
		return
	}
	rt.put(r.Method, r.Path, &endpoint{route: r, handler: h})
	if r.Also != "" {
		keys := pathKeys(r.Also)
		rt.put(r.Method, r.Also, &endpoint{route: r, handler: h, last: keys[len(keys)-1]})
	}
}

// put registers an endpoint unless the path has one for the method.
func (rt *Router) put(method, path string, e *endpoint) {
	e.keys = pathKeys(path)
	byMethod := rt.endpoints[path]
	if byMethod == nil {
		byMethod = map[string]*endpoint{}
		rt.endpoints[path] = byMethod
	}
	if byMethod[method] != nil {
		return
	}
	byMethod[method] = e
	rt.mux.Method(method, path, http.NotFoundHandler())
}

func pathKeys(path string) (keys []string) {
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, "{") {
			keys = append(keys, strings.Trim(segment, "{}"))
		}
	}
	return keys
}

// derive adds what exists only to be refused: paths that lack an argument or
// have one too many, as Magnum's framework finds them.
func (rt *Router) derive() {
	for i := range Routes {
		r := &Routes[i]
		if r.Function == "discovery" {
			continue
		}
		segments := strings.Split(r.Path, "/")
		for end := len(segments) - 1; isParam(segments[end]); end-- {
			// A GET without any argument would be a list.
			if r.Method == http.MethodGet && !isParam(segments[end-1]) {
				break
			}
			rt.put(r.Method, strings.Join(segments[:end], "/"),
				&endpoint{route: r, missing: strings.Trim(segments[end], "{}")})
		}
		// /clusters//nodegroups is /clusters/nodegroups. Carafe's own routes below
		// a cluster take no name from clusters: one may be called "events".
		if len(segments) > 3 && isParam(segments[2]) && !isParam(segments[3]) && r.Function != "clusters" {
			rt.put(r.Method, strings.Join(append([]string{"", segments[1]}, segments[3:]...), "/"),
				&endpoint{route: r, missing: strings.Trim(segments[2], "{}")})
		}
		if r.Method == http.MethodPost && !strings.Contains(r.Path, "/actions/") {
			rt.put(r.Method, r.Path+"/{too_much}", &endpoint{route: r, junk: true})
		}
	}
	for path, fn := range closedPaths {
		rt.put(closedMethod, path, &endpoint{route: &Route{Function: fn}, closed: true})
	}
}

func isParam(segment string) bool { return strings.HasPrefix(segment, "{") }

// find matches a path behind /v1 and keeps its parameters.
func (rt *Router) find(rq *request, method, path string) (*endpoint, error) {
	rctx := rt.contexts.Get().(*chi.Context)
	defer rt.contexts.Put(rctx)
	e := rt.match(rctx, method, path)
	if e != nil && !e.closed && e.route.serves(rq.version) && rq.has(e) {
		copy(rq.params[:], rctx.URLParams.Values)
		return e, nil
	}
	if e != nil && !e.closed && e.counts() {
		return nil, rq.notInVersion(e)
	}
	var exists, inVersion *endpoint
	for _, m := range tableMethods {
		if e := rt.match(rctx, m, path); e != nil && e.counts() {
			exists = e
			if e.closed || e.route.serves(rq.version) {
				inVersion = e
			}
		}
	}
	switch {
	case exists == nil:
		return nil, &routeFault{status: http.StatusNotFound, text: "There is no " + clip(path) + " in this API."}
	case inVersion == nil:
		return nil, rq.notInVersion(exists)
	}
	return nil, rt.notAllowed(inVersion, method)
}

// has reports whether the parameter that a path's last segment is exists in
// the version of the request.
func (rq *request) has(e *endpoint) bool {
	for i := range e.route.Query {
		if p := &e.route.Query[i]; p.Name == e.last {
			return p.Since <= rq.version.Minor
		}
	}
	return true
}

func (rq *request) notInVersion(e *endpoint) error {
	return &routeFault{status: http.StatusNotAcceptable, text: fmt.Sprintf(textNotInVersion, rq.version, e.route.Operation)}
}

func (rt *Router) notAllowed(e *endpoint, method string) error {
	return &routeFault{status: http.StatusMethodNotAllowed, allow: rt.allow[e.route.Function],
		text: "The method " + clip(method) + " is not allowed here."}
}

func (rt *Router) match(rctx *chi.Context, method, path string) *endpoint {
	rctx.Reset()
	return rt.endpoints[rt.mux.Find(rctx, method, path)][method]
}

// ServeHTTP is the middleware, in Magnum's order (spec/api.md §2.1, §1.5):
// CORS, request id, token, version header, routing, Accept, arguments, handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := normalize(r.URL.Path)
	if path == healthPath && rt.health != nil {
		_ = rt.health(w, r) // writes its own answer
		return
	}
	if r.Method == http.MethodOptions {
		rt.cfg.CORS.options(w, r)
		return
	}
	rt.cfg.CORS.actual(w, r)
	rq := &request{cfg: &rt.cfg, version: MinVersion, app: appURL(r, rt.cfg.ProxyHeaders)}
	rq.w.ResponseWriter = w
	id := "req-" + uuid.NewString()
	w.Header()["X-Openstack-Request-Id"] = []string{id}
	ctx := context.WithValue(identity.WithRequestIDs(r.Context(), id, globalID(r.Header.Get("X-Openstack-Request-Id"))), requestKey{}, rq)
	defer rt.recovered(ctx, rq)

	if !rt.public[path] {
		caller, err := rt.cfg.Authenticator.Authenticate(r.WithContext(ctx))
		if err != nil {
			rt.refuse(ctx, rq, r, err)
			return
		}
		caller.IsAdmin = rt.cfg.IsAdmin(ctx, caller)
		ctx = identity.With(ctx, caller)
	}
	r = r.WithContext(ctx)
	if err := rt.serve(rq, r, path); err != nil {
		rt.fail(rq, r, err)
	}
}

// serve does all that may end in Magnum's error body.
func (rt *Router) serve(rq *request, r *http.Request, path string) error {
	var err error
	if path == rootPath {
		rq.endpoint = rt.root
	} else {
		rq.version, rq.shown, err = negotiate(r.Header[versionHeader])
		rq.versionHeaders() // B01: also for what is refused
		if err != nil {
			return err
		}
		rest := path
		if p, ok := strings.CutPrefix(path, v1Path); ok && (p == "" || p[0] == '/') {
			rest = p
		}
		if rest == "" {
			rq.endpoint = rt.v1
		} else if rq.endpoint, err = rt.find(rq, r.Method, rest); err != nil {
			return err
		}
	}
	e := rq.endpoint
	if e.route.Method != r.Method && (e == rt.root || e == rt.v1) {
		return rt.notAllowed(e, r.Method)
	}
	if !acceptsJSON(r.Header["Accept"]) {
		return &routeFault{status: http.StatusNotAcceptable, text: textNotAcceptable}
	}
	if err := rq.arguments(r); err != nil {
		return err
	}
	switch {
	case e.junk:
		body := e.route.Body
		return invalid(body.Argument, rq.params[len(e.keys)-1], cannotConvert(body.Name))
	case e.missing != "":
		return MissingArgument(e.missing)
	case e.handler == nil:
		return &routeFault{status: http.StatusNotFound, text: "This function does not serve " + clip(path) + "."}
	}
	return e.handler(&rq.w, r)
}

// arguments reads the body, so that a request that cannot be understood is
// refused before anything is done for it, and the query.
func (rq *request) arguments(r *http.Request) error {
	if err := rq.readBody(r); err != nil {
		return err
	}
	pairs := parsePairs(r.URL.RawQuery)
	e := rq.endpoint
	if contentType := mediaType(r); len(rq.raw) > 0 && (contentType == formType || e.route.Body == nil && e.route.Patch == nil) {
		more, err := bodyPairs(contentType, rq.raw)
		if err != nil {
			return err
		}
		pairs = append(pairs, more...)
		if contentType == formType {
			rq.raw = nil
		}
	}
	if e.missing != "" {
		return nil // what the query has does not matter any more
	}
	return rq.parseArgs(pairs)
}

const formType = "application/x-www-form-urlencoded"

func mediaType(r *http.Request) string {
	if _, ok := r.Header["Content-Type"]; !ok {
		return formType // as WebOb takes a body of which nothing is said
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(contentType)
}

// readBody reads up to the limit. Whoever sends no body may say of it what he
// likes: magnumclient calls an empty one application/octet-stream.
func (rq *request) readBody(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	limit := rq.cfg.MaxBody
	if r.ContentLength <= limit {
		var err error
		if r.ContentLength > 0 {
			rq.raw = make([]byte, r.ContentLength)
			_, err = io.ReadFull(r.Body, rq.raw)
		} else {
			rq.raw, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "The body of the request ended early.")
		}
	}
	if r.ContentLength > limit || int64(len(rq.raw)) > limit {
		return fault.New(fault.TooLarge, "The body of the request is larger than %d bytes.", limit)
	}
	if len(rq.raw) == 0 {
		return nil
	}
	switch t := mediaType(r); t {
	case "application/json", "text/javascript", "application/javascript", formType:
		return nil
	default:
		return fault.New(fault.UnsupportedMediaType, "Unknown mimetype: %s", clip(t))
	}
}

// versionHeaders are on every answer below /v1.
func (rq *request) versionHeaders() {
	h := rq.w.Header()
	h["Openstack-Api-Minimum-Version"] = minHeader
	h["Openstack-Api-Maximum-Version"] = maxHeader
	h["Openstack-Api-Version"] = []string{ServiceType + " " + rq.shown}
	h["Vary"] = append(h["Vary"], "OpenStack-API-Version")
}

var ( // shared; nobody appends to them
	minHeader = []string{ServiceType + " " + MinVersion.String()}
	maxHeader = []string{ServiceType + " " + MaxVersion.String()}
)

// normalize takes away what does not count: repeated and trailing slashes.
func normalize(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		return rootPath
	}
	return path
}

// globalID is the caller's request id if it looks like one.
func globalID(s string) string {
	if rest, ok := strings.CutPrefix(s, "req-"); ok && isCanonicalUUID(rest) {
		return s
	}
	return ""
}

// fail sends an error, unless the answer has already left.
func (rt *Router) fail(rq *request, r *http.Request, err error) {
	ctx := r.Context()
	code, body := errorBody(ctx, err)
	if code == http.StatusInternalServerError || rq.w.begun {
		rt.log(rq, r, err)
	}
	if rq.w.begun {
		return
	}
	h := rq.w.Header()
	var rf *routeFault
	if errors.As(err, &rf) && rf.status == http.StatusMethodNotAllowed {
		h["Allow"] = []string{rf.allow}
	}
	_ = WriteJSON(&rq.w, code, body) // an ErrorBody always encodes
}

// log is the only record of an error whose cause the client does not see.
func (rt *Router) log(rq *request, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the client went away
	}
	operation := ""
	if rq.endpoint != nil {
		operation = rq.endpoint.route.Operation
	}
	rt.cfg.Log.LogAttrs(r.Context(), slog.LevelError, "request failed",
		slog.String("request_id", identity.RequestID(r.Context())), slog.String("global_request_id", identity.GlobalRequestID(r.Context())),
		slog.String("operation", operation),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("err", err))
}

// refuse answers for the token layer, which has a shape of its own (§2.2, B10).
func (rt *Router) refuse(ctx context.Context, rq *request, r *http.Request, err error) {
	kind := fault.KindOf(err)
	code, message := Status(kind), fault.Text(err)
	switch kind {
	case fault.Unauthenticated:
		message = "The request you have made requires authentication."
		if rt.cfg.WWWAuthenticate != "" {
			rq.w.Header()["Www-Authenticate"] = []string{`Keystone uri="` + rt.cfg.WWWAuthenticate + `"`}
		}
	case fault.Internal:
		rt.log(rq, r.WithContext(ctx), err)
	}
	_ = WriteJSON(&rq.w, code, TokenError{Error: TokenErrorObject{Code: code, Title: http.StatusText(code), Message: message}})
}

// TokenError is the body of a 401, and of a 503 when Keystone cannot be asked.
type TokenError struct {
	Error TokenErrorObject `json:"error"`
}

// TokenErrorObject is what generic OpenStack clients read.
type TokenErrorObject struct {
	Code    int    `json:"code"`
	Title   string `json:"title"`
	Message string `json:"message"`
}

// recovered turns a panic into a 500 that is logged, and keeps the process.
func (rt *Router) recovered(ctx context.Context, rq *request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	rt.cfg.Log.LogAttrs(ctx, slog.LevelError, "request panicked",
		slog.String("request_id", identity.RequestID(ctx)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if !rq.w.begun {
		code, body := errorBody(ctx, errors.New("panic"))
		_ = WriteJSON(&rq.w, code, body)
	}
}
