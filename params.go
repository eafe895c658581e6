package stint

import (
	"math/big"
	"math/bits"
)

// Numbers are what a compiled [Limit] computes with, for a store that takes
// its step elsewhere, such as a script inside a server. Times are
// microseconds. Fields that an algorithm does not use are zero.
type Numbers struct {
	Algorithm Algorithm
	Max       int64 // the limit in units: capacity, limit, or queue + 1

	// Buckets (token_bucket, gcra, leaky_bucket): Full micro-units, refilled
	// by the reduced fraction P/Q of micro-units a microsecond; Fill is the
	// time from empty to full, rounded up. P·Q, Full and Fill are below 2^52.
	Full, P, Q, Fill int64

	// MaxWait is the greatest delay of a leaky bucket; 2^53 − 1 stands for
	// any. [Claim.GreatestDelay] has it too.
	MaxWait int64

	// Window is the window of fixed_window and the sliding ones, and Width
	// is Window/Buckets.
	Window, Width int64
	Buckets       int

	// A quota's periods have the length Length and run from Origin in both
	// directions; or Length is 0 and they are months that begin in local
	// time, Offset ahead of UTC, on Day (1–31, or the month's last) at
	// TimeOfDay.
	Length, Origin, Offset, Day, TimeOfDay int64
}

// Numbers returns what the limit computes with.
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

// Shape says what a state means beside the numbers: limits of one scope and
// one shape share it, and one of another shape starts fresh. It is made of the
// algorithm, the window, the number of buckets and the calendar.
func (l Limit) Shape() string { return l.n.shape() }

// Share returns the part of a limit that one of so many nodes may hand out by
// itself: max(1, ⌈limit/nodes⌉), refilled by the rate divided by nodes
// exactly. Below 1 node counts as 1. The error says when the rate, so
// divided, is out of range.
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
