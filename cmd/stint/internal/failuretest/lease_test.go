package failuretest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/lease"
)

// warmLimit is far above the rate of the load, so that leases and the store decide
// which checks are admitted, and not the limit.
func warmClaims(t *testing.T) []stint.Claim {
	t.Helper()
	l, err := stint.Spec{Rule: "failures", Name: "warm", Limit: 100_000, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return []stint.Claim{
		opens:  {Key: "open", Limit: l, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}},
		closes: {Key: "closed", Limit: l, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailClosed}},
	}
}

// When its server stops, a node decides with the tokens that it holds until their lease
// ends, and then by the failure policy of the rules. No check waits for more than one
// call.
func TestServerStopsUnderLeases(t *testing.T) {
	skipShort(t)
	measure(t, func(t *testing.T) *figures {
		p := redistest.Server(t)
		n := newNode(t, single(p.Addr()), patient())
		leased, err := lease.New(n, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer leased.Close()
		claims := warmClaims(t)
		awaitAnswer(t, n, claims[opens])
		l := start(t, leased, claims...)
		l.await(t, normal)

		broken := time.Now()
		p.Freeze()
		l.awaitTime(t, broken.Add(5*time.Second))
		mended := time.Now()
		p.Thaw()
		back := l.awaitNormal(t, mended)

		samples, spans := l.stop(), n.changes.open()
		f := read(samples, spans, broken)
		f.normal = back
		checkPolicies(t, samples, spans)
		checkLeases(t, samples, broken, mended)
		return f
	})
}

// awaitTime lets the load run until the given time.
func (l *load) awaitTime(t *testing.T, then time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(then)):
	case <-t.Context().Done():
	}
}

// checkLeases checks that every admission during the stop of the server was degraded or
// came from a lease that had not ended.
func checkLeases(t *testing.T, samples []sample, broken, mended time.Time) {
	t.Helper()
	fromLeases := 0
	for i := range samples {
		s := &samples[i]
		if s.begun.Before(broken) || s.begun.After(mended) || s.d.Degraded || !s.d.Allowed {
			continue
		}
		fromLeases++
		if late := s.begun.Sub(broken); late > lease.DefaultTime {
			t.Errorf("admitted %v after the server stopped, without being degraded", late)
		}
	}
	if t.Logf("%d admissions from leases after the server stopped", fromLeases); fromLeases == 0 {
		t.Error("nothing was leased when the server stopped")
	}
}
