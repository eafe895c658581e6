package gateway

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopByHop are the fields that are always removed, whether Connection names them or not.
// WebSocket and trailer fields are handled separately.
var hopByHop = [...]string{"Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Http2-Settings"}

// WithoutHopByHop removes the hop-by-hop fields of a request, including those that
// Connection names, before next sees it. Decisions are then based on the same fields that
// an upstream receives.
//
// A Connection that names an identity field, or a field for which reads returns true, is
// answered with 400. No client has a reason to send it, and dropping the field would let
// the client choose between the rules for requests with and without it.
func WithoutHopByHop(reads func(name string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := dropHopByHop(r.Header, reads); name != "" {
			id := requestID(r.Header)
			w.Header().Set(requestIDHeader, id)
			f := &failure{http.StatusBadRequest, "BAD_CONNECTION", "Connection names " + name + ", which is for the application", 0}
			f.write(w, id)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// dropHopByHop removes the fields. It returns the name of a field that must not be
// dropped, or "".
func dropHopByHop(h http.Header, reads func(name string) bool) (wrong string) {
	connection, upgrades := h["Connection"], false
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			switch name := http.CanonicalHeaderKey(strings.Trim(token, " \t")); name {
			case "", "Close", "Keep-Alive", "Te", "Trailer":
			case "Upgrade":
				upgrades = true
			default:
				if identifiesClient(name) || reads(name) {
					return name
				}
				delete(h, name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	keepTrailers(h)
	if upgrades && strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h["Connection"] = []string{"Upgrade"}
	} else {
		delete(h, "Connection")
		delete(h, "Upgrade")
	}
	return ""
}

// keepTrailers reduces TE to "trailers", or removes it.
func keepTrailers(h http.Header) {
	switch te := h["Te"]; {
	case len(te) == 0:
	case httpguts.HeaderValuesContainsToken(te, "trailers"):
		h["Te"] = []string{"trailers"}
	default:
		delete(h, "Te")
	}
}

// identifiesClient reports whether a field identifies the client, the target or the body length,
// regardless of the rules.
func identifiesClient(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Host", "Content-Length", "X-Api-Key":
		return true
	}
	return isForwarded(name) || strings.HasPrefix(name, "X-Original-")
}
