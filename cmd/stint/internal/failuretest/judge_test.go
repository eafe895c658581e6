package failuretest

import (
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// judgePolicies checks every answer that was given without the store: open
// admits, closed denies and says when to ask again, local admits exactly its
// share.
func judgePolicies(t *testing.T, samples []sample, open []span) {
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
	judgeShares(t, samples, open)
}

// judgeShares checks what local admitted: its share in all failures together,
// less what the store admitted after the first of them, which counts there, too.
func judgeShares(t *testing.T, samples []sample, open []span) {
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

// charges is what became of one claim's checks, all of cost 1.
type charges struct {
	answered int64 // admitted by the store
	unknown  int64 // without an answer, so sent or not
	counted  int64 // by the store
}

// chargesOf counts what became of a claim of plenty. Checks begun while the
// breaker was open were not sent.
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

// judgeCharges checks what the store has counted of a claim: every check that
// it admitted, and beside those at most the ones that were sent and never
// answered.
func judgeCharges(t *testing.T, store stint.Store, claims []stint.Claim, claim int, samples []sample, open []span) {
	t.Helper()
	c := chargesOf(t, store, claims, claim, samples, open)
	t.Logf("%s: %d checks answered, %d without an answer, %d in the store", claims[claim].Key, c.answered, c.unknown, c.counted)
	if c.counted < c.answered || c.counted > c.answered+c.unknown {
		t.Errorf("%s: the store counts %d, want from %d to %d", claims[claim].Key, c.counted, c.answered, c.answered+c.unknown)
	}
}
