package penalty

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

const oneStrike = `
rules:
  - {id: api, limit: 1, window: 1h, penalty: {after: 1, cool_down: 2h, max: 8h}}
`

// inBetween runs a function once, before the next call for a limit with a given
// name and cost.
func (w *world) inBetween(name string, cost func(int64) bool, do func()) {
	w.inner.before = func(c stint.Claim) {
		if c.Limit.Name() == name && cost(c.Cost) {
			w.inner.before = nil
			do()
		}
	}
}

func above0(cost int64) bool { return cost > 0 }

func TestADenialFromBeforeAPunishmentDoesNotEarnTheNext(t *testing.T) {
	w := newWorld(t, oneStrike)
	w.allowed("k")
	w.inBetween("token_bucket:1h", above0, func() { w.denied("k", 1) })
	if got := w.denied("k", 1); got != 2*time.Hour || w.cooldowns.Load() != 1 {
		t.Errorf("wait %v after %d cool-downs, want 2h after 1", got, w.cooldowns.Load())
	}
}

func TestABurstEarnsOnePunishment(t *testing.T) {
	w := newWorld(t, oneStrike)
	w.allowed("k")
	w.denied("k", 50)
	w.pass(settling - time.Microsecond)
	w.denied("k", 50)
	if w.cooldowns.Load() != 1 {
		t.Errorf("%d cool-downs within a second", w.cooldowns.Load())
	}
	w.pass(time.Microsecond)
	if got := w.denied("k", 1); got != 4*time.Hour || w.cooldowns.Load() != 2 {
		t.Errorf("one who has had time to know: %v after %d cool-downs", got, w.cooldowns.Load())
	}
}

func TestPunishmentsUnderASecondGrowToo(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 1, cool_down: 10ms, max: 1h}}\n")
	w.allowed("k")
	for _, want := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		w.denied("k", 1)
		if d := w.gate("k"); d != want {
			t.Errorf("%v, want %v", d, want)
		}
		w.pass(want)
	}
}

// gate returns the remaining punishment of a key.
func (w *world) gate(key string) time.Duration {
	w.t.Helper()
	d, err := w.inner.Take(w.t.Context(), stint.Claim{Key: key, Limit: w.set.Rules()[0].Penalty.Gate})
	if err != nil {
		w.t.Fatal(err)
	}
	return d.ResetAfter
}

func TestADenialWhileAPunishmentBeginsDoesNotEarnTheNext(t *testing.T) {
	for _, name := range []string{"penalty.levels", "penalty"} {
		w := newWorld(t, oneStrike)
		w.allowed("k")
		w.inBetween(name, above0, func() { w.denied("k", 5) })
		if got := w.denied("k", 1); got != 2*time.Hour || w.cooldowns.Load() != 1 {
			t.Errorf("before %s is charged: %v after %d cool-downs", name, got, w.cooldowns.Load())
		}
	}
}

func TestStrikesOfWhichNothingCameAreCountedAnew(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	left := stint.Claim{Key: "k", Limit: w.set.Rules()[0].Penalty.Strikes, Cost: 3} // strikes of a node that then crashed
	if _, err := w.inner.Take(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	w.pass(settling)
	w.allowed("k")
	w.denied("k", 4)
	if w.cooldowns.Load() != 0 {
		t.Fatal("another node may be about to punish")
	}
	w.pass(time.Microsecond)
	if w.denied("k", 3); w.cooldowns.Load() != 0 {
		t.Error("punished for strikes that were counted before")
	}
	if got := w.denied("k", 1); got != 10*time.Second || w.cooldowns.Load() != 1 {
		t.Errorf("%v after %d cool-downs", got, w.cooldowns.Load())
	}
}

func TestFewerStrikesThanACallerHasPunishItSoon(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 50, window: 1d}}\n")
	w.allowed("k")
	w.denied("k", 40)
	w.use("rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 5, window: 1d}}\n")
	w.pass(2 * settling)
	if w.denied("k", 6); w.cooldowns.Load() != 1 {
		t.Errorf("%d cool-downs", w.cooldowns.Load())
	}
}

