package breaker

import "time"

// Call is a call that a [Breaker] let through. End it exactly once, by Success, Failure,
// Ignore or End. The zero Call belongs to no breaker; ending it does nothing.
type Call struct {
	breaker *Breaker
	word    word
	start   int64 // when the call began; 0 unless SlowAfter is set
	early   bool  // start is approximate: the call began at start or later
}

// Begin reports whether a call may go ahead. If ok, the caller must end the Call. While
// the breaker is half-open, the call is a probe.
func (b *Breaker) Begin() (c Call, ok bool) {
	if b == nil {
		return Call{}, true
	}
	w := b.started()
	if w.state() != Closed {
		return b.beginUnusual(w)
	}
	c = Call{breaker: b, word: w}
	if b.slow > 0 {
		if c.start = b.window.current.Load().lately(); c.start == 0 {
			c.start = b.now()
		} else {
			c.early = true
		}
	}
	return c, true
}

// BeginProbe is Begin for a call that is meant as a probe, for use with
// [Options.ProbesApart].
func (b *Breaker) BeginProbe() (c Call, ok bool) {
	if s := b.State(); s == Open || s == HalfOpen {
		return b.beginProbe()
	}
	return b.Begin()
}

// beginUnusual is Begin for every state but Closed.
func (b *Breaker) beginUnusual(w word) (Call, bool) {
	switch w.state() {
	case Disabled:
		return Call{}, true
	case Open:
		if b.options.ProbesApart || b.now() < b.until.Load() {
			return Call{}, false
		}
		return b.beginProbe()
	case HalfOpen:
		if b.options.ProbesApart {
			return Call{}, false
		}
		return b.beginProbe()
	}
	return Call{}, false
}

func (b *Breaker) beginProbe() (Call, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	switch b.State() {
	case Closed: // another probe has closed the breaker meanwhile
		return Call{breaker: b, word: b.load(), start: now}, true
	case Disabled:
		return Call{}, true
	case Open:
		if now < b.until.Load() {
			return Call{}, false
		}
		b.changeLocked(HalfOpen, ReasonTime, now)
	case HalfOpen:
		b.replaceLostLocked(now)
	default:
		return Call{}, false
	}
	if b.probing == b.options.Probes {
		return Call{}, false
	}
	b.probing++
	b.probed = now
	return Call{breaker: b, word: b.load(), start: now}, true
}

// replaceLostLocked allows new probes when the newest outstanding one has run for as long
// as the breaker was open: the callers may never end the old ones. The results of old
// probes still count, because a slow dependency may need that long.
func (b *Breaker) replaceLostLocked(now int64) {
	if b.probing == b.options.Probes && now-b.probed >= b.openFor {
		b.since, b.probing = now, 0
	}
}

// Elapsed returns how long the call has taken so far. Under high load the time may begin
// at the end of an earlier call (see [Options.SlowAfter]). Without SlowAfter it is 0,
// because the breaker did not read the clock.
func (c Call) Elapsed() time.Duration {
	if c.breaker == nil || c.breaker.slow == 0 {
		return 0
	}
	return time.Duration(c.breaker.now() - c.start)
}

// Success reports that the call did not fail. It may still count as slow.
func (c Call) Success() { c.end(false) }

// Failure reports that the call failed.
func (c Call) Failure() { c.end(true) }

// Ignore reports that the outcome tells nothing about the dependency, for example because
// the caller gave up before it was known. The call does not count, and a probe makes room for another. But if SlowRatio is set and the call was
// already slow, it counts as slow: neither as a failure nor as a success that ends a run
// of consecutive failures.
func (c Call) Ignore() {
	b := c.breaker
	if b == nil {
		return
	}
	now := b.now()
	slow := b.options.SlowRatio > 0 && c.slow(now)
	switch half := c.word.state() == HalfOpen; {
	case half && slow:
		b.endProbe(c.word, true, now)
	case half:
		c.giveUpProbe()
	case slow:
		if p := b.part(now); p.run.word == c.word {
			b.tally(p, false, true, now)
		}
	}
}

// giveUpProbe makes room for another probe, unless this one was already replaced as lost.
func (c Call) giveUpProbe() {
	b := c.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.load() == c.word && c.start >= b.since {
		b.probing--
	}
}

func (c Call) end(failed bool) {
	b := c.breaker
	if b == nil {
		return
	}
	if !failed && b.slow == 0 && b.countUntimed(c.word) {
		return
	}
	now, p := b.now(), b.window.current.Load()
	if failed || now-c.start >= b.slow || now >= p.until || p.run.word != c.word || c.word.state() != Closed {
		c.endAs(failed, c.slow(now), now)
		return
	}
	// The common case: a quick success counts in the same part of the window as the call
	// before.
	p.run.continueRow(false)
	p.count(false, false)
	p.note(now, b.slow)
}

