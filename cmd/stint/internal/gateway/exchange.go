package gateway

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/http1client"
	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/bulkhead"
)

const requestIDHeader = "X-Request-Id" // canonical, as all names by which the gateway looks fields up

type exchangeKey struct{}

// exchange is one request and its response while they pass through the gateway. It is the
// context of the request, and its own value.
type exchange struct {
	context.Context //nolint:containedctx // that of the server, which the exchange extends
	*memory         // nil after the end

	w     http.ResponseWriter
	saved http.Header // header fields of the response before the upstream's answer to an upgrade; nil for other requests
	id    string

	started time.Time
	counted bool // its answer is counted
	route   *route
	path    *url.URL       // the path that the group gets; nil: that of the client
	at      *upstream      // the upstream that serves the request; nil before one is chosen
	body    *upload        // nil without a body
	used    []*upstream    // in a group with retries: the upstreams that may have got the request
	slot    *bulkhead.Slot // in the bulkhead of the group; nil: none
	client  netip.Addr     // set only if the group has circuits
	given   time.Duration  // the time that the client gives the request; 0: it has no deadline
	late    *failure       // why there was no response before the deadline; nil: unknown

	informing sync.Mutex // held while an informational response is written
	final     bool       // the final response has begun; guarded by informing
}

// newExchange removes the header fields that others have written into the response to an
// upgrade, so that informational responses neither carry nor overwrite them. restore puts
// them back. For other requests inform does both.
func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{Context: r.Context(), memory: newMemory(), w: w, id: requestID(r.Header), started: time.Now()}
	if isUpgrade(r.Header) {
		x.final = true // the reverse proxy of the standard library passes informational responses on
		x.saved = w.Header().Clone()
		clear(w.Header())
	}
	return x
}

// Value implements [context.Context].
func (x *exchange) Value(key any) any {
	switch key.(type) {
	case exchangeKey:
		return x
	case http1client.RoomKey:
		if x.memory != nil {
			return &x.answer
		}
	}
	return x.Context.Value(key)
}

// inform passes on an informational response. http.Transport may receive one after the
// final response has begun; it is dropped. The request of a health check has no exchange.
func (x *exchange) inform(status int, h http.Header) {
	if x == nil {
		return
	}
	x.informing.Lock()
	defer x.informing.Unlock()
	if x.final {
		return
	}
	own := x.w.Header()
	saved := maps.Clone(own)
	clear(own)
	maps.Copy(own, h)
	x.w.WriteHeader(status)
	clear(own)
	maps.Copy(own, saved)
}

// endInforming ends the informational responses.
func (x *exchange) endInforming() {
	x.informing.Lock()
	x.final = true
	x.informing.Unlock()
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

// sentTo records that an upstream may have got the request. Only a group with retries
// needs to know: it prefers other upstreams for the next attempt.
func (x *exchange) sentTo(u *upstream) {
	if x.route.group.retries != nil {
		x.used = append(x.used, u)
	}
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
	x.ignoreHurried(res)
	x.restore(res.Header)
	x.answered(&x.route.metrics, res.StatusCode)
	if x.slot != nil && (res.StatusCode == http.StatusSwitchingProtocols || adaptive.IsStream(res.Header)) {
		x.slot.Release() // a stream may last as long as its client stays
	}
	x.route.response.apply(res.Header, nil)
	x.answerEarly()
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // HTTP/1.1 allows trailers only after a chunked body
	}
	return nil
}

// restore restores the saved fields and removes conflicting fields from the upstream's
// header: rate limit fields and the request id appear only once.
func (x *exchange) restore(upstream http.Header) {
	own := x.w.Header()
	if x.saved != nil {
		clear(own)
		maps.Copy(own, x.saved)
	}
	for name := range own {
		if isRateLimit(name) {
			maps.DeleteFunc(upstream, func(name string, _ []string) bool { return isRateLimit(name) })
			break
		}
	}
	delete(upstream, requestIDHeader)
	if ids := own[requestIDHeader]; len(ids) != 1 || ids[0] != x.id {
		own[requestIDHeader] = []string{x.id}
	}
}

// isRateLimit accepts names as net/http spells them, such as Ratelimit.
func isRateLimit(name string) bool {
	const family = "ratelimit"
	if name == "" || name[0]|' ' != 'r' && name[0]|' ' != 'x' {
		return false // most names, without the cost of folding
	}
	if hasPrefixFold(name, "x-") {
		name = name[len("x-"):]
	}
	return hasPrefixFold(name, family) && (len(name) == len(family) || name[len(family)] == '-')
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

const maxRequestID = 128 // characters

// WithRequestID gives every request an id and writes it into the response before next
// sees it, so that the answers of a limiter in front of the gateway carry the id too.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids := []string{requestID(r.Header)}
		r.Header[requestIDHeader] = ids
		w.Header()[requestIDHeader] = ids
		next.ServeHTTP(w, r)
	})
}

// requestID returns the id in the request if it is fit for logs, or a new id of 26
// letters and digits.
func requestID(h http.Header) string {
	if ids := h[requestIDHeader]; len(ids) == 1 && validID(ids[0]) {
		return ids[0]
	}
	return newID()
}

// newID returns 26 letters and digits of 128 random bits. An id has to be unique, not secret, so it
// comes from the runtime's generator, which is seeded by the system.
func newID() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [26]byte
	for i := range 2 {
		bits := rand.Uint64()
		for j := range len(id) / 2 {
			id[i*len(id)/2+j] = letters[bits&31]
			bits = bits>>5 | bits<<59
		}
	}
	return string(id[:])
}

// validID allows 1 to 128 visible ASCII characters.
func validID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
