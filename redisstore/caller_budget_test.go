package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/internal/redistest"
)

// callersStore is a store with a small budget and a server of its own.
type callersStore struct {
	*testing.T
	*Store

	server *redistest.Process
}

func newCallersStore(t *testing.T, budget int64) *callersStore {
	t.Helper()
	server := redistest.Server(t)
	return &callersStore{T: t, server: server, Store: open(t, Options{Addrs: []string{server.Addr()}, CallerBytes: budget})}
}

func brought(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	s.FromCaller = true
	return limitOf(t, s)
}

// the attack: a state of 10,000 units for 400 days, under a fresh key each time.
var yearLog = stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10_000, Window: stint.MaxWindow}

// flood takes fresh keys until one is refused, and returns how many were decided.
func (s *callersStore) flood(l stint.Limit, name string, cost int64, most int) (taken int) {
	s.Helper()
	const batch = 100
	for ; taken < most; taken += batch {
		groups, out := make([]stint.Group, batch), make([]stint.Decision, batch)
		for i := range groups {
			groups[i].Claims = []stint.Claim{{Key: fmt.Sprintf("%s:%08d", name, taken+i), Limit: l, Cost: cost}}
		}
		err := s.TakeGroups(s.Context(), groups, out)
		if err == nil {
			continue
		}
		var failed *stint.GroupsError
		if !errors.As(err, &failed) {
			s.Fatal(err)
		}
		for i, err := range failed.Errs {
			if err == nil {
				taken++
				continue
			}
			wantError(s.T, err, stint.CodeExhausted, stint.KindCallerBudget)
			if out[i] != (stint.Decision{}) {
				s.Fatalf("a group that was refused is decided as %+v", out[i])
			}
		}
		return taken
	}
	return taken
}

func (s *callersStore) take(key string, l stint.Limit, cost int64) (stint.Decision, error) {
	return s.Take(s.Context(), stint.Claim{Key: key, Limit: l, Cost: cost})
}

func (s *callersStore) takes(key string, l stint.Limit, cost, remaining int64) {
	s.Helper()
	d, err := s.take(key, l, cost)
	if err != nil || !d.Allowed || d.Remaining != remaining {
		s.Errorf("%s under %v: %+v, %v; want %d remaining", key, l, d, err, remaining)
	}
}

func (s *callersStore) refuses(key string, l stint.Limit, cost int64) {
	s.Helper()
	d, err := s.take(key, l, cost)
	if wantError(s.T, err, stint.CodeExhausted, stint.KindCallerBudget); d != (stint.Decision{}) {
		s.Errorf("%s under %v: %+v", key, l, d)
	}
}

// A flood of callers' states stops at the budget of their lifetime class. Rules, existing
// keys and states of shorter lifetimes are not affected.
func TestCallersStopAtTheirBudget(t *testing.T) {
	const budget = 4 << 20
	s := newCallersStore(t, budget)
	rule := limitOf(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10_000, Window: stint.MaxWindow, Rule: "r"})
	log, bucket := brought(t, yearLog), brought(t, stint.Spec{RefillRate: "0.0001", Capacity: 1000})
	s.takes("app", rule, 1, 9999)
	s.takes("before", log, 1, 9999)
	s.takes("before", bucket, 10, 990)
	before := usedMemory(t, s.server)
	taken := s.flood(log, "flood", 10_000, 20_000)
	grew := int64(usedMemory(t, s.server) - before)
	t.Logf("%d keys of %d bytes; Redis grew by %d", taken, s.Stats().CallerBytes, grew)
	if taken < 1000 || taken >= 20_000 || grew > budget/int64(callerbudget.Classes) {
		t.Errorf("%d keys were made, and Redis grew by %d bytes", taken, grew)
	}
	s.refuses("fresh", log, 1)
	s.refuses("fresh", bucket, 1)
	s.takes("app", rule, 1, 9998)
	s.takes("newcomer of a rule", rule, 1, 9999)
	s.takes("before", log, 1, 9998)
	s.takes("before", bucket, 10, 980)
	s.takes("flood:00000001", log, 0, 0)
	s.takes("short", brought(t, stint.PerMinute(5)), 1, 4)
	s.takes("middle", brought(t, stint.PerHour(5)), 1, 4)
	s.takes("day", brought(t, stint.PerDay(5)), 1, 4)
	if d, err := s.take("fresh", log, 10_001); err != nil || d.Allowed || d.RetryAfter != stint.Never {
		t.Errorf("a claim above its limit: %+v, %v; want it denied", d, err)
	}
	if d, err := s.take("fresh", log, -5); err != nil || !d.Allowed {
		t.Errorf("a refund to a key that does not exist: %+v, %v", d, err)
	}
	if stats := s.Stats(); stats.CallersRefused < 2 || stats.CallerBytes > budget {
		t.Errorf("%+v", stats)
	}
	if again := s.flood(log, "again", 1, 1000); again != 0 {
		t.Errorf("%d more keys were made", again)
	}
}

