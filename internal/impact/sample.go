package impact

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/rule"
)

// The bounds of a sample.
const (
	// Window is how far back a sample reaches.
	Window = 5 * time.Minute

	maxEvents = 50_000
	maxNames  = 32   // attributes of one request
	maxBytes  = 2048 // of all of them; a request with more is passed over
	burst     = maxEvents / 2
)

// second is one in µs.
const second = 1_000_000

// perSecond is how many events a second fill the sample in its window.
const perSecond = maxEvents / float64(Window/time.Second)

// Sample keeps requests of the last minutes and how they were decided. A nil
// Sample keeps none. Make it by [New]; its methods are safe for use by many
// goroutines at once.
type Sample struct {
	// KeepPathEncoding says that the requests were decided by sets with
	// [rule.Set.KeepPathEncoding]. It must not change once in use.
	KeepPathEncoding bool

	seed maphash.Seed
	now  func() time.Time
	// mask thins out callers: those are kept whose hash has none of its bits.
	// It grows while there is too much, by one bit at a time, so that who is
	// kept under a greater mask is under a smaller too. In a pause it is
	// nobody.
	mask atomic.Uint64

	mu     sync.Mutex
	after  uint64  // guarded by mu; the mask after the pause, if there is one
	seen   tally   // guarded by mu; about how many requests there were
	events []event // guarded by mu; a ring once it is full
	next   int     // guarded by mu; where the ring goes on
	room   float64 // guarded by mu; how many events may be kept right now
	last   int64   // guarded by mu; when room was reckoned, in µs
	roomy  int64   // guarded by mu; since when room has been full, in µs
}

// event is one request that was decided.
type event struct {
	t       int64 // in µs
	cost    int64
	hash    uint64
	mask    uint64 // in force as it was kept
	allowed bool
	names   []string // shared by all events of one set
	values  []string // "" is absent
}

// New returns an empty sample. now is the time; nil means time.Now.
func New(now func() time.Time) *Sample {
	if now == nil {
		now = time.Now
	}
	return &Sample{seed: maphash.MakeSeed(), now: now, room: burst}
}

// Add hears of a request that was decided by rules which ask for attributes of
// these names. Names must not change.
func (s *Sample) Add(names []string, a rule.Attributes, cost int64, o *rule.Outcome) {
	if s == nil || cost == 0 || o.List == rule.ListDeny {
		return
	}
	switch h := s.hash(a, o); {
	case h&s.mask.Load() == 0:
		s.keep(names, a, cost, h, o)
	case rand.Uint64()%glances == 0:
		s.glance()
	}
}

// glances is how many requests of callers who are not kept go by between two
// looks at whether more could be: nobody may be left who is kept.
const glances = 64

func (s *Sample) glance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	s.seen.add(now, glances)
	s.room++ // nothing is kept
	s.thinLocked(now)
}

// hash is that of the caller: by whom the first rule counts it, else by what it
// says of itself.
func (s *Sample) hash(a rule.Attributes, o *rule.Outcome) uint64 {
	if len(o.Hits) > 0 {
		return maphash.String(s.seed, o.Hits[0].Key)
	}
	caller, ok := a.Attribute("api_key")
	if !ok {
		caller, _ = a.Attribute("ip")
	}
	return maphash.String(s.seed, caller)
}

// keep copies a request, which its caller may use again.
func (s *Sample) keep(names []string, a rule.Attributes, cost int64, hash uint64, o *rule.Outcome) {
	names = names[:min(len(names), maxNames)]
	now := s.now().UnixMicro()
	e := event{t: decided(o, now), cost: cost, hash: hash, allowed: o.Allowed(), names: names, values: make([]string, len(names))}
	size := 0
	for i, name := range names {
		if value, ok := a.Attribute(name); ok {
			if size += len(value); size > maxBytes {
				return
			}
			e.values[i] = strings.Clone(value)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.add(now, 1)
	if e.mask = s.mask.Load(); hash&e.mask != 0 {
		return // by now
	}
	s.putLocked(e)
	s.thinLocked(now)
}

func (s *Sample) putLocked(e event) {
	if len(s.events) < maxEvents {
		s.events = append(s.events, e)
		return
	}
	s.events[s.next] = e
	s.next = (s.next + 1) % maxEvents
}

// decided is when a request was decided, by the clock of the store: a caller
// who waits exactly as long as it was told would else come too early now and
// then. A clock that is far from that of this machine does not count.
func decided(o *rule.Outcome, now int64) int64 {
	if at := o.Decision.At; at > now-second && at < now+second {
		return at
	}
	return now
}

// pause is the mask under which nobody is kept.
const pause = ^uint64(0)

// thinLocked keeps fewer callers while more comes than the sample can hold for
// its window, and more of them again when it is long past. Where few callers are
// most of what comes, it keeps all of them, for a stretch at a time: a sample
// without them would know of nobody whom a change denies.
func (s *Sample) thinLocked(now int64) {
	switch passed := now - s.last; {
	case passed > 0:
		s.room = min(burst, s.room+perSecond*float64(passed)/1e6)
		s.last = now
	case passed < -second: // the clock was put back
		s.last, s.roomy = now, now
	}
	mask := s.mask.Load()
	switch s.room--; {
	case mask == pause:
		if s.room >= burst-2 {
			s.roomy = now
			s.mask.Store(s.after)
		}
	case s.room < 0 && s.fewLocked(mask):
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

// fewLocked reports whether thinning once more would lose far more than half of
// what is kept: those are few callers, who make most of the requests.
func (s *Sample) fewLocked(mask uint64) bool {
	kept, left := 0, 0
	for i := range s.events {
		if h := s.events[i].hash; h&mask == 0 {
			kept++
			if h&(mask<<1|1) == 0 {
				left++
			}
		}
	}
	return left < kept/4
}

// Attribute implements [rule.Attributes].
func (e *event) Attribute(name string) (string, bool) {
	for i := range e.names {
		if e.names[i] == name {
			return e.values[i], e.values[i] != ""
		}
	}
	return "", false
}

// At implements [rule.Timed].
func (e *event) At() int64 { return e.t }

// recent lists the events of the window that are of callers who were kept all
// the time, the mask that they are thinned out by, and about how many there were.
func (s *Sample) recent() (list []event, mask, seen uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	since, until := now.Add(-Window).UnixMicro(), now.UnixMicro()+second
	for i := range s.events {
		if e := &s.events[i]; e.t >= since && e.t < until {
			mask = max(mask, e.mask)
		}
	}
	for i := range s.events {
		if e := s.events[(s.next+i)%len(s.events)]; e.t >= since && e.t < until && e.hash&mask == 0 {
			list = append(list, e)
		}
	}
	return list, mask, max(s.seen.sum(now.UnixMicro()), uint64(len(list)))
}
