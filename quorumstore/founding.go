package quorumstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// found marks the members of a new quorum, whose clocks must agree, and then says of each that it has seen
// all that was ever accepted. Processes that found a quorum at the same time begin with the same member,
// which only one of them can mark. One that was marked again in between ends it.
func (b *backend) found(ctx context.Context, marks []*markReply) error {
	if err := b.inStep(); err != nil {
		return err
	}
	if !slices.ContainsFunc(marks, func(re *markReply) bool { return re.mark != (mark{}) }) {
		b.beginAfresh()
	}
	order := b.byName()
	for _, m := range order {
		re := marks[m.index]
		own := b.ownMark(m.index, re)
		if re.mark != (mark{}) {
			continue // an earlier call marked it
		}
		if err := b.setFirst(ctx, m, own); err != nil {
			return err
		}
	}
	for _, m := range order {
		if marks[m.index].mark.ever {
			continue
		}
		old := b.ownMark(m.index, nil)
		ever := old
		ever.ever = true
		if b.noFoundingCheck {
			if re, err := m.mark(ctx, &markRequest{}); err == nil {
				old, ever = re.mark, re.mark
				ever.ever, ever.run = true, re.run
			}
		}
		if err := b.setMark(ctx, m, old, ever); err != nil {
			return err
		}
	}
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	b.births.mu.known, b.births.mu.own = true, nil
	return nil
}

// ownMark returns the mark of a member in the founding, which it begins if there is none. A member
// that has restarted since gets another one, and so does one that its mark can reach only too late.
// re is nil for the mark that the member has got.
func (b *backend) ownMark(i int, re *markReply) mark {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.own == nil {
		b.births.mu.own, b.births.mu.begun = make([]mark, len(b.members)), b.quorumTime()
	}
	own := &b.births.mu.own[i]
	if re != nil && (own.run != re.run || re.mark == (mark{}) && re.time > own.birth) {
		*own = b.newMark(re)
	}
	return *own
}

// beginAfresh forgets the marks of a founding of which no member has one.
func (b *backend) beginAfresh() {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	b.births.mu.own = nil
}

// setFirst marks a member in a founding, unless that began so long ago that others may be old enough for
// a limit: this process may have stood still, and the member may have had a mark, and lost what it accepted.
// The mark is not set after its birth.
func (b *backend) setFirst(ctx context.Context, m *member, own mark) error {
	b.births.mu.Lock()
	end := b.births.mu.begun + b.slack.Microseconds()
	b.births.mu.Unlock()
	return b.setMarkBy(ctx, m, mark{}, own, min(own.birth, end))
}

// readFounded is read. A process that has never read from the quorum waits for its founding, by itself
// or another one, until the context ends.
func (b *backend) readFounded(ctx context.Context, all []*reading) (now int64, left []*reading, err error) {
	var failed error // of the last call of tend
	for attempt := 0; ; attempt++ {
		served := b.births.served.Load() // before the read: other calls may be answered first
		now, left, err = b.read(ctx, all)
		if err == nil && !someYoung(all) {
			if !served {
				b.births.served.Store(true)
			}
			return now, left, nil
		}
		founding := func() bool { return !served && b.beingFounded() }
		if (attempt > 0 || err == nil) && !founding() {
			break
		}
		// Another process may have begun since the read.
		if failed = b.tend(ctx); failed != nil && !errors.Is(failed, errMarked) && !founding() {
			break
		}
		if attempt > 0 && !backOff(ctx, attempt) {
			break
		}
		for _, r := range all {
			r.err = nil
		}
	}
	return now, left, b.withoutMarks(err, failed)
}

// withoutMarks returns the error of a read that no majority answered, after the members got no marks
// for the reason failed, if there is one.
func (b *backend) withoutMarks(err, failed error) error {
	known, ok := errors.AsType[*stint.Error](err)
	if !ok || known.Kind != kindQuorum || failed == nil {
		return err
	}
	reason := onlyReason(failed)
	isNew := !b.births.marked.Load()
	if reason == nil && !isNew {
		return err
	}
	e := *known
	e.Err = errors.Join(failed, known.Err)
	if isNew {
		e.Problem = "the servers are no quorum yet"
		e.Mend = "all of them must answer, and be empty, when a node first reaches them: stint store init says what is missing"
	}
	if reason != nil {
		e.Kind, e.Mend = reason.Kind, "" // the reason has the mend
	}
	return &e
}

// onlyReason returns the refusal of servers that an error consists of, if all that it joins are of one
// kind. It returns nil otherwise, and if servers are down.
func onlyReason(failed error) (reason *stint.Error) {
	joined, ok := failed.(interface{ Unwrap() []error })
	if !ok {
		refusal, ok := errors.AsType[*stint.Error](failed)
		if ok && refusal.Code == stint.CodeUnavailable && refusal.Kind != "connection" && refusal.Kind != kindQuorum {
			return refusal
		}
		return nil
	}
	for _, one := range joined.Unwrap() {
		r := onlyReason(one)
		if r == nil || reason != nil && r.Kind != reason.Kind {
			return nil
		}
		reason = r
	}
	return reason
}

func someYoung(all []*reading) bool {
	for _, r := range all {
		if isYoung(r.err) {
			return true
		}
	}
	return false
}

// beingFounded reports whether some process may be founding the quorum now: of the members with a mark, one
// was born less than a slack ago, or is to be born, and none that has all counts is older.
func (b *backend) beingFounded() bool {
	now, founding := time.Now(), false
	for _, m := range b.members {
		m.mu.Lock()
		a := m.mu.about
		at, _ := m.timeAtLocked(now) // of its own clock: no majority of clocks may be known
		m.mu.Unlock()
		if a.incarnation == 0 {
			continue
		}
		isNew := a.birth > at-b.slack.Microseconds()
		if a.ever && !isNew {
			return false
		}
		founding = founding || isNew
	}
	return founding
}

func isYoung(err error) bool {
	known, ok := errors.AsType[*stint.Error](err)
	return ok && known.Kind == KindYoung
}
