package redisstore

import (
	"github.com/stintdev/stint"
)

// batch is groups on their way to one script call, and back as decisions. It
// is for one goroutine at a time; reset makes it ready for the next call,
// whatever became of the last.
type batch struct {
	encoding *encoding
	keys     keySet
	limits   []*compiled
	numberOf map[*compiled]int // of limits
	lines    []line
	groups   []lineGroup
	plain    bool // bucket.lua or one.lua will do: each line a plain bucket, and a key of its own

	order   []int             // of keys, as the script gets them
	closed  [classes + 1]bool // classes of callers' limits that refuse new states
	sentAt  int64             // by the clock of the callers' account
	starts  []int             // of each limit in order; for take.lua, the place of each key
	args    []byte
	names   []string // of keys
	argv    [1]string
	firstOn []int // lines, by key

	claims []stint.Claim // of one group
	data   []byte        // the reply
	states []stint.State // by key
	faults []error       // by key
}

// line is one claim as a script gets it, times over.
type line struct {
	claim *stint.Claim
	limit *compiled
	key   int // number
	index int // of limit
	times int // callers that ask the same
}

// lineGroup is lines decided together: a group of a call.
type lineGroup struct {
	first, lines int
	flags        groupFlags
}

// groupFlags tell a script how a group's charge depends on others.
type groupFlags uint8

const (
	lastOfGroup groupFlags = 1 << iota // on its last line
	following                          // charged only if the nearest group before that has no such flag was admitted
	dryGroup                           // never charged
	noNewState                         // on a line: refused if it would make a state
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
	b.firstOn, b.plain = b.firstOn[:0], true
}

// add appends a valid group, whose claims stay as they are until the batch is
// reset, and returns its number. With dry set it is decided and not charged. A
// group that is Shadow follows the nearest group before it in the batch that
// is not.
func (b *batch) add(g *stint.Group, dry bool) int {
	group := lineGroup{first: len(b.lines), lines: len(g.Claims)}
	switch {
	case dry:
		group.flags = dryGroup
	case g.Shadow:
		group.flags = following
	}
	b.plain = b.plain && plainBucket(g, dry)
	for i := range g.Claims {
		b.addLine(&g.Claims[i])
	}
	b.groups = append(b.groups, group)
	return len(b.groups) - 1
}

// plainBucket reports whether bucket.lua and one.lua can decide a group.
func plainBucket(g *stint.Group, dry bool) bool {
	if len(g.Claims) != 1 || g.Shadow || dry {
		return false
	}
	return quickClaim(&g.Claims[0])
}

// quickClaim reports whether they can decide a claim that stands alone. The
// accounts of callers' limits are take.lua's.
func quickClaim(c *stint.Claim) bool {
	return c.Cost >= 0 && c.Extra == 0 && c.Limit.Algorithm() <= stint.GCRA && !c.Limit.FromCaller()
}

func (b *batch) addLine(c *stint.Claim) {
	limit, index := b.limitOf(c.Limit)
	// Should two limits have one hash, against all odds, then a script still
	// takes their keys for two, and does not read one's state as the other's.
	b.keys.text = append(b.encoding.appendKey(b.keys.text, c.Key, limit.mark, limit.hash), limit.shape...)
	key, fresh := b.keys.add()
	if fresh {
		b.firstOn = append(b.firstOn, len(b.lines))
	}
	b.plain = b.plain && fresh
	b.lines = append(b.lines, line{claim: c, limit: limit, key: key, index: index, times: 1})
}

// limitOf returns a limit's numbers and its own number in the batch. Mostly it
// is that of the line before.
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

// again has a group of one claim that asks for nothing but a cost of at least
// 0 be asked for by one caller more. They are served in order.
func (b *batch) again(group int) {
	b.lines[b.groups[group].first].times++
}
