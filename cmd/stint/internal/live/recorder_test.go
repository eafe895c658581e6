package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// counters are the counters of a server, which the test moves.
type counters struct {
	Reading

	now time.Time
}

func newCounters() *counters {
	c := &counters{now: start}
	c.Rules = map[string]Counts{}
	c.Checks.Reset([]float64{0.001, 0.01, 0.1})
	c.Store.Reset([]float64{0.001, 0.01, 0.1})
	return c
}

func (c *counters) read(to *Reading) {
	to.Requests, to.Shards = c.Requests, append(to.Shards, c.Shards...)
	maps.Copy(to.Rules, c.Rules)
	for _, h := range [][2]*Histogram{{&to.Checks, &c.Checks}, {&to.Store, &c.Store}} {
		h[0].Reset(h[1].Bounds)
		copy(h[0].Counts, h[1].Counts)
	}
}

func (c *counters) second(r *Recorder) Second {
	c.now = c.now.Add(time.Second)
	r.Record(c.now)
	frames, _ := r.After(0)
	var s Second
	if len(frames) > 0 {
		_ = json.Unmarshal(frames[len(frames)-1].Data, &s)
	}
	return s
}

func begun() (*counters, *Recorder) {
	c := newCounters()
	r := New(c.read)
	r.Record(c.now)
	return c, r
}

func TestASecondHasWhatWasCountedInIt(t *testing.T) {
	c := newCounters()
	c.Requests.Allowed, c.Rules["orders"] = 1000, Counts{Allowed: 1000}
	r := New(c.read)
	r.Record(c.now)
	if frames, _ := r.After(0); len(frames) > 0 {
		t.Errorf("what was counted before is a second: %s", frames[0].Data)
	}
	c.Requests.Allowed, c.Requests.DegradedDenied, c.Requests.Unmatched, c.Requests.Errors = 1010, 2, 3, 4
	c.Rules["orders"], c.Rules["new"] = Counts{Allowed: 1007, Denied: 1}, Counts{Shadow: 2, Allowed: 1}
	c.Checks.Counts = []uint64{0, 100, 100, 100}
	got, err := json.Marshal(c.second(r))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"time_ms":1772366401000,"length_ms":1000,"allowed":10,"denied":2,"degraded":2,"errors":4,"unmatched":3,"shadow":2,` +
		`"check_p99_us":9910,"rules":[{"rule":"new","allowed":1,"shadow":2},{"rule":"orders","allowed":7,"denied":1}],` +
		`"degradation":{"since":"2026-03-01T12:00:00Z","share":0.16666666666666666,"shards":[]}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := c.second(r); s.Allowed != 0 || len(s.Rules) != 0 || s.CheckP99 != nil {
		t.Errorf("a second without requests: %+v", s)
	}
}

func TestACounterThatBeginsAnewCountsFromZero(t *testing.T) {
	c, r := begun()
	c.Rules["orders"] = Counts{Allowed: 50}
	c.second(r)
	c.Rules["orders"] = Counts{Allowed: 3}
	if s := c.second(r); len(s.Rules) != 1 || s.Rules[0].Allowed != 3 {
		t.Errorf("%+v", s.Rules)
	}
}

