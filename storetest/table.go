package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

// table is a script of claims on one key, with hand-computed answers. Its times
// count from start.
type table struct {
	name  string
	start string // RFC 3339; empty: midnight of 1 January 2026
	spec  stint.Spec
	rows  []row
}

// row is one claim with the expected decision, or a change of the limit.
type row struct {
	when        time.Duration
	cost, extra int64
	taken       *time.Duration // when the refunded units were taken
	maxDelay    time.Duration
	change      *stint.Spec
	want        stint.Decision // the decision, without Limit
	asOf        time.Duration  // the time of At, since start
}

func tables() []table {
	var all []table
	for _, of := range [][]table{bucketTables(), windowTables(), counterTables(), logTables(), leakyTables(), quotaTables()} {
		all = append(all, of...)
	}
	return all
}

// check runs the script on the store and on the model, so that the hand-computed
// answers check both.
func (s table) check(tb rapid.TB, b *bench) {
	tb.Helper()
	h := b.scripted(tb)
	h.model = oracle.New()
	start := s.startTime(tb)
	c := stint.Claim{Key: h.scope, Limit: mustCompile(tb, s.spec)}
	for i, r := range s.rows {
		if r.change != nil {
			c.Limit = mustCompile(tb, *r.change)
			continue
		}
		b.clock.Store(start + r.when.Microseconds())
		c.Cost, c.Extra, c.At, c.MaxDelay = r.cost, r.extra, 0, r.maxDelay
		if r.taken != nil {
			c.At = start + r.taken.Microseconds()
		}
		want := r.want
		want.Limit, want.At = c.Limit.Max(), start+r.asOf.Microseconds()
		if got := h.take(c); got != want {
			tb.Fatalf("row %d, after %v: %s\ngot  %s\nwant %s", i, r.when, claimText(c), decisionText(got), decisionText(want))
		}
	}
}

func (s table) startTime(tb rapid.TB) int64 {
	tb.Helper()
	if s.start == "" {
		return year2026
	}
	t, err := time.Parse(time.RFC3339, s.start)
	if err != nil {
		tb.Fatalf("start of the table: %v", err)
	}
	return t.UnixMicro()
}

func mustCompile(tb rapid.TB, s stint.Spec) stint.Limit {
	tb.Helper()
	s.Name = "table"
	l, err := s.Compile()
	if err != nil {
		tb.Fatalf("%+v: %v", s, err)
	}
	return l
}

// take is a row that takes cost, or peeks with 0.
func take(when time.Duration, cost int64, want stint.Decision) row {
	return row{when: when, cost: cost, want: want, asOf: when}
}

// more is a row that takes cost, and up to extra units beside it.
func more(when time.Duration, cost, extra int64, want stint.Decision) row {
	return row{when: when, cost: cost, extra: extra, want: want, asOf: when}
}

// back is a row that refunds cost, which was charged at the time taken.
func back(when time.Duration, cost int64, taken time.Duration, want stint.Decision) row {
	return row{when: when, cost: -cost, taken: &taken, want: want, asOf: when}
}

// backNow is a row that refunds cost without a time of its charge.
func backNow(when time.Duration, cost int64, want stint.Decision) row {
	return row{when: when, cost: -cost, want: want, asOf: when}
}

// forget is a row that drops the state.
func forget(when time.Duration, want stint.Decision) row {
	return row{when: when, cost: stint.Forget, want: want, asOf: when}
}

// change is a row that replaces the limit for the rows after it.
func change(to stint.Spec) row { return row{change: &to} }

// at sets the expected time of the decision, for a row that is decided as of
// another time than its own.
func (r row) at(asOf time.Duration) row {
	r.asOf = asOf
	return r
}

// within sets the MaxDelay of the claim.
func (r row) within(maxDelay time.Duration) row {
	r.maxDelay = maxDelay
	return r
}

func yes(remaining int64, reset, next time.Duration) stint.Decision {
	return stint.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset, NextAfter: next}
}

// delayed is yes with the delay of a leaky bucket.
func delayed(delay time.Duration, remaining int64, reset, next time.Duration) stint.Decision {
	d := yes(remaining, reset, next)
	d.Delay = delay
	return d
}

// granted is yes with a part of the Extra granted.
func granted(extra, remaining int64, reset, next time.Duration) stint.Decision {
	d := yes(remaining, reset, next)
	d.Granted = extra
	return d
}

func no(remaining int64, retry, reset, next time.Duration) stint.Decision {
	return stint.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset, NextAfter: next}
}

// Units of the tables.
const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
	day = 24 * time.Hour
)
