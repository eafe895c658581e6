package redisstore

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
)

// batcher combines many callers' calls to one server into few round trips.
type batcher struct {
	*coalesce.Batcher[pending, *inFlight]

	sender   sender
	encoding *encoding
	replicas uint8
	singles  sync.Pool // a pool of *single
}

const (
	// maxLines is the maximum of claims in one script call, unless a single call has
	// more. A larger batch saves no time and delays other callers.
	maxLines = 256
	// splitFrom is the queue length from which the queue is split in two batches. It
	// applies to equal calls too, although they share one line: the server is fast with
	// that line, and the client would otherwise wait for it.
	splitFrom = 16
)

// batchers are the batchers of one server, indexed by the number of replicas that
// claims ask for. Claims that wait for replicas thus do not delay other claims. The
// zero value is ready for use.
type batchers [math.MaxUint8 + 1]atomic.Pointer[batcher]

// of returns the batcher for a number of replicas, and makes it on first use.
func (b *batchers) of(n *node, e *encoding, replicas uint8) *batcher {
	if known := b[replicas].Load(); known != nil {
		return known
	}
	b[replicas].CompareAndSwap(nil, newBatcher(n.claimSender(), e, replicas))
	return b[replicas].Load()
}

func newBatcher(server sender, e *encoding, replicas uint8) *batcher {
	b := &batcher{sender: server, encoding: e, replicas: replicas}
	b.Batcher = coalesce.New(coalesce.Options{Full: maxLines, SplitFrom: splitFrom}, func() *inFlight { return &inFlight{batcher: b} })
	return b
}

// patience bounds how long after its cancellation a call with a deadline may end.
const patience = 100 * time.Millisecond

// patient reports whether a caller may do the round trip in its own goroutine. The
// connection observes a deadline but not a cancellation, so patient returns true
// only if ctx cannot end or if its deadline is less than patience away. It asks for the
// deadline first, because contexts that make their timer when Done is called then make none.
func patient(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) < patience
	}
	return ctx.Done() == nil
}

// sender sends script calls to one server. call returns when each of them has a
// reply or an error, which includes a timeout.
type sender interface {
	send(ctx context.Context, calls []invocation, replies []reply)
}

// observed is a sender of claims that reports every round trip.
type observed struct {
	*node

	observer stint.Observer
}

// claimSender returns the sender for claims to the node.
func (n *node) claimSender() sender {
	if o := n.dialer.opts.Observer; o != nil {
		return &observed{n, o}
	}
	return n
}

func (o *observed) send(ctx context.Context, calls []invocation, replies []reply) {
	e := stint.Event{Kind: stint.EventStoreCall, Name: "redisstore", Shard: o.name}
	for i := range calls {
		e.Claims += calls[i].claims
	}
	ctx, start := o.observer.Start(ctx, e), time.Now()
	o.node.send(ctx, calls, replies)
	e.EndStoreCall(time.Since(start), firstError(replies))
	o.observer.Observe(ctx, e)
}

func firstError(replies []reply) error {
	for i := range replies {
		if err := replies[i].err; err != nil {
			return err
		}
	}
	return nil
}

// inFlight is one batch: the calls that share a round trip, as one script call for
// each slot and script.
type inFlight struct {
	batcher     *batcher
	claims      int     // the size that Fits has counted
	parts       []*part // the first used are in use; the others are kept for reuse
	used        int
	invocations []invocation
	replies     []reply
}

// Fits implements [coalesce.Batch].
func (f *inFlight) Fits(c *pending) bool {
	claims := len(c.claims)
	for next := c.then; next != nil; next = next.then { // nearly never
		claims += len(next.claims)
	}
	if f.claims > 0 && f.claims+claims > maxLines {
		return false
	}
	f.claims += claims
	return true
}

// Run implements [coalesce.Batch].
func (f *inFlight) Run(ctx context.Context, calls []*coalesce.Call[pending]) {
	for _, call := range calls {
		for c := call.Owner; c != nil; c = c.then {
			f.partOf(c).take(c, len(calls) > 1)
		}
	}
	for _, p := range f.parts[:f.used] {
		i := p.batch.invocation()
		i.claims = p.claims
		if i.replicas = f.batcher.replicas; i.replicas > 0 {
			i.charged = p.noteCharged
		}
		f.invocations = append(f.invocations, i)
		f.replies = append(f.replies, reply{})
	}
	f.batcher.sender.send(ctx, f.invocations, f.replies)
	for i, p := range f.parts[:f.used] {
		p.read(&f.replies[i], f.batcher.replicas)
	}
}

