package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// everyKind returns limits of every algorithm, with quotas of both kinds and counters of
// both sizes.
func everyKind(tb testing.TB) (limits []stint.Limit) {
	tb.Helper()
	for _, s := range []stint.Spec{
		{Algorithm: stint.TokenBucket, RefillRate: "1.67", Capacity: 10},
		{Algorithm: stint.GCRA, Limit: 10, Window: time.Second},
		{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Minute, Queue: 9},
		{Algorithm: stint.FixedWindow, Limit: 10, Window: time.Minute},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: time.Minute},
		{Algorithm: stint.SlidingWindowCounter, Limit: 10, Window: time.Minute, Buckets: 60},
		{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Minute},
		{Algorithm: stint.Quota, Limit: 10, Period: "month"},
		{Algorithm: stint.Quota, Limit: 10, Period: "30d", Anchor: "0001-01-31T10:00:00+02:00"},
	} {
		limits = append(limits, limitOf(tb, s))
	}
	return limits
}

// A value that Stint did not write fails only the groups that need it, and stays as it
// is.
func TestForeignValuesFailTheirOwnGroupAlone(t *testing.T) {
	s := dialBoth(t)
	garbage := []string{"", "x", strings.Repeat("\xff", 11), strings.Repeat("\xff", 14), strings.Repeat("\x7f", 15), strings.Repeat("\xff", 21),
		strings.Repeat("\x80", 251), "\x7f" + strings.Repeat("\x00", 10), strings.Repeat("\xff", 7),
		strings.Repeat("\x00", 7) + strings.Repeat("\xff", 7), strings.Repeat("\x00", 14) + strings.Repeat("\xff", 7), strings.Repeat("\x00", 22)}
	for _, l := range everyKind(t) {
		for _, cost := range []int64{0, 1, 11, -1} {
			s.failsAlone(l, cost, "wrongtype", func(key string) { s.must("RPUSH", key, "mine") })
			for _, value := range garbage {
				s.failsAlone(l, cost, "corrupt", func(key string) { s.must("SET", key, value) })
			}
		}
	}
}

// The first bucket of a counter whose time is no whole number of a double is corrupt.
func TestCounterPastTheLastTimeIsCorrupt(t *testing.T) {
	s := dialBoth(t)
	for _, l := range everyKind(t) {
		if n := l.Numbers(); l.Algorithm() == stint.SlidingWindowCounter {
			value := string(appendInt7(nil, maxMicros/n.Width+1)) + strings.Repeat("\x00", 4*(n.Buckets+1))
			for _, cost := range []int64{0, 1, 11, -1} {
				s.failsAlone(l, cost, "corrupt", func(key string) { s.must("SET", key, value) })
			}
		}
	}
}

// Forget removes a value that Stint did not write. The key is then new, also for later
// groups of the same call.
func TestForeignValuesAreForgotten(t *testing.T) {
	s := dialBoth(t)
	for _, l := range everyKind(t) {
		s.forgets(l, func(key string) { s.must("RPUSH", key, "mine") })
		for _, value := range []string{"", "x", strings.Repeat("\xff", 21)} {
			s.forgets(l, func(key string) { s.must("SET", key, value) })
		}
	}
}

// forgets decides groups on a spoiled key: a peek, and groups before, with and after a
// Forget.
func (s *scripts) forgets(l stint.Limit, spoil func(key string)) {
	s.Helper()
	s.must("FLUSHALL")
	e := encodingOf(s, Options{})
	spoiled := string(e.appendKey(nil, "bad", "", e.limits.of(l).hash))
	spoil(spoiled)
	claim := func(cost int64) stint.Claim { return stint.Claim{Key: "bad", Limit: l, Cost: cost} }
	group := func(claims ...stint.Claim) stint.Group { return stint.Group{Claims: claims} }
	forget := group(stint.Claim{Key: "good", Limit: l, Cost: 1}, claim(stint.Forget))
	_, errs := s.decideAll(e, dryGroup, group(claim(stint.Forget)), group(claim(0)))
	if errs[0] != nil || errs[1] == nil {
		s.Fatalf("%v: to look at forgetting gives %v, and then %v", l, errs[0], errs[1])
	}
	out, errs := s.decideAll(e, 0, group(claim(1)), forget, group(claim(1)))
	if errs[0] == nil || errs[1] != nil || errs[2] != nil || !out[3].Allowed || out[3].Remaining != 9 {
		s.Errorf("%v: %v, and %+v after it is forgotten", l, errs, out[3])
	}
	s.must("DEL", spoiled)
	spoil(spoiled)
	if _, errs = s.decideAll(e, 0, forget); errs[0] != nil || s.must("TYPE", spoiled) != "none" {
		s.Errorf("%v: a key that was forgotten is there: %v", l, errs[0])
	}
}

