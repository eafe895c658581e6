package impact

import (
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/rule"
)

// Bounds of a sample.
const (
	// Window is the age of the oldest request in a sample.
	Window = 5 * time.Minute

	maxEvents = 50_000
	maxNames  = 32   // attributes of one request
	maxBytes  = 2048 // total length of their values; a larger request is not kept
	burst     = maxEvents / 2
)

// second is one second in µs.
const second = 1_000_000

// perSecond is the rate of events that fills the sample exactly within its
// window.
const perSecond = maxEvents / float64(Window/time.Second)

// Sample keeps requests of the last minutes together with their decisions. A
// nil Sample keeps nothing. Make it by [New]; its methods are safe for
// concurrent use.
type Sample struct {
	// KeepPathEncoding means that the requests were decided by sets with
	// [rule.PathKeep]. It must not change after the first use.
	KeepPathEncoding bool
	// HashKey returns the hash that tells keys with the same beginning apart in results. It
	// must not change after the first use. Nil: results have none.
	HashKey func(key string) string

	node    uint64 // id of this process
	secrets atomic.Pointer[secrets]
	now     func() time.Time
	// mask selects the callers to keep: those whose hash has no bit in common with
	// it. The mask gains one low bit at a time while there is too much traffic, and
	// loses it later. A caller kept under a larger mask is therefore also kept
	// under a smaller one. During a pause the mask is all ones and keeps nobody.
	mask atomic.Uint64

	mu     sync.Mutex
	after  uint64  // guarded by mu; the mask after the current pause
	seen   tally   // guarded by mu; the approximate number of requests
	events blocks  // guarded by mu; at most maxEvents
	room   float64 // guarded by mu; the number of events that may be kept now
	last   int64   // guarded by mu; when room was updated, in µs
	roomy  int64   // guarded by mu; since when room has been full, in µs
	began  int64   // guarded by mu; requests before it may be missing, in µs; 0: none
}

// New returns an empty sample. now is its clock; nil means time.Now.
func New(now func() time.Time) *Sample {
	if now == nil {
		now = time.Now
	}
	s := &Sample{node: newNode(), now: now, room: burst}
	s.secrets.Store(ownSecrets())
	return s
}

// Add offers a decided request to the sample. names are the attributes that the
// rules may read. The slice must not change afterwards.
func (s *Sample) Add(names []string, a rule.Attributes, cost int64, o *rule.Outcome) {
	if s == nil || cost == 0 || o.List == rule.ListDeny {
		return
	}
	k := s.secrets.Load()
	switch h := k.callers.Sum(callerOf(a, o)); {
	case h&s.mask.Load() == 0:
		s.keep(names, a, cost, h, k, o)
	case rand.Uint64()%glances == 0:
		s.glance()
	}
}

// glances is the average number of requests of unsampled callers between two
// checks whether more callers can be kept. Kept requests alone cannot trigger
// the check, because there may be none.
const glances = 64

func (s *Sample) glance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	s.seen.add(now, glances)
	s.room++ // undo the unit that thinLocked takes for a kept event
	s.thinLocked(now)
}

// callerOf returns the caller of a request: its key in the first hit, or its API key or address.
func callerOf(a rule.Attributes, o *rule.Outcome) string {
	if len(o.Hits) > 0 {
		return o.Hits[0].Key
	}
	caller, ok := a.Attribute("api_key")
	if !ok {
		caller, _ = a.Attribute("ip")
	}
	return caller
}

