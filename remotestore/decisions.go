package remotestore

import (
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// checkDecisions returns an error if a column is not one of n decisions: empty, one
// entry for all, or n entries.
func checkDecisions(m *stintv1.Decisions, n int) error {
	for _, entries := range [...]int{
		len(m.GetAllowed()), len(m.GetLimit()), len(m.GetRemaining()), len(m.GetRetryAfterUs()), len(m.GetResetAfterUs()),
		len(m.GetNextAfterUs()), len(m.GetDelayUs()), len(m.GetGranted()), len(m.GetAtUs()), len(m.GetNever()), len(m.GetDegraded()),
	} {
		if entries > 1 && entries != n {
			return garbled("a column does not fit the claims")
		}
	}
	return nil
}

// readDecisions reads len(out) decisions, from index first on.
func readDecisions(out []stint.Decision, m *stintv1.Decisions, first int) {
	for i := range out {
		at := first + i
		out[i] = stint.Decision{
			Allowed: entry(m.GetAllowed(), at), Degraded: entry(m.GetDegraded(), at),
			Limit: entry(m.GetLimit(), at), Remaining: entry(m.GetRemaining(), at),
			RetryAfter: micros(entry(m.GetRetryAfterUs(), at)), ResetAfter: micros(entry(m.GetResetAfterUs(), at)),
			NextAfter: micros(entry(m.GetNextAfterUs(), at)), Delay: micros(entry(m.GetDelayUs(), at)),
			Granted: entry(m.GetGranted(), at), At: entry(m.GetAtUs(), at),
		}
		if entry(m.GetNever(), at) {
			out[i].RetryAfter = stint.Never
		}
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// entry returns entry i of a column. An empty column is zero for all; a column of one
// entry holds for all.
func entry[V any](column []V, i int) (zero V) {
	switch len(column) {
	case 0:
		return zero
	case 1:
		return column[0]
	}
	return column[i]
}
