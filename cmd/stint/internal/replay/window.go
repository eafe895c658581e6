package replay

import "github.com/stintdev/stint"

// window holds the events of the last span of time and returns them in order of
// (time, input, line).
//
// It is a calendar queue: the span is divided into days, and events wait
// unsorted until their day comes. Sorting then works on little memory at a
// time, however many events are in a span.
type window struct {
	width   int64 // length of a day, in microseconds
	today   int64 // the current day; its events and all earlier ones are in first
	first   orderer
	waiting int // number of events of later days
	days    [2 * daysOfSpan][]pending
	spare   [][]pending
}

// daysOfSpan is the number of days in a span.
const daysOfSpan = 128

func newWindow(span int64) *window { return &window{width: span/daysOfSpan + 1} }

// push adds an event. Its time must be less than one span after the last time
// given to pop.
func (w *window) push(p pending) {
	day := p.t / w.width
	if day <= w.today {
		w.first.push(p)
		return
	}
	at := day % int64(len(w.days))
	if w.days[at] == nil {
		w.days[at] = w.emptyDay()
	}
	w.days[at] = append(w.days[at], p)
	w.waiting++
}

func (w *window) emptyDay() []pending {
	if n := len(w.spare); n > 0 {
		day := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return day
	}
	return make([]pending, 0, 16)
}

// pop removes the first event and reports true, if its time is before the given
// one.
func (w *window) pop(before int64, p *pending) bool {
	for {
		if w.first.pop(before, p) {
			return true
		}
		if !w.first.empty() || w.today >= before/w.width {
			return false
		}
		w.turn(before / w.width)
	}
}

// turn advances to the next day, or straight to the given day when no events
// wait.
func (w *window) turn(most int64) {
	if w.waiting == 0 {
		w.today = most
		return
	}
	w.today++
	at := w.today % int64(len(w.days))
	day := w.days[at]
	for i := range day {
		w.first.push(day[i])
	}
	w.waiting -= len(day)
	if day != nil {
		clear(day) // lets the blocks that hold the texts be freed
		w.spare = append(w.spare, day[:0])
		w.days[at] = nil
	}
}

// pending is an event that was read but not yet decided.
type pending struct {
	t     int64
	order uint64 // input, then line: the order of equal times
	cost  int64
	at    int64
	text  string // text of the event
	raw   string // the whole line
	// of a decision log: the hash of the caller; 0 for other events
	caller uint64
	limit  stint.Limit // the limit from this event on; invalid: no change
}

// lineBits is the number of low bits of pending.order that hold the line.
const lineBits = 48

func orderOf(input int, line int64) uint64 { return uint64(input)<<lineBits | uint64(line) }

func (p *pending) input() int { return int(p.order >> lineBits) }

func (p *pending) line() int64 { return int64(p.order & (1<<lineBits - 1)) }
