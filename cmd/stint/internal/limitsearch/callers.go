package limitsearch

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// callers holds the requests of all callers. It tells callers apart by 64 bits
// of the hash of their key: among ten million, the chance that two collide is
// less than one in a hundred thousand.
type callers struct {
	seed    maphash.Seed
	index   map[uint64]int32 // in list
	list    []caller
	keys    []string // of list; nil: they are not kept
	hashed  []bool   // of keys: only decision logs have the caller, and a hash in place of its key
	named   bool     // the keys are kept
	events  int64    // without those left out
	leftOut int64
}

func newCallers(named bool) *callers {
	return &callers{seed: maphash.MakeSeed(), index: map[uint64]int32{}, named: named}
}

// caller holds the requests of one caller in order: the time since the request
// before, which a late request has below 0, and whether a cost other than 1
// follows. Both are varints, so a request of a busy caller takes about four
// bytes.
type caller struct {
	requests []byte
	last     int64 // time of the last request
}

// add adds an event.
func (c *callers) add(e replay.KeyedEvent) error {
	if e.Cost < 1 {
		c.leftOut++
		return nil
	}
	hash := maphash.String(c.seed, e.Key)
	i, known := c.index[hash]
	if !known {
		if len(c.list) == math.MaxInt32 {
			return errors.New("there are too many callers")
		}
		i = int32(len(c.list))
		c.index[hash] = i
		c.list = append(c.list, caller{})
		if c.named {
			c.keys, c.hashed = append(c.keys, strings.Clone(e.Key)), append(c.hashed, e.Hashed)
		}
	}
	if c.named && !e.Hashed {
		c.hashed[i] = false
	}
	c.list[i].add(e.Time, e.Cost)
	c.events++
	return nil
}

func (c *caller) add(t, cost int64) {
	since := (t - c.last) << 1
	c.last = t
	if cost == 1 {
		c.requests = binary.AppendVarint(c.requests, since)
		return
	}
	c.requests = binary.AppendVarint(c.requests, since|1)
	c.requests = binary.AppendUvarint(c.requests, uint64(cost))
}

// request is one request of a caller.
type request struct{ t, cost int64 }

// each calls yield with every request, in order.
func (c *caller) each(yield func(request) bool) {
	for next := (cursor{rest: c.requests}); next.advance(); {
		if !yield(next.request) {
			return
		}
	}
}

// cursor reads the requests of a caller one by one.
type cursor struct {
	request // the current one

	rest []byte
}

// advance moves to the next request, and reports whether there is one.
func (c *cursor) advance() bool {
	if len(c.rest) == 0 {
		return false
	}
	word, n := binary.Varint(c.rest)
	c.rest = c.rest[n:]
	c.t, c.cost = c.t+word>>1, 1
	if word&1 != 0 {
		cost, n := binary.Uvarint(c.rest)
		c.rest, c.cost = c.rest[n:], int64(cost)
	}
	return true
}
