// Package live keeps what a server counted in each of the last seconds, for people who watch it.
//
// Use it beside the metrics: a [Recorder] reads the same counters once a second and keeps the
// differences, so watching costs nothing on the path of a request. Readers take the seconds after
// the last one that they have, so a slow reader takes no memory.
//
// The package promises a bound on its memory, whatever is counted: at most [Seconds] seconds, of
// each the [Busiest] busiest rules and the sum of the others, and at most [MaxBytes] of them.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of a [Recorder].
const (
	Seconds  = 15 * 60
	Busiest  = 64
	MaxBytes = 4 << 20
)

// rateTime is the time over which rates are averaged. Earlier requests count less: by a factor of
// e for each rateTime.
const rateTime = time.Minute

// recentTime is the number of seconds that [Recorder.Recent] sums up.
const recentTime = 5

// Recorder records seconds. Make it with [New]. It is safe for concurrent use.
type Recorder struct {
	read func(*Reading)

	recording sync.Mutex
	now, last Reading              // guarded by recording
	began     time.Time            // guarded by recording; when the second begins
	rates     map[string]*ruleRate // guarded by recording
	recent    []*Second            // guarded by recording; at most recentTime
	degrading degrading            // guarded by recording

	mu         sync.Mutex
	frames     []Frame       // guarded by mu; the oldest first
	frameBytes int           // guarded by mu
	more       chan struct{} // guarded by mu; closed with the next frame

	closed chan struct{}
	end    func()
}

// Frame is a second in JSON. IDs ascend.
type Frame struct {
	ID   int64
	Data []byte
}

// Second is what was counted in a second.
type Second struct {
	Time   int64 `json:"time_ms"` // its end, in milliseconds since the Unix epoch
	Length int64 `json:"length_ms"`

	// The requests of all surfaces, each counted once. Degraded ones are also among the
	// allowed or the denied.
	Allowed   uint64 `json:"allowed"`
	Denied    uint64 `json:"denied"`
	Degraded  uint64 `json:"degraded"`
	Errors    uint64 `json:"errors"`
	Unmatched uint64 `json:"unmatched"`
	Shadow    uint64 `json:"shadow"` // of all rules

	// The 99th percentiles of durations in microseconds; nil if nothing was measured.
	CheckP99 *float64 `json:"check_p99_us,omitempty"`
	StoreP99 *float64 `json:"store_p99_us,omitempty"`

	// Rules are the busiest rules that counted a request, and Others the sum of the others.
	Rules  []RuleCounts `json:"rules"`
	Others *Counts      `json:"others,omitempty"`

	Degradation *Degradation `json:"degradation,omitempty"` // nil: the store decides everything
}

// RuleCounts are the counts of a rule.
type RuleCounts struct {
	Rule string `json:"rule"`
	Counts
}

// Rates are requests of a rule a second, averaged over about a minute.
type Rates struct {
	Allowed  float64 `json:"allowed"`
	Denied   float64 `json:"denied"`
	Shadow   float64 `json:"shadow"`
	Degraded float64 `json:"degraded"`
}

// New returns a recorder. read adds to an empty Reading what the server has counted since it
// started.
func New(read func(*Reading)) *Recorder {
	r := &Recorder{read: read, rates: map[string]*ruleRate{}, more: make(chan struct{}), closed: make(chan struct{})}
	r.now.Rules, r.last.Rules = map[string]Counts{}, map[string]Counts{}
	r.end = sync.OnceFunc(func() { close(r.closed) })
	return r
}

// Run records a second each second, until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	r.Record(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.Record(time.Now())
		}
	}
}

// Close tells the readers to leave, because the server stops.
func (r *Recorder) Close() { r.end() }

// Closed returns a channel that Close closes.
func (r *Recorder) Closed() <-chan struct{} { return r.closed }

