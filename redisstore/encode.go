package redisstore

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/internal/clock"
)

// The scripts. plain.lua decides batches of plain claims on buckets, fixed windows and
// sliding counters of one bucket, which most checks are. one_bucket.lua, one_window.lua and
// one_counter.lua decide a single one, and take.lua decides everything. once.lua is take.lua for a group that may be
// repeated. They are translations of the steps of package stint; a
// fuzz test on a real server compares them with those.
var (
	//go:embed one_bucket.lua
	oneBucketScript string
	//go:embed one_window.lua
	oneWindowScript string
	//go:embed one_counter.lua
	oneCounterScript string
	//go:embed plain.lua
	plainScript string
	//go:embed take.lua
	takeScript string
	//go:embed once.lua
	onceScript string

	// The steps are the parts that plain.lua shares with the scripts of single claims.
	//go:embed bucket_step.lua
	bucketStep string
	//go:embed window_step.lua
	windowStep string
	//go:embed counter_step.lua
	counterStep string
)

// withSteps returns a script with each part in place of the line that names it.
func withSteps(text string) *script {
	return newScript(strings.NewReplacer("-- bucket_step.lua\n", bucketStep, "-- window_step.lua\n", windowStep, "-- counter_step.lua\n", counterStep, "-- take.lua\n", takeScript).Replace(text))
}

// encoding turns claims into script calls, and replies into decisions. It is safe for
// concurrent use.
type encoding struct {
	prefix string
	clock  func() time.Time // nil: the server's clock
	keep   int64            // ms that a key lives longer than its state
	limits limitCache
	// callers counts the bytes of the states of callers' limits.
	callers *callerbudget.Account
	// records counts the bytes of the records of groups that may be repeated.
	records *callerbudget.Account
	cluster bool

	oneBucket, oneWindow, oneCounter, plain, take, once *script
}

func newEncoding(o *Options) (*encoding, error) {
	prefix, err := prefixOf(o.Prefix)
	if err != nil {
		return nil, err
	}
	keep, now := milliseconds(o.KeepFor), callerbudget.SinceStart()
	return &encoding{
		prefix:  prefix,
		clock:   o.Clock,
		keep:    keep,
		limits:  limitCache{keep: keep},
		callers: callerbudget.NewAccount(cmp.Or(o.CallerBytes, DefaultCallerBytes)/int64(callerbudget.Classes), now),
		records: callerbudget.NewAccount(cmp.Or(o.OnceBytes, DefaultOnceBytes), now),
		cluster: o.Topology == Cluster,

		oneBucket:  withSteps(oneBucketScript),
		oneWindow:  withSteps(oneWindowScript),
		oneCounter: withSteps(oneCounterScript),
		plain:      withSteps(plainScript),
		take:       newScript(takeScript),
		once:       withSteps(onceScript),
	}, nil
}

// milliseconds returns d in milliseconds, rounded up.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// scripts returns the scripts that a new connection loads.
func (e *encoding) scripts() []*script {
	return []*script{e.oneBucket, e.oneWindow, e.oneCounter, e.plain, e.take, e.once}
}

// oneState reports whether two claims use the same state.
func (e *encoding) oneState(a, b *stint.Claim) bool {
	return a.Key == b.Key && (a.Limit == b.Limit || e.limits.of(a.Limit).hash == e.limits.of(b.Limit).hash)
}

// shareState reports whether one of some claims uses the same state as one of others.
func (e *encoding) shareState(some, others []stint.Claim) bool {
	for i := range some {
		for j := range others {
			if e.oneState(&some[i], &others[j]) {
				return true
			}
		}
	}
	return false
}

// invocation returns the script call of the batch, which must not be empty. The call
// is valid until the batch is reset.
func (b *batch) invocation() invocation {
	if b.once != nil {
		b.args = b.encoding.appendTimes(b.args[:0])
		return b.invokeOnce()
	}
	if b.plain && len(b.lines) == 1 && b.lines[0].times == 1 {
		b.order = append(b.order[:0], 0)
		b.args = b.encoding.appendOne(b.args[:0], b.limits[0], b.lines[0].claim.Cost)
		return b.invoke(b.encoding.oneOf(b.limits[0]))
	}
	b.args = b.encoding.appendTimes(b.args[:0])
	if b.plain && len(b.lines) <= maxPlain {
		b.encodePlain()
		return b.invoke(b.encoding.plain)
	}
	b.plain = false
	b.encodeAll()
	return b.invoke(b.encoding.take)
}

// oneOf returns the script of a single plain claim on a limit.
func (e *encoding) oneOf(l *compiled) *script {
	switch l.kind {
	case windowKind:
		return e.oneWindow
	case counterKind:
		return e.oneCounter
	default:
		return e.oneBucket
	}
}

// appendOne appends what the scripts of single claims read.
func (e *encoding) appendOne(to []byte, l *compiled, cost int64) []byte {
	to = e.appendTimes(to)
	to = binary.BigEndian.AppendUint32(to, uint32(cost))
	return append(to, l.args...)
}

// maxPlain bounds the keys of plain.lua, which puts them on Lua's stack.
const maxPlain = 4000

// invoke returns the call of a script with the keys in the order of b.order. All keys
// are substrings of one string, which saves allocations.
func (b *batch) invoke(s *script) invocation {
	text := string(b.keys.text)
	for _, i := range b.order {
		b.names = append(b.names, text[b.keys.start(i):b.keys.ends[i]-shapeBytes])
	}
	b.argv[0] = string(b.args)
	return invocation{script: s, keys: b.names, args: b.argv[:]}
}

