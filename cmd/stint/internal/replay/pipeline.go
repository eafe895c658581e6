package replay

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
)

// pipeline decides the events of a replay by rules in three goroutines. The first one reads the
// events and puts them in order. The other two take batches of them in turn: each finds the claims
// of the rules that match, and then decides the claims and counts. It decides a batch after the one
// before it, so while one of them decides, the other one finds the claims of the next batch. The
// claims stay in the caches of one processor.
//
// Retries cannot be decided so: they come between the events, as decisions on earlier ones say.
type pipeline struct {
	*replay

	events  *turns[pending]
	batches [workers]plannedBatch

	// Used only by the goroutine that reads.
	planned int64
	badAt   []int64 // for each of the first lines that cannot be read, the number of events planned before it

	// Used only by the goroutine whose turn it is to settle.
	settled   int64
	invalid   int64          // number of events that the rules refuse
	refused   []refusedEvent // the first of these
	failure   error          // no more events are settled
	hasFailed atomic.Bool    // there is a failure; used by all
}

// plannedBatch is the batch of one worker.
type plannedBatch struct {
	lines  lineReader
	events [planBatch]plannedEvent
	count  int
	err    error // why the event after them could not be planned
}

// planBatch is the number of events in a batch. An event with its claims takes a few kilobytes.
const planBatch = 64

// refusedEvent is an event that the rules refuse, and its number, from 1.
type refusedEvent struct {
	BadLine

	number int64
}

func newPipeline(r *replay) *pipeline { return &pipeline{replay: r} }

var errNotSettled = errors.New("an event could not be settled")

// decideAll reads and decides all events.
func (l *pipeline) decideAll(ctx context.Context) error {
	l.events = newTurns(planBatch, l.fails, l.plan, func(worker int) { l.settleAll(ctx, &l.batches[worker]) })
	for i := range l.batches {
		l.batches[i].lines = l.rules.lines
	}
	defer l.events.finish() // if the reading panics
	err := l.each(ctx, l.hand)
	l.events.finish()
	l.numberBadLines()
	l.merger.bad = l.badLines()
	return cmp.Or(l.failure, err)
}

// hand gives an event to the other goroutines.
func (l *pipeline) hand(_ context.Context, p *pending) error {
	if l.hasFailed.Load() {
		return errNotSettled
	}
	l.numberBadLines()
	l.planned++
	l.events.add(p)
	return nil
}

// numberBadLines notes when the lines were met that could not be read since the last call.
func (l *pipeline) numberBadLines() {
	for len(l.badAt) < len(l.merger.bad.first) {
		l.badAt = append(l.badAt, l.planned)
	}
}

// plan finds the claims of a batch.
func (l *pipeline) plan(worker int, batch []pending) {
	b := &l.batches[worker]
	b.count, b.err = 0, nil
	for i := range batch {
		if b.err = l.rules.plan(&b.lines, &batch[i], &b.events[i]); b.err != nil {
			return
		}
		b.count++
	}
}

// settleAll decides a batch.
func (l *pipeline) settleAll(ctx context.Context, b *plannedBatch) {
	for i := range b.events[:b.count] {
		if l.failure == nil {
			l.failure = l.settle(ctx, &b.events[i])
		}
	}
	l.failure = cmp.Or(l.failure, b.err)
	l.hasFailed.Store(l.failure != nil)
}

// settle decides a planned event and counts it.
func (l *pipeline) settle(ctx context.Context, e *plannedEvent) error {
	l.now = e.t
	l.settled++
	if err := l.rules.settle(ctx, e, &l.result); err != nil {
		if !invalid(err) {
			return l.noDecision(&e.pending, err)
		}
		l.refuse(&e.pending, err)
		return nil
	}
	l.count(&e.pending, &l.result)
	if l.comparison != nil {
		if err := l.comparison.decide(ctx, e, &l.result, l.series.at(e.t)); err != nil {
			return l.noDecision(&e.pending, err)
		}
	}
	return l.write(&e.pending)
}

// refuse records an event that the rules refuse.
func (l *pipeline) refuse(p *pending, err error) {
	if l.invalid++; len(l.refused) < shownBadLines {
		l.refused = append(l.refused, refusedEvent{BadLine{l.inputs[p.input()].Name, p.line(), err.Error()}, l.settled})
	}
}

// badLines returns the lines that could not be read and the events that were refused, in the order
// in which one goroutine would have met them.
func (l *pipeline) badLines() badLines {
	all := badLines{count: l.merger.bad.count + l.invalid}
	refused := l.refused
	for i, line := range l.merger.bad.first {
		for len(refused) > 0 && refused[0].number <= l.badAt[i] {
			all.first, refused = append(all.first, refused[0].BadLine), refused[1:]
		}
		all.first = append(all.first, line)
	}
	for _, one := range refused {
		all.first = append(all.first, one.BadLine)
	}
	all.first = all.first[:min(len(all.first), shownBadLines)]
	return all
}
