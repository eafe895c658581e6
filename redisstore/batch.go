package redisstore

import (
	"hash/maphash"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
)

// batch encodes groups into one script call and decodes the reply into decisions. It
// is used by one goroutine at a time. reset makes it ready for the next call,
// whatever the outcome of the last one.
type batch struct {
	encoding *encoding
	keys     keySet
	limits   []*compiled
	numberOf map[*compiled]int // index in limits
	lines    []line
	groups   []lineGroup
	plain    bool // take.lua is not needed: each line is a plain claim with a key of its own

	order   []int                          // key numbers in the order in which the script gets them
	closed  [callerbudget.Classes + 1]bool // classes of callers' limits that refuse new states
	sentAt  int64                          // by the clock of the callers' account
	starts  []int                          // start of each limit in order; for take.lua, the position of each key
	args    []byte
	names   []string // the keys as strings
	argv    [1]string
	firstOn []int // by key: the first line on it

	// once is not nil in a batch of one group that may be repeated; see once.go.
	once          *onceCall
	recordBytes   int  // length of the record's key
	repeatBounded bool // the reply to the first call has a byte for the group

	claims []stint.Claim // buffer for the claims of one group
	data   []byte        // the reply
	states []stint.State // the state of each key
	faults []error       // the error of each key
}

// line is one claim as the script gets it, on behalf of one or more callers.
type line struct {
	claim *stint.Claim
	limit *compiled
	key   int // index of the key
	index int // index of the limit in the batch
	times int // number of callers with this claim
}

// lineGroup is the lines of one group, which are decided together.
type lineGroup struct {
	first, lines int
	flags        groupFlags
}

// groupFlags tell the script where a group ends and when it is charged.
type groupFlags uint8

const (
	lastOfGroup groupFlags = 1 << iota // set on the last line of a group
	following                          // a shadow: charged only if the nearest earlier group without this flag and dryGroup was admitted
	dryGroup                           // never charged
	noNewState                         // set on a line: refuse the group if the line would create a state
)

func (e *encoding) newBatch() *batch {
	b := &batch{encoding: e, numberOf: map[*compiled]int{}}
	b.reset()
	return b
}

// reset empties the batch.
func (b *batch) reset() {
	b.keys.reset()
	clear(b.limits)
	clear(b.numberOf)
	clear(b.lines)
	clear(b.names)
	b.limits, b.lines, b.groups, b.names = b.limits[:0], b.lines[:0], b.groups[:0], b.names[:0]
	b.firstOn, b.plain, b.once = b.firstOn[:0], true, nil
}

// add appends valid claims as one group and returns the number of the group. The
// caller must not change the claims until the batch is reset. flags are 0, following
// or dryGroup.
func (b *batch) add(claims []stint.Claim, flags groupFlags) int {
	group := lineGroup{first: len(b.lines), lines: len(claims), flags: flags}
	b.plain = b.plain && plainGroup(claims, flags)
	for i := range claims {
		b.addLine(&claims[i])
	}
	b.groups = append(b.groups, group)
	return len(b.groups) - 1
}

// plainGroup reports whether plain.lua can decide a group.
func plainGroup(claims []stint.Claim, flags groupFlags) bool {
	return len(claims) == 1 && flags == 0 && quickClaim(&claims[0])
}

// quickClaim reports whether the short scripts can decide a group of this one claim:
// they know buckets, fixed windows and counters of one bucket. Only take.lua reports what
// the account of callers' limits needs.
func quickClaim(c *stint.Claim) bool {
	return c.Cost >= 0 && c.Extra == 0 && quickLimit(c.Limit) && !c.Limit.FromCaller()
}

func quickLimit(l stint.Limit) bool {
	a := l.Algorithm()
	return a <= stint.FixedWindow || a == stint.SlidingWindowCounter && l.Numbers().Buckets == 1
}

func (b *batch) addLine(c *stint.Claim) {
	limit, index := b.limitOf(c.Limit)
	// The key set compares keys with the limit's shape appended. If two limits of
	// different shapes had the same hash, they would still count as two keys, and
	// the state of one would not be read as the state of the other.
	b.keys.text = append(b.encoding.appendKey(b.keys.text, c.Key, limit.mark, limit.hash), limit.shape...)
	key, fresh := b.keys.add()
	if fresh {
		b.firstOn = append(b.firstOn, len(b.lines))
	}
	b.plain = b.plain && fresh
	b.lines = append(b.lines, line{claim: c, limit: limit, key: key, index: index, times: 1})
}

// limitOf returns the compiled limit and its index in the batch. Most lines have the
// same limit as the line before, so that one is checked first.
func (b *batch) limitOf(l stint.Limit) (*compiled, int) {
	if n := len(b.lines); n > 0 && b.lines[n-1].claim.Limit == l {
		return b.lines[n-1].limit, b.lines[n-1].index
	}
	c := b.encoding.limits.of(l)
	index, known := b.numberOf[c]
	if !known {
		index = len(b.limits)
		b.numberOf[c] = index
		b.limits = append(b.limits, c)
	}
	return c, index
}

// again adds one more caller to a group of one claim with a cost of at least 0 and no
// extra. The callers of a line are served in order.
func (b *batch) again(group int) {
	b.lines[b.groups[group].first].times++
}

// keySet numbers the distinct keys of a batch. It must be reset before its first use.
type keySet struct {
	seed  maphash.Seed
	text  []byte
	ends  []int   // the end of each key in text
	table []int32 // open addressing: a key's number plus 1, or 0 for an empty place
}

func (k *keySet) reset() {
	if k.table == nil {
		k.seed, k.table = maphash.MakeSeed(), make([]int32, 128)
	}
	clear(k.table)
	k.text, k.ends = k.text[:0], k.ends[:0]
}

func (k *keySet) start(i int) int {
	if i == 0 {
		return 0
	}
	return k.ends[i-1]
}

func (k *keySet) key(i int) []byte { return k.text[k.start(i):k.ends[i]] }

// add adds the bytes that were appended to text since the last key as a key. It returns
// the key's number, and whether the key is new.
func (k *keySet) add() (number int, fresh bool) {
	from := k.start(len(k.ends))
	key := k.text[from:]
	at := k.find(key)
	if number = int(k.table[at]) - 1; number >= 0 {
		k.text = k.text[:from]
		return number, false
	}
	k.ends = append(k.ends, len(k.text))
	k.table[at] = int32(len(k.ends))
	if 2*len(k.ends) > len(k.table) {
		k.grow()
	}
	return len(k.ends) - 1, true
}

// find returns the place of a key in the table, or the empty place for it.
func (k *keySet) find(key []byte) int {
	mask := len(k.table) - 1
	at := int(maphash.Bytes(k.seed, key)) & mask
	for k.table[at] != 0 && string(k.key(int(k.table[at])-1)) != string(key) {
		at = (at + 1) & mask
	}
	return at
}

func (k *keySet) grow() {
	k.table = make([]int32, 2*len(k.table))
	for i := range k.ends {
		k.table[k.find(k.key(i))] = int32(i + 1)
	}
}