// Record ends a second. The first call begins one.
func (r *Recorder) Record(now time.Time) {
	r.recording.Lock()
	defer r.recording.Unlock()
	clear(r.now.Rules)
	r.now.Requests, r.now.Shards = Requests{}, r.now.Shards[:0]
	r.read(&r.now)
	if length := now.Sub(r.began); !r.began.IsZero() && length > 0 {
		s := r.secondLocked(now, length)
		r.recent = append(r.recent[max(0, len(r.recent)-recentTime+1):], s)
		r.publish(s)
	}
	r.began = now
	r.now, r.last = r.last, r.now
}

// secondLocked returns the second that ends now.
func (r *Recorder) secondLocked(now time.Time, length time.Duration) *Second {
	n := r.now.Requests.since(r.last.Requests)
	s := &Second{
		Time: now.UnixMilli(), Length: max(1, length.Milliseconds()),
		Allowed: n.Allowed + n.DegradedAllowed, Denied: n.Denied + n.DegradedDenied, Degraded: n.DegradedAllowed + n.DegradedDenied,
		Errors: n.Errors, Unmatched: n.Unmatched, Rules: []RuleCounts{},
		CheckP99: r.now.Checks.quantile(0.99, &r.last.Checks), StoreP99: r.now.Store.quantile(0.99, &r.last.Store),
	}
	counted := r.countRulesLocked(length)
	for _, one := range counted {
		s.Shadow += one.Shadow
	}
	s.Rules, s.Others = r.busiestLocked(counted)
	s.Degradation = r.degrading.end(s, r.began, now, r.now.Shards, r.last.Shards)
	return s
}

// countRulesLocked returns the rules that counted a request, and brings all rates up to date.
func (r *Recorder) countRulesLocked(length time.Duration) (counted []RuleCounts) {
	keep := math.Exp(-length.Seconds() / rateTime.Seconds())
	for id, now := range r.now.Rules {
		n := now.since(r.last.Rules[id])
		rate := r.rates[id]
		if rate == nil {
			rate = &ruleRate{}
			r.rates[id] = rate
		}
		rate.add(n, length, keep)
		if n != (Counts{}) {
			counted = append(counted, RuleCounts{id, n})
		}
	}
	if len(r.rates) > len(r.now.Rules) {
		maps.DeleteFunc(r.rates, func(id string, _ *ruleRate) bool { _, inForce := r.now.Rules[id]; return !inForce })
	}
	return counted
}

// busiestLocked divides the counts of a second into those of the busiest rules of the last
// minute, in the order of their ids, and the sum of the others. A minute and not the second
// decides, so that the same rules are shown from one second to the next.
func (r *Recorder) busiestLocked(counted []RuleCounts) (busiest []RuleCounts, others *Counts) {
	byID := func(a, b RuleCounts) int { return strings.Compare(a.Rule, b.Rule) }
	if len(counted) > Busiest {
		slices.SortFunc(counted, func(a, b RuleCounts) int {
			return cmp.Or(cmp.Compare(r.rates[b.Rule].total(), r.rates[a.Rule].total()), byID(a, b))
		})
		others = &Counts{}
		for _, one := range counted[Busiest:] {
			others.add(one.Counts)
		}
		counted = counted[:Busiest]
	}
	slices.SortFunc(counted, byID)
	return append([]RuleCounts{}, counted...), others
}

// publish adds a second to those that readers take, and forgets the oldest beyond the bounds.
func (r *Recorder) publish(s *Second) {
	data, err := json.Marshal(s)
	if err != nil {
		return // a number that JSON lacks; there is none
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := s.Time
	if n := len(r.frames); n > 0 { // also after the clock was set back
		id = max(id, r.frames[n-1].ID+1)
	}
	r.frames = append(r.frames, Frame{id, data})
	r.frameBytes += len(data)
	for len(r.frames) > Seconds || r.frameBytes > MaxBytes && len(r.frames) > 1 {
		r.frameBytes -= len(r.frames[0].Data)
		r.frames[0] = Frame{}
		r.frames = r.frames[1:]
	}
	close(r.more)
	r.more = make(chan struct{})
}

// After returns the frames after that with the given id, and a channel that is closed when there
// is another. An id that is greater than all is of another server, or of this one before its clock
// was set back and it restarted: After then returns all frames.
func (r *Recorder) After(id int64) ([]Frame, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.frames); n > 0 && id > r.frames[n-1].ID {
		id = 0
	}
	first, _ := slices.BinarySearchFunc(r.frames, id, func(f Frame, id int64) int {
		if f.ID <= id {
			return -1
		}
		return 1
	})
	return slices.Clone(r.frames[first:]), r.more
}

