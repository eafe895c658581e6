package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/stintdev/stint/resilience/adaptive"
)

// ErrSlowClient is what the body of a request fails with, by whoever wraps the
// gateway, when its client has stopped sending it.
var ErrSlowClient = errors.New("the client stopped in the middle of the body")

// failure is an answer that the gateway gives itself.
type failure struct {
	status     int
	code       string // stable, for programs
	message    string
	retryAfter int64 // seconds; 0: not said
}

// write answers with JSON of the form that every error of Stint has. How fast it
// comes says nothing of how busy the upstreams are, unless they were too slow.
func (f *failure) write(w http.ResponseWriter, id string) {
	if f.status != http.StatusGatewayTimeout {
		adaptive.Ignore(w)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	details := map[string]any{"request_id": id}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(f.retryAfter, 10))
		details["retry_after_seconds"] = f.retryAfter
	}
	w.WriteHeader(f.status)
	body := map[string]any{"code": f.code, "message": f.message, "details": details}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": body}) //nolint:errchkjson // all of it encodes; the client may be gone
}

// Overloaded answers, in place of a gateway, that a request is not passed on
// because there is too much to do. It is an [http.HandlerFunc].
func Overloaded(w http.ResponseWriter, r *http.Request) {
	f := &failure{http.StatusServiceUnavailable, "OVERLOADED", "There is more to do than can be done in time; nothing was sent", 1}
	f.write(w, requestID(r.Header))
}

// fail is called when there is no answer of an upstream to pass on.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	x.putBack(nil)
	f := g.failureOf(r, err)
	g.logFailure(r, x, f, err)
	f.write(w, x.id)
}

func (g *Gateway) failureOf(r *http.Request, err error) *failure {
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case errors.Is(err, errAllDown):
		return &failure{http.StatusServiceUnavailable, "UPSTREAM_UNAVAILABLE", "No upstream can be reached; nothing was sent",
			wholeSeconds(g.retryAfter(g.now()))}
	case exchangeOf(r).clientStopped(err):
		return &failure{http.StatusRequestTimeout, "REQUEST_TIMEOUT", "The request body did not arrive in time", 0}
	case errors.As(err, &tooLarge):
		return &failure{http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "The request body is too large", 0}
	case exchangeOf(r).body.malformed():
		return &failure{http.StatusBadRequest, "BAD_BODY", "The request body is not encoded as its header says", 0}
	case r.Context().Err() == nil && errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusGatewayTimeout, "UPSTREAM_TIMEOUT", "The upstream did not answer in time", 0}
	}
	return &failure{http.StatusBadGateway, "UPSTREAM_FAILED", "The upstream gave no valid answer", 0}
}

// logFailure names no path, query or header: they may hold secrets.
func (g *Gateway) logFailure(r *http.Request, x *exchange, f *failure, err error) {
	log, name := g.options.Logger.Warn, ""
	if r.Context().Err() != nil || x.clientStopped(err) {
		log = g.options.Logger.Debug // the client left; that is no fault of anyone
	}
	if x.at != nil {
		name = x.at.name
	}
	log("request failed", "status", f.status, "method", r.Method, "upstream", name, "request_id", x.id, "error", short(err))
}

// short bounds what an upstream's garbage can do to a log line.
func short(err error) string {
	const most = 200
	text := err.Error()
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// refuse returns the answer to a request that is never passed on, or nil.
func refuse(r *http.Request) *failure {
	if r.Method == http.MethodConnect {
		return &failure{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "This is no forward proxy: CONNECT is not allowed", 0}
	}
	if r.URL.Opaque != "" || r.URL.Path == "*" { // decided as /, but written to the upstream as it stands, or as /%2A
		return &failure{http.StatusBadRequest, "BAD_PATH", "The request target is not a path", 0}
	}
	if climbs(r.URL.Path) {
		return &failure{http.StatusBadRequest, "BAD_PATH", "The path leads above its root", 0}
	}
	return nil
}

// climbs reports whether dot segments lead above the root, and so out of the
// path of an upstream's URL, for servers with path parameters or without.
func climbs(decoded string) bool {
	return leavesRoot(decoded) || strings.Contains(decoded, ";") && leavesRoot(withoutParameters(decoded))
}

func leavesRoot(decoded string) bool {
	relative := path.Clean(strings.TrimLeft(decoded, "/"))
	return relative == ".." || strings.HasPrefix(relative, "../")
}

func withoutParameters(decoded string) string {
	segments := strings.Split(decoded, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}
