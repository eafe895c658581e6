package stint

import (
	"math/big"
	"math/bits"
)

// Numbers are the compiled numbers of a [Limit], for a store that takes the step
// elsewhere, such as in a script on a server. Times are microseconds. Fields
// that an algorithm does not use are zero.
type Numbers struct {
	Algorithm Algorithm
	Max       int64 // the limit in units: capacity, limit, or queue + 1

	// Full, P, Q and Fill are for buckets (token_bucket, gcra, leaky_bucket).
	// Full is the capacity in micro-units. P/Q is the rate as a reduced
	// fraction of micro-units a microsecond. Fill is the time from empty to
	// full, rounded up. P·Q, Full and Fill are below 2^52.
	Full, P, Q, Fill int64

	// MaxWait is the greatest delay of a leaky bucket; 2^53 − 1 stands for
	// any. [Claim.GreatestDelay] takes it into account.
	MaxWait int64

	// Window is the window of fixed_window, sliding_window_counter and
	// sliding_window_log. Width is Window/Buckets.
	Window, Width int64
	Buckets       int

	// Length, Origin, Offset, Day and TimeOfDay are for quotas. If Length is
	// above 0, periods have that length and run from Origin in both
	// directions. If Length is 0, periods are months in local time, which is
	// Offset ahead of UTC; they begin on Day (1–31, or the last day of a
	// shorter month) at TimeOfDay.
	Length, Origin, Offset, Day, TimeOfDay int64
}

// Numbers returns the compiled numbers of the limit.
func (l Limit) Numbers() Numbers {
	n := l.n
	out := Numbers{
		Algorithm: n.alg, Max: n.max, Full: n.full, P: n.p, Q: n.q, Fill: n.fill, MaxWait: n.maxWait,
		Length: n.calendar.length, Origin: n.calendar.origin,
		Offset: n.calendar.offset, Day: n.calendar.day, TimeOfDay: n.calendar.timeOfDay,
	}
	if n.buckets > 0 {
		out.Window, out.Width, out.Buckets = n.window, n.width, n.buckets
	}
	return out
}

// Shape identifies the meaning of a state: the algorithm, the window, the number
// of buckets and the calendar. Limits of one scope and one shape share a state,
// even when their other numbers differ. A limit of another shape starts fresh.
func (l Limit) Shape() string { return l.n.shape() }

// Share returns the part of a limit that one of the given number of nodes may
// hand out by itself: max(1, ⌈limit/nodes⌉), refilled by the rate divided by
// nodes exactly. A number below 1 counts as 1. It is an error if the divided
// rate is out of range.
func (l Limit) Share(nodes int) (Limit, error) {
	if nodes <= 1 {
		return l, nil
	}
	n := l.n
	share := compiledLimit{spec: n.spec, alg: n.alg, fromCaller: n.fromCaller, max: part(n.max, nodes), window: n.window, width: n.width,
		buckets: n.buckets, maxWait: n.maxWait, calendar: n.calendar, salt: n.salt}
	if n.full > 0 {
		rate := new(big.Rat).Mul(big.NewRat(n.p, n.q), big.NewRat(1, int64(nodes)))
		if err := share.setBucket("capacity", share.max, rate); err != nil {
			return Limit{}, err
		}
	}
	return Limit{&share}, nil
}

func part(limit int64, nodes int) int64 {
	whole, rest := bits.Div64(0, uint64(limit), uint64(nodes))
	if rest > 0 {
		whole++
	}
	return int64(max(1, whole))
}
