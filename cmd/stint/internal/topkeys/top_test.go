package topkeys

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// stream counts claims in a sketch and exactly.
type stream struct {
	t      *testing.T
	sketch *Sketch
	exact  [tableCount]map[string]int64 // by rule and key
	limits map[string]stint.Limit
	total  [tableCount]int64
	unfair bool // the keys are chosen by their hashes, so no share of a key assures its place
}

func newStream(t *testing.T) *stream {
	s := &stream{t: t, sketch: New(0), limits: map[string]stint.Limit{}}
	for i := range s.exact {
		s.exact[i] = map[string]int64{}
	}
	return s
}

func (s *stream) add(table int, rule, key string, n int) {
	l, known := s.limits[rule]
	if !known {
		l = ruleLimit(s.t, rule)
		s.limits[rule] = l
	}
	for range n {
		s.sketch.count(&stint.Claim{Key: key, Limit: l, Cost: 1}, 1, table)
	}
	s.exact[table][rule+"\n"+key] += int64(n)
	s.total[table] += int64(n)
}

// second ends an interval. The whole stream is counted, and no part of it.
func (s *stream) second() {
	time.Sleep(time.Second)
	s.sketch.EndInterval(time.Second)
	s.sketch.weight.Store(1)
}

// check compares a window with the exact counts.
func (s *stream) check(w Window, table int) {
	s.t.Helper()
	top := s.sketch.Top(w, table == denied)
	bound := s.total[table] / paneKeys
	if s.unfair {
		bound = s.total[table]
	}
	if top.Floor > bound {
		s.t.Errorf("floor %d of %d claims, want at most one part in %d", top.Floor, s.total[table], paneKeys)
	}
	byID := map[uint64]Item{}
	for _, item := range top.Items {
		if _, twice := byID[item.ID]; twice {
			s.t.Errorf("%+v is there twice", item)
		}
		byID[item.ID] = item
	}
	for name, n := range s.exact[table] {
		rule, key, _ := strings.Cut(name, "\n")
		item, found := byID[identify(&stint.Claim{Key: key, Limit: s.limits[rule]})]
		switch {
		case !found && n > top.Floor, !found && n > bound:
			s.t.Errorf("%q with %d of %d claims is missing (floor %d)", name, n, s.total[table], top.Floor)
		case found && (n > item.Count || n < item.Count-item.Error):
			s.t.Errorf("%q has %d claims, and the sketch says %+v", name, n, item)
		}
	}
}

// The streams are hostile: keys that appear once, keys that return when they are forgotten,
// busy keys between invented ones, and as many equal keys as a summary has places.
func TestNoKeyAboveTheBoundIsMissed(t *testing.T) {
	streams := map[string]func(s *stream, random *rand.Rand, second int){
		"zipf": func(s *stream, random *rand.Rand, _ int) {
			for z := rand.NewZipf(random, 1.05, 1, 1e6); random.IntN(20_000) > 0; {
				s.add(random.IntN(2), "api", fmt.Sprint("key", z.Uint64()), 1)
			}
		},
		"invented": func(s *stream, _ *rand.Rand, second int) {
			for i := range 20_000 {
				if s.add(denied, "api", fmt.Sprintf("made up %d/%d", second, i), 1); i%200 == 0 {
					s.add(denied, "quiet", "real", 1)
				}
			}
		},
		"rotating": func(s *stream, random *rand.Rand, second int) {
			for i := range 3000 {
				s.add(allowed, fmt.Sprint("rule", i%7), fmt.Sprint("key", (i*second)%2900), 1+random.IntN(3))
			}
		},
		"equal": func(s *stream, random *rand.Rand, _ int) {
			for _, i := range random.Perm(paneKeys - 2) {
				s.add(allowed, "api", fmt.Sprint("key", i), 20)
			}
		},
		"late": func(s *stream, _ *rand.Rand, second int) {
			for i := range 600 {
				if second < 10 {
					s.add(denied, "api", fmt.Sprint("early", i), 100)
				}
				s.add(denied, "api", fmt.Sprint("noise", second*600+i), 1)
			}
			s.add(denied, "api", "late", 80)
		},
	}
	for name, fill := range streams {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seed := rand.Uint64()
				t.Log("seed ", seed)
				s, random := newStream(t), rand.New(rand.NewPCG(seed, 1))
				for second := range 30 {
					fill(s, random, second)
					if second%10 == 9 { // also with a part of a second
						s.check(Minute, allowed)
						s.check(Hour, denied)
					}
					s.second()
				}
				for table := range tableCount {
					s.check(Minute, table)
					s.check(Hour, table)
				}
			})
		})
	}
}