// Expired states make room, by the clock of the account.
func TestShortStatesFreeTheirBudget(t *testing.T) {
	s := newCallersStore(t, 1<<20)
	var clock int64
	s.encoding.callers = callerbudget.NewAccount(1<<20/int64(callerbudget.Classes), func() int64 { return clock })
	minute, year := brought(t, stint.PerMinute(5)), brought(t, yearLog)
	if n := s.flood(minute, "a", 5, 10_000); n >= 10_000 {
		t.Fatal("the budget has no end")
	}
	if n := s.flood(year, "b", 5, 10_000); n >= 10_000 {
		t.Fatal("the budget of long states has no end")
	}
	s.refuses("x", minute, 1)
	clock += 80_000
	s.takes("x", minute, 1, 4)
	s.refuses("x", year, 1)
	clock += 399 * 24 * 3600e3
	s.refuses("x", year, 1)
	clock += 20 * 24 * 3600e3
	s.takes("x", year, 1, 9999)
}

// A bucket whose rate or capacity changes so that it lives longer counts as a new state in
// the class of the longer lifetime, also when the change comes with a refund.
func TestChangedLimitDoesNotCarryAStateOverTheBudget(t *testing.T) {
	s := newCallersStore(t, 1<<20)
	quick := brought(t, stint.Spec{Name: "n", RefillRate: "1000", Capacity: 1000})
	slow := brought(t, stint.Spec{Name: "n", RefillRate: "0.0001", Capacity: 1000})
	s.takes("k", quick, 100, 900)
	s.flood(brought(t, yearLog), "flood", 1, 10_000)
	s.refuses("k", slow, 1)
	s.refuses("k", slow, -1)
	if d, err := s.take("k", quick, 1); err != nil || !d.Allowed {
		t.Errorf("under its own numbers: %+v, %v", d, err)
	}
	if d, err := s.take("k", slow, stint.Forget); err != nil || !d.Allowed {
		t.Errorf("a reset: %+v, %v", d, err)
	}
}

// The account counts growing logs. When they have used up their share, other existing
// states of their class are still decided.
func TestGrowingLogsStopAtTheBudget(t *testing.T) {
	s := newCallersStore(t, 1<<20)
	log, bucket := brought(t, yearLog), brought(t, stint.Spec{RefillRate: "0.0001", Capacity: 1000})
	s.takes("bucket", bucket, 1, 999)
	before := usedMemory(t, s.server)
	admitted := 0
	for i := range 60_000 {
		_, err := s.take(fmt.Sprint("log", i%3), log, 1)
		if err != nil {
			wantError(t, err, stint.CodeExhausted, stint.KindCallerBudget)
			break
		}
		admitted++
	}
	grew := usedMemory(t, s.server) - before
	t.Logf("%d takes; Redis grew by %d bytes, the account has %d", admitted, grew, s.Stats().CallerBytes)
	if admitted < 3000 || admitted > 29_000 || grew > 1<<18 {
		t.Errorf("%d takes were admitted, and Redis grew by %d bytes", admitted, grew)
	}
	s.takes("bucket", bucket, 1, 998)
	s.refuses("fresh", bucket, 1)
	s.takes("log0", log, 0, 10_000-int64(admitted+2)/3)
}

