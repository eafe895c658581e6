package httplimit

import (
	"net/http"
	"time"

	"github.com/stintdev/stint"
)

// Policy is one limit that applied to a request.
type Policy struct {
	// Name is what clients call it; see [PolicyName].
	Name string
	// Limit is the limit itself; it must be valid.
	Limit stint.Limit
	// Exceeded marks a limit that denied the request. When none is marked,
	// the deciding one counts as exceeded.
	Exceeded bool
}

// PolicyName returns the name of a limit to clients: the id of its rule when
// the rule has that limit alone, else "rule/limit". Without a rule it is the
// name of the limit.
func PolicyName(limit stint.Limit, alone bool) string {
	switch {
	case limit.Rule() == "":
		return limit.Name()
	case alone:
		return limit.Rule()
	}
	return limit.Rule() + "/" + limit.Name()
}

// Answer is what a response tells of a decision.
type Answer struct {
	// Decision is the one that decided: the face of all limits that applied.
	// When none applied it is Allowed, and Face is −1.
	Decision stint.Decision
	// Policies is every limit that applied, in order.
	Policies []Policy
	// Face is the index of the deciding policy, −1 when none applied.
	Face int
	// Dialect chooses the header fields.
	Dialect Dialect
	// Jitter is the greatest share of a retry time, from 0 to 1, that is
	// added to it at random, so that clients denied at once do not come back
	// at once. Defaults to none.
	Jitter float64
	// Listed makes it a denial by a list, whatever Decision says: 403.
	Listed bool
	// Unavailable makes it a denial for want of a store, whatever Decision
	// says: 503, with Decision.RetryAfter as the time to try again.
	Unavailable bool

	retry int64 // drawn once, so that header and body agree
}

// Allowed reports whether the request may pass.
func (a *Answer) Allowed() bool { return a.Decision.Allowed && !a.Listed && !a.Unavailable }

// Status returns the status code of the answer: 200 when the request may
// pass, else 429, 403 or 503.
func (a *Answer) Status() int {
	switch {
	case a.Listed:
		return http.StatusForbidden
	case a.Unavailable:
		return http.StatusServiceUnavailable
	case a.Decision.Allowed:
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// SetHeaders sets every header field that tells of the decision: those of the
// dialect and, on a denial, Retry-After and Cache-Control. Nothing is set
// when no limit applied. now is the time of the decision.
func (a *Answer) SetHeaders(h http.Header, now time.Time) {}

// WriteDenial is shorthand for WriteDenialAs(w, r, now, a.Status()).
func (a *Answer) WriteDenial(w http.ResponseWriter, r *http.Request, now time.Time) {
	a.WriteDenialAs(w, r, now, a.Status())
}

// WriteDenialAs writes a whole denial: headers, the status given and, unless
// the request is HEAD, a body in the form that the client prefers.
func (a *Answer) WriteDenialAs(w http.ResponseWriter, r *http.Request, now time.Time, status int) {
	a.SetHeaders(w.Header(), now)
	w.WriteHeader(status)
}