func TestTheBusiestRulesAreShownAndTheOthersSummed(t *testing.T) {
	c, r := begun()
	for range 3 {
		for i := range 200 {
			n := c.Rules[fmt.Sprintf("r%03d", i)]
			n.Allowed += uint64(i + 1)
			c.Rules[fmt.Sprintf("r%03d", i)] = n
		}
		s := c.second(r)
		if len(s.Rules) != Busiest || s.Rules[0].Rule != "r136" || s.Others == nil || s.Others.Allowed != 136*137/2 {
			t.Fatalf("%d rules, the first %v, others %v", len(s.Rules), s.Rules[0], s.Others)
		}
	}
	n := c.Rules["r000"]
	n.Allowed += 1000 // busy in one second alone
	c.Rules["r000"] = n
	for i := range 100 {
		n := c.Rules[fmt.Sprintf("r%03d", 100+i)]
		n.Allowed++
		c.Rules[fmt.Sprintf("r%03d", 100+i)] = n
	}
	if s := c.second(r); s.Rules[0].Rule != "r000" {
		t.Errorf("the rule with the highest rate is missing: %v", s.Rules[0])
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c, r := begun()
	for range Seconds + 100 {
		c.Requests.Allowed++
		c.second(r)
	}
	if frames, _ := r.After(0); len(frames) != Seconds {
		t.Errorf("%d seconds", len(frames))
	}
	long := strings.Repeat("x", 200)
	for i := range Busiest {
		c.Rules[fmt.Sprint(long, i)] = Counts{}
	}
	for range Seconds {
		for id, n := range c.Rules {
			n.Allowed++
			c.Rules[id] = n
		}
		c.second(r)
	}
	frames, _ := r.After(0)
	total := 0
	for _, f := range frames {
		total += len(f.Data)
	}
	if total > MaxBytes || total < MaxBytes/2 || total != r.frameBytes {
		t.Errorf("%d seconds have %d bytes, and the recorder counts %d", len(frames), total, r.frameBytes)
	}
}

func TestReadersTakeWhatTheyLack(t *testing.T) {
	c, r := begun()
	for range 5 {
		c.second(r)
	}
	all, more := r.After(0)
	if len(all) != 5 {
		t.Fatal(len(all))
	}
	if rest, _ := r.After(all[2].ID); len(rest) != 2 || rest[0].ID != all[3].ID {
		t.Errorf("%v", rest)
	}
	if none, _ := r.After(all[4].ID); len(none) != 0 {
		t.Errorf("%v", none)
	}
	if other, _ := r.After(all[4].ID + 1); len(other) != 5 {
		t.Errorf("after an id of another server: %v", other)
	}
	select {
	case <-more:
		t.Error("there is no further second yet")
	default:
	}
	c.now = c.now.Add(-time.Hour) // the clock is set back
	c.second(r)
	c.second(r)
	<-more
	if rest, _ := r.After(all[4].ID); len(rest) != 1 {
		t.Errorf("after the clock was set back: %v", rest)
	}
}

func TestRatesAreAveragedOverAMinute(t *testing.T) {
	c, r := begun()
	c.Rules["orders"], c.Rules["idle"] = Counts{}, Counts{}
	for range 10 {
		n := c.Rules["orders"]
		n.Allowed, n.Denied = n.Allowed+100, n.Denied+10
		c.Rules["orders"] = n
		c.second(r)
	}
	if got := r.Rates(); got["orders"] != (Rates{Allowed: 100, Denied: 10}) || got["idle"] != (Rates{}) || len(got) != 2 {
		t.Errorf("at a steady rate: %v", got)
	}
	for range 60 {
		c.second(r)
	}
	if got := r.Rates()["orders"].Allowed; got < 5 || got > 40 {
		t.Errorf("a minute later: %v", got)
	}
	delete(c.Rules, "orders")
	c.second(r)
	if _, there := r.Rates()["orders"]; there {
		t.Error("a rule that is no longer in force keeps its rate")
	}
}

func TestRecentSecondsAreSummedUp(t *testing.T) {
	c, r := begun()
	if r.Recent(16) != nil {
		t.Error("there is a sum before the first second")
	}
	for i := range uint64(8) {
		c.Requests.Allowed += 10
		c.Rules["a"], c.Rules["b"] = Counts{Allowed: 3 * (i + 1)}, Counts{Denied: 7 * (i + 1)}
		c.second(r)
	}
	s := r.Recent(1)
	if s.Length != 5000 || s.Allowed != 50 || len(s.Rules) != 1 || s.Rules[0].Rule != "b" || s.Rules[0].Denied != 35 || s.Others == nil || s.Others.Allowed != 15 {
		t.Errorf("%+v %+v", s, s.Others)
	}
}

func TestADegradationIsShownFromItsBeginningToTenSecondsAfterItsEnd(t *testing.T) {
	c, r := begun()
	c.Shards = []Shard{{Name: "a"}, {Name: "b"}}
	step := func(allowed, open uint64, circuit bool) *Degradation {
		c.Requests.Allowed += allowed
		c.Requests.DegradedAllowed += open
		c.Shards[0].Degraded.Open += open
		c.Shards[0].Open = circuit
		return c.second(r).Degradation
	}
	if d := step(100, 0, false); d != nil {
		t.Fatalf("%+v", d)
	}
	step(100, 100, false)
	d := step(0, 100, true)
	if d == nil || !d.Since.Equal(start.Add(time.Second)) || len(d.Shards) != 1 || d.Share != 0.5 {
		t.Fatalf("%+v", d)
	}
	if one := d.Shards[0]; one.Shard != "a" || !one.Open || one.Policies.Open != 200 || !one.Since.Equal(start.Add(time.Second)) {
		t.Errorf("%+v", one)
	}
	for i := range calm {
		if d = step(100, 0, false); d == nil || !d.Since.Equal(start.Add(time.Second)) {
			t.Fatalf("%d s after the last one: %+v", i+1, d)
		}
	}
	if d := step(100, 0, false); d != nil {
		t.Errorf("%+v", d)
	}
	if d := step(100, 0, true); d == nil || d.Share != 0 || len(d.Shards) != 1 || !d.Shards[0].Since.Equal(c.now.Add(-time.Second)) {
		t.Errorf("with an open circuit and no requests on it: %+v", d)
	}
}

func TestManyShardsAreCutShort(t *testing.T) {
	c, r := begun()
	for i := range 40 {
		c.Shards = append(c.Shards, Shard{Name: fmt.Sprint(i), Open: true})
	}
	d := c.second(r).Degradation
	if len(d.Shards) != mostShards || d.More != 40-mostShards {
		t.Errorf("%d shards and %d more", len(d.Shards), d.More)
	}
	c.Shards = nil
	c.second(r)
	if len(r.degrading.shards) != 0 {
		t.Error("shards that the store no longer has are kept")
	}
}

func TestAQuantileIsInterpolated(t *testing.T) {
	bounds := []float64{0.001, 0.01, 0.1}
	for name, c := range map[string]struct {
		before, now []uint64
		want        float64 // in microseconds
	}{
		"all in the first":  {[]uint64{0, 0, 0, 0}, []uint64{100, 100, 100, 100}, 990},
		"only the new ones": {[]uint64{900, 900, 900, 900}, []uint64{900, 1000, 1000, 1000}, 9910},
		"beyond the last":   {[]uint64{0, 0, 0, 0}, []uint64{0, 0, 0, 5}, 100_000},
		"begun anew":        {[]uint64{500, 500, 500, 500}, []uint64{100, 100, 100, 100}, 990},
	} {
		now, before := Histogram{bounds, c.now}, Histogram{bounds, c.before}
		if got := now.quantile(0.99, &before); got == nil || *got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestASecondIsRecordedEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(newCounters().read)
		go r.Run(t.Context())
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if frames, _ := r.After(0); len(frames) != 10 {
			t.Errorf("%d seconds", len(frames))
		}
		r.Close()
		r.Close()
		<-r.Closed()
	})
}
