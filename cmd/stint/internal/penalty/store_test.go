package penalty

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storetest"
)

// heard is an observer that counts its calls.
type heard struct{ cooldowns, bans, hot, turnedAway atomic.Int64 }

func (h *heard) Began(p *Punishment) {
	switch p.Kind {
	case stint.HotKey:
		h.hot.Add(1)
		return
	case stint.Ban:
		h.bans.Add(1)
		return
	}
	h.cooldowns.Add(1)
}
func (h *heard) Denied(string) { h.turnedAway.Add(1) }

// counted is a store that counts calls and can run a function before one.
type counted struct {
	stint.Store

	calls  atomic.Int64
	fail   atomic.Bool
	before func(stint.Claim) // runs once; receives the first claim of a group call
	after  func([]stint.Decision)
}

func (c *counted) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	if err := c.come(ctx, claim); err != nil {
		return stint.Decision{}, err
	}
	if c.fail.Load() && claim.Limit.Name() == "penalty" {
		return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable}
	}
	return c.Store.Take(ctx, claim)
}

func (c *counted) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := c.come(ctx, groups[0].Claims[0]); err != nil {
		return err
	}
	err := c.Store.TakeGroups(ctx, groups, out)
	if c.after != nil {
		c.after(out)
	}
	return err
}

// come counts a call. It fails for a cancelled context, as a store behind a
// network does.
func (c *counted) come(ctx context.Context, claim stint.Claim) error {
	c.calls.Add(1)
	if f := c.before; f != nil {
		f(claim)
	}
	return ctx.Err()
}

// world holds rules over a punishing store, and a clock that the test advances.
type world struct {
	heard

	t     *testing.T
	now   int64 // time of the store, in µs
	inner *counted
	store *Store
	set   *rule.Set

	hotKey string // the key that is hot
}

func newWorld(t *testing.T, rules string) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()}
	w.inner = &counted{Store: stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return time.UnixMicro(w.now) }})}
	w.store = New(w.inner, &w.heard, func(_ stint.Limit, key string) bool { return w.hotKey != "" && strings.Contains(key, w.hotKey) })
	w.use(rules)
	return w
}

// use puts other rules in force.
func (w *world) use(rules string) {
	w.t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.set = set
	w.store.Use(set)
}

func (w *world) pass(d time.Duration) { w.now += d.Microseconds() }

