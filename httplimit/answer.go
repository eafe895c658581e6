package httplimit

import (
	"math/rand/v2"
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

// Answer is what a response tells of a decision. It is for one request and
// one goroutine.
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
	// at once. It is added in whole seconds, so that short times get none.
	// Defaults to none.
	Jitter float64
	// Listed makes it a denial by a list, whatever Decision says: 403.
	Listed bool
	// Unavailable makes it a denial for want of a store, whatever Decision
	// says: 503, with Decision.RetryAfter as the time to try again.
	Unavailable bool

	retry int64 // drawn once, so that header and body agree
}

// Allowed reports whether the request may pass.
func (a *Answer) Allowed() bool { return a.Status() == http.StatusOK }

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

// face is the deciding policy, nil when none applied.
func (a *Answer) face() *Policy {
	if a.Face < 0 || a.Face >= len(a.Policies) {
		return nil
	}
	return &a.Policies[a.Face]
}

// quota is what the i-th policy lets an idle client use at once: nothing, where
// a rule that denies everything decided.
func (a *Answer) quota(i int) int64 {
	if d := &a.Decision; i == a.Face && d.Limit == 0 && d.RetryAfter == stint.Never {
		return 0
	}
	return a.Policies[i].Limit.Max()
}

// degraded reports whether the answer was found without the store.
func (a *Answer) degraded() bool { return a.Decision.Degraded || a.Unavailable }

// retrySeconds is what Retry-After says of a denial: never less than the true
// wait and at least 1. It is 0 when no wait helps.
func (a *Answer) retrySeconds() int64 {
	wait := a.Decision.RetryAfter
	if a.Allowed() || a.Listed || wait == stint.Never {
		return 0
	}
	if a.retry == 0 {
		spread := int64(min(max(a.Jitter, 0), 1) * wait.Seconds())
		a.retry = max(1, seconds(wait)) + rand.Int64N(spread+1)
	}
	return a.retry
}

// resetAt is when the key is as if never used, in Unix seconds rounded up. It
// counts from the decision rather than from now: a window that ends with a
// second must not end a second later because the answer came a little after.
func (a *Answer) resetAt(now time.Time) int64 {
	if decided := time.UnixMicro(a.Decision.At); a.Decision.At > 0 && decided.Before(now) {
		now = decided
	}
	at := now.Add(a.Decision.ResetAfter)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// nextSeconds is how long until additional quota is made available, before
// jitter; 0 when it never is.
func (a *Answer) nextSeconds() int64 {
	switch d := &a.Decision; {
	case d.Allowed:
		return seconds(d.NextAfter)
	case d.RetryAfter == stint.Never:
		return 0
	default:
		return seconds(d.RetryAfter)
	}
}

// seconds rounds up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
