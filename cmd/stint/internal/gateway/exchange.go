package gateway

import (
	"maps"
	"net/http"
	"strings"
)

const requestIDHeader = "X-Request-Id"

type exchangeKey struct{}

// exchange is one request and its response while they pass through the gateway.
type exchange struct {
	w    http.ResponseWriter
	kept http.Header // header fields of the response before the upstream's answer
	id   string
	at   *upstream // the upstream that serves the request; nil before one is chosen
	body *upload   // nil without a body
}

// newExchange removes the header fields that others have written into the response, so
// that informational responses neither carry nor overwrite them. putBack restores them.
func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{w: w, kept: w.Header().Clone(), id: requestID(r.Header)}
	clear(w.Header())
	return x
}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

func (x *exchange) moveTo(u *upstream) {
	x.finish()
	u.inFlight.Add(1)
	x.at = u
}

// finish removes the request from the in-flight count of its upstream.
func (x *exchange) finish() {
	if x.at != nil {
		x.at.inFlight.Add(-1)
		x.at = nil
	}
}

// modifyResponse runs when the final header of a response has arrived.
func modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request)
	x.putBack(res.Header)
	x.answerEarly()
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // HTTP/1.1 allows trailers only after a chunked body
	}
	return nil
}

// putBack restores the saved fields and removes conflicting fields from the upstream's
// header: rate limit fields and the request id appear only once.
func (x *exchange) putBack(upstream http.Header) {
	if hasRateLimit(x.kept) {
		maps.DeleteFunc(upstream, func(name string, _ []string) bool { return isRateLimit(name) })
	}
	upstream.Del(requestIDHeader)
	clear(x.w.Header())
	maps.Copy(x.w.Header(), x.kept)
	x.w.Header().Set(requestIDHeader, x.id)
}

func hasRateLimit(h http.Header) bool {
	for name := range h {
		if isRateLimit(name) {
			return true
		}
	}
	return false
}

// isRateLimit accepts names as net/http spells them, such as Ratelimit.
func isRateLimit(name string) bool {
	rest, _ := strings.CutPrefix(strings.ToLower(name), "x-")
	return rest == "ratelimit" || strings.HasPrefix(rest, "ratelimit-")
}
