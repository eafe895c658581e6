package failuretest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// Nodes whose clocks differ by two hours decide alike, because they use the server's
// clock.
func TestNodesWhoseClocksDifferDecideAlike(t *testing.T) {
	p := redistest.Server(t)
	early, late := nodeAt(t, p, -time.Hour), nodeAt(t, p, time.Hour)
	limit, err := stint.Spec{Limit: 100, Window: time.Hour}.Compile() // one token in 36 s
	if err != nil {
		t.Fatal(err)
	}
	claim := stint.Claim{Key: "a", Limit: limit, Cost: 1}
	awaitAnswer(t, early, claim)
	awaitAnswer(t, late, claim)
	begun := time.Now().UnixMicro()
	for i, at := int64(0), begun; i < 110; i++ {
		n, name := early, "early"
		if i%2 == 1 {
			n, name = late, "late"
		}
		d, err := n.Take(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		if want := i < 100; d.Degraded || d.Allowed != want || d.Remaining != max(0, 99-i) {
			t.Fatalf("check %d, by the %s node: %+v, want allowed %t and %d remaining", i, name, d, want, max(0, 99-i))
		}
		if wait := d.RetryAfter; !d.Allowed && (wait <= 0 || wait > 36*time.Second) {
			t.Fatalf("check %d, by the %s node: asks to wait %v, want at most 36 s", i, name, wait)
		}
		if d.At < at || d.At > time.Now().UnixMicro() {
			t.Fatalf("check %d, by the %s node, is decided at %d, and the one before at %d", i, name, d.At, at)
		}
		at = d.At
	}
}

func nodeAt(t *testing.T, p *redistest.Process, ahead time.Duration) *node {
	t.Helper()
	o := patient()
	o.Deadline = time.Second // the test needs every answer
	o.Clock = func() time.Time { return time.Now().Add(ahead) }
	return newNode(t, single(p.Addr()), o)
}
