// Package topkeys finds the keys that are requested most often and those that are denied
// most often, in bounded memory and without a lock that all requests share.
//
// [Store] counts the claims that another store has decided; [Sketch] keeps the counts. The
// server uses it to report keys above a rate, penalties ask it whether a key is above that
// rate now, and the admin API asks it for the top keys of the last minute or hour.
//
// The problem: callers invent keys, so a counter for each key would be a way to fill the
// memory, and a cache of recent keys would let a flood of invented keys push out the busy
// ones. The approach is Space-Saving (Metwally, Agrawal and El Abbadi, 2005): a full table
// gives the place of the smallest counter to the new key, which takes over its count. A
// counter is therefore never too low, and its error is known: the count that it took over.
// A key is reported by its count less that error, so an invented key that has just taken
// over a place is never reported for the requests of another.
//
// The sketch is divided into 128 buckets with a lock each. A bucket has a table of 16
// counters for allowed claims and another one for denied claims. A key belongs to one
// bucket, by a hash whose seed callers do not know, and each table is a Space-Saving sketch
// of its share of the claims. So a key with more than about one in 2,048 of all claims of
// an interval has a counter, whatever the other keys are.
//
// At the end of each interval, about a second, the counters go into panes: see panes.go.
// All memory is allocated by [New], about 1 MB.
//
// What it costs: counting a claim is a hash, a lock and a scan of up to 16 hashes, some 25 ns, more
// where many cores want one lock. So above 65,536 claims a second the sketch counts one
// claim of every 2, 4, 8 or 16, chosen at random in each such block, and lets it stand for
// the block. It never counts so few that a key at the rate has less than 625 of them in a
// second. Their number is then off by 4 % (one standard deviation, at most), and a key is
// hot only if it has the rate even when it was overestimated by three of these. So chance
// makes a key below the rate hot in one second of a thousand at most, and in none in
// practice if it stays below nine tenths; a key is found in the first second from a quarter
// above the rate on, and within some seconds in between.
package topkeys

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stintdev/stint"
)

const (
	bucketCount = 128
	tableSize   = 16
	// keyBytes is how much of a key is kept until the end of an interval. The shortened form
	// of a key of one part is made of its first 24 characters.
	keyBytes = 32
	// fullCounts is the number of claims a second above which only a part is counted.
	fullCounts = 1 << 16
	// maxWeight is the greatest weight: one claim in 16 is counted.
	maxWeight = 16
	// minSamples is the number of counted claims a second that a key at the rate must have.
	minSamples = 625
)

// Sketch counts claims by rule and key. Make it with [New]. It is safe for concurrent use.
type Sketch struct {
	rate    int64 // claims a second above which a key is hot
	seed    maphash.Seed
	weight  atomic.Int64 // one claim in weight is counted; a power of 2
	started time.Time
	began   atomic.Int64 // when this interval began, as a [time.Duration] since started
	hot     atomic.Int64 // hot keys at the end of the last interval
	buckets [bucketCount]bucket
	panes   panes
}

// The tables of a bucket.
const (
	allowed = iota
	denied
	tableCount
)

// bucket holds the counters of the keys that hash to it.
type bucket struct {
	sync.Mutex

	tables   [tableCount]table
	observed int64 // claims in this interval
}

// table is a Space-Saving sketch. The lookup scans the hashes, which are two cache lines.
// With 16 counters, 511 equally busy keys leave a table too small by chance in one sketch of
// thousands; with 8 it would be one in twenty.
type table struct {
	hashes [tableSize]uint64 // 0: free
	counts [tableSize]int64  // in this interval, never too low but for chance
	errors [tableSize]int64  // how much of the count belongs to other keys, at most
	ids    [tableSize]uint64
	hot    [tableSize]bool // in the last interval
	names  [tableSize]name
}

// name is what is kept of a key for reports.
type name struct {
	rule   string
	key    [keyBytes]byte
	length uint8
}

// Takes is the rule of keys whose limits callers bring. No rule can have this id.
const Takes = "(take)"

// Key is a key of a rule and its rate.
type Key struct {
	Rule      string // [Takes] for limits that callers bring
	Key       string // at most its first 32 bytes; do not show it whole
	PerSecond int64  // claims a second
}

// New returns a sketch for which keys with at least rate claims a second are hot; 0: no key
// is hot.
func New(rate int64) *Sketch {
	if rate <= 0 {
		rate = math.MaxInt64
	}
	s := &Sketch{rate: rate, seed: maphash.MakeSeed(), started: time.Now()}
	s.weight.Store(1)
	s.panes.start(s.started)
	return s
}

// Hot reports whether a key of a limit's rule is hot: it was in the last interval, or has
// reached the number for a second in this one. After the first second of an interval, whose
// end is late, it is not: slower keys reach that number then, and the last interval is long
// ago.
func (s *Sketch) Hot(l stint.Limit, key string) bool {
	h := s.hash(l, key)
	b := &s.buckets[h%bucketCount]
	b.Lock()
	defer b.Unlock()
	estimate, wasHot := b.certainLocked(h)
	if !wasHot && surely(float64(estimate), s.weight.Load()) < float64(s.rate) {
		return false
	}
	return time.Since(s.started)-time.Duration(s.began.Load()) <= time.Second
}

