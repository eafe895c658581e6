package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// TestScriptsDecideAsTheStepsDo compares the scripts with the steps of package stint, bit
// by bit: batches of random groups on random limits, at times that jump in both
// directions, while the limits change. Each decision must equal that of the memory store,
// and each value on the server the state of the Go steps.
func TestScriptsDecideAsTheStepsDo(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	s := dialBoth(t)
	seed := rand.Uint64()
	for round := range rounds {
		w := newFuzzWorld(t, s, rand.New(rand.NewPCG(seed, uint64(round))), fmt.Sprint("fuzz", round))
		for range 40 {
			w.step()
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// scripts runs invocations on a server, and on other interpreters to compare.
type scripts struct {
	testing.TB

	client rueidis.Client
	others []*lua54
}

func dialScripts(tb testing.TB, addr string) *scripts {
	tb.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return &scripts{TB: tb, client: client}
}

func (s *scripts) do(args ...string) rueidis.RedisResult {
	for _, l := range s.others {
		l.forward(args)
	}
	return s.client.Do(context.Background(), s.client.B().Arbitrary(args...).Build())
}

func (s *scripts) run(i invocation) string {
	s.Helper()
	return s.eval(i.script.text, i.keys, i.args, nil)[0]
}

// decide runs a batch and returns its decisions and errors.
func (s *scripts) decide(b *batch) ([]stint.Decision, []error) {
	s.Helper()
	i := b.invocation()
	callers := 0
	for g := range b.groups {
		callers += b.callers(&b.groups[g])
	}
	out, errs := make([]stint.Decision, callers), make([]error, len(b.groups))
	b.decode(s.eval(i.script.text, i.keys, i.args, b.withoutLifetimes)[0], out, errs)
	return out, errs
}

// fuzzWorld has keys and limits, on the server and in memory.
type fuzzWorld struct {
	*scripts

	rand    *rand.Rand
	now     int64
	encode  *encoding
	memory  *stint.Memory
	prefix  string
	plain   bool            // only claims that the short scripts can decide
	limits  [][]stint.Limit // the limits of a row share their state
	history []stint.Decision
}

func newFuzzWorld(t *testing.T, s *scripts, r *rand.Rand, prefix string) *fuzzWorld {
	t.Helper()
	w := &fuzzWorld{scripts: s, rand: r, prefix: prefix, now: r.Int64N(5e15), plain: r.IntN(3) == 0}
	clock := func() time.Time { return time.UnixMicro(w.now) }
	w.encode = encodingOf(t, Options{Prefix: prefix, Clock: clock, KeepFor: time.Hour})
	if r.IntN(2) == 0 { // without this, few logs would have enough runs to fill a block
		w.encode.take = newScript(strings.Replace(takeScript, "RUN, BLOCK = 9, 64", "RUN, BLOCK = 9, 2", 1))
	}
	w.memory = stint.NewMemory(stint.MemoryOptions{Clock: clock, KeepAll: true})
	for i := range 1 + r.IntN(3) {
		w.limits = append(w.limits, w.drawLimits(fmt.Sprint("limit", i)))
	}
	return w
}

// step moves the clock and decides one batch.
func (w *fuzzWorld) step() {
	w.pass()
	b := w.encode.newBatch()
	var want []stint.Decision
	repeats, calls := w.rand.IntN(4) == 0, 1+w.rand.IntN(5)
	if w.rand.IntN(3) == 0 {
		calls = 1 // the script of a single claim decides it, if it has one caller
	}
	for i := range calls {
		switch {
		case w.plain:
			want = append(want, w.repeat(b, fmt.Sprint("key", i))...)
		case repeats:
			want = append(want, w.repeat(b, w.key())...)
		default:
			want = append(want, w.groups(b)...)
		}
	}
	got, errs := w.decide(b)
	for _, err := range errs {
		if err != nil {
			w.Error(err)
		}
	}
	if !slices.Equal(got, want) {
		w.report(b, got, want)
	}
	w.compareStates(b)
	w.history = got
}

func (w *fuzzWorld) report(b *batch, got, want []stint.Decision) {
	for i := range want {
		if got[i] != want[i] {
			w.Errorf("decision %d at %d (plain: %v)\n got %+v\nwant %+v", i, w.now, b.plain, got[i], want[i])
		}
	}
	for i := range b.lines {
		l := &b.lines[i]
		w.Errorf("line %d: %v key %q cost %d extra %d at %d any %d times %d", i, l.limit.limit, l.claim.Key, l.claim.Cost, l.claim.Extra, l.claim.At, l.claim.AnyOf, l.times)
	}
}

// repeat adds a plain claim of several callers.
func (w *fuzzWorld) repeat(b *batch, key string) (want []stint.Decision) {
	c := stint.Claim{Key: key, Limit: w.limit(w.rand.IntN(len(w.limits))), Cost: w.cost(), At: 0}
	c.Cost, c.MaxDelay = max(c.Cost, 0), w.maxDelay(c.Limit)
	group := b.add([]stint.Claim{c}, 0)
	times := max(1, w.rand.IntN(8)-2)
	for range times - 1 {
		b.again(group)
	}
	for range times {
		d, err := w.memory.Take(context.Background(), c)
		if err != nil {
			w.Fatal(err)
		}
		want = append(want, d)
	}
	return want
}

// groups adds the groups of one call.
func (w *fuzzWorld) groups(b *batch) []stint.Decision {
	groups := []stint.Group{{Claims: w.group()}}
	for w.rand.IntN(3) == 0 {
		claims, last := w.group(), &groups[len(groups)-1]
		if w.rand.IntN(2) == 0 {
			last.Shadows = append(last.Shadows, claims)
		} else {
			groups = append(groups, stint.Group{Claims: claims})
		}
	}
	dry := w.rand.IntN(10) == 0
	for i := range groups {
		g := &groups[i]
		g.Dry = dry
		for part := range g.Parts() {
			flags := groupFlags(0)
			switch {
			case dry:
				flags = dryGroup
			case part > 0:
				flags = following
			}
			b.add(g.Part(part), flags)
		}
	}
	claims, _ := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	if err := w.memory.TakeGroups(context.Background(), groups, out); err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *fuzzWorld) group() (claims []stint.Claim) {
	for {
		claims = claims[:0]
		for range max(1, w.rand.IntN(6)-2) {
			claims = append(claims, w.claim())
		}
		if stint.ValidateClaims(claims) == nil {
			return claims
		}
	}
}

func (w *fuzzWorld) claim() stint.Claim {
	c := stint.Claim{Key: w.key(), Limit: w.limit(w.rand.IntN(len(w.limits))), Cost: w.cost()}
	c.MaxDelay = w.maxDelay(c.Limit)
	if c.Cost < 0 && w.rand.IntN(3) > 0 {
		c.At = w.takenAt()
	}
	if w.rand.IntN(6) == 0 {
		c.Extra = w.rand.Int64N(2*c.Limit.Max() + 1)
		c.Extra = min(c.Extra, stint.MaxCost)
	}
	if w.rand.IntN(4) == 0 {
		c.AnyOf = uint8(1 + w.rand.IntN(2))
	}
	if c.Limit.Algorithm() == stint.SlidingWindowLog && w.rand.IntN(8) > 0 {
		c.Extra = min(c.Extra, 3)
	}
	return c
}

// maxDelay draws a bound that is mostly near a leaky bucket's delays.
func (w *fuzzWorld) maxDelay(l stint.Limit) time.Duration {
	if l.Algorithm() != stint.LeakyBucket {
		return 0
	}
	switch w.rand.IntN(6) {
	case 0:
		return -1
	case 1:
		return time.Duration(w.rand.Int64())
	case 2:
		return time.Duration(w.rand.Int64N(3 * int64(l.Window())))
	case 3, 4:
		if len(w.history) > 0 {
			d := w.history[w.rand.IntN(len(w.history))]
			return d.ResetAfter + time.Duration(w.rand.Int64N(3)-1)*time.Microsecond
		}
	}
	return 0
}

// takenAt draws a time, mostly that of a charge.
func (w *fuzzWorld) takenAt() int64 {
	if len(w.history) > 0 && w.rand.IntN(4) > 0 {
		d := w.history[w.rand.IntN(len(w.history))]
		if w.rand.IntN(4) == 0 {
			return min(d.At+d.ResetAfter.Microseconds(), maxMicros)
		}
		return d.At
	}
	return max(0, w.now-w.rand.Int64N(1e9))
}

func (w *fuzzWorld) key() string { return []string{"alice", "bob", "a\x00b"}[w.rand.IntN(3)] }

func (w *fuzzWorld) limit(row int) stint.Limit {
	if w.rand.IntN(5) > 0 {
		return w.limits[row][0]
	}
	return w.limits[row][w.rand.IntN(len(w.limits[row]))]
}

func (w *fuzzWorld) cost() int64 {
	most := w.limits[w.rand.IntN(len(w.limits))][0].Max()
	switch w.rand.IntN(12) {
	case 0:
		return 0
	case 1:
		return -1 - w.rand.Int64N(most)
	case 2:
		return stint.Forget
	case 3:
		return w.rand.Int64N(most + 2)
	case 4:
		return most
	case 5, 6:
		return -1
	}
	return 1 + w.rand.Int64N(max(1, most/3))
}

// pass moves the clock: mostly a little or to the next event, sometimes by windows, or
// back.
func (w *fuzzWorld) pass() {
	if len(w.history) > 0 && w.rand.IntN(2) == 0 {
		d := w.history[w.rand.IntN(len(w.history))]
		wait := []time.Duration{d.RetryAfter, d.NextAfter, d.ResetAfter, d.Delay}[w.rand.IntN(4)].Microseconds()
		if wait < 1e15 {
			w.now = max(0, w.now+wait-w.rand.Int64N(2))
			return
		}
	}
	window := w.limits[0][0].Window().Microseconds() + 1
	switch w.rand.IntN(10) {
	case 0:
	case 1:
		w.now -= w.rand.Int64N(2*window + 1)
	case 2:
		w.now += w.rand.Int64N(3*window + 1)
	case 3:
		w.now += w.rand.Int64N(1e12)
	case 4:
		w.now += w.rand.Int64N(window)
	case 5:
		w.now++
	default:
		w.now += w.rand.Int64N(window/8 + 2)
	}
	w.now = max(0, w.now)
}

// compareStates compares the states on the server with those of the Go steps.
func (w *fuzzWorld) compareStates(b *batch) {
	for at, i := range b.order {
		l := b.lines[b.firstOn[i]].limit
		if l.kind == logKind {
			continue // the script keeps runs that no longer count; the decisions show each run that counts
		}
		want := string(l.limit.AppendState(nil, &b.states[i]))
		got, err := w.do("GET", b.names[at]).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			w.Fatal(err)
		}
		if l.class > 0 && l.kind <= leakyKind && got != "" {
			got = got[:len(got)-1] // without the byte of the class
		}
		if got != want {
			w.Errorf("%v: the server keeps % x, and the steps % x", l.limit, got, want)
		}
	}
}
