package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/storekit"
)

// once gives a group an ID.
func once(g stint.Group, id string) stint.Group {
	g.Once = &stint.Once{ID: id}
	return g
}

// takeOnce takes a group and returns the error of the group.
func takeOnce(s stint.Store, g stint.Group) ([]stint.Decision, error) {
	out, _, err := takeGroup(context.Background(), s, g)
	if errs, _ := storekit.PartErrors(err, 1); errs != nil {
		err = errs[0]
	}
	return out, err
}

func allRepeated(decisions []stint.Decision) bool {
	return !slices.ContainsFunc(decisions, func(d stint.Decision) bool { return !d.Repeated || !d.Allowed })
}

// recordsOf returns the keys of records and marks of a server.
func recordsOf(t *testing.T, server *redistest.Process) (keys []string) {
	t.Helper()
	for key := range strings.FieldsSeq(server.Must("KEYS", "*}!*")) {
		keys = append(keys, key)
	}
	return keys
}

func TestARepeatAfterALostAnswerChargesOnce(t *testing.T) {
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	s := open(t, Options{Addrs: []string{proxy.Addr()}, Heartbeat: -1})
	limit := perHour(t, 100)
	if remaining(t, s, limit, "k") != 100 {
		t.Fatal("the key is not fresh")
	}
	for i := range 10 {
		g := once(groupOf(limit, "k", "l"), fmt.Sprint("call", i))
		proxy.DropReplies()
		failed := make(chan error)
		go func() {
			_, err := takeOnce(s, g)
			failed <- err
		}()
		eventually(t, "the script has run", func() bool { return len(recordsOf(t, server)) == i+1 })
		proxy.Cut()
		wantError(t, <-failed, stint.CodeTimeout, "connection")
		proxy.Heal()
		if out, err := takeOnce(s, g); err != nil || !allRepeated(out) || out[0].Remaining != int64(99-i) {
			t.Fatalf("round %d: %+v, %v", i, out, err)
		}
	}
	if k, l := remaining(t, s, limit, "k"), remaining(t, s, limit, "l"); k != 90 || l != 90 {
		t.Errorf("%d and %d remain after 10 charges", k, l)
	}
}

func TestRecordsExpire(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}})
	if out, err := takeOnce(s, once(groupOf(perHour(t, 10), "k"), "id")); err != nil || !out[0].Allowed {
		t.Fatal(out, err)
	}
	keys := recordsOf(t, server)
	if len(keys) != 1 {
		t.Fatal(keys)
	}
	if ms, _ := strconv.Atoi(server.Must("PTTL", keys[0])); ms < 55_000 || ms > 60_001 {
		t.Errorf("the record lives %d ms", ms)
	}
	if _, err := takeOnce(s, once(groupOf(perHour(t, 10), "other"), "id")); stint.CodeOf(err) != stint.CodeConflict {
		t.Errorf("the ID for another key: %v", err)
	}
}

func TestForeignValueOfARecordIsReplaced(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}})
	g := once(groupOf(perHour(t, 10), "k"), "id")
	key := s.encoding.recordKey(newOnce(&g), &g.Claims[0])
	for _, spoil := range [][]string{{"SET", key, "short"}, {"HSET", key, "a", "b"}} {
		server.Must("DEL", key)
		server.Must(spoil...)
		if out, err := takeOnce(s, g); err != nil || out[0].Repeated {
			t.Fatalf("after %v: %+v, %v", spoil, out, err)
		}
		if out, err := takeOnce(s, g); err != nil || !out[0].Repeated {
			t.Fatalf("after %v: %+v, %v", spoil, out, err)
		}
	}
}

