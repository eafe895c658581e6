// Package storetest is the contract of a [stint.Store] as a test suite. It
// checks laws as properties of random histories, tables of hand-computed
// decisions for every algorithm, and counts under concurrency.
//
// Call [Run] in the tests of every store, including stores that wrap other stores,
// as the example of this package shows. [Suite] has the options.
//
// The numbered laws are the following. The name of each subtest begins with the
// number of its law.
//
//  1. A denial and a peek change nothing.
//  2. A denied claim is allowed after exactly its RetryAfter, and denied a
//     microsecond earlier.
//  3. In no interval is more charged than the algorithm allows.
//  4. The time of a key never runs back: an earlier claim is decided as of the
//     newest time.
//  5. A raised limit makes no wait longer, and a lowered one gives no new
//     allowance. A limit of another shape has a state of its own.
//  6. A group is charged whole or not at all. Its shadows are charged only with
//     it, and a dry group charges nothing.
//  7. A refund returns at most what was charged.
//  8. Every field of every decision equals that of an exact model.
//  9. A group with a [stint.Once] is charged once, however often it is repeated
//     within 60 seconds.
//
// The decisions of a store that passes match the definitions, to the
// microsecond and in every field. The suite shrinks a failing property to a
// short history, and prints it with the seed that repeats it. The flags of
// pgregory.net/rapid (-rapid.checks, -rapid.seed) apply.
package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
)

// Open returns an empty store that reads its time from clock, and rounds it down
// to a microsecond. The clock is safe for use by many goroutines, stands still
// between calls, and may run back. A store whose states expire by another
// clock must keep them long enough for a clock that stands still or runs back.
// Open registers cleanup with t.
type Open func(t *testing.T, clock func() time.Time) stint.Store

// Suite configures the tests of a store. Open is required; the other fields have
// useful zero values.
type Suite struct {
	Open Open

	// Keeps requires that the store forgets nothing. By default a store may
	// forget a state once it equals a fresh one, after which time may run back
	// for its key. Any other difference is still an error.
	Keeps bool

	// Runs is the greatest number of random histories for each law, for stores
	// with expensive calls. Zero: the value of -rapid.checks (100).
	Runs int

	// Steps is the approximate number of calls in one random history. Zero: 40.
	Steps int
}

// Run is shorthand for Suite{Open: open}.Run(t).
func Run(t *testing.T, open Open) {
	t.Helper()
	Suite{Open: open}.Run(t)
}

// Run tests the store. Each law is a subtest with a new store.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			b := s.bench()
			b.store = s.Open(t, b.time)
			l.check(t, b)
		})
	}
}

// law is one part of the contract. The names of the numbered laws, which the comment of
// the package lists, begin with their numbers.
type law struct {
	name  string
	check func(rapid.TB, *bench)
}

func laws() []law {
	all := []law{
		{"1 deny is free", denyIsFree},
		{"2 truthful retry", truthfulRetry},
		{"2 truthful retry of groups", truthfulRetryOfGroups},
		{"3 envelope", envelope},
		{"4 time never runs back", timeNeverRunsBack},
		{"5 raising never waits longer", raisingNeverWaitsLonger},
		{"5 lowering gives nothing", loweringGivesNothing},
		{"5 only charges change a state", changingBackChangesNothing},
		{"5 another shape is another limit", anotherShapeIsFresh},
		{"6 all or none", allOrNone},
		{"6 shadows follow", shadowsFollow},
		{"6 dry groups charge nothing", dryChargesNothing},
		{"6 groups of many and of none", largeGroups},
		{"7 refund", refund},
		{"8 same everywhere", sameEverywhere},
		{"9 repeats charge once", repeatsChargeOnce},
		{"9 concurrent repeats charge once", concurrentRepeats},
		{"9 denials are not remembered", denialsAreNotRemembered},
		{"9 shadows of repeats", shadowsOfRepeats},
		{"9 repeated refunds", repeatedRefundsRefundOnce},
		{"9 wrong ids", wrongIDs},
		{"batch equals single takes", batchEqualsSingles},
		{"forget drops the state", forgetDrops},
		{"extra takes what there is", extraTakesWhatThereIs},
		{"limits of callers are apart", callersLimitsAreApart},
		{"wrong claims are refused", wrongClaims},
		{"one wrong group leaves the others", oneWrongGroup},
		{"a wrong shadow fails alone", wrongShadow},
		{"concurrent takes admit the limit", concurrentTakes},
		{"concurrent groups are whole", concurrentGroups},
	}
	for _, t := range tables() {
		all = append(all, law{"table " + t.name, t.check})
	}
	return all
}

// bench is a store under test and the clock that it reads.
type bench struct {
	store       stint.Store
	clock       atomic.Int64
	keeps       bool
	runs, steps int
	scopes      atomic.Int64 // handed out so far
}

func (s Suite) bench() *bench {
	b := &bench{keeps: s.Keeps, runs: s.Runs, steps: s.Steps}
	if b.steps == 0 {
		b.steps = 40
	}
	b.clock.Store(year2026)
	return b
}

// time returns the time by the clock: almost a microsecond later, which a store must
// round down.
func (b *bench) time() time.Time { return time.UnixMicro(b.clock.Load()).Add(999 * time.Nanosecond) }

// newScope returns a new prefix for the keys of one history. All histories of a
// law share one store, so each needs its own keys.
func (b *bench) newScope() string { return fmt.Sprintf("%d/", b.scopes.Add(1)) }

// check draws histories until one breaks the property, at most b.runs of them if
// that is above zero.
func (b *bench) check(tb rapid.TB, property func(h *history)) {
	tb.Helper()
	done, broken, running := 0, false, false
	rapid.Check(tb, func(t *rapid.T) {
		broken = broken || running // after a failure rapid shrinks the history, and b.runs does not bound those runs
		if !broken && b.runs > 0 && done >= b.runs {
			return
		}
		running = true
		property(b.history(t))
		running = false
		done++
	})
}
