package emergency

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// PollEvery is how often a node reads the record of its source. A switching reaches every
// node within this time and the time of one answer.
const PollEvery = time.Second

// sourceTime bounds one call to the source.
const sourceTime = time.Second

// Options configures a [Switch]. Use is required.
type Options struct {
	// Source carries the switch to other nodes. Nil: each node has its own.
	Source Source
	// File keeps the state over a restart. Empty keeps nothing.
	File string
	// Use puts a state in force: an emergency, or, with a nil argument, none. Calls do not
	// overlap. After an error the former state stays in force.
	Use func(*State) error
	// Changed, if not nil, is called after each change of the state in force. It must
	// return soon.
	Changed func()
	// Logger receives every change. Nil disables logging.
	Logger *slog.Logger
}

// State is a record as this node knows it. The zero State says that there is none.
type State struct {
	Record

	// Shared reports that the record is that of the source, which every node obeys.
	Shared bool `json:"shared"`
	// Ends is when the record ends, by the clock of this node.
	Ends time.Time `json:"ends"`
}

// Switch is the emergency of one node. Make it by [New]. It is safe for concurrent use.
type Switch struct {
	Options

	switching sync.Mutex // held while an operator switches, so that the source is asked once at a time

	mu       sync.Mutex
	shared   State       // guarded by mu; the newest record of the source
	own      State       // guarded by mu; what was switched on this node alone; it replaces shared
	inForce  State       // guarded by mu; zero: none
	timer    *time.Timer // guarded by mu; for the end of the state in force
	failure  error       // guarded by mu; of the last call to the source
	failures int         // guarded by mu; calls to the source in a row that failed
	polled   bool        // guarded by mu; the source has answered since the start
}

// New returns a switch in the state that its file has. Nothing is in force before Start.
func New(o Options) *Switch {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	s := &Switch{Options: o}
	s.load()
	return s
}