// A flood of ids takes no more of the server than the budget, and only calls with ids
// notice it. Denied calls make no records and use no budget.
func TestAFloodOfIDsIsBounded(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Addrs: []string{server.Addr()}, OnceBytes: 100_000})
	limit, none := perHour(t, 1_000_000), perHour(t, 1)
	_, _ = s.Take(t.Context(), stint.Claim{Key: "none", Limit: none, Cost: 1})
	var groups []stint.Group
	for i := range 2000 {
		groups = append(groups, once(groupOf(none, "none"), fmt.Sprint("denied", i)))
	}
	if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, len(groups))); err != nil || s.Stats().OnceBytes != 0 {
		t.Fatalf("denials: %v, %d bytes", err, s.Stats().OnceBytes)
	}
	for i := range groups {
		groups[i] = once(groupOf(limit, fmt.Sprint("k", i)), fmt.Sprint("id", i))
	}
	err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, len(groups)))
	some, ok := errors.AsType[*stint.GroupsError](err)
	if !ok {
		t.Fatal(err)
	}
	kept, used := 0, 0
	for _, err := range some.Errs {
		full, refused := errors.AsType[*stint.Error](err)
		switch {
		case err == nil:
			kept++
		case !refused || full.Code != stint.CodeExhausted || full.Kind != stint.KindOnceBudget || full.RetryAfter <= 0 || full.RetryAfter > 65*time.Second:
			t.Fatal(err)
		}
	}
	keys := recordsOf(t, server)
	for _, key := range keys {
		bytes, _ := strconv.Atoi(server.Must("MEMORY", "USAGE", key))
		used += bytes
	}
	if st := s.Stats(); kept < 200 || len(keys) != kept || int64(used) > st.OnceBytes || st.OnceBytes > 150_000 || st.OnceRefused != uint64(2000-kept) {
		t.Errorf("%d groups kept, %d records of %d bytes, and the account: %d bytes, %d refused", kept, len(keys), used, st.OnceBytes, st.OnceRefused)
	}
	if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil || !d.Allowed {
		t.Errorf("a claim without an ID: %+v, %v", d, err)
	}
	if out, err := takeOnce(s, groups[0]); err != nil || !allRepeated(out) {
		t.Errorf("a repeat while the budget is used up: %+v, %v", out, err)
	}
	if _, err := takeOnce(s, once(groupOf(limit, "another"), "id0")); stint.CodeOf(err) != stint.CodeConflict {
		t.Errorf("the ID of another group while the budget is used up: %v", err)
	}
}

func TestIDsOnACluster(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	s := open(t, Options{Topology: Cluster, Addrs: servers.Addrs(), Timeout: 20 * time.Second})
	keys := keysOn(t, servers)
	t.Run("an ID belongs to one group in whatever slot", func(t *testing.T) { oneGroupPerID(t, s, keys) })
	t.Run("a denied group leaves nothing", func(t *testing.T) { deniedLeavesNothing(t, s, servers, keys) })
	t.Run("a repeat completes what a crash left", func(t *testing.T) { repeatCompletes(t, s, keys) })
	t.Run("a denied alternative stays denied", func(t *testing.T) { alternativeStaysDenied(t, s, keys) })
	t.Run("a repeat that fails undoes no earlier charge", func(t *testing.T) { failedRepeatKeepsCharges(t, s, servers, keys) })
	t.Run("a repeat while the budget is used up", func(t *testing.T) { repeatsBeyondTheBudget(t, s, keys) })
	t.Run("a leaky bucket", func(t *testing.T) { leakyRepeats(t, s, keys) })
}

func oneGroupPerID(t *testing.T, s *Store, keys []string) {
	limit, full := perHour(t, 10), perHour(t, 1)
	if _, err := takeOnce(s, once(groupOf(limit, keys[0]), "one")); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys[1:] {
		if _, err := takeOnce(s, once(groupOf(limit, key), "one")); stint.CodeOf(err) != stint.CodeConflict {
			t.Errorf("the ID of a group in another slot: %v", err)
		}
	}
	_, _ = s.Take(t.Context(), stint.Claim{Key: keys[0], Limit: full, Cost: 1})
	if out, err := takeOnce(s, once(groupOf(full, keys[0]), "denied")); err != nil || out[0].Allowed {
		t.Fatal(out, err)
	}
	if out, err := takeOnce(s, once(groupOf(limit, keys[1]), "denied")); err != nil || !out[0].Allowed {
		t.Errorf("the ID of a denied group: %+v, %v", out, err)
	}
}

func deniedLeavesNothing(t *testing.T, s *Store, servers *redistest.ClusterServers, keys []string) {
	limit := compileNamed(t, "denied")
	count := func() (n int) {
		for _, m := range servers.Masters() {
			n += len(recordsOf(t, m))
		}
		return n
	}
	last := keys[len(keys)-1]
	_, _ = s.Take(t.Context(), stint.Claim{Key: last, Limit: limit, Cost: 10})
	before := count()
	g := once(groupOf(limit, keys...), "across")
	if out, err := takeOnce(s, g); err != nil || out[len(out)-1].Allowed || count() != before {
		t.Fatalf("%+v, %v, %d records and then %d", out, err, before, count())
	}
	if n := remaining(t, s, limit, keys[0]); n != 10 {
		t.Errorf("%d of 10 remain after a denial", n)
	}
	_, _ = s.Take(t.Context(), stint.Claim{Key: last, Limit: limit, Cost: stint.Forget})
	first, err := takeOnce(s, g)
	if err != nil || allRepeated(first) {
		t.Fatal(first, err)
	}
	if out, err := takeOnce(s, g); err != nil || !allRepeated(out) || remaining(t, s, limit, keys[0]) != 9 {
		t.Errorf("%+v, %v", out, err)
	}
}

