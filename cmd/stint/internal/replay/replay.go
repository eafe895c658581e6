package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/nodeadline"
	"github.com/stintdev/stint/rule"
)

// DefaultTop is the default length of the lists in a report, and MostTop the greatest.
const (
	DefaultTop = 10
	MostTop    = 1000
)

// DefaultReorder is the reorder window that the command uses.
const DefaultReorder = 60 * time.Second

// Options configures a replay. Set either Rules, or Limit and By.
type Options struct {
	// Rules decide each event by its attributes.
	Rules *rule.Set

	// Limit decides every event when Rules is nil, and counts by the attribute By.
	// Events may change its numbers.
	Limit stint.Limit
	By    string

	// Format is the format of the lines. The zero value detects it for each line.
	Format Format

	// Since and Until bound the traffic: events before Since, and from Until on,
	// are left out. Zero means no bound.
	Since, Until time.Time

	// Reorder is how far behind the newest time an event may be and still be
	// decided in order. 0 keeps the order of each input. It is counted in whole
	// microseconds.
	Reorder time.Duration

	// Retries is what clients do after a denial. Their retries are events beside
	// those recorded. The zero value is nothing.
	Retries Retries

	// Store returns the store that decides. now is the clock of the
	// traffic. Nil means a memory store that evicts nothing.
	Store func(now func() time.Time) stint.Store

	// MostKeys bounds the keys that each rule set, or the limit, counts in memory. Beyond it the
	// replay ends with [ErrMostKeys]. 0 sets no bound.
	MostKeys int

	// Decisions receives one JSON line for each decided event, in the order of the
	// decisions, in large writes. Nil writes none.
	Decisions io.Writer

	// Against, if not nil, are other rules to compare Rules with. They decide every event
	// that Rules decide, with counters in memory. AgainstName is their name in the report.
	// Retries must be the zero value.
	Against     *rule.Set
	AgainstName string

	// Alone also counts what each rule denies when it is the only one, if there are several
	// rules or a rule has several limits. It takes counters of their own, in memory, for the
	// keys of requests that another rule denied; if Store is set, for all keys. It has no
	// effect with Retries: they follow the denials of all rules together.
	Alone bool

	// Top is the number of keys and of callers that each list of the report has, at most
	// [MostTop]. 0 means [DefaultTop].
	Top int

	// Hash returns a hash of a credential. The report has its beginning after the
	// shortened credential. Nil: the report has none.
	Hash func(text string) string
	// ShowKeys has credentials in the report as they are.
	ShowKeys bool

	// Progress is called from time to time by the goroutine of [Run]. It may be
	// nil.
	Progress func(Progress)
}

// Progress is the progress of a replay.
type Progress struct {
	Events int64 // events that were read
	Bytes  int64 // bytes read from all inputs, before decompression
}

// Run replays the inputs, merged by time, and returns a report. It ends early
// when ctx is done, or when a decision cannot be made or written.
//
// A panic is returned as a [*PanicError], with an empty report.
//
// If an input fails, the events read before the failure and those of the other
// inputs are still decided, and the error comes with a complete report. The
// same holds when no line of any input could be read.
func Run(ctx context.Context, options Options, inputs ...Input) (Report, error) {
	if err := errors.Join(options.check(), checkInputs(inputs)); err != nil {
		return Report{}, err
	}
	options.By, options.Top = rule.AttributeName(options.By), cmp.Or(options.Top, DefaultTop)
	options.Alone = options.Alone && options.Retries == NoRetries
	report := emptyReport()
	err := guarded(ctx, func(ctx context.Context, fails *panics) error {
		r, err := newReplay(ctx, &options, fails, inputs)
		if err != nil {
			return err
		}
		defer r.close()
		whole, err := r.run(nodeadline.Of(ctx)) // the recorded requests have other deadlines
		// After a panic the counts may be wrong.
		if !fails.any() {
			report = whole
		}
		return err
	})
	return report, err
}

// run decides the events and reports.
func (r *replay) run(ctx context.Context) (Report, error) {
	err := r.decideAll(ctx)
	r.counts.CutShort = err != nil
	r.callers.finish()
	if err == nil {
		err = r.flush()
	}
	if ctx.Err() != nil {
		err = errors.Join(err, r.flush()) // write the decisions made so far
	}
	return r.report(), errors.Join(err, r.inputErrors(r.counts.Events))
}

// close ends the goroutines that count, and returns the memory of bounded stores.
func (r *replay) close() {
	r.callers.finish()
	if r.rules != nil {
		r.rules.tally.seen.total()
	}
	r.closeBounded()
}

func (o *Options) check() error {
	switch {
	case o.Top < 0 || o.Top > MostTop:
		return fmt.Errorf("top: %d is out of range (use 0 to %d)", o.Top, MostTop)
	case o.Against != nil && o.Rules == nil:
		return errors.New("replay: there are no rules to compare with")
	case o.Against != nil && o.Retries != NoRetries:
		return errors.New("replay: retries follow the denials of one rule set, so two cannot be compared on them")
	case o.Rules != nil && (o.Limit.Valid() || o.By != ""):
		return errors.New("replay: rules and a limit are both given (choose one)")
	case o.Rules == nil && !o.Limit.Valid():
		return errors.New("replay: neither rules nor a limit are given")
	}
	return o.checkReading()
}