// ask decides a request of a key with cost 1.
func (w *world) ask(key string) rule.Outcome {
	w.t.Helper()
	o, err := w.set.Decide(w.t.Context(), w.store, rule.Map{"api_key": key, "ip": "192.0.2.1", "path": "/"}, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// denied sends n requests that must all be denied and returns the last retry
// time.
func (w *world) denied(key string, n int) (retry time.Duration) {
	w.t.Helper()
	for range n {
		o := w.ask(key)
		if o.Allowed() {
			w.t.Fatal("allowed")
		}
		retry = o.Decision.RetryAfter
	}
	return retry
}

func (w *world) allowed(key string) {
	w.t.Helper()
	if o := w.ask(key); !o.Allowed() {
		w.t.Fatalf("denied for %v", o.Decision.RetryAfter)
	}
}

const tenASecond = `
rules:
  - id: api
    limit: 1
    window: 1s
    penalty: {after: 3, window: 1m, cool_down: 10s, factor: 3, max: 40s, ban_after: 3, ban: 30m, forget: 1h}
`

func TestCooldownsGrowAndEndInABan(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	if retry := w.denied("k", 2); retry != time.Second {
		t.Errorf("before its last strike a caller waits %v", retry)
	}
	for i, want := range []time.Duration{10 * time.Second, 30 * time.Second, 40 * time.Second, 30 * time.Minute, 30 * time.Minute} {
		n := 3
		if i == 0 {
			n = 1 // two strikes are already recorded
		}
		if got := w.denied("k", n); got != want {
			t.Errorf("punishment %d: %v, want %v", i+1, got, want)
		}
		kind, reason := stint.CoolDown, "Blocked until "
		if want == 30*time.Minute {
			kind, reason = stint.Ban, "Banned until "
		}
		reason += time.UnixMicro(w.now).Add(want+time.Second-time.Microsecond).UTC().Truncate(time.Second).Format(time.RFC3339) + " after 3 denials"
		for _, pass := range []time.Duration{want - time.Second, time.Second - time.Microsecond} {
			w.pass(pass)
			if o := w.ask("k"); o.Decision.Penalty != kind || o.Reason() != reason {
				t.Errorf("punishment %d: %v, %q, want %q", i+1, o.Decision.Penalty, o.Reason(), reason)
			} else if pass < time.Second && (o.Allowed() || o.Decision.RetryAfter != time.Microsecond) {
				t.Errorf("punishment %d: over too early: %+v", i+1, o.Decision)
			}
		}
		w.pass(2 * time.Minute) // the strikes expire
		w.allowed("k")
	}
	if w.cooldowns.Load() != 3 || w.bans.Load() != 2 {
		t.Errorf("%d cool-downs, %d bans", w.cooldowns.Load(), w.bans.Load())
	}
}

func TestACallerThatWaitsForItsRetryTimeIsNeverPunished(t *testing.T) {
	w := newWorld(t, tenASecond)
	for range 1000 {
		for o := w.ask("k"); !o.Allowed(); o = w.ask("k") {
			w.pass(30 * time.Second) // more than enough, and fewer strikes a minute than three
		}
	}
	if w.cooldowns.Load() != 0 || w.turnedAway.Load() != 0 {
		t.Errorf("%d cool-downs", w.cooldowns.Load())
	}
}

func TestOldStrikesAreForgotten(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.denied("k", 3)
	w.pass(time.Hour + time.Minute)
	w.allowed("k")
	if got := w.denied("k", 3); got != 10*time.Second {
		t.Errorf("an hour later: %v", got)
	}
}

func TestHammeringThroughACooldownMakesItLonger(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.denied("k", 3)
	w.pass(4 * time.Second)
	if got := w.denied("k", 3); got != 30*time.Second {
		t.Errorf("%v, want that of the second punishment from now on", got)
	}
}

func TestPunishmentIsOfOneKeyAndChargesNothing(t *testing.T) {
	w := newWorld(t, tenASecond+"  - {id: all, by: [ip], limit: 100, window: 1h}\n")
	w.allowed("k")
	w.denied("k", 3)
	w.pass(5 * time.Second) // the limit itself would admit now
	o := w.ask("k")
	if o.Allowed() || o.Hits[o.Binding].Rule.ID != "api" || o.Decision.RetryAfter != 5*time.Second || o.Decision.Remaining != 0 {
		t.Errorf("%+v", o.Decision)
	}
	if all := o.Hits[1].Decision; !all.Allowed || all.Remaining != 99 {
		t.Errorf("the other rule was charged by one who is punished: %+v", all)
	}
	w.allowed("other")
	if all := w.ask("third").Hits[1].Decision; all.Remaining != 97 {
		t.Errorf("%d remain", all.Remaining)
	}
}

func TestARetryIsTruthfulAlsoWhenTheLimitTakesLonger(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 1, cool_down: 10s}}\n")
	w.allowed("k")
	if got := w.denied("k", 2); got != time.Hour {
		t.Errorf("%v", got)
	}
	w.pass(time.Hour)
	w.allowed("k")
}

// A caller whose limit takes longer than its penalty is told of the limit.
func TestADenialByTheLimitIsNoPenalty(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 2, cool_down: 10s}}\n")
	w.allowed("k")
	for range 5 {
		if o := w.ask("k"); o.Allowed() || o.Decision.Penalty != stint.NoPenalty || o.Reason() != "" {
			t.Errorf("%+v, %q", o.Decision, o.Reason())
		}
	}
	w.pass(time.Hour)
	if o := w.ask("k"); !o.Allowed() || o.Decision.Penalty != stint.NoPenalty {
		t.Errorf("%+v", o.Decision)
	}
}