// A group that would create a state is refused as a whole. A group whose states exist is
// decided.
func TestGroupsOfCallersAreRefusedWhole(t *testing.T) {
	s := newCallersStore(t, 1<<20)
	log, minute := brought(t, yearLog), brought(t, stint.PerMinute(5))
	rule := limitOf(t, stint.PerHour(5))
	take := func(claims ...stint.Claim) ([]stint.Decision, error) {
		out := make([]stint.Decision, len(claims))
		return out, s.TakeGroups(t.Context(), []stint.Group{{Claims: claims}}, out)
	}
	old := stint.Claim{Key: "old", Limit: log, Cost: 1}
	if _, err := take(old, stint.Claim{Key: "old", Limit: minute, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	s.flood(log, "flood", 1, 10_000)
	out, err := take(old, stint.Claim{Key: "new", Limit: minute, Cost: 1}, stint.Claim{Key: "new", Limit: rule, Cost: 1})
	if err != nil || !out[0].Allowed || out[0].Remaining != 9998 || out[2].Remaining != 4 {
		t.Errorf("existing, and new in a class with room: %+v, %v", out, err)
	}
	_, err = take(old, stint.Claim{Key: "new", Limit: rule, Cost: 1}, stint.Claim{Key: "new", Limit: log, Cost: 1})
	if err == nil || !strings.Contains(err.Error(), "callers bring") {
		t.Errorf("a group with a new state: %v", err)
	}
	s.takes("old", log, 0, 9998)
	s.takes("new", rule, 0, 4)
	s.takes("new", log, 0, 10_000)
}

// Callers of one fresh key that share a batch are refused together. The rules' checks in
// the same batch are decided.
func TestHotKeysOfCallersAreRefusedTogether(t *testing.T) {
	s := newCallersStore(t, 1<<20)
	log, bucket := brought(t, yearLog), brought(t, stint.Spec{RefillRate: "0.0001", Capacity: 1000})
	rule := limitOf(t, stint.Spec{RefillRate: "0.0001", Capacity: 1000})
	s.takes("exists", bucket, 1, 999)
	s.flood(log, "flood", 1, 10_000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	left := map[string][]int64{}
	for range 100 {
		for _, l := range []stint.Limit{log, bucket} {
			wg.Go(func() { s.refuses("hot", l, 1) })
		}
		for key, l := range map[string]stint.Limit{"exists": bucket, "rule": rule} {
			wg.Go(func() {
				d, err := s.take(key, l, 1)
				if err != nil || !d.Allowed {
					t.Errorf("%s: %+v, %v", key, d, err)
				}
				mu.Lock()
				defer mu.Unlock()
				left[key] = append(left[key], d.Remaining)
			})
		}
	}
	wg.Wait()
	for key, want := range map[string]int64{"exists": 899, "rule": 900} {
		slices.Sort(left[key])
		if got := left[key]; got[0] != want || got[99] != want+99 || len(slices.Compact(got)) != 100 {
			t.Errorf("%s: remaining %v", key, got)
		}
	}
	if s.server.Must("EXISTS", "stint:{hot}"+callerMark) != "0" || s.server.Must("KEYS", "*{hot}*") != "" {
		t.Error("a key that was refused is there")
	}
}

// Each node has an account of its own, and decides keys that other nodes created.
func TestNodesHaveAccountsOfTheirOwn(t *testing.T) {
	a := newCallersStore(t, 1<<20)
	b := &callersStore{T: t, server: a.server, Store: open(t, Options{Addrs: []string{a.server.Addr()}, CallerBytes: 1 << 20})}
	log := brought(t, yearLog)
	a.flood(log, "warm", 1, 100)
	b.flood(log, "warm", 1, 100)
	before := usedMemory(t, a.server)
	first := a.flood(log, "a", 1, 10_000)
	a.refuses("x", log, 1)
	b.takes("x", log, 1, 9999)
	a.takes("x", log, 1, 9998)
	second := b.flood(log, "b", 1, 10_000)
	if first == 0 || second == 0 || usedMemory(t, a.server)-before > 2<<18 {
		t.Errorf("%d and %d keys; Redis grew by %d bytes", first, second, usedMemory(t, a.server)-before)
	}
}

// A call whose outcome is unknown counts as if it had created its states.
func TestUnknownOutcomesAreAssumed(t *testing.T) {
	e := encodingOf(t, Options{CallerBytes: 1 << 20})
	p := newPart(e)
	c := (&pendingPool{}).get()
	claim := stint.Claim{Key: "k", Limit: brought(t, yearLog), Cost: 1}
	c.addOne(&claim)
	p.take(c, false)
	p.batch.invocation()
	p.read(&reply{err: &stint.Error{Code: stint.CodeUnavailable}}, 0)
	if n := e.callers.Bytes(); n != 0 {
		t.Errorf("%d bytes of a call that was not sent", n)
	}
	p.read(&reply{err: &stint.Error{Code: stint.CodeTimeout}}, 0)
	if n := e.callers.Bytes(); n < 200 {
		t.Errorf("%d bytes of a call without an answer", n)
	}
}

// After random writes, the account agrees with the memory of a real server.
func TestAccountFollowsTheServer(t *testing.T) {
	s := newCallersStore(t, 64<<20)
	r := rand.New(rand.NewPCG(1, 2))
	specs := []stint.Spec{stint.PerMinute(100), stint.PerDay(100), yearLog, {Algorithm: stint.FixedWindow, Limit: 100, Window: time.Hour},
		{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Hour, Buckets: 60}, {Algorithm: stint.LeakyBucket, Limit: 100, Window: time.Hour, Queue: 99}}
	s.flood(brought(t, yearLog), "warm", 1, 100) // so that the server has its buffers
	before, counted := int64(usedMemory(t, s.server)), s.Stats().CallerBytes
	for range 20_000 {
		c := stint.Claim{Key: fmt.Sprint("user:", r.IntN(2000)), Limit: brought(t, specs[r.IntN(len(specs))]), Cost: r.Int64N(7) - 1}
		if _, err := s.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	grew, said := int64(usedMemory(t, s.server))-before, s.Stats().CallerBytes-counted
	if t.Logf("Redis grew by %d bytes, the account has %d", grew, said); said < grew || said > 3*grew {
		t.Errorf("Redis grew by %d bytes, the account has %d", grew, said)
	}
}

// On a Cluster the account covers all servers. If a group in several slots is refused
// because it would create a state, its other charges are refunded.
func TestRefusedGroupAcrossSlotsIsRefunded(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	s := &callersStore{T: t, Store: open(t, Options{Topology: Cluster, Addrs: servers.Addrs(), Timeout: 20 * time.Second, CallerBytes: 1 << 20})}
	keys := keysOn(t, servers)
	window := brought(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 5, Window: 2 * time.Hour})
	s.takes(keys[0], window, 1, 4)
	if n := s.flood(window, "flood", 1, 10_000); n >= 10_000 {
		t.Fatal("the budget has no end")
	}
	_, _, err := takeGroup(t.Context(), s, groupOf(window, keys[:2]...))
	if err == nil || !strings.Contains(err.Error(), "callers bring") {
		t.Errorf("a group with a new state: %v", err)
	}
	s.takes(keys[0], window, 1, 3)
	s.takes(keys[1], window, 0, 5)
}
