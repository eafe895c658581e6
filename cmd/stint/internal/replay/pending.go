package replay

import "github.com/stintdev/stint"

// pending is an event that was read but not yet decided.
type pending struct {
	t     int64
	order uint64 // input, then line: the order of equal times
	cost  int64
	at    int64
	text  string      // text of the event
	limit stint.Limit // the limit from this event on; invalid: no change
}

// lineBits is the number of low bits of pending.order that hold the line.
const lineBits = 48

func orderOf(input int, line int64) uint64 { return uint64(input)<<lineBits | uint64(line) }

func (p *pending) input() int { return int(p.order >> lineBits) }

func (p *pending) line() int64 { return int64(p.order & (1<<lineBits - 1)) }
