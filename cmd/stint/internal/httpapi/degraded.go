package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// statusOf returns 200 for every decision, and 503 if the request was denied because the
// store failed.
func statusOf(closed bool) int {
	if closed {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// closed reports whether a request was denied because the store failed: at least one of
// its enforced rules fails closed, whichever rule has the longest wait.
func closed(o *rule.Outcome) bool {
	if o.Face < 0 || o.Allowed() {
		return false
	}
	for i := range o.Hits {
		h := &o.Hits[i]
		if !h.Shadow && closedClaim(&h.Decision, h.Rule.Policy.OnFailure) {
			return true
		}
	}
	return false
}

func closedClaim(d *stint.Decision, onFailure stint.OnFailure) bool {
	return d.Degraded && !d.Allowed && onFailure == stint.FailClosed
}

// setRetry sets Retry-After in whole seconds, at least 1.
func setRetry(h http.Header, wait time.Duration) {
	if wait != stint.Never {
		h.Set("Retry-After", strconv.FormatInt(max(1, (milliseconds(wait)+999)/1000), 10))
	}
}