// repeatCompletes takes the first unit of a group, as a node does that crashes then.
func repeatCompletes(t *testing.T, s *Store, keys []string) {
	limit := compileNamed(t, "crash")
	g := once(groupOf(limit, keys...), "crashed")
	units := s.newCrossSlot(g.Claims, make([]stint.Decision, len(g.Claims)))
	units.once = newOnce(&g)
	p := s.plan(t.Context(), units.Units[:1], units.Out[:1])
	p.onces = units.oncesOfUnits(false)[:1]
	p.run()
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} { // the first repeat completes the group
		out, err := takeOnce(s, g)
		if err != nil || !out[0].Repeated || allRepeated(out) != want {
			t.Errorf("repeat %d: %+v, %v", i, out, err)
		}
		for _, key := range keys {
			if n := remaining(t, s, limit, key); n != 9 {
				t.Errorf("repeat %d: %d of 10 remain of %s", i, n, key)
			}
		}
	}
}

func alternativeStaysDenied(t *testing.T, s *Store, keys []string) {
	limit := compileNamed(t, "alternative")
	g := once(groupOf(limit, keys[:2]...), "alternatives")
	g.Claims[0].AnyOf, g.Claims[1].AnyOf = 1, 1
	_, _ = s.Take(t.Context(), stint.Claim{Key: keys[0], Limit: limit, Cost: 10})
	if out, err := takeOnce(s, g); err != nil || out[0].Allowed || !out[1].Allowed {
		t.Fatal(out, err)
	}
	_, _ = s.Take(t.Context(), stint.Claim{Key: keys[0], Limit: limit, Cost: stint.Forget})
	if out, err := takeOnce(s, g); err != nil || out[0].Allowed || !out[1].Repeated || remaining(t, s, limit, keys[0]) != 10 {
		t.Errorf("%+v, %v", out, err)
	}
}

// failedRepeatKeepsCharges repeats an admitted group while one of its units fails: the value
// of its key has another type, and its record is lost.
func failedRepeatKeepsCharges(t *testing.T, s *Store, servers *redistest.ClusterServers, keys []string) {
	limit := compileNamed(t, "kept")
	g := once(groupOf(limit, keys...), "kept")
	if out, err := takeOnce(s, g); err != nil || !out[0].Allowed {
		t.Fatal(out, err)
	}
	last := g.Claims[len(keys)-1]
	state := string(s.encoding.appendKey(nil, last.Key, s.encoding.limits.of(limit).mark, s.encoding.limits.of(limit).hash))
	owner := servers.Owner(servers.Slot(last.Key))
	record := newOnce(&g).of(len(keys)-1, onceTake)
	if owner.Must("DEL", s.encoding.recordKey(record, &last)) != "1" || owner.Must("DEL", state) != "1" {
		t.Fatal("the record or the state is not where the test expects it")
	}
	owner.Must("HSET", state, "a", "b")
	if out, err := takeOnce(s, g); err == nil {
		t.Fatal(out)
	}
	if n := remaining(t, s, limit, keys[0]); n != 9 {
		t.Errorf("%d of 10 remain: the repeat has undone a charge of the first call", n)
	}
}

func repeatsBeyondTheBudget(t *testing.T, s *Store, keys []string) {
	limit := compileNamed(t, "full")
	g := once(groupOf(limit, keys...), "full")
	first, err := takeOnce(s, g)
	if err != nil || !first[0].Allowed {
		t.Fatal(first, err)
	}
	share := s.encoding.records.Share
	s.encoding.records.Share = 1
	defer func() { s.encoding.records.Share = share }()
	if out, err := takeOnce(s, g); err != nil || !allRepeated(out) {
		t.Errorf("a repeat: %+v, %v", out, err)
	}
	fresh := once(groupOf(limit, keys...), "fresh")
	if _, err := takeOnce(s, fresh); stint.CodeOf(err) != stint.CodeExhausted || remaining(t, s, limit, keys[0]) != 9 {
		t.Errorf("a new id: %v", err)
	}
	s.encoding.records.Share = share
	if out, err := takeOnce(s, once(groupOf(limit, keys[0]), "fresh")); err != nil || !out[0].Allowed {
		t.Errorf("the id of a group that was refused: %+v, %v", out, err)
	}
}

