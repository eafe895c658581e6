// Package leasecheck checks the admissions of nodes that lease from one store, by a
// merged trace, against the bounds that package lease promises. It shares no code with
// that package.
package leasecheck

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Admission is a request that a node let through.
type Admission struct {
	// Asked and When are the times of the request and its answer, in microseconds by the
	// one clock of the trace. The store decided in between.
	Asked, When int64

	Cost int64
	At   int64 // Decision.At: the time of the charge, by the store's clock
	// Batch is true if the answer waited for answers to other requests. A node that
	// decides by itself decides at Asked.
	Batch bool
}

// Charge is the charge of one answer of the store, whether or not the answer arrived.
type Charge struct {
	When int64 // by the clock of the trace
	At   int64 // by the store's clock
	Cost int64 // of the request and of the tokens granted with it
}

// Return is a refund by a node.
type Return struct {
	At   int64 // the store's time of the charge
	Cost int64
}

// Trace holds the events of one key under one limit.
type Trace struct {
	Limit      stint.Limit
	Lease      time.Duration // how long a token may be held
	Stretch    time.Duration // added to the time of the bound: Lease, or 0 if the limit is partitioned
	Admissions []Admission
	Charges    []Charge // the charges of all calls of all nodes
	Returns    []Return
}

// Tokens checks that every admission spent a token that was charged for it alone, at most
// one lease time before, and that no spent token was refunded.
func (t *Trace) Tokens() error {
	charged := make(map[int64]Charge)
	for _, c := range t.Charges {
		sum := charged[c.At]
		charged[c.At] = Charge{When: max(sum.When, c.When), At: c.At, Cost: sum.Cost + c.Cost}
	}
	used := make(map[int64]int64)
	for _, a := range t.Admissions {
		c, ok := charged[a.At]
		if !ok {
			return fmt.Errorf("admitted at %d: nothing was charged at %d", a.When, a.At)
		}
		when := a.When
		if a.Batch {
			when = max(a.Asked, c.When)
		}
		if age := when - c.When; age > t.Lease.Microseconds() {
			return fmt.Errorf("admitted at %d: its token was charged %d µs before", when, age)
		}
		used[a.At] += a.Cost
	}
	for _, r := range t.Returns {
		used[r.At] += r.Cost
	}
	for at, n := range used {
		if have := charged[at].Cost; n > have {
			return fmt.Errorf("of %d tokens charged at %d, %d were admitted or returned", have, at, n)
		}
	}
	return nil
}

// Stranded returns how many tokens were neither admitted nor refunded.
func (t *Trace) Stranded() (n int64) {
	for _, c := range t.Charges {
		n += c.Cost
	}
	for _, a := range t.Admissions {
		n -= a.Cost
	}
	for _, r := range t.Returns {
		n -= r.Cost
	}
	return n
}

// decided returns the time of the admission: that of the charge if the charge was made
// for this request.
func (a *Admission) decided() int64 { return min(max(a.At, a.Asked), a.When) }

// Bound checks the admissions against the bound of the limit's algorithm, with the
// stretch. It reads nothing else of the trace, and assumes that the store's clock equals
// the clock of the trace.
func (t *Trace) Bound() error {
	slices.SortStableFunc(t.Admissions, func(a, b Admission) int { return cmp.Compare(a.decided(), b.decided()) })
	n, stretch := t.Limit.Numbers(), t.Stretch.Microseconds()
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA:
		return t.envelope(&n, stretch)
	case stint.FixedWindow:
		return t.each(func(at int64) int64 { return at / n.Window })
	case stint.SlidingWindowLog:
		return t.within(n.Max, n.Window-stretch)
	case stint.SlidingWindowCounter:
		return t.within(n.Max, n.Window-n.Width-stretch)
	}
	return fmt.Errorf("no bound is known of %s", n.Algorithm)
}

// envelope checks that at most C + r·(t + stretch) is admitted in any time t: with S the
// sum of costs up to an admission, S − r·time never rises by more than C + r·stretch.
func (t *Trace) envelope(n *stint.Numbers, stretch int64) error {
	rate := big.NewRat(n.P, n.Q)
	most := new(big.Rat).Add(micro(n.Max), new(big.Rat).Mul(rate, big.NewRat(stretch, 1)))
	sum := int64(0)
	var least *big.Rat
	for i, a := range t.Admissions {
		refilled := new(big.Rat).Mul(rate, big.NewRat(a.decided()-t.Admissions[0].decided(), 1))
		before := new(big.Rat).Sub(micro(sum), refilled)
		if least == nil || before.Cmp(least) < 0 {
			least = before
		}
		sum += a.Cost
		if rise := new(big.Rat).Sub(new(big.Rat).Sub(micro(sum), refilled), least); rise.Cmp(most) > 0 {
			return fmt.Errorf("admission %d at %d: %s micro-units over %s", i, a.decided(), rise.FloatString(1), most.FloatString(1))
		}
	}
	return nil
}

func micro(units int64) *big.Rat { return big.NewRat(units*1_000_000, 1) }

// each checks that no window admits more than the limit.
func (t *Trace) each(window func(at int64) int64) error {
	counts := make(map[int64]int64)
	for _, a := range t.Admissions {
		w := window(a.decided())
		if counts[w] += a.Cost; counts[w] > t.Limit.Max() {
			return fmt.Errorf("window %d admits %d of %d", w, counts[w], t.Limit.Max())
		}
	}
	return nil
}

// within checks that no interval of a width, one end excluded, admits more than
// the limit.
func (t *Trace) within(limit, width int64) error {
	first, sum := 0, int64(0)
	for i, a := range t.Admissions {
		sum += a.Cost
		for a.decided()-t.Admissions[first].decided() >= width {
			sum -= t.Admissions[first].Cost
			first++
		}
		if sum > limit {
			return fmt.Errorf("admission %d at %d: %d of %d in %d µs", i, a.decided(), sum, limit, a.decided()-t.Admissions[first].decided())
		}
	}
	return nil
}