// certainLocked returns the claims of a key in this interval, allowed and denied, less the
// errors, and whether the key was hot in the last one.
func (b *bucket) certainLocked(hash uint64) (estimate int64, wasHot bool) {
	for i := range b.tables {
		t := &b.tables[i]
		if at := slices.Index(t.hashes[:], hash); at >= 0 {
			estimate += t.counts[at] - t.errors[at]
			wasHot = wasHot || t.hot[at]
		}
	}
	return estimate, wasHot
}

// surely returns the number of claims that an estimate of sampled claims stands for at
// least: three standard deviations less. Claims that were all counted are no estimate.
func surely(estimate float64, weight int64) float64 {
	if weight == 1 {
		return estimate
	}
	return estimate - 3*math.Sqrt(estimate*float64(weight))
}

// HotKeys returns the number of hot keys in the last interval.
func (s *Sketch) HotKeys() int64 { return s.hot.Load() }

// hash identifies a key of a limit's rule. Limits of callers are apart from those of rules.
func (s *Sketch) hash(l stint.Limit, key string) uint64 {
	h := maphash.String(s.seed, key)
	if rule := l.Rule(); rule != "" {
		h = h*31 + maphash.String(s.seed, rule)
	}
	if l.FromCaller() {
		h = ^h
	}
	return max(h, 1)
}

// pick returns the place of the counted claim in a block of weight claims.
func pick(weight int) int {
	if weight == 1 {
		return 0
	}
	return int(rand.Uint32()) & (weight - 1)
}

// count counts a decided claim for weight claims.
func (s *Sketch) count(c *stint.Claim, weight int64, table int) {
	h := s.hash(c.Limit, c.Key)
	b := &s.buckets[h%bucketCount]
	b.Lock()
	b.observed += weight
	t := &b.tables[table]
	i := slices.Index(t.hashes[:], h)
	if i < 0 {
		i = t.least()
		t.hashes[i], t.ids[i] = h, identify(c)
		t.errors[i], t.hot[i] = t.counts[i], false
		n := &t.names[i]
		n.rule, n.length = ruleOf(c.Limit), uint8(copy(n.key[:], c.Key))
	}
	t.counts[i] += weight
	b.Unlock()
}

// ruleOf returns the rule under which keys of a limit are shown. A limit that a caller brings
// may name any rule.
func ruleOf(l stint.Limit) string {
	if l.FromCaller() {
		return Takes
	}
	return l.Rule()
}

// identify hashes a key of a limit's rule to the same id on every node. A caller who knows the
// hash can invent two keys with one id. They are shown as one key only if their shortened forms
// are the same, so no invented key is shown under the name of another. The hash is of the whole
// key, because keys may differ only in their ends.
func identify(c *stint.Claim) uint64 {
	return ID(Hash(c.Key), Hash(c.Limit.Rule()), c.Limit.FromCaller())
}

// emptyHash is the hash of the empty text.
var emptyHash = xxhash.Sum64String("")

// Hash returns the hash of a key or a rule that [ID] combines. It has no secret.
func Hash(text string) uint64 { return xxhash.Sum64String(text) }

// ID returns the id of a key, from its hash and that of its rule. fromCaller is true for a
// limit that a caller brings.
func ID(key, rule uint64, fromCaller bool) uint64 {
	id := key
	if rule != emptyHash {
		id = id*31 + rule
	}
	if fromCaller {
		id = ^id
	}
	return id
}

// least returns the counter with the lowest count.
func (t *table) least() int {
	least := 0
	for i := range t.counts {
		if t.hashes[i] == 0 {
			return i
		}
		if t.counts[i] < t.counts[least] {
			least = i
		}
	}
	return least
}

// EndInterval ends an interval of the given length, about a second, and returns the keys
// that were hot in it, the busiest first. It must not be called concurrently.
func (s *Sketch) EndInterval(length time.Duration) (hot []Key) {
	seconds, weight := max(length.Seconds(), 1e-3), s.weight.Load()
	observed := int64(0)
	for i := range s.buckets {
		b := &s.buckets[i]
		b.Lock()
		observed += b.observed
		hot = b.findHotLocked(float64(s.rate), seconds, weight, hot)
		b.observed = 0
		b.Unlock()
	}
	s.panes.add(&s.buckets, time.Now())
	next := int64(1)
	for next < maxWeight && s.rate >= 2*next*minSamples && float64(observed)/seconds > fullCounts*float64(next) {
		next *= 2
	}
	s.weight.Store(next)
	s.began.Store(int64(time.Since(s.started)))
	s.hot.Store(int64(len(hot)))
	slices.SortFunc(hot, func(a, b Key) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	return hot
}

// findHotLocked marks the keys that were hot in the interval, and appends them.
func (b *bucket) findHotLocked(rate, seconds float64, weight int64, hot []Key) []Key {
	for i := range b.tables {
		t := &b.tables[i]
		for at, hash := range t.hashes {
			if hash == 0 {
				continue
			}
			certain, _ := b.certainLocked(hash)
			estimate := float64(certain)
			t.hot[at] = surely(estimate, weight) >= rate*seconds
			if n := &t.names[at]; t.hot[at] && (i == 0 || !slices.Contains(b.tables[0].hashes[:], hash)) {
				hot = append(hot, Key{n.rule, n.text(), int64(estimate / seconds)})
			}
		}
	}
	return hot
}

// text returns what is kept of the key.
func (n *name) text() string { return string(n.key[:n.length]) }

// reset begins a new interval. Keys stay, without counts: a busy key that returns has no
// error then.
func (t *table) reset() {
	clear(t.counts[:])
	clear(t.errors[:])
}