// partOf returns the part that a call belongs to. A linear search suffices: a batch
// has either few slots or few calls.
func (f *inFlight) partOf(c *pending) *part {
	for _, p := range f.parts[:f.used] {
		if p.slot == c.slot && p.slow == c.slow && p.batch.once == nil && c.once == nil {
			return p
		}
	}
	if f.used == len(f.parts) {
		f.parts = append(f.parts, newPart(f.batcher.encoding))
	}
	p := f.parts[f.used]
	p.slot, p.slow, p.batch.once = c.slot, c.slow, c.once
	f.used++
	return p
}

// Reset implements [coalesce.Batch].
func (f *inFlight) Reset() {
	for _, p := range f.parts[:f.used] {
		p.reset(f.batcher.encoding)
	}
	clear(f.invocations)
	clear(f.replies)
	f.claims, f.used = 0, 0
	f.invocations, f.replies = f.invocations[:0], f.replies[:0]
}

// part is the calls of a batch that share one slot and one kind of script. Calls that
// need take.lua are separate, so that they do not slow down the others.
type part struct {
	slot    uint16
	slow    bool // the batch needs take.lua
	failed  bool
	batch   *batch
	entries []entry
	equal   map[sameness]int // entries of plain calls
	latest  sameness         // the last key looked up in equal
	at      int              // the entry of latest
	claims  int              // number of claims of the calls
	groups  int              // number of groups of the entries
	out     []stint.Decision
	errs    []error
}

// entry is one call, or several equal plain calls that share one line.
type entry struct {
	first, last *pending
	group       int // number in the batch of the call's first group
}

// sameness is the map key under which plain calls are equal.
type sameness struct {
	key   string
	limit stint.Limit
	cost  int64
}

func newPart(e *encoding) *part { return &part{batch: e.newBatch(), equal: map[sameness]int{}} }

// take adds a call to the part. among says that the batch has other calls too, some
// of which may be equal to c.
func (p *part) take(c *pending, among bool) {
	p.claims += len(c.claims)
	if !among || !c.plain() {
		p.append(c)
		return
	}
	claim := &c.claims[0]
	same := sameness{claim.Key, claim.Limit, claim.Cost}
	if same != p.latest || len(p.entries) == 0 { // calls on a hot key come in runs
		at, ok := p.equal[same]
		if !ok {
			at = len(p.entries)
			p.equal[same] = at
			p.append(c)
			p.latest, p.at = same, at
			return
		}
		p.latest, p.at = same, at
	}
	e := &p.entries[p.at]
	p.batch.again(e.group)
	e.last.same, e.last = c, c
}

func (p *part) append(c *pending) {
	e := entry{first: c, last: c}
	for i := range c.groups {
		if at := p.batch.add(c.groups[i].claims, c.groups[i].flags); i == 0 {
			e.group = at
		}
	}
	p.groups += len(c.groups)
	p.entries = append(p.entries, e)
}

// read decodes a reply into the answers of the calls. Equal calls get theirs in the
// order in which they came.
func (p *part) read(r *reply, replicas uint8) {
	if r.err != nil {
		if mayHaveRun(r.err) {
			p.batch.assumeWritten()
			p.batch.assumeRecord()
		}
		p.fail(r.err)
		return
	}
	p.out, p.errs = grow(p.out, p.claims), grow(p.errs, p.groups)
	p.batch.decode(r.data, p.out, p.errs)
	out := p.out
	for _, e := range p.entries {
		errs := p.errs[e.group : e.group+len(e.first.groups)]
		for c := e.first; c != nil; c = c.same {
			out = out[copy(c.out, out[:len(c.out)]):]
			copy(c.errs, errs)
		}
	}
	if charged(r) && r.acked < int(replicas) {
		p.failUnconfirmed(replicasMissing(r.acked, int(replicas)))
	}
}

// noteCharged marks the calls as charged: the server has answered and they now wait
// for its replicas.
func (p *part) noteCharged() {
	for _, e := range p.entries {
		for c := e.first; c != nil; c = c.same {
			c.charged.Store(true)
		}
	}
}

// failUnconfirmed sets err on the calls whose charge too few replicas have confirmed.
func (p *part) failUnconfirmed(err error) {
	for _, e := range p.entries {
		for c := e.first; c != nil; c = c.same {
			c.failUnconfirmed(err)
		}
	}
}

func (p *part) fail(err error) {
	p.failed = true
	for _, e := range p.entries {
		for c := e.first; c != nil; c = c.same {
			for i := range c.errs {
				c.errs[i] = err
			}
		}
	}
}

func (p *part) reset(e *encoding) {
	if p.failed {
		p.batch = e.newBatch() // the connection may still be writing the old one
	} else {
		p.batch.reset()
	}
	p.failed, p.latest = false, sameness{}
	clear(p.entries)
	clear(p.equal)
	clear(p.errs)
	p.entries, p.claims, p.groups = p.entries[:0], 0, 0
}

// grow returns a slice of n zero elements, and reuses the memory of s if its
// capacity suffices.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