// The memory of punishments may be shorter than a ban.
func TestABanIsNamedAfterItsLevelIsForgotten(t *testing.T) {
	w := newWorld(t, `
rules:
  - id: api
    limit: 1
    window: 1s
    penalty: {after: 1, cool_down: 10s, max: 10s, ban_after: 1, ban: 3h, forget: 1h}
`)
	w.allowed("k")
	w.denied("k", 1)
	w.pass(11 * time.Second)
	w.allowed("k")
	w.denied("k", 1)
	for range 2 {
		if o := w.ask("k"); o.Decision.Penalty != stint.Ban || !strings.HasSuffix(o.Reason(), " after 1 denial") {
			t.Errorf("%+v, %q", o.Decision, o.Reason())
		}
		w.pass(time.Hour + time.Minute)
	}
}

const hotFor1m = "rules:\n  - {id: api, limit: 100000, window: 1s, penalty: {hot_key: 1m}}\n"

func TestAHotKeyIsBanned(t *testing.T) {
	w := newWorld(t, hotFor1m)
	w.allowed("k")
	w.hotKey = "k"
	for i := range 3 {
		o := w.ask("k")
		if o.Allowed() || o.Decision.Penalty != stint.HotKey || o.Decision.RetryAfter != time.Minute-time.Duration(i)*time.Second {
			t.Errorf("request %d: %+v", i, o.Decision)
		}
		if got, want := o.Reason(), "Banned until 2026-03-01T12:01:00Z after too many requests per second"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		w.allowed("other")
		w.pass(time.Second)
	}
	w.hotKey = ""
	w.pass(57*time.Second - time.Microsecond)
	w.denied("k", 1)
	w.pass(time.Microsecond)
	w.allowed("k")
	w.hotKey = "k"
	w.denied("k", 100)
	if w.hot.Load() != 2 || w.cooldowns.Load() != 0 || w.bans.Load() != 0 {
		t.Errorf("%d bans of hot keys, %d cool-downs, %d bans", w.hot.Load(), w.cooldowns.Load(), w.bans.Load())
	}
}

// A rule with hot_key alone does not punish denials.
func TestHotKeyAlonePunishesNoDenials(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: api, limit: 1, window: 1s, penalty: {hot_key: 1m}}\n")
	w.allowed("k")
	if got := w.denied("k", 100); got != time.Second {
		t.Errorf("%v", got)
	}
	w.use("rules:\n  - {id: api, limit: 1, window: 1s, penalty: {hot_key: 1m, after: 5}}\n")
	if got := w.denied("k", 100); got < 10*time.Second {
		t.Errorf("%v", got)
	}
}

func TestManyRequestsOfAHotKeyBeginOneBan(t *testing.T) {
	w := newWorld(t, hotFor1m)
	w.hotKey = "k"
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if o := w.ask("k"); o.Allowed() || o.Decision.RetryAfter != time.Minute {
				t.Errorf("%+v", o.Decision)
			}
		})
	}
	all.Wait()
	if w.hot.Load() != 1 {
		t.Errorf("%d bans", w.hot.Load())
	}
}

func TestPeeksAndFailuresBanNoHotKey(t *testing.T) {
	w := newWorld(t, hotFor1m)
	w.hotKey = "k"
	if o, err := w.set.Decide(t.Context(), w.store, rule.Map{"api_key": "k", "path": "/"}, 0); err != nil || !o.Allowed() {
		t.Errorf("%+v, %v", o, err)
	}
	w.inner.fail.Store(true)
	w.allowed("k")
	w.inner.fail.Store(false)
	w.denied("k", 1)
}

