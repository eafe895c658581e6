package failuretest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// afterPromotion bounds the time from the promotion of another server until service is
// normal.
const afterPromotion = 5 * time.Second

func TestSentinelReplacesTheMaster(t *testing.T) {
	skipShort(t)
	for _, c := range []struct {
		name         string
		strike, mend func(s *redistest.SentinelServers, master *redistest.Process)
	}{
		{
			"killed",
			func(_ *redistest.SentinelServers, master *redistest.Process) { master.Kill() },
			func(_ *redistest.SentinelServers, master *redistest.Process) { master.Restart() },
		},
		{
			"frozen",
			func(_ *redistest.SentinelServers, master *redistest.Process) { master.Freeze() },
			func(_ *redistest.SentinelServers, master *redistest.Process) { master.Thaw() },
		},
		{
			"inGoodOrder",
			func(s *redistest.SentinelServers, master *redistest.Process) { s.AskFailover(master) },
			func(*redistest.SentinelServers, *redistest.Process) {},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			measure(t, func(t *testing.T) *figures { return replace(t, c.strike, c.mend) })
		})
	}
}

// replace has Sentinel replace the master under load, and the old master return as a
// replica. It checks every answer, and returns the figures. Charges that no replica
// had received are lost with the old master, but the store must not count more than was
// sent.
func replace(t *testing.T, strike, mend func(*redistest.SentinelServers, *redistest.Process)) *figures {
	t.Helper()
	s := redistest.Sentinel(t)
	n, claims, master := newNode(t, sentinel(s), patient()), claims(t), s.Master()
	awaitAnswer(t, n, claims[opens])
	l := start(t, n, claims...)
	l.await(t, normal)

	broken := time.Now()
	strike(s, master)
	promoted := awaitPromotion(t, s, master)
	back := l.awaitNormal(t, promoted)
	mend(s, master)
	awaitReplica(t, master)
	back = max(back, l.awaitNormal(t, promoted))

	samples, spans := l.stop(), n.changes.open()
	f := read(samples, spans, broken)
	f.normal, f.normalBar = back, afterPromotion
	checkPolicies(t, samples, spans)
	c := chargesOf(t, n, claims, opens, samples, spans)
	t.Logf("promoted after %v; %d checks answered, %d without an answer, %d in the store", promoted.Sub(broken), c.answered, c.unknown, c.counted)
	if c.counted > c.answered+c.unknown {
		t.Errorf("the store counts %d, want at most %d", c.counted, c.answered+c.unknown)
	}
	return f
}

func awaitReplica(t *testing.T, old *redistest.Process) {
	t.Helper()
	redistest.Await(t, func() error {
		if role, err := old.Info("role"); err != nil || role != "slave" {
			return fmt.Errorf("the old master is %q (%w)", role, err)
		}
		return nil
	})
}

// awaitPromotion returns the time at which another server reported that it is master,
// which is before the Sentinels agree.
func awaitPromotion(t *testing.T, s *redistest.SentinelServers, old *redistest.Process) (at time.Time) {
	t.Helper()
	redistest.Await(t, func() error {
		for _, p := range s.Servers {
			if p == old {
				continue
			}
			if role, err := p.Info("role"); err == nil && role == "master" {
				at = time.Now()
				return nil
			}
		}
		return fmt.Errorf("no server has replaced %s", old.Addr())
	})
	return at
}

// A claim that waits for a replica is answered only after a replica has its charge, and
// Sentinel promotes the replica with the most data. So no answered charge is lost.
func TestSentinelLosesNothingThatAReplicaHas(t *testing.T) {
	skipShort(t)
	s := redistest.Sentinel(t)
	n, master := newNode(t, sentinel(s), patient()), s.Master()
	claims := []stint.Claim{{Key: "safe", Limit: limitOf(t, plenty), Cost: 1, Policy: stint.Policy{Replicas: 1}}}
	awaitAnswer(t, n, claims[0])
	l := start(t, n, claims...)
	l.await(t, normal)
	master.Kill()
	promoted := awaitPromotion(t, s, master)
	t.Logf("normal %v after the promotion", l.awaitNormal(t, promoted))
	samples := l.stop()
	checkCharges(t, n, claims, 0, samples, n.changes.open())
}
