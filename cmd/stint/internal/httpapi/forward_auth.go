package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/nodeadline"
	"github.com/stintdev/stint/httplimit"
)

// AuthPath is the path of forward auth. The path of the original request may follow it.
const AuthPath = "/v1/auth"

const (
	statusHeader = "X-RateLimit-Status"
	delayHeader  = "X-RateLimit-Delay-Ms"
	bodyHeader   = "X-RateLimit-Body"
)

// maxBodyHeader bounds the body that a header carries. The response headers must fit into
// one buffer of the proxy (4 KiB by default in nginx), or the proxy treats the answer as
// a failure.
const maxBodyHeader = 1 << 10

// ForwardAuth decides for proxies whether they may forward a request. The answer has
// headers, and for a denial a body, that the proxy can pass to the client. Make it with
// [NewForwardAuth].
type ForwardAuth struct {
	decider  httplimit.Decider
	identity httplimit.Identity
	errors   ErrorWriter
	warned   sync.Once
}

// NewForwardAuth returns a ForwardAuth that finds the clients of requests by identity, and
// believes the forwarding headers of its trusted peers.
func NewForwardAuth(decider httplimit.Decider, identity httplimit.Identity, log *slog.Logger) *ForwardAuth {
	return &ForwardAuth{decider: decider, identity: identity, errors: ErrorWriter{log}}
}

func (a *ForwardAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	statuses, err := statusesOf(r.URL)
	if err != nil {
		a.fail(w, r, err, statuses)
		return
	}
	original, err := a.original(r)
	if err != nil {
		a.fail(w, r, err, statuses)
		return
	}
	answer, err := a.decide(original)
	if err != nil {
		a.fail(w, r, err, statuses)
		return
	}
	asked := *r
	asked.URL = original.URL // the body of a denial names the original path
	statuses.write(w, &asked, &answer)
}

// decide decides the original request. A request that is allowed fails if its token is to
// be rejected. It has been counted then, so that nobody tries tokens without a limit.
func (a *ForwardAuth) decide(original *http.Request) (httplimit.Answer, error) {
	q := httplimit.NewRequest(original, &a.identity)
	ctx := nodeadline.Of(original.Context()) // the deadline of a call over gRPC is not that of the original request
	answer, err := a.decider.Decide(ctx, q)
	if err == nil && answer.Allowed() {
		err = q.TokenError()
	}
	return answer, err
}

// fail answers without a decision.
func (a *ForwardAuth) fail(w http.ResponseWriter, r *http.Request, err error, s statuses) {
	a.errors.Log(r, err)
	e := asAPIError(err)
	if e.status == http.StatusUnauthorized { // as in RFC 6750, section 3.1
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	w.Header().Set(statusHeader, strconv.Itoa(e.status))
	writeJSON(w, s.of(e.status), e.body())
}

// statuses are HTTP statuses that replace the true one for proxies that do not understand
// it. Zero replaces nothing.
type statuses struct {
	deny   int // deny_status: replaces the status of every denial; nginx understands only 401 and 403
	failed int // error_status: replaces 500 and above, which Envoy treats as a failure and may let the request pass
}

// statusesOf parses the parameters that the proxy's configuration put into the URL: the
// query of /v1/auth, or the parameters in the same path segment, as in
// /v1/auth;error_status=429/orders. If the path goes on after /v1/auth, the query belongs
// to the original request and is under the client's control, so it is not read.
func statusesOf(u *url.URL) (s statuses, err error) {
	text := u.RawQuery
	if u.Path != AuthPath {
		parameters, ok := strings.CutPrefix(strings.TrimPrefix(u.Path, AuthPath), ";")
		if !ok {
			return s, nil
		}
		text, _, _ = strings.Cut(parameters, "/")
	}
	given := (&url.URL{RawQuery: text}).Query()
	if s.deny, err = statusIn(given, "deny_status"); err != nil {
		return s, err
	}
	s.failed, err = statusIn(given, "error_status")
	return s, err
}

// statusIn returns the status in the named parameter, or 0 if the parameter is absent.
func statusIn(given url.Values, name string) (int, error) {
	if !given.Has(name) {
		return 0, nil
	}
	text := given.Get(name)
	status, err := strconv.Atoi(text)
	if err != nil || status < 400 || status > 499 {
		return 0, badRequest("%s: %s is not a status from 400 to 499", name, shown(text))
	}
	return status, nil
}

// of returns the status to send in place of the given one.
func (s statuses) of(status int) int {
	if s.failed != 0 && status >= http.StatusInternalServerError {
		return s.failed
	}
	return status
}

// write answers with the decision. A proxy that understands only a few statuses drops the
// body of a denial and writes its own, so the body is then also a header, unless it is too
// long.
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
		if _, text := answer.DenialBody(r, now); len(text) <= maxBodyHeader {
			w.Header().Set(bodyHeader, string(text))
		}
	}
	answer.WriteDenialAs(w, r, now, s.of(status))
}
