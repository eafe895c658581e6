package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"path"
	"strconv"
	"strings"

	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/deadline"
)

// ErrSlowClient is the error that a wrapper of the request body returns when the client
// has stopped sending.
var ErrSlowClient = errors.New("the client stopped in the middle of the body")

// failure is an answer that the gateway itself gives.
type failure struct {
	status     int
	code       string // stable, for programs
	message    string
	retryAfter int64 // seconds; 0 omits it
}

const (
	codeUnavailable = "UPSTREAM_UNAVAILABLE"
	codeOverloaded  = "OVERLOADED"
	codeTimeout     = "UPSTREAM_TIMEOUT"
	codeFailed      = "UPSTREAM_FAILED"
	codeDeadline    = "DEADLINE_EXCEEDED"
)

// ignore keeps the answer from being taken for load: its latency says nothing about the
// upstreams, except if one had its time and did not answer.
func (f *failure) ignore(w http.ResponseWriter) {
	if f.code != codeTimeout {
		adaptive.Ignore(w)
	}
}

// byClient reports whether the client is the reason.
func (f *failure) byClient() bool {
	return f.status < http.StatusInternalServerError || f.code == codeDeadline
}

// write answers with the JSON form of every Stint error.
func (f *failure) write(w http.ResponseWriter, id string) {
	f.ignore(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	details := map[string]any{"request_id": id}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(f.retryAfter, 10))
		details["retry_after_seconds"] = f.retryAfter
	}
	w.WriteHeader(f.status)
	body := map[string]any{"code": f.code, "message": f.message, "details": details}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": body}) //nolint:errchkjson // every value can be encoded; the client may be gone
}

// Overloaded answers that a request was not forwarded because of overload. It is an
// [http.HandlerFunc].
func Overloaded(w http.ResponseWriter, r *http.Request) {
	overloaded().write(w, requestID(r.Header))
}

func overloaded() *failure {
	return &failure{http.StatusServiceUnavailable, codeOverloaded, "There is more to do than can be done in time; nothing was sent", 1}
}

// fail answers a request that has no response from an upstream.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	f := g.failureOf(r, err)
	x.failed(r, f, err)
	g.logFailure(r, x, f, err)
	if x.overdue(r.Context()) != nil {
		x.late = f // the answer is given by expire, which still has time to write it
		return
	}
	x.answerFailure(w, r, f)
}

func (g *Gateway) failureOf(r *http.Request, err error) *failure {
	var tooLarge *http.MaxBytesError
	var network net.Error
	overdue := exchangeOf(r).overdue(r.Context())
	switch {
	case errors.Is(overdue, deadline.ErrCallersTime), errors.Is(err, deadline.ErrRefused):
		return &failure{http.StatusGatewayTimeout, codeDeadline, "The time that the client gives this request is over", 0}
	case overdue != nil:
		return &failure{http.StatusGatewayTimeout, codeTimeout, "The upstream did not answer in time", 0}
	case errors.Is(err, bulkhead.ErrRefused):
		return overloaded()
	case errors.Is(err, errAllDown) && len(exchangeOf(r).used) == 0:
		return &failure{http.StatusServiceUnavailable, codeUnavailable, "No upstream can be reached; nothing was sent",
			wholeSeconds(exchangeOf(r).route.group.retryAfter(g.now()))}
	case exchangeOf(r).clientStopped(err):
		return &failure{http.StatusRequestTimeout, "REQUEST_TIMEOUT", "The request body did not arrive in time", 0}
	case errors.As(err, &tooLarge):
		return &failure{http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "The request body is too large", 0}
	case exchangeOf(r).body.malformed():
		return &failure{http.StatusBadRequest, "BAD_BODY", "The request body is not encoded as its header says", 0}
	case r.Context().Err() == nil && errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusGatewayTimeout, codeTimeout, "The upstream did not answer in time", 0}
	}
	return &failure{http.StatusBadGateway, codeFailed, "The upstream gave no valid answer", 0}
}

// logFailure omits the path, query and headers, because they may hold secrets.
func (g *Gateway) logFailure(r *http.Request, x *exchange, f *failure, err error) {
	log, name := g.options.Logger.Warn, ""
	if f.byClient() || f.code != codeTimeout && r.Context().Err() != nil || x.clientStopped(err) {
		log = g.options.Logger.Debug // the client left, was in a hurry or sent a bad body
	}
	if x.at != nil {
		name = x.at.name
	}
	log("request failed", "status", f.status, "method", short(r.Method), "upstream", name, "request_id", shortID(x.id), "error", reason(err))
}

// shortID returns an id for a log line. Its first characters suffice to find a request, and the
// id of a client may be a secret, such as its API key.
func shortID(id string) string {
	const most = 8
	if len(id) > most {
		return id[:min(most, len(id)/3)] + "…"
	}
	return id
}

// reason returns the text of an error for a log line. The text of a parser ends with the part of
// the response that it could not read, which may be a secret that the upstream repeats. So it is
// cut at the first quotation mark, and that of a header line at the colon.
func reason(err error) string {
	text := err.Error()
	if errors.As(err, new(textproto.ProtocolError)) {
		text, _, _ = strings.Cut(text, ":")
	}
	if i := strings.IndexByte(text, '"'); i >= 0 && !errors.As(err, new(*tls.CertificateVerificationError)) {
		text = text[:i] + "…"
	}
	return short(text)
}

// short bounds the length of a text of clients or upstreams in a log line.
func short(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// refuse returns the answer to a request that is never forwarded, or nil.
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

// climbs reports whether dot segments lead above the root, and so out of the path of an
// upstream's URL. It considers servers that support path parameters and servers that do
// not.
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
