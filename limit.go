package stint

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Limit is what is allowed: a comparable handle to the compiled numbers of a
// validated [Spec]. Copy it freely; it is safe for use by many goroutines. The
// zero Limit is invalid: every store refuses it, and its methods return zero
// values.
//
// Compile a Limit once and keep it: compiling costs microseconds, using it
// costs nothing. Two Limits are equal when they are copies of one compiled
// Limit.
type Limit struct{ n *compiledLimit }

// Valid reports whether the Limit was compiled.
func (l Limit) Valid() bool { return l.n != nil }

// Spec returns the spec with every default set.
func (l Limit) Spec() Spec { return *l.spec() }

// spec returns the spec of a limit, which must not be changed.
func (l Limit) spec() *Spec { return &l.numbers().spec }

// numbers returns the compiled numbers of a limit, which must not be changed.
func (l Limit) numbers() *compiledLimit {
	if l.n == nil {
		return &noNumbers
	}
	return l.n
}

var noNumbers compiledLimit // of the zero Limit

// Namespace returns the first part of the scope, beside Rule and Name; it may
// be empty.
func (l Limit) Namespace() string { return l.spec().Namespace }

// Rule returns the rule that the limit belongs to; it may be empty.
func (l Limit) Rule() string { return l.spec().Rule }

// Name returns the name of the limit, unique in its rule.
func (l Limit) Name() string { return l.spec().Name }

// Store returns the name of the store that keeps the states of the limit, where there
// are several; empty is the default one. See [Spec.Store].
func (l Limit) Store() string { return l.spec().Store }

// FromCaller reports whether a caller of a server brought the limit. See
// [Spec.FromCaller].
func (l Limit) FromCaller() bool { return l.spec().FromCaller }

// Algorithm returns how the limit counts.
func (l Limit) Algorithm() Algorithm { return l.spec().Algorithm }

// Max returns the largest cost that an idle key could be allowed at once. It
// is the value of [Decision.Limit].
func (l Limit) Max() int64 { return l.numbers().max }

// Window returns the window of the limit. For a bucket with a rate and no
// window it is capacity/rate, rounded up to a second. For a quota it is the
// length of the longest period: 24 h for a day, 7 days for a week, 31 days for
// a month.
func (l Limit) Window() time.Duration {
	n := l.numbers()
	switch {
	case n.alg == Quota:
		return n.calendar.longest()
	case n.window > 0:
		return time.Duration(n.window) * time.Microsecond
	}
	seconds := (n.fill + microUnits - 1) / microUnits
	return time.Duration(seconds) * time.Second
}

// Rate returns the rate of a bucket in units a second, as the reduced
// fraction that the steps use. It is nil for algorithms without a rate.
func (l Limit) Rate() *big.Rat {
	if l.numbers().p == 0 {
		return nil
	}
	return big.NewRat(l.n.p, l.n.q)
}

// Rounded reports whether the rate of the Spec did not fit the arithmetic.
// [Limit.Rate] is then the greatest fraction below it that fits.
func (l Limit) Rounded() bool { return l.numbers().rounded }

// String returns the limit in one line, such as
// "token_bucket:1m 100 per 1m, capacity 100".
func (l Limit) String() string {
	if l.n == nil {
		return "invalid limit"
	}
	n, s := l.n, &l.n.spec
	var b strings.Builder
	b.WriteString(s.Name)
	if s.Limit > 0 {
		per := s.Period
		if s.Window > 0 {
			per = windowText(s.Window)
		}
		fmt.Fprintf(&b, " %d per %s", s.Limit, per)
	}
	switch n.alg {
	case TokenBucket, GCRA:
		fmt.Fprintf(&b, ", capacity %d", n.max)
		if s.RefillRate != "" {
			fmt.Fprintf(&b, ", %s a second", big.NewRat(n.p, n.q).RatString())
		}
	case LeakyBucket:
		fmt.Fprintf(&b, ", queue %d", s.Queue)
		if s.MaxWait > 0 {
			fmt.Fprintf(&b, ", waits at most %s", windowText(s.MaxWait))
		}
	case SlidingWindowCounter:
		fmt.Fprintf(&b, ", %d buckets", n.buckets)
	}
	return b.String()
}

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
	n := l.numbers()
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
func (l Limit) Shape() string {
	if !l.Valid() {
		return ""
	}
	return l.n.shape
}

// Share returns the part of a limit that one of the given number of nodes may
// hand out by itself: max(1, ⌈limit/nodes⌉), refilled by the rate divided by
// nodes exactly. A number below 1 counts as 1. It is an error if the divided
// rate is out of range.
func (l Limit) Share(nodes int) (Limit, error) {
	if !l.Valid() {
		return l, errZeroLimit
	}
	if nodes <= 1 {
		return l, nil
	}
	n := l.n
	share := compiledLimit{spec: n.spec, alg: n.alg, fromCaller: n.fromCaller, max: (n.max-1)/int64(nodes) + 1, window: n.window, width: n.width,
		buckets: n.buckets, maxWait: n.maxWait, calendar: n.calendar, shape: n.shape, salt: n.salt}
	if n.full > 0 {
		rate := new(big.Rat).Mul(big.NewRat(n.p, n.q), big.NewRat(1, int64(nodes)))
		if err := share.setBucket("capacity", share.max, rate); err != nil {
			return Limit{}, err
		}
	}
	return Limit{&share}, nil
}
