package storekit

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestRefillTimeIsRoundedUp(t *testing.T) {
	for _, c := range []struct{ p, q, units, want int64 }{
		{1, 1, 1, 1_000_000}, {167, 100, 1, 598_803}, {1, 34_560_000, 3, 103_680_000_000_000}, {100, 1, 1_000_000_000, 10_000_000_000_000}, {3, 1, 0, 0},
	} {
		if got := refillTime(stint.Numbers{P: c.p, Q: c.q}, c.units); got != c.want {
			t.Errorf("%d units at %d/%d: %d; want %d", c.units, c.p, c.q, got, c.want)
		}
	}
}

// A slow bucket may be full again only at the end of representable time.
func TestRefundTimeIsBounded(t *testing.T) {
	limit, err := stint.Spec{Algorithm: stint.GCRA, Limit: 1, Window: 24 * time.Hour, Capacity: 27_133}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := stint.Claim{Key: "k", Limit: limit, Cost: 1}
	charged := stint.Decision{Allowed: true, At: lastMicros - 1, ResetAfter: 27_133 * 24 * time.Hour}
	if c.At = refilledFrom(&c, &charged); c.Validate() != nil || c.At < charged.At {
		t.Errorf("%d: %v", c.At, c.Validate())
	}
}
