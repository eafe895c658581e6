package impact

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stintdev/stint/rule"
)

// An event has the values that it was kept with, whatever is kept later.
func TestEventsHaveTheirValues(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	sets := [][]string{{}, {"ip"}, {"api_key", "ip", "path"}}
	s := New(nil)
	var kept []rule.Map
	add := func() {
		names := sets[random.IntN(len(sets))]
		a := rule.Map{}
		for _, name := range names {
			if n := random.IntN(maxBytes/len(names) + 1); n%4 > 0 {
				a[name] = strings.Repeat(string(rune('a'+n%26)), n)
			}
		}
		for range 1 + random.IntN(40) {
			s.Add(names, a, 1, &rule.Outcome{})
			kept = append(kept, a)
		}
	}
	check := func(list []event) {
		t.Helper()
		for i := range list {
			for _, name := range []string{"api_key", "ip", "path", "other"} {
				value, ok := list[i].Attribute(name)
				if want := kept[i][name]; value != want || ok != (want != "") {
					t.Fatalf("seed %d: event %d: %s is %.20q (%d bytes), %v, not %.20q (%d bytes)", seed, i, name, value, len(value), ok, want, len(want))
				}
			}
		}
	}
	for range 50 {
		add()
	}
	before, _ := s.recent()
	for range 50 {
		add()
	}
	after, _ := s.recent()
	if len(before.events) == 0 || len(after.events) != len(kept) {
		t.Fatalf("%d events, then %d of %d", len(before.events), len(after.events), len(kept))
	}
	check(before.events)
	check(after.events)
}

// The garbage collector has few pieces of memory to visit, however many requests there are.
func TestEventsShareBlocks(t *testing.T) {
	for name, a := range map[string]rule.Map{"short": {}, "long": {"ip": strings.Repeat("x", 100)}} {
		t.Run(name, func(t *testing.T) {
			var s blocks
			values, _ := appendValues(nil, []string{"ip"}, a)
			names := [][]string{{"ip"}, {"api_key"}} // rule sets take turns
			for i := range 2*maxEvents + maxEntries/2 {
				s.add(names[i%len(names)], values, entry{t: int64(i)})
			}
			if n := len(s.list); s.count != maxEvents || n > 400 {
				t.Errorf("%d events in %d blocks", s.count, n)
			}
			next := int64(maxEvents + maxEntries/2)
			for e, b := range s.views().all() {
				if e.t != next || len(b.entries) > maxEntries || len(b.text) > maxText {
					t.Fatalf("event %d is %d, in a block with %d events and %d bytes", next, e.t, len(b.entries), len(b.text))
				}
				next++
			}
			if next != 2*maxEvents+maxEntries/2 {
				t.Errorf("the newest event is %d", next-1)
			}
		})
	}
}

// Requests wait for the sample while a replay takes its events, so it copies no event meanwhile.
func TestRequestsDoNotWaitForEvents(t *testing.T) {
	s := full(t)
	if n := testing.AllocsPerRun(10, func() { s.snapshot(s.now().UnixMicro() + second) }); n > 2 {
		t.Errorf("%v pieces of memory", n)
	}
}

// The events of a replay stay as they were while the sample gets others and drops the oldest.
func TestReplaysBesideRequests(t *testing.T) {
	s := full(t)
	var replays sync.WaitGroup
	for range 4 {
		replays.Go(func() {
			b, _ := s.recent()
			for i := 1; i < len(b.events); i++ {
				was, _ := b.events[i-1].Attribute("path")
				is, _ := b.events[i].Attribute("path")
				before, _ := strconv.Atoi(was)
				if now, err := strconv.Atoi(is); err != nil || now != before+1 {
					t.Errorf("the path of event %d is %q, after %q", i, is, was)
					return
				}
			}
		})
	}
	fill(s, maxEvents, 2*maxEvents)
	replays.Wait()
}

// full returns a sample with maxEvents events.
func full(t *testing.T) *Sample {
	t.Helper()
	s := New(nil)
	fill(s, 0, maxEvents)
	if s.events.count != maxEvents {
		t.Fatalf("%d events", s.events.count)
	}
	return s
}

// fill adds requests whose paths are the numbers from first on, however fast they are.
func fill(s *Sample, first, end int) {
	names := []string{"api_key", "path"}
	for i := first; i < end; i++ {
		s.mu.Lock()
		s.room = burst
		s.mu.Unlock()
		s.Add(names, rule.Map{"api_key": "key", "path": strconv.Itoa(i)}, 1, &rule.Outcome{})
	}
}