// keep stores a copy of a request, because the caller may reuse its memory.
func (s *Sample) keep(names []string, a rule.Attributes, cost int64, hash uint64, k *secrets, o *rule.Outcome) {
	names = names[:min(len(names), maxNames)]
	var room [256]byte // enough for the values of most requests, on the stack
	values, ok := appendValues(room[:0], names, a)
	if !ok {
		return
	}
	now := s.now().UnixMicro()
	e := entry{t: decided(o, now), cost: cost, hash: hash, allowed: o.Allowed()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.add(now, 1)
	if e.mask = s.mask.Load(); hash&e.mask != 0 || k != s.secrets.Load() {
		return // the mask has grown meanwhile, or the sample has joined others
	}
	s.events.add(names, values, e)
	s.thinLocked(now)
}

// decided returns the time of the decision by the store's clock. With another
// clock, a caller that waits exactly for its retry time would sometimes arrive
// too early in the replay. A store time more than a second from this
// machine's clock is ignored.
func decided(o *rule.Outcome, now int64) int64 {
	if at := o.Decision.At; at > now-second && at < now+second {
		return at
	}
	return now
}

// pause is the mask that keeps nobody.
const pause = ^uint64(0)

// thinLocked adapts the mask to the traffic.
//
// It keeps fewer callers while more requests arrive than the sample can hold
// for its window, and more callers again when the overload is long past. If a
// few callers make most of the requests, a larger mask could drop all of them,
// and the sample would not show that a change denies them. The sample then
// keeps all of them but pauses between stretches of time.
func (s *Sample) thinLocked(now int64) {
	switch passed := now - s.last; {
	case passed > 0:
		s.room = min(burst, s.room+perSecond*float64(passed)/1e6)
		s.last = now
	case passed < -second: // the clock was set back
		s.last, s.roomy = now, now
	}
	mask := s.mask.Load()
	switch s.room--; {
	case mask == pause:
		if s.room >= burst-2 {
			s.roomy = now
			s.mask.Store(s.after)
		}
	case s.room < 0 && few(s.events.hashes(), mask):
		s.room, s.after = 0, mask
		s.mask.Store(pause)
	case s.room < 0:
		s.room, s.roomy = burst/8, now
		s.mask.Store(mask<<1 | 1)
	case s.room < burst-2:
		s.roomy = now
	case mask > 0 && now-s.roomy > Window.Microseconds()/10:
		s.roomy = now
		s.mask.Store(mask >> 1)
	}
}

// few reports whether one more mask bit would drop far more than half of the events with these
// hashes. A few callers then make most of the requests.
func few(hashes iter.Seq[uint64], mask uint64) bool {
	kept, left := 0, 0
	for h := range hashes {
		if h&mask == 0 {
			kept++
			if h&(mask<<1|1) == 0 {
				left++
			}
		}
	}
	return left < kept/4
}

// recent returns the events in the window whose callers were kept throughout it, and the keys that
// selected the callers.
func (s *Sample) recent() (b batch, k *secrets) {
	since, until := s.window()
	b, events, k := s.snapshot(until)
	inWindow := func(e *entry) bool { return e.t >= since && e.t < until }
	for e := range events.all() {
		if inWindow(e) {
			b.mask = max(b.mask, e.mask)
		}
	}
	for e, of := range events.all() {
		if inWindow(e) && e.hash&b.mask == 0 {
			b.events = append(b.events, of.event(e))
		}
	}
	b.seen = max(b.seen, uint64(len(b.events)))
	return b, k
}

// snapshot returns a batch without its events, the events from which recent selects them, and the
// keys. Requests wait for the sample only in here.
func (s *Sample) snapshot(until int64) (b batch, events views, k *secrets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.until = until
	// The mask may have dropped requests since it grew, even if no request has been kept since then. A
	// mask that is left from an earlier flood has dropped nothing without requests.
	if b.seen = s.seen.sum(until - second); b.seen > 0 {
		if b.mask = s.mask.Load(); b.mask == pause {
			b.mask = s.after
		}
	}
	lost := []int64{s.began}
	if s.events.count == maxEvents {
		lost = append(lost, s.events.oldest().t)
	}
	for _, t := range lost {
		if t < until { // the clock may have been set back
			b.since = max(b.since, t)
		}
	}
	return b, s.events.views(), s.secrets.Load()
}

// window returns the times between which requests are replayed, in µs.
func (s *Sample) window() (since, until int64) {
	now := s.now()
	return now.Add(-Window).UnixMicro(), now.UnixMicro() + second
}
