package gateway

import (
	"maps"
	"net/http"
	"strings"
)

const requestIDHeader = "X-Request-Id"

type exchangeKey struct{}

// exchange is one request and its answer on their way through.
type exchange struct {
	w    http.ResponseWriter
	kept http.Header // what stood in the response before the upstream's answer
	id   string
	at   *upstream // where the request is; nil: nowhere yet
	body *upload   // nil: none
}

// newExchange takes what others wrote into the response out of it, so that
// informational responses do not carry it, nor wash it away.
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

// finish counts the request out of its upstream.
func (x *exchange) finish() {
	if x.at != nil {
		x.at.inFlight.Add(-1)
		x.at = nil
	}
}

// modifyResponse is called once an answer's final header is there.
func modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request)
	x.putBack(res.Header)
	x.answerEarly()
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // HTTP/1.1 has trailers after chunks alone
	}
	return nil
}

// putBack returns what stood in the response, and takes from the upstream's
// header what that contradicts: one account of the limit, one request id.
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

// isRateLimit takes the names as net/http writes them: Ratelimit.
func isRateLimit(name string) bool {
	rest, _ := strings.CutPrefix(strings.ToLower(name), "x-")
	return rest == "ratelimit" || strings.HasPrefix(rest, "ratelimit-")
}
