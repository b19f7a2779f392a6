package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS is what browsers may do (magnum.conf [cors]); the zero value allows no
// origin. Empty lists mean Magnum's own.
type CORS struct {
	AllowedOrigins []string // exact, or "*"
	NoCredentials  bool
	ExposeHeaders  []string
	MaxAge         time.Duration // 0: an hour
	AllowMethods   []string
	AllowHeaders   []string
}

// Magnum's defaults, and what a browser needs to use microversions.
var (
	corsExpose = []string{"X-Auth-Token", "X-Subject-Token", "X-Service-Token", "X-OpenStack-Request-ID", "X-Server-Management-Url",
		"OpenStack-API-Version", "OpenStack-API-Minimum-Version", "OpenStack-API-Maximum-Version", "ETag"}
	corsMethods = []string{"GET", "PUT", "POST", "DELETE", "PATCH"}
	corsHeaders = []string{"X-Auth-Token", "X-Identity-Status", "X-Roles", "X-Service-Catalog", "X-User-Id", "X-Tenant-Id",
		"X-OpenStack-Request-ID", "X-Server-Management-Url", "OpenStack-API-Version", "If-Match", "Idempotency-Key"}
	corsSimple = []string{"Accept", "Accept-Language", "Content-Type", "Cache-Control", "Content-Language", "Expires", "Last-Modified", "Pragma"}
)

func orDefault(list, def []string) []string {
	if len(list) == 0 {
		return def
	}
	return list
}

// actual adds to the answer of a request that came from a browser's page.
func (c *CORS) actual(w http.ResponseWriter, r *http.Request) {
	origin, ok := c.allowed(r)
	if !ok {
		return
	}
	c.common(w, origin)
	w.Header().Set("Access-Control-Expose-Headers", strings.Join(orDefault(c.ExposeHeaders, corsExpose), ","))
}

func (c *CORS) common(w http.ResponseWriter, origin string) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	if !c.NoCredentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func (c *CORS) allowed(r *http.Request) (origin string, ok bool) {
	if len(c.AllowedOrigins) == 0 {
		return "", false
	}
	origin = r.Header.Get("Origin")
	return origin, origin != "" && (slices.Contains(c.AllowedOrigins, origin) || slices.Contains(c.AllowedOrigins, "*"))
}

// options answers every OPTIONS, with the headers of a preflight if it is one
// that is allowed.
func (c *CORS) options(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "0")
	defer w.WriteHeader(http.StatusOK)
	origin, ok := c.allowed(r)
	method := r.Header.Get("Access-Control-Request-Method")
	if !ok || !slices.Contains(orDefault(c.AllowMethods, corsMethods), method) {
		return
	}
	requested := r.Header.Get("Access-Control-Request-Headers")
	for name := range strings.SplitSeq(requested, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		same := func(s string) bool { return strings.EqualFold(s, name) }
		if !slices.ContainsFunc(orDefault(c.AllowHeaders, corsHeaders), same) && !slices.ContainsFunc(corsSimple, same) {
			return
		}
	}
	c.common(w, origin)
	maxAge := c.MaxAge
	if maxAge == 0 {
		maxAge = time.Hour
	}
	h := w.Header()
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(maxAge.Seconds())))
	h.Set("Access-Control-Allow-Methods", method)
	if requested != "" {
		h.Set("Access-Control-Allow-Headers", requested)
	}
}
