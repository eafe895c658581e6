package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/httplimit"
)

const (
	authPath     = "/v1/auth"
	statusHeader = "X-RateLimit-Status"
	delayHeader  = "X-RateLimit-Delay-Ms"
	bodyHeader   = "X-RateLimit-Body"
)

// maxBodyHeader bounds the body that a header carries. The response headers must fit into
// one buffer of the proxy (4 KiB by default in nginx), or the proxy treats the answer as
// a failure.
const maxBodyHeader = 1 << 10

// auth handles forward auth: a proxy asks whether it may forward a request, and gets
// headers, and for a denial a body, that it can pass to the client.
type auth struct {
	server   *Server
	original originals
	identity httplimit.Identity
	decider  decider
}

func (s *Server) newAuth() *auth {
	return &auth{
		server:   s,
		original: originals{clients: s.identity().Clients, log: s.log},
		identity: s.identity(),
		decider:  decider{s, metrics.Auth},
	}
}

// identity returns how the server identifies the clients of proxied requests.
func (s *Server) identity() httplimit.Identity {
	return httplimit.Identity{Clients: httplimit.Clients{Trusted: s.config.TrustedProxies}}
}

func (a *auth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	statuses, err := statusesOf(r.URL)
	if err != nil {
		a.fail(w, r, err, statuses)
		return
	}
	answer, err := a.decide(r)
	if err != nil {
		a.fail(w, r, err, statuses)
		return
	}
	statuses.write(w, r, &answer)
}

// fail answers without a decision.
func (a *auth) fail(w http.ResponseWriter, r *http.Request, err error, s statuses) {
	a.server.logFailure(r, err)
	e := asAPIError(err)
	w.Header().Set(statusHeader, strconv.Itoa(e.status))
	writeJSON(w, s.of(e.status), errorBody{errorDetail{e.code, e.message}})
}

// decide decides the original request that r describes.
func (a *auth) decide(r *http.Request) (answer httplimit.Answer, err error) {
	original, err := a.original.of(r)
	if err != nil {
		return answer, err
	}
	return a.decider.Decide(r.Context(), httplimit.NewRequest(original, &a.identity))
}

// write answers with the decision.
func (s statuses) write(w http.ResponseWriter, r *http.Request, answer *httplimit.Answer) {
	status, now := answer.Status(), time.Now()
	w.Header().Set(statusHeader, strconv.Itoa(status))
	if answer.Allowed() {
		answer.SetHeaders(w.Header(), now)
		if delay := answer.Decision.Delay; delay > 0 {
			w.Header().Set(delayHeader, strconv.FormatInt(milliseconds(delay), 10))
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	if s.deny != 0 {
		status = s.deny
		setBody(w.Header(), r, answer, now)
	}
	answer.WriteDenialAs(w, r, now, s.of(status))
}

// setBody copies the body of a denial into a header: a proxy that understands only a few
// statuses drops the body of this answer and writes its own. A body that is too long is
// omitted.
func setBody(h http.Header, r *http.Request, answer *httplimit.Answer, now time.Time) {
	if _, text := answer.DenialBody(r, now); len(text) <= maxBodyHeader {
		h.Set(bodyHeader, string(text))
	}
}
