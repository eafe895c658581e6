package replay

import (
	"cmp"
	"context"
	"errors"
)

// reader reads the events of several inputs in order of (time, input, line), as
// far as their disorder stays within the reorder window.
type reader struct {
	inputs  []Input
	how     reading
	merger  *merger
	window  *window
	delay   int64        // of the reorder window in microseconds; 0: keep the order of the inputs
	limits  *limitReader // compiles changes of the limit; nil: events have none
	watch   func(Progress)
	read    int64 // number of events read
	leaving pending
}

// startReader starts to read the inputs. Its goroutines end when ctx does.
func startReader(ctx context.Context, o *Options, log *logTally, fails *panics, inputs []Input) (*reader, error) {
	r := &reader{inputs: inputs, delay: o.Reorder.Microseconds(), window: newWindow(o.Reorder.Microseconds()), watch: o.Progress}
	r.how = reading{o.Format, newSpan(o.Since, o.Until), &byTally{by: o.By}, log}
	for i, in := range inputs {
		if err := newSource(r.how, in, i).findGaps(ctx); err != nil {
			return nil, err
		}
	}
	r.merger = startMerger(ctx, r.how, fails, inputs)
	return r, nil
}

// each reads every event into the window and decides the events that leave it. When ctx is done, it
// reads no more, but still decides the events in the window: they are the last minute of a log that is
// being written. A shared store refuses to decide them then, so that the end does not wait for it.
func (r *reader) each(ctx context.Context, decide func(context.Context, *pending) error) error {
	for {
		e, input := r.merger.next()
		if e == nil {
			break
		}
		if r.read == 0 {
			if err := r.how.by.unknown(false); err != nil {
				return err
			}
		}
		if err := r.take(ctx, e, input, decide); err != nil {
			return err
		}
		if r.read++; r.read%progressEvery == 0 && r.pause(ctx) != nil {
			break
		}
	}
	if ended := ctx.Err(); ended != nil { // the inputs may have more events
		return cmp.Or(r.release(ctx, maxTime+1, decide), ended)
	}
	if err := r.how.by.unknown(true); err != nil {
		return err
	}
	return r.release(ctx, maxTime+1, decide)
}

// progressEvery is the number of events between two checks of ctx and reports
// of progress.
const progressEvery = 8192

func (r *reader) pause(ctx context.Context) error {
	if r.watch != nil {
		r.watch(Progress{Events: r.read, Bytes: r.merger.bytes()})
	}
	return ctx.Err()
}

// take adds an event to the window, or decides it at once when the order of the
// inputs is kept.
func (r *reader) take(ctx context.Context, e *event, input int, decide func(context.Context, *pending) error) error {
	p := pending{t: e.t, order: orderOf(input, e.line), cost: e.cost, at: e.at, text: e.text, raw: e.raw, caller: e.caller}
	if e.limit != "" && r.limits != nil {
		var err error
		if p.limit, err = r.limits.read(e.limit); err != nil {
			r.bad(&p, err)
			return nil
		}
	}
	if r.delay == 0 {
		r.leaving = p
		return decide(ctx, &r.leaving)
	}
	return r.reorder(ctx, p, decide)
}

// reorder decides the events that are now too old to wait, then adds p to the
// window. If p itself is too late to wait, it is decided at once.
func (r *reader) reorder(ctx context.Context, p pending, decide func(context.Context, *pending) error) error {
	before := r.merger.newest() - r.delay
	if err := r.release(ctx, before, decide); err != nil {
		return err
	}
	r.window.push(p)
	if p.t >= before {
		return nil
	}
	return r.release(ctx, before, decide)
}

// release decides the events of the window whose time is before the given one.
func (r *reader) release(ctx context.Context, before int64, decide func(context.Context, *pending) error) error {
	for r.window.pop(before, &r.leaving) {
		if err := decide(ctx, &r.leaving); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) bad(p *pending, err error) {
	r.merger.bad.add(BadLine{Input: r.inputs[p.input()].Name, Line: p.line(), Reason: err.Error()})
}

// inputErrors returns the read errors of the inputs, and an error if no line
// could be read. The lines of events outside of Since and Until were read.
func (r *reader) inputErrors(events int64) error {
	var errs []error
	for _, s := range r.merger.sources {
		errs = append(errs, s.err)
	}
	if bad := &r.merger.bad; events == 0 && r.how.span.outside.Load() == 0 && bad.count > 0 {
		errs = append(errs, errors.New("not one line could be read"))
	}
	return errors.Join(errs...)
}
