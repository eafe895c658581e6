package httplimit

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stintdev/stint"
)

// Policy is one limit that applied to a request.
type Policy struct {
	// Name identifies the policy to clients; see [PolicyName].
	Name string
	// Limit is the limit itself; it must be valid.
	Limit stint.Limit
	// Exceeded marks a limit that denied the request. If no limit of the
	// answer is marked, the binding limit counts as exceeded.
	Exceeded bool
}

// PolicyName returns the name of a limit for clients. It is "rule/limit", or the id of
// the rule if alone, that is if the rule has no other limit. A limit without a rule has
// its own name.
func PolicyName(limit stint.Limit, alone bool) string {
	switch {
	case limit.Rule() == "":
		return limit.Name()
	case alone:
		return limit.Rule()
	}
	return limit.Rule() + "/" + limit.Name()
}

// Answer is a decision in the form that a response reports to the client. It is for
// one request and one goroutine.
type Answer struct {
	// Decision is the combined decision of all limits that applied. If no limit applied,
	// it is Allowed and Binding is −1.
	Decision stint.Decision
	// Policies is every limit that applied, in order.
	Policies []Policy
	// Binding is the index of the binding policy, or −1 if no limit applied.
	Binding int
	// Dialect chooses the header fields.
	Dialect Dialect
	// Jitter spreads the retries of clients that were denied at the same moment. A
	// random part, at most Jitter times the retry time, is added to it in whole
	// seconds; short retry times therefore get none. From 0 to 1; defaults to 0.
	Jitter float64
	// Listed says that a deny list denied the request, whatever Decision says: 403.
	Listed bool
	// Unavailable says that the request was denied because the store is unavailable,
	// whatever Decision says: 503, with Decision.RetryAfter as the time to try again.
	// A Decision that is Unavailable says the same.
	Unavailable bool
	// Header has further header fields for the response, in canonical form. SetHeaders sets
	// them with those of the decision.
	Header http.Header
	// Reason, if not empty, replaces the message about the limit in the body of a denial.
	// It is for denials by a penalty, of which Decision.Penalty is the kind.
	Reason string

	retry int64 // in seconds, with jitter; computed once, so that header and body agree
}

// Allowed reports whether the request may pass.
func (a *Answer) Allowed() bool { return a.Status() == http.StatusOK }

// Status returns the status code of the answer: 200 when the request may pass, and 429,
// 403 or 503 when it may not.
func (a *Answer) Status() int {
	switch {
	case a.Listed:
		return http.StatusForbidden
	case a.unavailable():
		return http.StatusServiceUnavailable
	case a.Decision.Allowed:
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// binding returns the binding policy, or nil if no limit applied.
func (a *Answer) binding() *Policy {
	if a.Binding < 0 || a.Binding >= len(a.Policies) {
		return nil
	}
	return &a.Policies[a.Binding]
}

// quota returns how much an idle client may use at once under policy i. It is 0 for
// the binding policy if that denies everything.
func (a *Answer) quota(i int) int64 {
	if d := &a.Decision; i == a.Binding && d.Limit == 0 && d.RetryAfter == stint.Never {
		return 0
	}
	return a.Policies[i].Limit.Max()
}

// degraded reports whether the answer was made without the store.
func (a *Answer) degraded() bool { return a.Decision.Degraded || a.Unavailable }

func (a *Answer) unavailable() bool { return a.Unavailable || a.Decision.Unavailable }

// retrySeconds returns the Retry-After of a denial: the wait rounded up, plus jitter,
// at least 1. It is 0 when the request was not denied or no wait helps.
func (a *Answer) retrySeconds() int64 {
	wait := a.Decision.RetryAfter
	if a.Allowed() || a.Listed || wait == stint.Never {
		return 0
	}
	if a.retry == 0 {
		a.retry = max(1, seconds(wait))
		if a.Jitter > 0 { // false for NaN
			a.retry += rand.Int64N(int64(min(a.Jitter, 1)*wait.Seconds()) + 1)
		}
	}
	return a.retry
}

// RetryAfter returns how long a denied client should wait, as Retry-After reports it: in
// whole seconds, with jitter. It is 0 if the request was not denied, or if no wait helps.
func (a *Answer) RetryAfter() time.Duration {
	if s := a.retrySeconds(); s < int64(stint.Never/time.Second) {
		return time.Duration(s) * time.Second
	}
	return stint.Never
}

// Wait waits for the delay that a leaky bucket gives an allowed request, or until ctx
// ends: the error is then a [*stint.Error] of code CodeCanceled. Without a delay it
// returns at once.
func (a *Answer) Wait(ctx context.Context) error {
	if a.Decision.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(a.Decision.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &stint.Error{Code: stint.CodeCanceled, Problem: "the request ended while it was delayed", Err: context.Cause(ctx)}
	}
}

// resetAt returns the time at which the key is as if never used, in Unix seconds
// rounded up. It counts from the time of the decision rather than from now: otherwise
// a window that ends on a whole second would be reported one second late.
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

// nextSeconds returns the seconds until more quota becomes available, without jitter;
// 0 if it never does.
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

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
