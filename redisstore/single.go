package redisstore

import (
	"context"

	"github.com/stintdev/stint"
)

// single is a script call for one claim on a bucket, sent by the caller's own
// goroutine. It is the path of most checks in an idle store. It does the work of
// inFlight and batch without what several calls need. The short code path matters
// because a caller that waited for a server finds little of this program left in the
// processor's cache. A single is used by one goroutine at a time, and is reused.
type single struct {
	encoding *encoding
	asked    stint.Limit // the limit that argv encodes
	limit    *compiled   // asked, compiled
	cost     int64       // the cost that argv encodes
	text     []byte      // buffer for the key, and then for the reply
	keys     [1]string
	argv     [1]string
	calls    [1]invocation
	replies  [1]reply
}

// takeSingle decides a claim in a round trip of its own if a batch may be sent now.
// flew reports whether it did.
func (l *batcher) takeSingle(ctx context.Context, c *stint.Claim) (d stint.Decision, flew bool, err error) {
	o := l.sendSingle()
	if o == nil {
		return d, false, nil
	}
	o.encode(c)
	l.sender.call(ctx, o.calls[:], o.replies[:])
	d, err = o.decode(c)
	if o.replies[0].err != nil {
		o = nil // the connection may still be writing it
	}
	l.arrive(o)
	return d, true, err
}

// sendSingle reserves one of the places in flight for a single. It returns nil if no
// place is free, or if a batch is about to be sent that can carry the claim.
func (l *batcher) sendSingle() *single {
	if l.full.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full.Load() {
		return nil
	}
	l.countLocked(1, 0)
	n := len(l.mu.singles)
	if n == 0 {
		return &single{encoding: l.store.encoding}
	}
	o := l.mu.singles[n-1]
	l.mu.singles = l.mu.singles[:n-1]
	return o
}

// arrive passes the place of a finished single to the queued calls, and frees the
// place if no call is queued. It keeps o for reuse, unless o is nil.
func (l *batcher) arrive(o *single) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o != nil {
		l.mu.singles = append(l.mu.singles, o)
	}
	if l.mu.first == nil {
		l.countLocked(-1, 0)
		return
	}
	f := l.batchLocked()
	if l.queueLocked(f); len(f.calls) > 0 {
		go l.fly(f)
		return
	}
	l.countLocked(-1, 0)
	l.mu.idle = append(l.mu.idle, f)
}

// encode builds the script call of a claim. It reuses the last argument if the limit
// and the cost are the same and the server's clock decides.
func (o *single) encode(c *stint.Claim) {
	if o.limit == nil || o.asked != c.Limit || o.cost != c.Cost || o.encoding.clock != nil {
		o.asked, o.limit, o.cost = c.Limit, o.encoding.limits.of(c.Limit), c.Cost
		o.argv[0] = string(o.encoding.appendOne(o.text[:0], o.limit, c.Cost))
	}
	o.text = o.encoding.appendKey(o.text[:0], c.Key, o.limit.mark, o.limit.hash)
	o.keys[0] = string(o.text)
	o.calls[0] = invocation{script: o.encoding.one, keys: o.keys[:], args: o.argv[:]}
	o.replies[0] = reply{}
}

// decode is batch.decode for one claim.
func (o *single) decode(c *stint.Claim) (stint.Decision, error) {
	r := &o.replies[0]
	if r.err != nil {
		return stint.Decision{}, r.err
	}
	o.text = append(o.text[:0], r.data...)
	now, allowed, rest, err := readHead(o.text, 1)
	switch {
	case err != nil:
		return stint.Decision{}, err
	case rest[0] >= wrongType:
		return stint.Decision{}, unreadable(int(rest[0]), c)
	case len(rest)-1 != int(rest[0]):
		return stint.Decision{}, garbled("has not the length that it says")
	}
	state, err := c.Limit.DecodeState(rest[1:])
	if err != nil {
		return stint.Decision{}, err
	}
	d := c.Limit.Step(&state, now, c, false)
	if d.Allowed != (allowed == 1) || allowed > 1 {
		return stint.Decision{}, disagreement()
	}
	return d, nil
}
