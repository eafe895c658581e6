package stint

import (
	"math/big"
	"time"
)

// Limit is what is allowed: a comparable handle to the compiled numbers of a
// validated [Spec]. Copy it freely; it is safe for use by many goroutines. The
// zero Limit is invalid, and every store refuses it.
//
// Compile a Limit once and keep it: compiling costs microseconds, using it
// costs nothing. Two Limits are equal when they are copies of one compiled
// Limit.
type Limit struct{ n *compiledLimit }

// Valid reports whether the Limit was compiled.
func (l Limit) Valid() bool { return l.n != nil }

// Spec returns the spec with every default set.
func (l Limit) Spec() Spec { return l.n.spec }

// Namespace returns the first part of the scope, beside Rule and Name; it may
// be empty.
func (l Limit) Namespace() string { return l.n.spec.Namespace }

// Rule returns the rule that the limit belongs to; it may be empty.
func (l Limit) Rule() string { return l.n.spec.Rule }

// Name returns the name of the limit, unique in its rule.
func (l Limit) Name() string { return l.n.spec.Name }

// FromCaller reports whether a caller of a server brought the limit. See
// [Spec.FromCaller].
func (l Limit) FromCaller() bool { return l.n.spec.FromCaller }

// Algorithm returns how the limit counts.
func (l Limit) Algorithm() Algorithm { return l.n.spec.Algorithm }

// Max returns the largest cost that an idle key could be allowed at once. It
// is the value of [Decision.Limit].
func (l Limit) Max() int64 { return l.n.max }

// Window returns the window of the limit. For a bucket with a rate and no
// window it is capacity/rate, rounded up to a second. For a quota it is the
// length of the longest period: 24 h for a day, 7 days for a week, 31 days for
// a month.
func (l Limit) Window() time.Duration { return l.n.describedWindow() }

// Rate returns the rate of a bucket in units a second, as the reduced
// fraction that the steps use. It is nil for algorithms without a rate.
func (l Limit) Rate() *big.Rat {
	if l.n.p == 0 {
		return nil
	}
	return big.NewRat(l.n.p, l.n.q)
}

// Rounded reports whether the rate of the Spec did not fit the arithmetic.
// [Limit.Rate] is then the greatest fraction below it that fits.
func (l Limit) Rounded() bool { return l.n.rounded }

// String returns the limit in one line, such as
// "token_bucket:1m 100 per 1m, capacity 100".
func (l Limit) String() string {
	if l.n == nil {
		return "invalid limit"
	}
	return l.n.String()
}