func TestForgettingForgives(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.denied("k", 3)
	w.pass(time.Second)
	claims, err := w.set.RuleClaims(w.set.Rules()[0], rule.Map{"api_key": "k"}, stint.Forget)
	if err != nil || len(claims) != 4 {
		t.Fatal(len(claims), err)
	}
	for _, c := range claims {
		if _, err := w.store.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	w.allowed("k")
	if got := w.denied("k", 3); got != 10*time.Second {
		t.Errorf("its levels are not forgiven: %v", got)
	}
}

func TestRulesWithoutAPenaltyCostNoCall(t *testing.T) {
	w := newWorld(t, "rules:\n  - {id: plain, match: {path: /plain}, limit: 1, window: 1s}\n  - {id: hard, match: {path: /hard}, limit: 9, window: 1s, penalty: {}}\n")
	for _, c := range []struct {
		path  string
		calls int64
	}{{"/plain", 1}, {"/plain", 1}, {"/hard", 2}} {
		before := w.inner.calls.Load()
		if _, err := w.set.Decide(t.Context(), w.store, rule.Map{"api_key": "k", "path": c.path}, 1); err != nil {
			t.Fatal(err)
		}
		if n := w.inner.calls.Load() - before; n != c.calls {
			t.Errorf("%s: %d calls, want %d", c.path, n, c.calls)
		}
	}
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "1/s"), Cost: 1}
	if n := testing.AllocsPerRun(100, func() { _, _ = w.store.Take(t.Context(), claim) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Callers of RESP and the protocols choose scopes that may equal the id of a rule.
func TestALimitInTheScopeOfARuleIsNotPunished(t *testing.T) {
	w := newWorld(t, tenASecond)
	l, err := stint.Spec{Rule: "api", Limit: 1, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := w.store.Take(t.Context(), stint.Claim{Key: "k", Limit: l, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if calls := w.inner.calls.Load(); calls != 10 || w.cooldowns.Load() != 0 {
		t.Errorf("%d calls, %d cool-downs", calls, w.cooldowns.Load())
	}
}

// A request that is being decided while the rules change has the limits of the
// previous set.
func TestAChangeOfRulesLetsNoPunishedCallerThrough(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.denied("k", 3)
	w.pass(2 * time.Second) // the limit itself would admit now
	before := w.set
	w.use(strings.ReplaceAll(tenASecond, "limit: 1", "limit: 2"))
	w.set = before
	w.denied("k", 1)
	w.use("rules: [{id: api, limit: 1, window: 1s}]")
	w.set = before
	w.allowed("k")
}

func TestAnUnavailableStorePunishesNoCaller(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("k")
	w.inner.fail.Store(true)
	w.denied("k", 10)
	if w.cooldowns.Load() != 0 {
		t.Error("punished")
	}
	w.inner.fail.Store(false)
	w.denied("k", 3)
	if w.cooldowns.Load() != 1 {
		t.Error("not punished")
	}
}

func TestAlternativesArePunishedWhenAllDeny(t *testing.T) {
	w := newWorld(t, `
rules:
  - id: any
    combine: any
    limits: [{limit: 1, window: 1h}, {limit: 2, window: 60}]
    penalty: {after: 1, cool_down: 2h, max: 2h}
`)
	w.allowed("k") // charges both limits; afterwards one of them denies
	w.allowed("k")
	if w.cooldowns.Load() != 0 {
		t.Error("punished though one of the limits admits")
	}
	if got := w.denied("k", 1); got != 2*time.Hour {
		t.Errorf("%v", got)
	}
}

func TestRequestsInOneCallArePunishedApart(t *testing.T) {
	w := newWorld(t, tenASecond)
	w.allowed("bad")
	w.denied("bad", 3)
	var groups []stint.Group
	for _, key := range []string{"a", "bad", "b"} {
		p := w.set.Plan(rule.Map{"api_key": key}, 1)
		defer p.Release()
		groups = p.AppendGroups(groups)
	}
	out := make([]stint.Decision, len(groups))
	if err := w.store.TakeGroups(t.Context(), groups, out); err != nil {
		t.Fatal(err)
	}
	if !out[0].Allowed || out[1].Allowed || !out[2].Allowed || out[1].RetryAfter != 10*time.Second {
		t.Errorf("%+v", out)
	}
}

// newNodes returns three nodes that share a Redis server and the rules.
func newNodes(t *testing.T, rules string, all *heard, hot func(stint.Limit, string) bool) (nodes [3]*Store, set *rule.Set) {
	t.Helper()
	redis := redistest.Server(t)
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		inner, err := redisstore.New(redisstore.Options{Addrs: []string{redis.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { inner.Close() })
		nodes[i] = New(inner, all, hot)
		nodes[i].Use(set)
	}
	return nodes, set
}

// Nodes that notice a hot key at the same time ban it once.
func TestNodesThatShareAStoreBanAHotKeyTogether(t *testing.T) {
	var all heard
	nodes, set := newNodes(t, "rules:\n  - {id: api, limit: 1000, window: 1s, penalty: {hot_key: 1h}}\n", &all, func(stint.Limit, string) bool { return true })
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			o, err := set.Decide(t.Context(), nodes[i%3], rule.Map{"api_key": "k"}, 1)
			if d := o.Decision; err != nil || d.Allowed || d.Penalty != stint.HotKey || d.RetryAfter > time.Hour || d.RetryAfter < 50*time.Minute {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	wg.Wait()
	if n := all.hot.Load(); n != 1 {
		t.Errorf("%d bans", n)
	}
}

func TestNodesThatShareAStorePunishTogether(t *testing.T) {
	var all heard
	nodes, set := newNodes(t, "rules:\n  - {id: api, limit: 1, window: 1h, penalty: {after: 20, cool_down: 2h, max: 10h, ban_after: 9, ban: 20h}}\n", &all, nil)
	ask := func(node *Store) rule.Outcome {
		o, err := set.Decide(t.Context(), node, rule.Map{"api_key": "k"}, 1)
		if err != nil {
			t.Error(err)
		}
		return o
	}
	if o := ask(nodes[0]); !o.Allowed() {
		t.Fatal("denied")
	}
	var wg sync.WaitGroup
	for i := range 20 { // concurrent strikes of three nodes
		wg.Go(func() { ask(nodes[i%3]) })
	}
	wg.Wait()
	if n := all.cooldowns.Load(); n != 1 {
		t.Fatalf("%d cool-downs, want the one of the last strike", n)
	}
	for i, node := range nodes {
		if o := ask(node); o.Allowed() || o.Decision.RetryAfter <= time.Hour || o.Decision.RetryAfter > 2*time.Hour {
			t.Errorf("node %d: %+v", i, o.Decision)
		}
	}
}

func TestWithoutPenaltiesItIsTheStoreThatItWraps(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) stint.Store {
		return New(stint.NewMemory(stint.MemoryOptions{Clock: clock}), &heard{}, nil)
	})
}

func mustLimit(t *testing.T, text string) stint.Limit {
	t.Helper()
	l, err := stint.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The limits of a canary are punished as those of the set beside it, and the former limits of a
// rule by the penalty that it has in the first set.
func TestACanaryHasItsPenalties(t *testing.T) {
	parse := func(limit, after int) *rule.Set {
		set, err := rule.Parse(rule.File{Name: "a.yaml", Data: fmt.Appendf(nil, "rules: [{id: a, limit: %d, window: 60, penalty: {after: %d, window: 1m, cool_down: 1m}}]", limit, after)})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	before, control, canary := parse(3, 3), parse(2, 2), parse(1, 1)
	s := New(stint.NewMemory(stint.MemoryOptions{}), nil, nil)
	s.Use(before)
	s.Use(control, canary)
	for _, c := range []struct{ of, want *rule.Set }{{control, control}, {canary, canary}, {before, control}} {
		claim := stint.Claim{Limit: c.of.Rules()[0].Effective(c.of)[0].Limits[0], Cost: 1}
		if got := s.penaltyOf(&claim); got != c.want.Rules()[0].Penalty {
			t.Errorf("%v has the penalty %v", claim.Limit, got)
		}
	}
}
