package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint/rule"
)

// KeyedEvent is an event as a limit counts it.
type KeyedEvent struct {
	Time int64 // in microseconds since the Unix epoch
	Key  string
	Cost int64 // below 0 for a refund
	At   int64 // of a refund: when the cost was taken; 0: unknown

	// Hashed says that Key is the hash that a decision log has in place of the key.
	Hashed bool
}

// Reading says what was read of the inputs.
type Reading struct {
	// CutShort says that the reading ended early: the report covers the events until then.
	CutShort bool `json:"cut_short,omitempty"`

	Events int64 `json:"events"`
	Keys   int64 `json:"keys"` // number of distinct keys

	// FirstUS and LastUS are the least and the greatest time of an event, in
	// microseconds since the Unix epoch.
	FirstUS int64 `json:"first_us"`
	LastUS  int64 `json:"last_us"`

	Late    int64 `json:"late"`    // events that were decided after an event with a later time
	Outside int64 `json:"outside"` // events before Since or not before Until
	Missing int64 `json:"missing"` // events without the attribute to count by

	Unreadable      int64     `json:"unreadable"`
	UnreadableLines []BadLine `json:"unreadable_lines"`

	DecisionLog *LogReading `json:"decision_log,omitempty"` // nil if no input is one
}

// ReadKeys calls each with every event, in the order in which a replay of a limit
// by options.By decides them. Changes of the limit in events have no effect. The
// key is valid after the call. Events of a decision log in minutes that lack lines
// are left out. ReadKeys ends early when ctx is done or each returns an error.
func ReadKeys(ctx context.Context, options Options, each func(KeyedEvent) error, inputs ...Input) (Reading, error) {
	options.Rules = nil
	return readComplete(ctx, &options, func(_ *reader, keys *keySet, p *pending) (bool, error) {
		keys.add(p.text)
		return true, each(KeyedEvent{p.t, p.text, p.cost, p.at, p.caller != 0 && options.By == "key"})
	}, inputs)
}

// readComplete calls each with every event but those of a decision log in minutes that lack lines.
// each adds to the keys, and reports whether the event counts.
func readComplete(ctx context.Context, o *Options, each func(*reader, *keySet, *pending) (bool, error), inputs []Input) (Reading, error) {
	if err := errors.Join(o.checkReading(), checkInputs(inputs)); err != nil {
		return Reading{}, err
	}
	o.By = rule.AttributeName(o.By)
	var reading Reading
	err := guarded(ctx, func(ctx context.Context, fails *panics) (err error) {
		reading, err = readGuarded(ctx, o, fails, each, inputs)
		return err
	})
	return reading, err
}

func readGuarded(ctx context.Context, o *Options, fails *panics, each func(*reader, *keySet, *pending) (bool, error), inputs []Input) (Reading, error) {
	log := newLogTally()
	r, err := startReader(ctx, o, log, fails, inputs)
	if err != nil {
		return Reading{}, err
	}
	keys, reading := newKeySet(), Reading{}
	complete := completeMinutes{log: log}
	complete.each = func(_ context.Context, p *pending) error {
		if counts, err := each(r, keys, p); !counts || err != nil {
			return err
		}
		if reading.Events == 0 {
			reading.FirstUS, reading.LastUS = p.t, p.t
		}
		reading.Events++
		if p.t < reading.LastUS {
			reading.Late++
		}
		reading.FirstUS, reading.LastUS = min(reading.FirstUS, p.t), max(reading.LastUS, p.t)
		return nil
	}
	err = r.each(ctx, complete.add)
	if err == nil || ctx.Err() != nil { // events that were read count also at an early end
		err = cmp.Or(err, complete.finish(ctx))
	}
	reading.CutShort = err != nil
	reading.Keys = int64(keys.count)
	reading.Outside, reading.Missing = r.how.span.outside.Load(), r.how.by.missing.Load()
	reading.Unreadable, reading.UnreadableLines = r.merger.bad.count, append([]BadLine{}, r.merger.bad.first...)
	if reading.DecisionLog = log.reading(); reading.DecisionLog != nil {
		reading.DecisionLog.EventsInGaps = complete.leftOut
	}
	if log.weighsOnly() && reading.Events == 0 {
		err = errors.Join(err, errors.New("the decision log is a sample of requests, so limits cannot be tried on it (log with --decision-log-sample 1%:caller)"))
	}
	return reading, errors.Join(err, r.inputErrors(reading.Events+complete.leftOut))
}

// checkReading checks the options that say what is read.
func (o *Options) checkReading() error {
	switch {
	case o.Reorder < 0:
		return fmt.Errorf("reorder: %v is below 0 (use 0 to keep the order of each input)", o.Reorder)
	case !o.Since.IsZero() && !o.Until.IsZero() && !o.Since.Before(o.Until):
		return fmt.Errorf("since: %v is not before until %v", o.Since, o.Until)
	case o.Rules == nil && o.By == "":
		return errors.New("by: is missing (name the attribute to count by, such as ip or key)")
	}
	return nil
}
