package failuretest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
)

// The claims of a load, one of which waits for a replica.
const (
	waitsForOne = iota
	needsNone
)

// A rule that waits for a replica does not affect other rules, neither if the replica
// is 12 ms away, nor if it is frozen.
func TestRuleThatWaitsForReplicasLeavesTheStoreToOthers(t *testing.T) {
	skipShort(t)
	master := redistest.Server(t, "--repl-diskless-sync", "no")
	way := redistest.Proxy(t, master.Addr())
	host, port, _ := strings.Cut(way.Addr(), ":")
	replica := redistest.Server(t, "--replicaof", host, port, "--repl-diskless-sync", "no")
	master.AwaitReplicas(1)
	way.Delay(6 * time.Millisecond)

	// Two in five checks wait for the replica. A busy host makes some of the others slow
	// too, but fewer than one in seven. Each has a deadline of a second.
	b := guard.DefaultBreaker()
	b.SlowRatio = 0.15
	n := newNode(t, single(master.Addr()), guard.Options{Breaker: &b, Deadline: time.Second})
	claims := []stint.Claim{
		waitsForOne: {Key: "replicas", Limit: limitOf(t, plenty), Cost: 1, Policy: stint.Policy{Replicas: 1}},
		needsNone:   {Key: "none", Limit: limitOf(t, plenty), Cost: 1, Policy: stint.Policy{OnFailure: stint.FailClosed}},
	}
	awaitAnswer(t, n, claims[needsNone])
	slow := checkBeside(t, n, claims)
	if slow.took < 10*time.Millisecond || slow.degraded > slow.answered {
		t.Errorf("the replica is 12 ms away: its checks took %v, and %d of %d were answered without it", slow.took, slow.degraded, slow.degraded+slow.answered)
	}
	replica.Freeze()
	defer replica.Thaw()
	if frozen := checkBeside(t, n, claims); frozen.answered > 0 || frozen.counted == 0 {
		t.Errorf("the replica is frozen: %d checks were answered as if it were not, and %d were charged", frozen.answered, frozen.counted)
	}
}

// beside counts the results of the checks that wait for a replica.
type beside struct {
	answered, degraded int
	counted            int64         // charges that the store has counted
	took               time.Duration // median latency of a check
}

// checkBeside runs a load for longer than a breaker's window. It fails the test if a
// breaker opens, or if a check that needs no replica is affected.
func checkBeside(t *testing.T, n *node, claims []stint.Claim) (b beside) {
	t.Helper()
	before := plenty - awaitAnswer(t, n, claims[waitsForOne]).Remaining
	l := start(t, n, claims...)
	<-time.After(2 * guard.DefaultBreaker().Window)
	samples := l.stop()
	var took []time.Duration
	others, unanswered := 0, 0
	for i := range samples {
		s := &samples[i]
		switch {
		case s.err != nil:
			t.Fatal(s.err)
		case s.claim == needsNone:
			others++
			if s.d.Degraded {
				unanswered++
			}
		case s.d.Degraded:
			b.degraded++
		default:
			b.answered++
		}
		if s.claim == waitsForOne {
			took = append(took, s.took)
		}
	}
	b.took, b.counted = quantile(took, 0.5), plenty-awaitAnswer(t, n, claims[waitsForOne]).Remaining-before
	t.Logf("%+v; of %d others %d had no answer", b, others, unanswered)
	if unanswered > 0 {
		t.Errorf("%d of %d checks that need no replica had no answer", unanswered, others)
	}
	if c := n.changes.last(); !c.at.IsZero() {
		t.Errorf("the breaker of %s went from %v to %v", strconv.Quote(c.shard), c.from, c.to)
	}
	return b
}
