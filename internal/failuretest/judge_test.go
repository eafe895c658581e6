package failuretest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// judgePolicies checks every answer that was given without the store: open
// admits, closed denies and says when to ask again, local admits exactly its
// share in each failure.
func judgePolicies(t *testing.T, samples []sample, failures int) {
	t.Helper()
	var decided, admitted int
	for i := range samples {
		s := &samples[i]
		switch {
		case s.err != nil:
			t.Errorf("claim %d: %v", s.claim, s.err)
			return
		case !s.d.Degraded:
		case s.claim == opens && !s.d.Allowed:
			t.Errorf("open denied: %+v", s.d)
			return
		case s.claim == closes && (s.d.Allowed || s.d.RetryAfter <= 0 || s.d.RetryAfter > time.Second):
			t.Errorf("closed answered %+v, want a denial until the next probe", s.d)
			return
		case s.claim == decides:
			decided++
			if s.d.Allowed {
				admitted++
			}
		}
	}
	if most := itsShare * max(1, failures); admitted > most || failures == 1 && admitted != min(itsShare, decided) {
		t.Errorf("local admitted %d of %d in %d failures, want its share of %d in each", admitted, decided, failures, itsShare)
	}
}

// judgeCharges checks what the store has counted of the open claim: every
// check that it admitted, and beside those at most the ones that were sent
// before the breaker opened and never answered.
func judgeCharges(t *testing.T, store stint.Store, samples []sample, open []span) {
	t.Helper()
	var answered, unknown int64
	for i := range samples {
		s := &samples[i]
		if s.claim != opens || s.err != nil {
			continue
		}
		if !s.d.Degraded {
			answered++
		} else if len(open) == 0 || s.begun.Before(open[0].from) {
			unknown++
		}
	}
	d, err := store.Take(t.Context(), stint.Claim{Key: claims(t)[opens].Key, Limit: claims(t)[opens].Limit})
	if err != nil || d.Degraded {
		t.Errorf("peek: %+v, %v", d, err)
		return
	}
	charged := plenty - d.Remaining
	t.Logf("charges: %d answered, %d without an answer, %d in the store", answered, unknown, charged)
	if charged < answered || charged > answered+unknown {
		t.Errorf("the store has %d charges, want from %d to %d", charged, answered, answered+unknown)
	}
}