// appendTimes appends what all scripts begin with: the clock, and how long keys
// are kept.
func (e *encoding) appendTimes(to []byte) []byte {
	now := int64(serverClock)
	if e.clock != nil {
		now = clock.Micros(e.clock())
	}
	return appendInt7(appendInt7(to, now), e.keep)
}

// appendLimits appends the limits as the scripts of many claims read them.
func (b *batch) appendLimits(to []byte) []byte {
	to = append(to, byte(len(b.limits)>>16), byte(len(b.limits)>>8), byte(len(b.limits)))
	for _, l := range b.limits {
		to = append(to, l.args...)
	}
	return to
}

// serverClock stands for the clock of the server.
const serverClock = -1

// encodePlain writes the lines as runs under one limit, for plain.lua.
func (b *batch) encodePlain() {
	b.args = b.appendLimits(b.args)
	b.orderByLimit()
	for at := 0; at < len(b.order); {
		first := &b.lines[b.order[at]]
		from := at
		for at < len(b.order) && b.lines[b.order[at]].runsWith(first) {
			at++
		}
		b.args = binary.BigEndian.AppendUint16(b.args, uint16(first.index))
		b.args = binary.BigEndian.AppendUint32(b.args, uint32(first.claim.Cost))
		b.args = binary.BigEndian.AppendUint32(b.args, uint32(first.times))
		b.args = binary.BigEndian.AppendUint16(b.args, uint16(at-from))
	}
}

func (l *line) runsWith(o *line) bool {
	return l.index == o.index && l.times == o.times && l.claim.Cost == o.claim.Cost
}

// orderByLimit fills b.order with the lines, those under one limit together. A
// plain batch has a key for each line, of the same number.
func (b *batch) orderByLimit() {
	b.starts = append(b.starts[:0], make([]int, len(b.limits)+1)...)
	for i := range b.lines {
		b.starts[b.lines[i].index+1]++
	}
	for i := range b.limits {
		b.starts[i+1] += b.starts[i]
	}
	b.order = append(b.order[:0], make([]int, len(b.lines))...)
	for i := range b.lines {
		place := &b.starts[b.lines[i].index]
		b.order[*place] = i
		*place++
	}
}

// encodeAll writes the lines in order, for take.lua. It puts the keys of logs after
// the others, because the script reads the values of the others with one command.
func (b *batch) encodeAll() {
	b.order = b.order[:0]
	b.starts = grow(b.starts, len(b.keys.ends))
	narrow := b.placeKeys(false)
	b.placeKeys(true)
	b.args = b.appendLimits(binary.BigEndian.AppendUint32(b.args, uint32(narrow)))
	b.askAccount()
	for i := range b.groups {
		b.encodeGroup(&b.groups[i])
	}
}

// placeKeys appends the keys of logs, or the keys of the other limits, to the order,
// and stores their positions in starts. It returns how many keys have a position.
func (b *batch) placeKeys(logs bool) int {
	for i := range b.keys.ends {
		if (b.lines[b.firstOn[i]].limit.kind == logKind) == logs {
			b.starts[i] = len(b.order)
			b.order = append(b.order, i)
		}
	}
	return len(b.order)
}

func (b *batch) encodeGroup(g *lineGroup) {
	for i := g.first; i < g.first+g.lines; i++ {
		l, flags := &b.lines[i], g.flags
		if i == g.first+g.lines-1 {
			flags |= lastOfGroup
		}
		if b.bounded(g, l) {
			flags |= noNewState
		}
		if l.limit.kind != logKind {
			b.args = l.append(b.args, b.starts[l.key], l.times, flags)
			continue
		}
		for range l.times { // each caller's answer comes from the script
			b.args = l.append(b.args, b.starts[l.key], 1, flags)
		}
	}
}

// askAccount notes which classes of callers' limits have no room for new states.
func (b *batch) askAccount() {
	b.closed = [callerbudget.Classes + 1]bool{}
	for _, l := range b.limits {
		if l.class > 0 {
			b.sentAt = b.encoding.callers.Now()
			b.closed[l.class] = b.encoding.callers.Closed(l.class)
		}
	}
}

// bounded reports whether a line of a group may not create a state.
func (b *batch) bounded(g *lineGroup, l *line) bool {
	return b.closed[l.limit.class] && g.flags&dryGroup == 0
}

// boundedGroup reports whether the script says if it refused a group.
func (b *batch) boundedGroup(g *lineGroup) bool {
	for i := g.first; i < g.first+g.lines; i++ {
		if b.bounded(g, &b.lines[i]) {
			return true
		}
	}
	return false
}

// append appends a line on the key at a place, as take.lua reads it.
func (l *line) append(to []byte, place, times int, flags groupFlags) []byte {
	c := l.claim
	at, extra := c.At, c.Extra
	if l.limit.kind == leakyKind {
		at = c.GreatestDelay()
	}
	if c.Cost < 0 {
		extra = 0 // a refund ignores Extra
	}
	to = appendInt7(to, int64(place)<<24|int64(l.index))
	to = appendInt7(to, max(c.Cost, forgetCost))
	to = appendInt7(to, at)
	to = binary.BigEndian.AppendUint32(to, uint32(extra))
	to = binary.BigEndian.AppendUint32(to, uint32(times))
	return append(to, c.AnyOf, byte(flags))
}

// forgetCost is stint.Forget as a script reads it: below every other cost.
const forgetCost = -1 << 53
