package breaker

import "time"

// Call is a call that a [Breaker] let through. End it exactly once, by
// Success, Failure or Cancel. The zero Call belongs to no breaker, and may be
// ended too.
type Call struct {
	breaker *Breaker
	word    word
	start   int64 // 0 unless calls can be slow
	early   bool  // it began at start or later
}

// Begin asks whether a call may go ahead. If so, end the Call that it
// returns. Half-open, that call is a probe.
func (b *Breaker) Begin() (c Call, ok bool) {
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

// BeginProbe is Begin for a caller whose call is meant to be a probe, with
// [Options.ProbesApart].
func (b *Breaker) BeginProbe() (c Call, ok bool) {
	if s := b.State(); s == Open || s == HalfOpen {
		return b.beginProbe()
	}
	return b.Begin()
}

// beginUnusual is Begin where the breaker was not closed.
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
	case Closed: // somebody else's probe was faster
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

// replaceLostLocked makes room for other probes when the newest of those let
// through has had as long as the breaker was open, and they have not ended:
// their callers may have forgotten them. If not, how they end counts still: a
// callee may well need longer than that.
func (b *Breaker) replaceLostLocked(now int64) {
	if b.probing == b.options.Probes && now-b.probed >= b.openFor {
		b.since, b.probing = now, 0
	}
}

// Elapsed returns how long the call has taken so far, in a crowd with the time
// since a call before it ended (see [Options.SlowAfter]); 0 where no call can be
// slow, because then nobody looked at the clock.
func (c Call) Elapsed() time.Duration {
	if c.breaker == nil || c.breaker.slow == 0 {
		return 0
	}
	return time.Duration(c.breaker.now() - c.start)
}

// Success says that the call did not fail. It may still have been slow.
func (c Call) Success() { c.end(false) }

// Failure says that the call failed.
func (c Call) Failure() { c.end(true) }

// Cancel says that the caller gave up before the outcome was known. The call
// does not count, and the place of a probe is free again; but where SlowRatio
// is set and it was slow by then, it counts as slow, neither as a failure nor
// as a success that ends a row of them.
func (c Call) Cancel() {
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

// giveUpProbe frees the place of a probe, unless another has taken it.
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
	// Nearly every call is a quick success, and counts beside the one before it.
	p.run.continueRow(false)
	p.count(false, false)
	p.note(now, b.slow)
}

// timeAll has every call timed from its beginning for a whole Window.
func (b *Breaker) timeAll(now int64) {
	b.window.current.Load().run.timeAllUntil.Store(after(now, int64(b.options.Window)))
}

// Where no call can be slow, a crowd looks at the clock at every sixteenth
// success only: that is most of what a call costs. Fifteen successes at most
// then count in the tenth before the one they ended in.
const crowdLooks = 16

// countUntimed counts a success without the clock, where that is allowed: in a
// crowd, and in a window by calls.
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

// tally counts a call in a part, and opens the breaker if that was one too many.
func (b *Breaker) tally(p *part, failed, slow bool, now int64) {
	p.count(failed, slow)
	if b.slow > 0 {
		p.note(now, b.slow)
	}
	if failed || slow {
		b.judge(p.run, failed, slow, now)
	}
}

// slow reports whether the call has taken too long by now, and is to blame.
func (c Call) slow(now int64) bool {
	b, took := c.breaker, now-c.start
	if b.slow == 0 || took < b.slow {
		return false
	}
	if c.early { // it may have been quick after a pause: only time will tell
		b.timeAll(now)
		return false
	}
	return b.options.Excuse == nil || c.word.state() == HalfOpen || !b.options.Excuse(time.Duration(took))
}

// part returns the part of the window that now is in.
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

// judge opens the breaker if a call that failed or was slow was one too many.
func (b *Breaker) judge(r *run, failed, slow bool, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.load() != r.word {
		return
	}
	if why := b.verdictLocked(r, failed, slow, now); why != 0 {
		b.openLocked(why, now)
	}
}

func (b *Breaker) verdictLocked(r *run, failed, slow bool, now int64) Reason {
	o := &b.options
	if failed && o.ConsecutiveFailures > 0 && r.inARow.Load() >= int64(o.ConsecutiveFailures) {
		return ReasonConsecutive
	}
	c := b.window.countsLocked(now)
	switch {
	case failed && reached(c.Failures, c.Calls, o.MinimumCalls, o.FailureRatio):
		return ReasonFailures
	case slow && b.settledLocked(now) && reached(c.Slow, c.Calls, o.SlowMinimumCalls, o.SlowRatio):
		return ReasonSlow
	}
	return 0
}

// reached divides, because 7 of 100 is 0.07 in binary too, and 0.07 · 100 is
// more than 7.
func reached(n, calls, minimum int, ratio float64) bool {
	return ratio > 0 && calls >= minimum && float64(n)/float64(calls) >= ratio
}

// endProbe closes the breaker after enough probes, or opens it again.
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
