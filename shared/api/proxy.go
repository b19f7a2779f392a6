package api

import (
	"net/http"
	"strings"
)

// appURL is what links begin with: scheme, host as sent and, behind a trusted
// proxy, what the proxy says of itself (oslo.middleware http_proxy_to_wsgi).
func appURL(r *http.Request, trustProxy bool) string {
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil {
		scheme = "https"
	}
	if trustProxy {
		scheme, host, prefix = behindProxy(r.Header, scheme, host)
	}
	return scheme + "://" + host + prefix
}

func behindProxy(h http.Header, scheme, host string) (string, string, string) {
	if fw := h.Get("Forwarded"); fw != "" { // RFC 7239; the first element is the client's side
		first, _, _ := strings.Cut(fw, ",")
		for part := range strings.SplitSeq(first, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(key) {
			case "proto":
				scheme = value
			case "host":
				host = value
			}
		}
	} else {
		if v := h.Get("X-Forwarded-Proto"); v != "" {
			scheme = v
		}
		if v := h.Get("X-Forwarded-Host"); v != "" {
			first, _, _ := strings.Cut(v, ",")
			host = strings.TrimSpace(first)
		}
	}
	prefix := strings.TrimRight(h.Get("X-Forwarded-Prefix"), "/")
	if prefix != "" && prefix[0] != '/' {
		prefix = "/" + prefix
	}
	return scheme, host, prefix
}
