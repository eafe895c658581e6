package server

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stintdev/stint/httplimit"
)

const (
	authPath     = "/v1/auth"
	statusHeader = "X-RateLimit-Status"
	delayHeader  = "X-RateLimit-Delay-Ms"
	bodyHeader   = "X-RateLimit-Body"
)

// maxBodyHeader bounds the body that a header carries. The header fields of an
// answer must fit into one buffer of the proxy, 4 KiB by default in nginx,
// or it takes the answer for a failure.
const maxBodyHeader = 1 << 10

// auth answers forward auth: a proxy asks whether it may pass a request on,
// and gets headers, and on a denial a body, that it can hand to the client.
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
		decider:  decider{s, surfaceAuth},
	}
}

// identity is how requests that pass through the server say who they are from.
func (s *Server) identity() httplimit.Identity {
	return httplimit.Identity{Clients: httplimit.Clients{Trusted: s.config.TrustedProxies}}
}

func (a *auth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, denyStatus, err := a.decide(r)
	if err != nil {
		w.Header().Set(statusHeader, strconv.Itoa(asAPIError(err).status))
		a.server.fail(w, r, err)
		return
	}
	write(w, r, &answer, denyStatus)
}

// decide decides the request that r asks about; see write for denyStatus.
func (a *auth) decide(r *http.Request) (answer httplimit.Answer, denyStatus int, err error) {
	if denyStatus, err = parseDenyStatus(r.URL); err != nil {
		return answer, 0, err
	}
	original, err := a.original.of(r)
	if err != nil {
		return answer, 0, err
	}
	answer, err = a.decider.Decide(r.Context(), httplimit.NewRequest(original, &a.identity))
	return answer, denyStatus, err
}

// write tells the decision. denyStatus, unless 0, stands for every denial:
// nginx, for one, understands only 401 and 403.
func write(w http.ResponseWriter, r *http.Request, answer *httplimit.Answer, denyStatus int) {
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
	if denyStatus != 0 {
		status = denyStatus
		setBody(w.Header(), r, answer, now)
	}
	answer.WriteDenialAs(w, r, now, status)
}

// setBody puts the body of a denial into a header too: a proxy that understands
// a few statuses only drops the body of this answer, and writes its own. A
// body that is too long is left out.
func setBody(h http.Header, r *http.Request, answer *httplimit.Answer, now time.Time) {
	if _, text := answer.DenialBody(r, now); len(text) <= maxBodyHeader {
		h.Set(bodyHeader, string(text))
	}
}

// parseDenyStatus returns 0 when the query names none.
func parseDenyStatus(u *url.URL) (int, error) {
	if u.RawQuery == "" {
		return 0, nil
	}
	text, given := u.Query()["deny_status"]
	if !given {
		return 0, nil
	}
	status, err := strconv.Atoi(text[0])
	if err != nil || status < 400 || status > 499 {
		return 0, badRequest("deny_status: %s is not a status from 400 to 499", shown(text[0]))
	}
	return status, nil
}
