package failuretest

import (
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// checkPolicies checks every answer that was given without the store: open admits,
// closed denies with a retry time, local admits exactly its share.
func checkPolicies(t *testing.T, samples []sample, open []span) {
	t.Helper()
	for i := range samples {
		s := &samples[i]
		switch {
		case s.err != nil:
			t.Fatalf("claim %d: %v", s.claim, s.err)
		case !s.d.Degraded:
		case s.claim == opens && !s.d.Allowed:
			t.Fatalf("open denied: %+v", s.d)
		case s.claim == closes && (s.d.Allowed || s.d.RetryAfter <= 0 || s.d.RetryAfter > time.Second):
			t.Fatalf("closed answered %+v, want a denial until the next probe", s.d)
		}
	}
	checkShares(t, samples, open)
}

// checkShares checks the number of requests that local admitted: its share in all
// failures together, less the requests that the store admitted after the first
// failure, which the local limit counts too.
func checkShares(t *testing.T, samples []sample, open []span) {
	t.Helper()
	samples = slices.Clone(samples)
	slices.SortFunc(samples, func(a, b sample) int { return a.begun.Compare(b.begun) })
	decided, admitted, counted := 0, 0, 0
	for i := range samples {
		switch s := &samples[i]; {
		case s.claim != decides:
		case s.d.Degraded:
			if decided++; s.d.Allowed {
				admitted++
			}
		case decided > 0 && s.d.Allowed:
			counted++
		}
	}
	if least := min(itsShare-counted, decided); admitted > itsShare || admitted < least {
		t.Errorf("local admitted %d of %d, want from %d to its share of %d (%d failures)", admitted, decided, least, itsShare, len(open))
	}
}

// charges counts the results of one claim's checks, each of cost 1.
type charges struct {
	answered int64 // admitted by the store
	unknown  int64 // without an answer: the store may have charged them
	counted  int64 // charges that the store has counted
}

// chargesOf counts the results of a claim with a large limit. Checks that began while
// the breaker was open were not sent.
func chargesOf(t *testing.T, store stint.Store, claims []stint.Claim, claim int, samples []sample, open []span) (c charges) {
	t.Helper()
	for i := range samples {
		s := &samples[i]
		switch {
		case s.claim != claim:
		case s.err == nil && !s.d.Degraded:
			c.answered++
		case !refused(open, s):
			c.unknown++
		}
	}
	c.counted = plenty - awaitAnswer(t, store, claims[claim]).Remaining
	return c
}

// checkCharges checks the count of a claim in the store: every check that the store
// admitted, plus at most the checks that were sent and never answered.
func checkCharges(t *testing.T, store stint.Store, claims []stint.Claim, claim int, samples []sample, open []span) {
	t.Helper()
	c := chargesOf(t, store, claims, claim, samples, open)
	t.Logf("%s: %d checks answered, %d without an answer, %d in the store", claims[claim].Key, c.answered, c.unknown, c.counted)
	if c.counted < c.answered || c.counted > c.answered+c.unknown {
		t.Errorf("%s: the store counts %d, want from %d to %d", claims[claim].Key, c.counted, c.answered, c.answered+c.unknown)
	}
}