// The errors are true even if chance puts all keys into one bucket.
func TestKeysOfOneBucketHaveTrueErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.unfair = true
		var keys []string
		for i := 0; len(keys) < 3*tableSize; i++ {
			if key := fmt.Sprint("key", i); s.sketch.hash(ruleLimit(t, "api"), key)%bucketCount == 0 {
				keys = append(keys, key)
			}
		}
		for range 20 {
			for i, key := range keys {
				s.add(denied, "api", key, rand.IntN(2+i))
			}
			rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			s.check(Hour, denied)
			s.second()
			s.check(Minute, denied)
		}
	})
}

// The addresses and the paths of an access log: the sample, and a real one if the environment
// names it.
func TestTheTopOfAnAccessLog(t *testing.T) {
	for _, file := range []string{"../replay/testdata/sample_access.log", os.Getenv("STINT_ACCESS_LOG")} {
		if file == "" {
			continue
		}
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			s, seen := newStream(t), map[string]int{}
			for part := range slices.Chunk(strings.Split(string(log), "\n"), 500) {
				for _, line := range part {
					if words := strings.Fields(line); len(words) > 6 {
						seen[words[0]]++
						table := allowed
						if seen[words[0]]%10 > 5 {
							table = denied
						}
						s.add(table, "address", words[0], 1)
						s.add(allowed, "path", words[6], 1)
					}
				}
				s.second()
			}
			for table := range tableCount {
				s.check(Minute, table)
				s.check(Hour, table)
			}
		})
	}
}

// The keys are those of a million-key Zipf distribution with exponent 1.
func TestTheTop20OfAMillionKeysAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1_000_000
		s := newStream(t)
		counts := make([]int, keys)
		var order []int32
		for i := range counts {
			counts[i] = max(1, 60_000/(i+1)) // about 1.4 million claims
			for range counts[i] {
				order = append(order, int32(i))
			}
		}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for part := range slices.Chunk(order, len(order)/30+1) {
			for _, key := range part {
				s.add(allowed, "api", fmt.Sprintf("key%d", key), 1)
			}
			s.second()
		}
		for _, w := range windows {
			top := s.sketch.Top(w, false)
			if top.Cut("api", 20); len(top.Items) != 20 {
				t.Fatalf("%d items", len(top.Items))
			}
			for i := range 20 {
				id := identify(&stint.Claim{Key: fmt.Sprintf("key%d", i), Limit: s.limits["api"]})
				if !slices.ContainsFunc(top.Items, func(item Item) bool { return item.ID == id }) {
					t.Errorf("key %d of the top 20 is missing", i)
				}
			}
		}
	})
}

func TestCountsLeaveTheWindows(t *testing.T) { synctest.Test(t, testCountsLeaveTheWindows) }

func testCountsLeaveTheWindows(t *testing.T) {
	s := newStream(t)
	s.add(denied, "api", "early", 7)
	of := func(w Window) (n int64) {
		for _, item := range s.sketch.Top(w, true).Items {
			n += item.Count
		}
		return n
	}
	if of(Minute) != 7 || of(Hour) != 7 || len(s.sketch.Top(Minute, false).Items) != 0 {
		t.Error("the claims of this second are missing, or count as allowed")
	}
	for second := range 4000 {
		switch s.second(); {
		case second < 44 && of(Minute) != 7, second > 60 && of(Minute) != 0:
			t.Fatalf("second %d: %d in the minute", second, of(Minute))
		case second%60 == 0 && (second < 2700 && of(Hour) != 7 || second > 3600 && of(Hour) != 0):
			t.Fatalf("second %d: %d in the hour", second, of(Hour))
		}
		if since := time.Since(s.sketch.Top(Minute, true).Since); since > 61*time.Second || second > 60 && since < 44*time.Second {
			t.Fatalf("second %d: the minute is %v", second, since)
		}
	}
	s.add(denied, "api", "before the pause", 7)
	s.second()
	time.Sleep(24 * time.Hour)
	s.second()
	if of(Minute) != 0 || of(Hour) != 0 {
		t.Error("counts of yesterday are there")
	}
}