func (s *scripts) decideAll(e *encoding, flags groupFlags, groups ...stint.Group) ([]stint.Decision, []error) {
	s.Helper()
	b := e.newBatch()
	for i := range groups {
		b.add(groups[i].Claims, flags)
	}
	return s.decide(b)
}

func TestLogWithDescendingTimesIsCorrupt(t *testing.T) {
	s := dialBoth(t)
	l := limitOf(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Minute})
	for _, cost := range []int64{0, 1, 11, -1} {
		s.failsAlone(l, cost, "corrupt", func(key string) {
			s.must("SET", key, "\x00\x00\x06\x60\xca\x03\xcd\x7e\x95\x00\x01"+strings.Repeat("\x00", 8)+"\x02")
		})
	}
}

func (s *scripts) must(args ...string) string {
	s.Helper()
	reply := s.do(args...)
	if err := reply.Error(); err != nil {
		s.Fatalf("%q: %v", args, err)
	}
	text, _ := reply.ToString() // a number if the test ignores it
	return text
}

// failsAlone decides groups, some of which need a spoiled key: together in one call, and
// each in a call of its own.
func (s *scripts) failsAlone(l stint.Limit, cost int64, kind stint.Kind, spoil func(key string)) {
	s.Helper()
	s.must("FLUSHALL")
	claims := func(keys ...string) (g stint.Group) {
		for _, key := range keys {
			g.Claims = append(g.Claims, stint.Claim{Key: key, Limit: l, Cost: cost})
		}
		return g
	}
	e := encodingOf(s, Options{})
	spoiled := string(e.appendKey(nil, "bad", "", e.limits.of(l).hash))
	spoil(spoiled)
	before := s.must("DUMP", spoiled)
	for _, groups := range [][]stint.Group{
		{claims("bad")},
		{claims("a"), claims("bad"), claims("b")},
		{claims("c"), claims("d", "bad"), claims("e", "f"), claims("bad"), claims("d")},
	} {
		b := e.newBatch()
		for i := range groups {
			b.add(groups[i].Claims, 0)
		}
		out, errs := s.decide(b)
		next := 0
		for i := range groups {
			bad := false
			for _, c := range groups[i].Claims {
				bad = bad || c.Key == "bad"
			}
			s.checkFault(l, errs[i], bad, kind)
			if !bad && out[next].Remaining != 10-max(0, cost)*boolInt(out[next].Allowed) {
				s.Errorf("%v: %q is decided as %+v", l, groups[i].Claims[0].Key, out[next])
			}
			next += len(groups[i].Claims)
		}
	}
	if after := s.must("DUMP", spoiled); after != before {
		s.Errorf("%v, cost %d: the foreign value is overwritten", l, cost)
	}
}

func boolInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (s *scripts) checkFault(l stint.Limit, err error, bad bool, kind stint.Kind) {
	s.Helper()
	var known *stint.Error
	switch {
	case !bad && err != nil:
		s.Errorf("%v: a key beside the spoiled one fails: %v", l, err)
	case bad && (!errors.As(err, &known) || known.Code != stint.CodeInternal || known.Kind != kind):
		s.Errorf("%v: a spoiled key gives %v, want the kind %s", l, err, kind)
	}
}

// A reply that no script sends is an error of every group, not a crash.
func TestGarbledRepliesAreErrors(t *testing.T) {
	s := dialBoth(t)
	r := newRand(t)
	for _, l := range everyKind(t) {
		e := encodingOf(t, Options{})
		b := e.newBatch()
		b.add([]stint.Claim{{Key: "a", Limit: l, Cost: 1}}, 0)
		b.add([]stint.Claim{{Key: "b", Limit: l, Cost: 1}, {Key: "c", Limit: l, Cost: 1}}, 0)
		reply := s.run(b.invocation())
		for range 300 {
			wrong := []byte(reply)[:r.IntN(len(reply)+1)]
			for range r.IntN(3) {
				if len(wrong) > 0 {
					wrong[r.IntN(len(wrong))] ^= byte(1 << r.IntN(8))
				}
			}
			b.decode(string(wrong), make([]stint.Decision, 3), make([]error, 2))
		}
		errs := make([]error, 2)
		b.decode(reply[:len(reply)/2], make([]stint.Decision, 3), errs)
		if errs[0] == nil || errs[1] == nil {
			t.Errorf("%v: half a reply is accepted", l)
		}
	}
}
