package redisstore

import (
	"context"

	"github.com/stintdev/stint"
)

// single is a script call for one plain claim, sent by the caller's own
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

// takeSingle decides a claim in a round trip of its own. The caller has acquired a place
// for it.
func (b *batcher) takeSingle(ctx context.Context, c *stint.Claim) (stint.Decision, error) {
	defer b.Release()
	o, ok := b.singles.Get().(*single)
	if !ok {
		o = &single{encoding: b.encoding}
	}
	o.encode(c)
	b.sender.send(ctx, o.calls[:], o.replies[:])
	d, err := o.decode(c)
	if o.replies[0].err == nil { // after an error the connection may still be writing it
		b.singles.Put(o)
	}
	return d, err
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
	o.calls[0] = invocation{script: o.encoding.oneOf(o.limit), keys: o.keys[:], args: o.argv[:], claims: 1}
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
		return stint.Decision{}, garbled("does not have the length that it states")
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
