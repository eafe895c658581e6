package gateway

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopByHop are the fields that end at a connection whether Connection names
// them or not, but for those of WebSocket and trailers.
var hopByHop = [...]string{"Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Http2-Settings"}

// WithoutHopByHop drops the fields of a request that are for the connection
// alone, those that Connection names included, before next sees them: what
// decides about a request then decides about the fields that an upstream gets.
//
// A Connection that names a field which says who the client is, or one that
// reads says yes to, is answered with 400. No client has a reason to send it,
// and dropping the field would let the client choose among the rules of
// requests with it and of those without.
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

// dropHopByHop returns the name of a field that must not be dropped, or "".
func dropHopByHop(h http.Header, reads func(name string) bool) (wrong string) {
	connection, upgrades := h["Connection"], false
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			switch name := http.CanonicalHeaderKey(strings.Trim(token, " \t")); name {
			case "", "Close", "Keep-Alive", "Te", "Trailer":
			case "Upgrade":
				upgrades = true
			default:
				if saysWho(name) || reads(name) {
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

// keepTrailers drops everything from TE but that trailers may follow.
func keepTrailers(h http.Header) {
	switch te := h["Te"]; {
	case len(te) == 0:
	case httpguts.HeaderValuesContainsToken(te, "trailers"):
		h["Te"] = []string{"trailers"}
	default:
		delete(h, "Te")
	}
}

// saysWho reports whether a field says who the client is, what it asks for, or
// how long its body is, whatever the rules ask for.
func saysWho(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Host", "Content-Length", "X-Api-Key":
		return true
	}
	return isForwarded(name) || strings.HasPrefix(name, "X-Original-")
}