func TestOtherNumbersNeitherEndAPunishmentNorLengthenIt(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.denied("k", 3)
	for _, longest := range []string{"max: 99d, forget: 200d", "max: 5s, cool_down: 1s", "ban_after: 1, ban: 1d"} {
		w.use("rules:\n  - {id: api, limit: 1, window: 1s, penalty: {after: 100, " + longest + "}}\n")
		want := w.gate("k") - time.Second
		w.pass(time.Second)
		if got := w.denied("k", 1); got != want {
			t.Errorf("%s: %v, want %v", longest, got, want)
		}
	}
}

func TestBansOutlastAFloodOfOtherCallers(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 10, window: 1h, penalty: {after: 1, cool_down: 1h, max: 1h, ban_after: 1, ban: 1d}}\n")
	w.inner.Store = stint.NewMemory(stint.MemoryOptions{MaxKeys: 200, Clock: func() time.Time { return time.UnixMicro(w.now) }})
	for range 10 {
		w.allowed("k")
	}
	w.denied("k", 1)
	w.pass(settling)
	if got := w.denied("k", 1); got != 24*time.Hour {
		t.Fatal(got)
	}
	for i := range 20_000 {
		w.allowed(strconv.Itoa(i))
	}
	if got := w.gate("k"); got != 24*time.Hour {
		t.Errorf("%v are left", got)
	}
}

func TestRepeatedPunishmentsKeepTheirLevel(t *testing.T) {
	for _, c := range []struct {
		rules string
		worst time.Duration
	}{
		{tenASecond, 30 * time.Minute},
		{"rules:\n  - {id: api, limit: 1, window: 1s, penalty: {}}\n", 10 * time.Minute},
	} {
		w := newWorld(t, c.rules)
		w.allowed("k")
		reached := false
		for begun := w.now; w.now < begun+(24*time.Hour).Microseconds(); {
			retry := time.Second
			for retry == time.Second {
				if o := w.ask("k"); !o.Allowed() {
					retry = o.Decision.RetryAfter
				}
			}
			if reached && retry != c.worst {
				t.Fatalf("after %v: %v, want %v again", time.Duration(w.now-begun)*time.Microsecond, retry, c.worst)
			}
			reached = reached || retry == c.worst
			w.pass(retry)
		}
	}
}

func TestAForgottenCallerGetsTheFirstPunishment(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	for range 6 {
		w.pass(w.denied("k", 3))
		w.allowed("k")
	}
	w.pass(time.Hour) // an hour and a half since the last punishment began
	w.allowed("k")
	if got := w.denied("k", 3); got != 10*time.Second {
		t.Errorf("%v", got)
	}
}

func TestACallerThatHangsUpIsPunished(t *testing.T) {
	w := newWorld(t, oneStrike)
	w.allowed("k")
	ctx, cancel := context.WithCancel(t.Context())
	w.inBetween("penalty.strikes", above0, cancel)
	if _, err := w.set.Decide(ctx, w.store, rule.Map{"api_key": "k"}, 1); err != nil {
		t.Fatal(err)
	}
	if w.cooldowns.Load() != 1 {
		t.Error("not punished")
	}
}

func TestAStoreThatFailsInTheMiddlePunishesNoCaller(t *testing.T) {
	w := newWorld(t, oneStrike)
	w.allowed("k")
	w.denied("k", 1)
	w.inner.after = func(out []stint.Decision) {
		for i := range out {
			out[i] = stint.Decision{Allowed: true, Degraded: true, Limit: out[i].Limit}
		}
	}
	if o := w.ask("k"); !o.Allowed() || !o.Decision.Degraded {
		t.Errorf("%+v", o.Decision)
	}
	if w.cooldowns.Load() != 1 {
		t.Error("punished")
	}
}