// timeAll makes every call read the clock when it begins, for one Window.
func (b *Breaker) timeAll(now int64) {
	b.window.current.Load().run.timeAllUntil.Store(after(now, int64(b.options.Window)))
}

// Reading the clock is most of what a call costs. Where SlowAfter is not set and a part
// of the window is crowded, only every sixteenth success reads it. The trade-off: after a
// part ends, at most fifteen successes still count in it.
const crowdLooks = 16

// countUntimed counts a success without reading the clock, if it may: in a crowded part,
// or where the window is a number of calls.
func (b *Breaker) countUntimed(w word) bool {
	p := b.window.current.Load()
	if p.run.word != w {
		return false
	}
	timeless := p.run.ring != nil
	if !timeless && !p.crowded() {
		return false
	}
	p.run.continueRow(false)
	if n := p.count(false, false); !timeless && n%crowdLooks == 0 {
		b.part(b.now())
	}
	return true
}

func (c Call) endAs(failed, slow bool, now int64) {
	b := c.breaker
	if c.word.state() == HalfOpen {
		b.endProbe(c.word, failed || slow && b.options.SlowRatio > 0, now)
		return
	}
	if p := b.part(now); p.run.word == c.word {
		p.run.continueRow(failed)
		b.tally(p, failed, slow, now)
	}
}

// tally counts a call in a part, and opens the breaker if the call reaches a threshold.
func (b *Breaker) tally(p *part, failed, slow bool, now int64) {
	p.count(failed, slow)
	if b.slow > 0 {
		p.note(now, b.slow)
	}
	if failed || slow {
		b.judge(p.run, failed, slow, now)
	}
}

// slow reports whether the call counts as slow: it took at least SlowAfter, and Excuse
// does not excuse it.
func (c Call) slow(now int64) bool {
	b, took := c.breaker, now-c.start
	if b.slow == 0 || took < b.slow {
		return false
	}
	if c.early { // start is too early after a pause without calls, so the call may have been quick
		b.timeAll(now)
		return false
	}
	return b.options.Excuse == nil || c.word.state() == HalfOpen || !b.options.Excuse(time.Duration(took))
}

// part returns the part of the window that contains now.
func (b *Breaker) part(now int64) *part {
	if p := b.window.current.Load(); now < p.until {
		return p
	}
	return b.advance(now)
}

func (b *Breaker) advance(now int64) *part {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.advanceLocked(now)
	return b.window.current.Load()
}

// judge opens the breaker if a call that failed or was slow reached a threshold.
func (b *Breaker) judge(r *run, failed, slow bool, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.load() != r.word {
		return
	}
	if why := b.reasonLocked(r, failed, slow, now); why != 0 {
		b.openLocked(why, now)
	}
}

// reasonLocked decides when the circuit opens: it returns the threshold of [Options]
// that the calls of the window have reached, and 0 if they have reached none.
func (b *Breaker) reasonLocked(r *run, failed, slow bool, now int64) Reason {
	o := &b.options
	if failed && o.ConsecutiveFailures > 0 && r.inARow.Load() >= int64(o.ConsecutiveFailures) {
		return ReasonConsecutive
	}
	c := b.window.countsLocked(now)
	switch {
	case failed && reached(c.Failures, c.Calls, o.MinimumCalls, o.FailureRatio):
		return ReasonFailures
	case slow && c.Slow >= o.MinimumSlow && b.settledLocked(now) && reached(c.Slow, c.Calls, o.SlowMinimumCalls, o.SlowRatio):
		return ReasonSlow
	}
	return 0
}

// reached reports whether n of calls is at least ratio. It divides because a product
// rounds up: 7/100 equals the constant 0.07 in binary, but 0.07·100 is more than 7.
func reached(n, calls, minimum int, ratio float64) bool {
	return ratio > 0 && calls >= minimum && float64(n)/float64(calls) >= ratio
}

// endProbe closes the breaker after enough successful probes, or opens it again on a
// failed one.
func (b *Breaker) endProbe(w word, failed bool, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.load() != w {
		return
	}
	if failed {
		b.openLocked(ReasonProbe, now)
		return
	}
	if b.succeeded++; b.succeeded == b.options.Probes {
		b.changeLocked(Closed, ReasonProbe, now)
	}
}
