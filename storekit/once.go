package storekit

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// A group that may be repeated (see [stint.Once]) is remembered in the value of the key of
// its first claim, as one more state beside those of limits. The value is thus the only
// one that a group of one key needs, and the store saves the charge and the record in one
// step. The price is that an ID is known to the groups of one key alone: a group whose
// first claim has another key, and the same ID, is another request.
//
// The data of such a state is the digest of the group (16 bytes), and then for each
// decision: 1 or 0 for Allowed, and its numbers as uvarints.

// onceMark begins the scope of a remembered group. No scope of a limit begins with it.
const onceMark = "!"

// maxRemembered and maxRememberedBytes bound the groups that one value remembers. The last
// of them may exceed the bytes. The store reads and writes the whole value for each claim on
// the key.
const (
	maxRemembered      = 256
	maxRememberedBytes = 32 << 10
)

// decideOnce decides a group that may be a repeat. fresh says that this call admitted it.
func (d *decider) decideOnce(g *stint.Group, out []stint.Decision) (fresh bool, err error) {
	if err := g.Once.Validate(); err != nil {
		return false, err
	}
	if err := stint.ValidateClaims(g.Claims); err != nil {
		return false, err
	}
	id, ask := g.Once.Digest(), g.Digest()
	scope, it := onceMark+string(id[:]), d.item(g.Claims[0].Key)
	switch s := it.find(scope); {
	case s == nil || s.expires <= d.now:
	case !bytes.HasPrefix(s.data, ask[:]):
		return false, OnceConflict()
	default:
		return false, decodeDecisions(s.data[len(ask):], out)
	}
	if n, size, first := it.remembered(d.now); n >= maxRemembered || size >= maxRememberedBytes {
		return false, OnceBudget(time.Duration(first-d.now) * time.Microsecond)
	}
	admitted, err := d.decide(g.Claims, out, true)
	if err == nil && admitted {
		it.remember(&state{scope: scope, data: appendDecisions(ask[:], out), expires: d.now + stint.RememberFor.Microseconds()})
	}
	return admitted, err
}

// remembered returns how many groups the item remembers, the size of their data, and when
// the first of them expires.
func (it *item) remembered(now int64) (n, size int, first int64) {
	for _, s := range it.states {
		if strings.HasPrefix(s.scope, onceMark) && s.expires > now {
			if n == 0 || s.expires < first {
				first = s.expires
			}
			n, size = n+1, size+len(s.data)
		}
	}
	return n, size, first
}

// remember adds a remembered group in place of an expired one of the same ID.
func (it *item) remember(s *state) {
	it.grown = true
	if old := it.find(s.scope); old != nil {
		*old = *s
		return
	}
	it.states = append(it.states, s)
}

func appendDecisions(to []byte, decisions []stint.Decision) []byte {
	for i := range decisions {
		d := &decisions[i]
		allowed := byte(0)
		if d.Allowed {
			allowed = 1
		}
		to = append(to, allowed)
		for _, n := range [...]int64{d.Limit, d.Remaining, int64(d.RetryAfter), int64(d.ResetAfter), int64(d.NextAfter), int64(d.Delay), d.Granted, d.At} {
			to = binary.AppendUvarint(to, uint64(n))
		}
	}
	return to
}

// decodeDecisions decodes what appendDecisions wrote, as the decisions of a repeat.
func decodeDecisions(data []byte, out []stint.Decision) error {
	r := reader{left: data, ok: true}
	for i := range out {
		allowed := r.number()
		out[i] = stint.Decision{
			Allowed: allowed == 1, Repeated: true, Limit: int64(r.number()), Remaining: int64(r.number()),
			RetryAfter: time.Duration(r.number()), ResetAfter: time.Duration(r.number()),
			NextAfter: time.Duration(r.number()), Delay: time.Duration(r.number()),
			Granted: int64(r.number()), At: int64(r.number()),
		}
	}
	if !r.ok || len(r.left) > 0 {
		clear(out)
		return errCorrupt(len(data))
	}
	return nil
}
