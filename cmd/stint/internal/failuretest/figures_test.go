package failuretest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// The bounds of time.
const (
	mostAtAll  = guard.DefaultDeadline + 10*time.Millisecond
	mostOpen   = time.Millisecond      // 99 of 100 checks with the breaker open
	leastWait  = 10 * time.Millisecond // shortest wait for a server that is slow or silent: an open breaker never waits
	mostNormal = time.Second           // from the return of the server until service is normal
)

// figures are the measurements of one failure. The longest checks are given both
// without the delays of the host and with them.
type figures struct {
	checks, degraded, failed int
	p50, p999, most          time.Duration
	slowest                  string        // start and result of the slowest check
	openP99, openMost        time.Duration // of checks refused by an open breaker
	raw, rawOpen             time.Duration // longest of each, delays of the host included
	opened                   time.Duration // from the failure until the breaker opened
	opens                    int           // number of openings, where that is asserted
	misrouted                int           // degraded checks of servers that had not failed
	normal, normalBar        time.Duration // from the return of the server to the last degraded answer
}

func (f *figures) String() string {
	return fmt.Sprintf("%d checks, %d degraded, %d errors; p50 %v, p99.9 %v, most %v (%s); breaker open after %v, then p99 %v, most %v; normal after %v; with delays of the host: most %v, open %v",
		f.checks, f.degraded, f.failed, f.p50, f.p999, f.most, f.slowest, f.opened, f.openP99, f.openMost, f.normal, f.raw, f.rawOpen)
}

// read computes the figures from samples and the times of an open breaker.
func read(samples []sample, open []span, broken time.Time) *figures {
	f := &figures{checks: len(samples), normalBar: mostNormal}
	var all, apart []time.Duration
	for i := range samples {
		s := &samples[i]
		all, f.raw = append(all, s.took), max(f.raw, s.took)
		if s.net() > f.most {
			f.most, f.slowest = s.net(), fmt.Sprintf("began %v after the failure, degraded %t, error %v", s.begun.Sub(broken), s.d.Degraded, s.err)
		}
		if s.err != nil {
			f.failed++
		} else if s.d.Degraded {
			f.degraded++
		}
		if refused(open, s) {
			apart, f.rawOpen, f.openMost = append(apart, s.took), max(f.rawOpen, s.took), max(f.openMost, s.net())
		}
	}
	f.p50, f.p999 = quantile(all, 0.5), quantile(all, 0.999)
	f.openP99 = quantile(apart, 0.99)
	if len(open) > 0 {
		f.opened = open[0].from.Sub(broken)
	}
	return f
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))].Round(time.Microsecond)
}

// late returns an error for each bound that was exceeded.
func (f *figures) late() error {
	var late []error
	for _, bar := range []struct {
		what      string
		took, bar time.Duration
	}{
		{"a check", f.most, mostAtAll},
		{"99 of 100 checks with the breaker open", f.openP99, mostOpen},
		{"a check with the breaker open", f.openMost, leastWait},
		{"the way back to normal", f.normal, f.normalBar},
	} {
		if bar.took > bar.bar {
			late = append(late, fmt.Errorf("%s took %v, want at most %v", bar.what, bar.took, bar.bar))
		}
	}
	if f.misrouted > 0 {
		late = append(late, fmt.Errorf("%d checks of servers that did not fail were answered without them", f.misrouted))
	}
	if f.opens > 1 {
		late = append(late, fmt.Errorf("the breaker opened %d times in one failure", f.opens))
	}
	return errors.Join(late...)
}

// attempts bounds the measurements of a case (see the package comment).
const attempts = 5

// measure runs a case until it has met its bounds of time more often than it has
// exceeded them, and prints its figures.
func measure(t *testing.T, run func(t *testing.T) *figures) {
	t.Helper()
	var late error
	met := 0
	for range attempts {
		f := run(t)
		t.Log(f)
		err := f.late()
		if err == nil {
			met++
		} else {
			t.Logf("late: %v", err)
			late, met = err, met-1
		}
		if met > 0 || t.Failed() {
			return
		}
	}
	t.Error(late)
}

// limitOf returns a limit of n tokens that refills less than one during a test.
func limitOf(t *testing.T, n int64) stint.Limit {
	t.Helper()
	l, err := stint.Spec{Rule: "failures", Name: "limit", Limit: 1, Window: 24 * time.Hour, Capacity: n}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The claims of a load, one of each policy.
const (
	opens = iota
	closes
	decides
)

const (
	plenty   = 40_000
	scarce   = 400
	itsShare = scarce / nodes
)

func claims(t *testing.T) []stint.Claim {
	t.Helper()
	return []stint.Claim{
		opens:   {Key: "open", Limit: limitOf(t, plenty), Cost: 1},
		closes:  {Key: "closed", Limit: limitOf(t, plenty), Cost: 1, Policy: stint.Policy{OnFailure: stint.FailClosed}},
		decides: {Key: "local", Limit: limitOf(t, scarce), Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLocal}},
	}
}
