package impact

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A load test has one key, and a server behind an untrusted proxy sees one
// address.
func TestAFloodOfFewCallersIsKept(t *testing.T) {
	for _, callers := range []int{1, 3} {
		samples := 4 // each sample has its own seed
		if testing.Short() {
			samples = 1
		}
		for range samples {
			l := newLive(t, "rules: [{id: r, limit: 100000000/s}]")
			for i := range 30_000 {
				l.request(fmt.Sprint(i % callers))
				l.time = l.time.Add(50 * time.Microsecond)
			}
			got := l.replay("rules: [{id: r, limit: 10, window: 1h}]")
			if got.Requests < 1000 || !got.Refused(0.9) {
				t.Errorf("%d callers: %+v", callers, got)
			}
			if got.Seen < 27_000 || got.Seen > 33_000 {
				t.Errorf("about %d requests, of 30000", got.Seen)
			}
		}
	}
}

func TestAPauseEnds(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 100000000/s}]")
	name := "one"
	for l.request(name); l.newest().hash&1 == 0; l.request(name) {
		name += "e" // find a name that a larger mask would drop at once
	}
	for range 2 * burst {
		l.request(name)
	}
	if l.sample.mask.Load() != pause {
		t.Fatalf("mask %b after a flood of one caller", l.sample.mask.Load())
	}
	for range 4000 { // five minutes
		l.request(name)
		l.time = l.time.Add(75 * time.Millisecond)
	}
	if got := l.replay("rules: []"); l.sample.mask.Load() != 0 || got.Requests < 1000 {
		t.Errorf("mask %b, %+v", l.sample.mask.Load(), got)
	}
}

// A clock that is set back by an hour does not stop sampling for an hour.
func TestAClockThatIsPutBack(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 100000000/s}]")
	for range 2 * burst {
		l.request("one")
	}
	l.time = l.time.Add(-time.Hour)
	l.store = stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return l.time }})
	for range 4000 {
		l.request("one")
		l.time = l.time.Add(75 * time.Millisecond)
	}
	if got := l.replay("rules: []"); got.Requests < 1000 || got.Requests > 4000 {
		t.Errorf("%+v", got)
	}
}

// A caller at ten times its limit is admitted at different moments in a replay,
// but no less often.
func TestACallerAtItsLimitLosesNothingByTheSameRules(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10, window: 1s, capacity: 1}]")
	for i := range 7000 {
		l.request("k")
		if i == 999 { // the sample loses the first part, and with it the time when the bucket was full
			l.time = l.time.Add(Window - 7*time.Second)
		}
		l.time = l.time.Add(9777 * time.Microsecond)
	}
	l.time = l.time.Add(Window - 55*time.Second)
	same := l.replay("rules: [{id: r, limit: 10, window: 1s, capacity: 1}]")
	if same.Allowed < 500 || same.Denied > 0 {
		t.Errorf("the same rules: %+v", same)
	}
	if half := l.replay("rules: [{id: r, limit: 5, window: 1s, capacity: 1}]"); half.Share < 0.45 || half.Share > 0.55 {
		t.Errorf("half: %+v", half)
	}
	if list := l.replay("deny: [k]\nrules: []"); list.Denied != list.Allowed {
		t.Errorf("a list: %+v", list)
	}
}

// A caller that waits exactly for its retry time is not denied because of the time
// that sampling took.
func TestRequestsAreTriedAtTheTimeAtWhichTheyWereDecided(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10, window: 1s, capacity: 1}]")
	decided := l.time
	l.sample.now = func() time.Time { return decided }
	for i := range 200 {
		decided = l.time.Add(time.Duration(200-i) * 10 * time.Microsecond)
		l.request("k")
		l.time = l.time.Add(100 * time.Millisecond)
	}
	if got := l.replay("rules: [{id: r, limit: 10, window: 1s, capacity: 1}]"); got.Allowed != 200 || got.Denied != 0 {
		t.Errorf("%+v", got)
	}
	l.sample.now = func() time.Time { return l.time.Add(time.Hour) } // simulates a store with a wrong clock
	l.request("other")
	if got := l.replay("rules: []"); got.Requests != 1 || !got.Since.Equal(l.sample.now()) {
		t.Errorf("%+v", got)
	}
}

// A set in which every rule matches each request has bounded time and memory.
func TestAReplayIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	l := newLive(t, "rules: [{id: r, limit: 100000000/s}]")
	for i := range 2000 {
		l.request(fmt.Sprint("caller", i))
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "- {id: r%d, limit: 5/s}\n", i)
	}
	got := l.replay("rules:\n" + many.String())
	if got.Requests != mostClaims/1000+1 || got.Allowed != got.Requests || got.Seen != 2000 {
		t.Errorf("%+v", got)
	}
}

func TestATallyForgets(t *testing.T) {
	var c tally
	start := int64(1_900_000_000) * 1e6
	for second := range int64(1000) {
		c.add(start+second*1e6, 2)
	}
	if n := c.sum(start + 999e6); n < 600 || n > 660 {
		t.Errorf("%d within five minutes, of two a second", n)
	}
	if n := c.sum(start + 1400e6); n != 0 {
		t.Errorf("%d after five minutes of silence", n)
	}
}

// A request that never fits is not explained by another request taking its
// place.
func TestACostThatDoesNotFitAnyMoreIsDenied(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10, window: 1s}]")
	for range 3 {
		l.cost("k", 10)
		for range 20 {
			l.request("k")
		}
		l.time = l.time.Add(time.Second)
	}
	if got := l.replay("rules: [{id: r, limit: 9, window: 1s}]"); got.Allowed != 3 || got.Denied != 3 {
		t.Errorf("%+v", got)
	}
}
