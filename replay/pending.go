package replay

import "github.com/stintdev/stint"

// pending is an event that was read and not yet decided.
type pending struct {
	t     int64
	order uint64 // input, then line: what settles equal times
	cost  int64
	at    int64
	text  string      // as in the event
	limit stint.Limit // in force from here on; invalid: no change
}

// Parts of pending.order. Lines are counted to 2^48.
const lineBits = 48

func orderOf(input int, line int64) uint64 { return uint64(input)<<lineBits | uint64(line) }

func (p *pending) input() int { return int(p.order >> lineBits) }

func (p *pending) line() int64 { return int64(p.order & (1<<lineBits - 1)) }
