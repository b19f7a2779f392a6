package function

import (
	"net"
	"net/http"
)

// LocalOnly refuses requests that were meant for another host than this
// machine's loopback. Listening there keeps other machines out, but not a page in
// the browser of whoever sits at this one: its own name may lead here (DNS
// rebinding), and noauth would believe it.
func LocalOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host // without a port
		}
		if !loopback(host) {
			http.Error(w, "without Keystone Carafe answers requests to localhost only, and this one names another host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