// Start puts the state in force. If ask is set, it reads the source before; without an answer
// the node obeys what its file has. A caller that knows that the source does not answer
// saves the wait, and Run asks within a second.
func (s *Switch) Start(ctx context.Context, ask bool) {
	if s.Source != nil && ask {
		s.poll(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

// Run follows the source until ctx ends. Call it once.
func (s *Switch) Run(ctx context.Context) {
	defer s.stop()
	if s.Source == nil {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(PollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.poll(ctx)
		}
	}
}

func (s *Switch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// poll reads the record of the source. If the record is another than the one before,
// somebody has switched through the source, which replaces what was switched on this node
// alone. A missing record says nothing: it has ended, or the source has lost it.
//
// The record of the first answer since the start may be older than what was switched on this
// node alone, while the source did not answer. Then it replaces nothing. Only the times of
// both tell, and the clocks may differ, so later answers are not compared.
func (s *Switch) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	s.mu.Lock()
	before := s.shared.Revision
	s.mu.Unlock()
	asked := time.Now()
	r, left, err := s.Source.Emergency(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedLocked(err)
	first := err == nil && !s.polled
	s.polled = s.polled || first
	if err != nil || r.Revision == "" || r.Revision == s.shared.Revision || before != s.shared.Revision {
		return // before differs: this node has switched while the source was read
	}
	state := State{Record: r, Shared: true, Ends: asked.Add(min(left, MaxDuration))}
	if first && r.Revision != s.own.Revision && !r.Since.After(s.own.Since) {
		s.shared = state
		s.settleLocked()
		return
	}
	s.learnLocked(state)
}

// warnAfter is how many calls to the source in a row fail before the log says so.
const warnAfter = 3

// failedLocked records the result of a call to the source. A source may fail here alone: the
// node may lack the right to read the switch, or the record may be that of another program.
func (s *Switch) failedLocked(err error) {
	s.failure = err
	if err == nil {
		if s.failures >= warnAfter {
			s.Logger.Info("emergency: the source of the rules answers again")
		}
		s.failures = 0
		return
	}
	if s.failures++; s.failures == warnAfter {
		s.Logger.Warn("emergency: the source of the rules does not say whether one is on; this node keeps what it knows", "error", err)
	}
}

// learnLocked replaces everything known by a record of the source.
func (s *Switch) learnLocked(state State) {
	s.shared, s.own = state, State{}
	s.settleLocked()
}

// settleLocked puts the state that is valid now in force, and keeps it in the file. What was
// switched on this node alone comes before the record of the source.
func (s *Switch) settleLocked() {
	now := time.Now()
	valid := s.own
	if !valid.validAt(now) {
		valid = s.shared
	}
	if valid.validAt(now) && valid.On {
		s.enforceLocked(valid)
	} else {
		s.endLocked(&valid, now)
	}
	s.keepLocked()
	s.waitLocked(now)
}

func (s *State) validAt(now time.Time) bool { return s.Revision != "" && now.Before(s.Ends) }

// enforceLocked puts an emergency in force unless it is already.
func (s *Switch) enforceLocked(state State) {
	if s.inForce.Revision == state.Revision {
		s.inForce = state // the source may turn out to have what this node switched alone
		return
	}
	if err := s.Use(&state); err != nil {
		s.Logger.Error("emergency: this node cannot obey", "limit", state.Limit, "by", state.By, "error", err)
		return
	}
	scope := "this node"
	if state.Shared {
		scope = "every node of the source of the rules"
	}
	s.Logger.Warn("emergency on", "limit", state.Limit, "by", state.By, "until", state.Until.UTC().Format(time.RFC3339),
		"who", state.Author, "reason", state.Reason, "scope", scope, "replaces", s.inForce.Revision != "")
	s.inForce = state
	s.Changed()
}

// endLocked ends the emergency that is in force, if there is one: because its time is over, or
// because of the record that switched it off.
func (s *Switch) endLocked(off *State, now time.Time) {
	was := s.inForce
	if was.Revision == "" {
		return
	}
	if err := s.Use(nil); err != nil {
		s.Logger.Error("emergency: this node cannot end it", "limit", was.Limit, "by", was.By, "error", err)
		return
	}
	if was.validAt(now) {
		s.Logger.Warn("emergency off", "limit", was.Limit, "by", was.By, "who", off.Author, "reason", off.Reason)
	} else {
		s.Logger.Warn("emergency ended at its time", "limit", was.Limit, "by", was.By, "who", was.Author, "reason", was.Reason)
	}
	s.inForce = State{}
	s.Changed()
}

// waitLocked sets the timer for the next end of a state.
func (s *Switch) waitLocked(now time.Time) {
	if s.timer != nil {
		s.timer.Stop()
	}
	ends := s.own.Ends
	if !s.own.validAt(now) {
		ends = s.shared.Ends
	}
	if ends.After(now) {
		s.timer = time.AfterFunc(ends.Sub(now), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.settleLocked()
		})
	}
}

// Status is what a node knows of the emergency.
type Status struct {
	State // in force; without a revision if there is none

	// SourceErr is why the source of the rules did not answer last; nil if it did, or if
	// nodes share no source that carries the switch.
	SourceErr error
	// Shareable reports that the source of the rules carries the switch to all nodes.
	Shareable bool
}

// Status returns what the node obeys now.
func (s *Switch) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked()
}

func (s *Switch) statusLocked() Status {
	is := Status{State: s.inForce, SourceErr: s.failure, Shareable: s.Source != nil}
	is.Shared = is.Shareable && !s.own.validAt(time.Now())
	return is
}

// Change is a request to switch.
type Change struct {
	On             bool
	Limit, By      string        // if On
	For            time.Duration // if On
	Author, Reason string
	// After, if not empty, is the revision that must be in force, and with IfOff no emergency
	// may be in force; otherwise Set returns [ErrChanged].
	After string
	IfOff bool
}

// Set switches, and returns the state before and after. If the source carries the switch
// and answers, all nodes follow. If it does not answer, only this node switches, and the
// status has the reason. The caller has checked the limit, the attribute and the duration.
func (s *Switch) Set(ctx context.Context, c Change) (was State, is Status, err error) {
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	was = s.statusLocked().State
	expected := s.expectedLocked(&c) // of the same moment: a record that comes after it must not be replaced
	s.mu.Unlock()
	if c.After != "" && c.After != was.Revision || c.IfOff && was.Revision != "" {
		return was, s.Status(), ErrChanged
	}
	r := Record{Revision: rand.Text(), On: c.On, Limit: c.Limit, By: c.By, Author: c.Author, Reason: c.Reason}
	d := c.For
	if !c.On {
		d, r.Limit, r.By = MaxDuration, "", ""
	}
	now := time.Now()
	r.Since, r.Until = now.UTC().Truncate(time.Millisecond), now.Add(d).UTC().Truncate(time.Millisecond)
	if err := r.check(); err != nil {
		return was, s.Status(), err
	}
	state, err := s.send(ctx, r, now, d, expected)
	if errors.Is(err, ErrChanged) {
		return was, s.Status(), err
	}
	s.mu.Lock()
	if err != nil {
		s.Logger.Warn("emergency: the source of the rules does not take the switching, so only this node obeys", "error", err)
	}
	if s.Source != nil {
		s.failedLocked(err)
	}
	if state.Shared {
		s.learnLocked(state)
	} else {
		s.setOwnLocked(state)
	}
	s.mu.Unlock()
	return was, s.Status(), nil
}

// setOwnLocked switches this node alone. A state that cannot be put in force is forgotten.
func (s *Switch) setOwnLocked(state State) {
	before := s.own
	s.own = state
	s.settleLocked()
	if state.On && s.inForce.Revision != state.Revision {
		s.own = before
		s.settleLocked()
	}
}

// send makes the record that of the source. On a failure it returns a state of this node
// alone, and the error.
func (s *Switch) send(ctx context.Context, r Record, now time.Time, d time.Duration, expected string) (State, error) {
	own := State{Record: r, Ends: now.Add(d)}
	if s.Source == nil {
		return own, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	stored, err := s.Source.SwitchEmergency(ctx, r, d, expected)
	if err != nil {
		return own, err
	}
	return State{Record: stored, Shared: true, Ends: now.Add(d)}, nil
}

// expectedLocked returns the revision that the newest record of the source must have before a change. If
// that of After is no record of the source, or none may be in force, it is the one that this node has read
// last: another node may have switched since.
func (s *Switch) expectedLocked(c *Change) string {
	now := time.Now()
	switch {
	case c.After == "" && !c.IfOff:
		return ""
	case !c.IfOff && !s.own.validAt(now):
		return c.After
	case s.shared.validAt(now):
		return s.shared.Revision
	}
	return NoRecord
}