// leakyRepeats checks a group that is decided dry first, because it cannot be undone.
func leakyRepeats(t *testing.T, s *Store, keys []string) {
	limit, err := stint.Spec{Algorithm: stint.LeakyBucket, Rule: "leaky", Limit: 1, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g := once(groupOf(limit, keys...), "leaky")
	first, err := takeOnce(s, g)
	if err != nil || !first[0].Allowed {
		t.Fatal(first, err)
	}
	again, err := takeOnce(s, g)
	if err != nil || !allRepeated(again) {
		t.Errorf("%+v, %v", again, err)
	}
}

// compileNamed returns a limit of 10 an hour with states of its own.
func compileNamed(t *testing.T, rule string) stint.Limit {
	t.Helper()
	limit, err := stint.Spec{Rule: rule, Limit: 10, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// Groups on one key that may be repeated are decided in order, and do not cost a round trip
// each: a batch of many would pass the deadline of the store.
func TestGroupsWithIDsOnOneKeyShareARoundTrip(t *testing.T) {
	var trips atomic.Int64
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, Observer: tripCounter{&trips}})
	limit := perHour(t, 100)
	var groups []stint.Group
	for i := range 40 {
		groups = append(groups, once(groupOf(limit, "k"), fmt.Sprint("id", i)))
	}
	groups = append(groups, groups[3], once(groupOf(limit, "other"), "id3"))
	out := make([]stint.Decision, len(groups))
	errs, whole := storekit.PartErrors(s.TakeGroups(t.Context(), groups, out), len(groups))
	if whole != nil || errs == nil {
		t.Fatal(whole)
	}
	for i, d := range out[:40] {
		if errs[i] != nil || !d.Allowed || d.Repeated || d.Remaining != int64(99-i) {
			t.Errorf("group %d: %+v, %v", i, d, errs[i])
		}
	}
	if d := out[40]; errs[40] != nil || !d.Repeated || d.Remaining != 96 {
		t.Errorf("a repeat in the same call: %+v, %v", d, errs[40])
	}
	if stint.CodeOf(errs[41]) != stint.CodeConflict {
		t.Errorf("the ID for another key in the same call: %+v, %v", out[41], errs[41])
	}
	if n := trips.Load(); n != 1 {
		t.Errorf("%d round trips", n)
	}
}

type tripCounter struct{ trips *atomic.Int64 }

func (c tripCounter) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (c tripCounter) Observe(context.Context, stint.Event) { c.trips.Add(1) }

// The shadows of many groups that may be repeated take one more round trip in all. A group
// that uses the state of such a shadow is still decided after it.
func TestShadowsOfGroupsWithIDsShareARoundTrip(t *testing.T) {
	var trips atomic.Int64
	s := open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, Observer: tripCounter{&trips}})
	limit, seen := perHour(t, 100), compileNamed(t, "seen")
	shadow := stint.Claim{Key: "shadow", Limit: seen, Cost: 1}
	take := func(groups ...stint.Group) (out []stint.Decision) {
		t.Helper()
		claims, _ := stint.Sizes(groups)
		out = make([]stint.Decision, claims)
		if err := s.TakeGroups(t.Context(), groups, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var groups []stint.Group
	for i := range 8 {
		g := once(groupOf(limit, "k"), fmt.Sprint("id", i/2)) // each is repeated
		g.Shadows = [][]stint.Claim{{shadow}}
		groups = append(groups, g)
	}
	out := take(groups...)
	for i := range groups {
		if own := out[2*i]; !own.Allowed || own.Repeated != (i%2 == 1) {
			t.Errorf("group %d: %+v", i, own)
		}
		// A repeat decides its shadow and does not charge it.
		if d := out[2*i+1]; !d.Allowed || d.Remaining != int64(9-i/2) {
			t.Errorf("the shadow of group %d: %+v", i, d)
		}
	}
	if n := trips.Load(); n != 2 {
		t.Errorf("%d round trips", n)
	}
	g := once(groupOf(limit, "k"), "last")
	g.Shadows = [][]stint.Claim{{shadow}}
	out = take(g, stint.Group{Claims: []stint.Claim{shadow}}, once(stint.Group{Claims: []stint.Claim{shadow}}, "own"))
	for i, want := range []int64{95, 5, 4, 3} {
		if d := out[i]; !d.Allowed || d.Remaining != want {
			t.Errorf("decision %d: %+v; want %d", i, d, want)
		}
	}
}