// Penalties can be in another store than the rule. While only that of the rule fails, a
// punished caller stays denied, and is not told that it was admitted.
func TestPunishmentHoldsWhileTheStoreOfTheRuleFails(t *testing.T) {
	w := newWorld(t, oneStrike)
	w.allowed("k")
	w.denied("k", 1)
	w.inner.after = func(out []stint.Decision) {
		if len(out) == 1+strikeGroups { // the claim of the rule, and the strikes
			out[0] = stint.Decision{Allowed: true, Degraded: true, Limit: out[0].Limit}
		}
	}
	if o := w.ask("k"); o.Allowed() || o.Decision.Degraded || o.Decision.Penalty == stint.NoPenalty || o.Decision.RetryAfter <= 0 {
		t.Errorf("%+v", o.Decision)
	}
}

func TestPeeksSeeAPunishmentAndEarnNone(t *testing.T) {
	w := newWorld(t, tenASecond)
	peek := func() stint.Decision {
		t.Helper()
		o, err := w.set.Decide(t.Context(), w.store, rule.Map{"api_key": "k"}, 0)
		if err != nil || !o.Allowed() || o.Decision.RetryAfter != 0 {
			t.Fatalf("%+v %v", o.Decision, err)
		}
		return o.Decision
	}
	if d := peek(); d.Remaining != 1 || d.ResetAfter != 0 {
		t.Errorf("before: %+v", d)
	}
	w.allowed("k")
	w.denied("k", 3)
	w.pass(4 * time.Second) // the limit's state has expired
	turnedAway := w.turnedAway.Load()
	for range 10 {
		if d := peek(); d.Remaining != 0 || d.ResetAfter != 6*time.Second || d.NextAfter != 6*time.Second {
			t.Errorf("during: %+v", d)
		}
	}
	if w.cooldowns.Load() != 1 || w.turnedAway.Load() != turnedAway {
		t.Error("a peek counts")
	}
	w.pass(6 * time.Second)
	if d := peek(); d.Remaining != 1 {
		t.Errorf("after: %+v", d)
	}
}

func TestAPersistentCallerCostsFewCalls(t *testing.T) {
	w := newWorld(t, tenASecond)
	for _, c := range []struct {
		when  string
		calls int64
	}{
		{"allowed", 2}, {"denied", 3}, {"denied again", 3}, {"the last strike", 5},
		{"punished", 2}, {"punished again", 2}, {"a last strike too soon", 3},
	} {
		before := w.inner.calls.Load()
		w.ask("k")
		if n := w.inner.calls.Load() - before; n != c.calls {
			t.Errorf("%s: %d calls, want %d", c.when, n, c.calls)
		}
	}
}

func TestManyOfOneCallerInOneCallArePunishedOnce(t *testing.T) {
	w := newWorld(t, tenASecond)
	var groups []stint.Group
	for range 20 {
		p := w.set.Plan(rule.Map{"api_key": "k"}, 1)
		defer p.Release()
		groups = p.AppendGroups(groups)
	}
	for range 2 {
		out := make([]stint.Decision, len(groups))
		if err := w.store.TakeGroups(t.Context(), groups, out); err != nil {
			t.Fatal(err)
		}
		if last := out[len(out)-1]; last.Allowed || w.cooldowns.Load() != 1 {
			t.Errorf("%+v after %d cool-downs", last, w.cooldowns.Load())
		}
	}
}

func TestCostsThatNeverFitAreNoStrikes(t *testing.T) {
	w := newWorld(t, tenASecond)
	for range 10 {
		o, err := w.set.Decide(t.Context(), w.store, rule.Map{"api_key": "k"}, 2)
		if err != nil || o.Decision.RetryAfter != stint.Never {
			t.Fatalf("%+v %v", o.Decision, err)
		}
	}
	if w.cooldowns.Load() != 0 {
		t.Error("punished")
	}
}

func TestOnlyTheLastStrikePunishes(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	strikes := stint.Claim{Key: "k", Limit: w.set.Rules()[0].Penalty.Strikes, Cost: 3} // as if another node had recorded the strikes and were about to punish
	if _, err := w.inner.Take(t.Context(), strikes); err != nil {
		t.Fatal(err)
	}
	w.denied("k", 1)
	if w.cooldowns.Load() != 0 {
		t.Error("punished twice")
	}
}