// Rates returns the rates of rules; without ids those of all rules in force.
func (r *Recorder) Rates(ids ...string) map[string]Rates {
	r.recording.Lock()
	defer r.recording.Unlock()
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(r.rates))
	}
	found := make(map[string]Rates, len(ids))
	for _, id := range ids {
		if rate := r.rates[id]; rate != nil {
			found[id] = rate.rates()
		}
	}
	return found
}

// Recent returns the sum of the last [recentTime] seconds, with at most the given number of rules;
// nil before the first second. Its percentiles are the greatest of those of its seconds.
func (r *Recorder) Recent(rules int) *Second {
	r.recording.Lock()
	defer r.recording.Unlock()
	if len(r.recent) == 0 {
		return nil
	}
	last := r.recent[len(r.recent)-1]
	sum := &Second{Time: last.Time, Degradation: last.Degradation}
	byRule := map[string]*Counts{}
	others := Counts{}
	for _, s := range r.recent {
		sum.Length += s.Length
		sum.Allowed += s.Allowed
		sum.Denied += s.Denied
		sum.Degraded += s.Degraded
		sum.Errors += s.Errors
		sum.Unmatched += s.Unmatched
		sum.Shadow += s.Shadow
		sum.CheckP99, sum.StoreP99 = greater(sum.CheckP99, s.CheckP99), greater(sum.StoreP99, s.StoreP99)
		for _, one := range s.Rules {
			if byRule[one.Rule] == nil {
				byRule[one.Rule] = &Counts{}
			}
			byRule[one.Rule].add(one.Counts)
		}
		if s.Others != nil {
			others.add(*s.Others)
		}
	}
	for id, counts := range byRule {
		sum.Rules = append(sum.Rules, RuleCounts{id, *counts})
	}
	slices.SortFunc(sum.Rules, func(a, b RuleCounts) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), strings.Compare(a.Rule, b.Rule))
	})
	for _, one := range sum.Rules[min(rules, len(sum.Rules)):] {
		others.add(one.Counts)
	}
	sum.Rules = append([]RuleCounts{}, sum.Rules[:min(rules, len(sum.Rules))]...)
	if others != (Counts{}) {
		sum.Others = &others
	}
	return sum
}

func greater(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// ruleRate averages the counts of a rule exponentially.
type ruleRate struct {
	sums   Rates
	weight float64 // 1 once the rule is much older than rateTime
}

func (r *ruleRate) add(n Counts, length time.Duration, keep float64) {
	part := (1 - keep) / length.Seconds()
	r.sums.Allowed = r.sums.Allowed*keep + float64(n.Allowed)*part
	r.sums.Denied = r.sums.Denied*keep + float64(n.Denied)*part
	r.sums.Shadow = r.sums.Shadow*keep + float64(n.Shadow)*part
	r.sums.Degraded = r.sums.Degraded*keep + float64(n.Degraded)*part
	r.weight = r.weight*keep + 1 - keep
}

func (r *ruleRate) total() float64 {
	return r.sums.Allowed + r.sums.Denied + r.sums.Shadow + r.sums.Degraded
}

func (r *ruleRate) rates() Rates {
	if r.weight == 0 {
		return Rates{}
	}
	round := func(sum float64) float64 { return math.Round(1000*sum/r.weight) / 1000 }
	return Rates{round(r.sums.Allowed), round(r.sums.Denied), round(r.sums.Shadow), round(r.sums.Degraded)}
}