// Keys are shortened as in logs, and rules and callers' limits are apart.
func TestItemsAreShortened(t *testing.T) {
	s := newStream(t)
	s.add(denied, "a", "sk_live_1234567890abcdefghijklmnop", 3)
	s.add(denied, "b", "sk_live_1234567890abcdefghijklmnop", 2)
	s.add(denied, "b", "sk_live_1234567890abcdefghijklmnoq", 1)
	s.add(denied, "c", strings.Repeat("世", 200), 1)
	top := s.sketch.Top(Minute, true)
	for i, want := range []Item{{Rule: "a", Key: "sk_live_…", Count: 3}, {Rule: "b", Key: "sk_live_…", Count: 2}, {Rule: "b", Key: "sk_live_…", Count: 1}, {Rule: "c", Key: "世世世…", Count: 1}} {
		if want.ID = top.Items[i].ID; top.Items[i] != want {
			t.Errorf("%+v, want %+v", top.Items[i], want)
		}
	}
	if top.Items[0].ID == top.Items[1].ID || top.Items[1].ID == top.Items[2].ID {
		t.Errorf("one id for two keys: %+v", top.Items)
	}
	top.Cut("b", 1)
	if len(top.Items) != 1 || top.Items[0].Count != 2 || top.Floor != 1 {
		t.Errorf("%+v", top)
	}
}

// Two keys with one id, which a caller has invented, are listed apart: in every interval anew,
// and over several nodes.
func TestKeysWithOneIDAreApart(t *testing.T) {
	slotOf := func(key string, count int64) (s slot) {
		s = slot{id: 7, count: count, rule: "a"}
		copy(s.key[:], key)
		return s
	}
	all, buffer := summary{}, make([]slot, 0, 8)
	for range 3 {
		one := summary{slots: []slot{slotOf("evil…", 100), slotOf("good…", 1)}}
		slices.SortFunc(one.slots, byID)
		all.merge(&one, buffer)
	}
	part := all.top(time.Unix(1, 0))
	got := Merge([]Top{part, part})
	if want := []Item{{"a", "evil…", 600, 0, "", 7}, {"a", "good…", 6, 0, "", 7}}; !slices.Equal(got.Items, want) {
		t.Errorf("%+v, want %+v", got.Items, want)
	}
}

// The limits that callers bring share one name, whatever rule they say.
func TestLimitsOfCallersHaveOneName(t *testing.T) {
	s := New(0)
	for _, rule := range []string{"", "api", "cl.throttle"} {
		l, err := stint.Spec{Rule: rule, Limit: 1, Window: time.Second, FromCaller: true}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		s.count(&stint.Claim{Key: "k-1234567", Limit: l, Cost: 1}, 1, denied)
	}
	for _, item := range s.Top(Minute, true).Items {
		if item.Rule != Takes {
			t.Errorf("%+v", item)
		}
	}
}

func TestNodesAreMerged(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	got := Merge([]Top{
		{Items: []Item{{"a", "k…", 10, 1, "", 1}, {"a", "l…", 9, 0, "", 2}}, Since: late, Floor: 4},
		{Items: []Item{{"a", "k…", 5, 0, "", 1}, {"b", "k…", 7, 0, "", 1}}, Since: early, Floor: 2},
	})
	want := []Item{{"a", "k…", 15, 1, "", 1}, {"a", "l…", 11, 2, "", 2}, {"b", "k…", 11, 4, "", 1}}
	if !slices.Equal(got.Items, want) || got.Floor != 6 || !got.Since.Equal(early) {
		t.Errorf("%+v", got)
	}
}

// A sketch whose counters are all in use, with the longest shortened keys, stays below 1 MiB.
func TestTheMemoryIsBounded(t *testing.T) { synctest.Test(t, testTheMemoryIsBounded) }

func testTheMemoryIsBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := New(0)
	limit := ruleLimit(t, "api")
	for second := range 3700 {
		if second%300 == 0 || second > 3600 {
			for i := range 5000 {
				s.count(&stint.Claim{Key: fmt.Sprintf("%d%d世世世世世世世世世世世世世世世世", second, i), Limit: limit}, 1, i%2)
			}
		}
		time.Sleep(time.Second)
		s.EndInterval(time.Second)
	}
	for i := range s.panes.rings {
		for j := range s.panes.rings[i] {
			for k := range s.panes.rings[i][j].panes {
				if n := len(s.panes.rings[i][j].panes[k].slots); n != paneKeys {
					t.Errorf("pane %d/%d/%d has %d keys", i, j, k, n)
				}
			}
		}
	}
	if used := int64(heap()) - int64(before); used > 1<<20 {
		t.Errorf("%d bytes", used)
	}
	runtime.KeepAlive(s)
}

// BenchmarkEndInterval is the work of a second in which all counters are used.
func BenchmarkEndInterval(b *testing.B) {
	s := New(10_000)
	limit := ruleLimit(b, "api")
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for i := range 10_000 {
			s.count(&stint.Claim{Key: fmt.Sprint(n, " ", i), Limit: limit}, 1, i%2)
		}
		b.StartTimer()
		s.EndInterval(time.Second)
	}
}