// show returns the form of an identity in a report.
func (o *Options) show(who identityText) string {
	switch {
	case !who.secret || o.ShowKeys:
		return strings.ToValidUTF8(rule.KeyText(who.text), "\ufffd")
	case o.Hash == nil:
		return maskKey(rule.KeyText(who.text))
	}
	hash := o.Hash(who.text)
	return maskKey(rule.KeyText(who.text)) + hash[:min(len(hash), shownHash)]
}

// ShowKey returns the form of a key of ReadKeys in a report. One that is a hash is shown whole.
func (o *Options) ShowKey(key string, hashed bool) string {
	return o.show(identityText{text: key, kind: kindOfLimit, secret: !hashed && secretBy(rule.AttributeName(o.By))})
}

// shownHash is the number of characters of a hash that a report has.
const shownHash = 6

func checkInputs(inputs []Input) error {
	for i, in := range inputs {
		if in.Reader == nil {
			return fmt.Errorf("replay: input %d (%q) has no Reader", i+1, in.Name)
		}
	}
	return nil
}

// replay is the state of one run.
type replay struct {
	*reader

	options   *Options
	fails     *panics
	decider   decider
	rules     *rulesDecider // the decider, if it is of rules
	callers   *callerTally
	series    *series
	log       *logTally
	decisions decisionWriter
	retrier   *retrier // nil: denied clients do nothing
	now       int64    // time of the current event
	result    result
	counts    Report

	comparison *comparison // nil: none

	bounded []*boundStore // the memory stores, if their keys are bounded
}

func newReplay(ctx context.Context, o *Options, fails *panics, inputs []Input) (*replay, error) {
	r := &replay{options: o, fails: fails, log: newLogTally(), decisions: decisionWriter{out: o.Decisions}}
	h := hasher{maphash.MakeSeed()}
	r.callers = newCallerTally(h, fails)
	clock := func() time.Time { return time.UnixMicro(r.now) }
	newStore := o.Store
	if newStore == nil {
		newStore = r.newMemory
	}
	store := newStore(clock)
	if store == nil {
		return nil, errors.New("replay: Store returned nil (return an empty store)")
	}
	if o.Rules != nil {
		r.rules = newRulesDecider(store, o, h, fails)
		r.decider = r.rules
		if o.Against != nil {
			r.comparison = newComparison(o, h, r.newMemory(clock))
		}
	} else {
		r.decider = newLimitDecider(store, o, r.callers)
	}
	lines := lineRules + linesOfRule*len(r.decider.perRule())
	if r.comparison != nil {
		r.comparison.line = lines
		lines += r.comparison.lines()
	}
	r.series = newSeries(lines)
	var err error
	if r.reader, err = startReader(ctx, o, r.log, fails, inputs); err != nil {
		return nil, err
	}
	if o.Rules == nil {
		r.limits = &limitReader{first: o.Limit, known: map[string]stint.Limit{}}
	}
	return r, nil
}

func memoryStore(now func() time.Time) *stint.Memory {
	return stint.NewMemory(stint.MemoryOptions{Clock: now, KeepAll: true})
}

// memoryOf returns the memory of a store that decides in memory, or nil for any other store.
func memoryOf(s stint.Store) *stint.Memory {
	switch s := s.(type) {
	case *stint.Memory:
		return s
	case *boundStore:
		return s.Memory
	}
	return nil
}

func (r *replay) decideAll(ctx context.Context) error {
	switch {
	case r.options.Retries != NoRetries:
		r.retrier = newRetrier(r, r.options.Retries)
		if err := r.each(ctx, r.retrier.decide); err != nil {
			return err
		}
		return r.retrier.finish(ctx)
	case r.rules != nil:
		return newPipeline(r).decideAll(ctx)
	}
	return r.each(ctx, r.decide)
}

// decide decides an event.
func (r *replay) decide(ctx context.Context, p *pending) error {
	r.now = p.t
	if err := r.decider.decide(ctx, p, &r.result); err != nil {
		return r.undecided(p, err)
	}
	r.count(p, &r.result)
	return r.write(p)
}

// write writes the decision of an event.
func (r *replay) write(p *pending) error {
	if err := r.decisions.write(p, &r.result); err != nil {
		return fmt.Errorf("decisions cannot be written: %w", err)
	}
	return nil
}

func (r *replay) flush() error {
	if err := r.decisions.flush(); err != nil {
		return fmt.Errorf("decisions cannot be written: %w", err)
	}
	return nil
}

// undecided records an invalid event as a bad line, and returns any other
// error.
func (r *replay) undecided(p *pending, err error) error {
	if invalid(err) {
		r.bad(p, err)
		return nil
	}
	return r.noDecision(p, err)
}

func (r *replay) noDecision(p *pending, err error) error {
	return fmt.Errorf("%s:%d: no decision: %w", r.inputs[p.input()].Name, p.line(), err)
}
