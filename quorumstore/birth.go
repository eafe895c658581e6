package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// births is what a backend knows of the marks of its members.
type births struct {
	tending chan struct{}             // has an element while a call of tend runs
	looked  atomic.Pointer[time.Time] // when look last began one
	retired atomic.Bool               // no member is marked any more
	marked  atomic.Bool               // a member had a mark, maybe of another list, so the servers are not new
	served  atomic.Bool               // this process has read from the quorum

	mu struct {
		sync.Mutex

		known  bool                  // the quorum has been founded, so it is never new
		whole  bool                  // a member of any list had seen all that was ever accepted
		unborn [maxMembers]time.Time // since when a member was seen without a mark after another one had one
		own    []mark                // of the members of a quorum that this process founds; nil: it does not
		begun  int64                 // the time of the quorum when it began to
	}
}

func (s *births) init() { s.tending = make(chan struct{}, 1) }

// look notes what an answer tells of the mark, and looks after the marks in the background if
// the member has restarted, or its clock has run back.
func (b *backend) look(m *member, a about) {
	if a.status != statusUnborn {
		if !b.births.marked.Load() {
			b.births.marked.Store(true)
		}
		if m.trusts(a.incarnation) {
			return
		}
	}
	// A wrong clock may last for long, and each call finds it.
	if last := b.births.looked.Load(); last != nil && time.Since(*last) < b.options.Timeout/4 {
		return
	}
	select {
	case b.births.tending <- struct{}{}:
		now := time.Now()
		b.births.looked.Store(&now)
		go func() {
			defer func() { <-b.births.tending }()
			ctx, cancel := context.WithTimeout(context.Background(), 4*b.options.Timeout)
			defer cancel()
			if err := b.tendOnce(ctx); err != nil {
				b.options.Logger.Debug("the marks of the servers could not be set", "error", err)
			}
		}()
	default:
	}
}

// tend marks the members that have none, after any other call of tend.
func (b *backend) tend(ctx context.Context) error {
	select {
	case b.births.tending <- struct{}{}:
		defer func() { <-b.births.tending }()
		return b.tendOnce(ctx)
	case <-ctx.Done():
		return b.noAnswer(ctx)
	}
}

// retire has this process mark no member any more. It waits for a call of tend that runs.
func (b *backend) retire(ctx context.Context) error {
	b.births.retired.Store(true)
	select {
	case b.births.tending <- struct{}{}:
		<-b.births.tending
		return nil
	case <-ctx.Done():
		return b.noAnswer(ctx)
	}
}

// tendOnce reads the marks of all members, and disowns those with a wrong clock. It founds a new quorum,
// and marks the members of another one that have restarted, as born now.
func (b *backend) tendOnce(ctx context.Context) error {
	if b.births.retired.Load() {
		return errRetired
	}
	marks, err := b.marksOfNew(ctx)
	err = errors.Join(err, b.disown(ctx, marks, b.hash))
	if b.isNew(marks) || b.mayResume(marks) {
		return b.found(ctx, marks)
	}
	if err == nil && !b.births.marked.Load() {
		return b.notNew(marks)
	}
	for range b.members { // each may have to wait for the birth of another one
		born := false
		for i, re := range marks {
			if re != nil && b.mayBear(i, marks) {
				failed := b.bear(ctx, b.members[i], re)
				born = born || failed == nil
				err = errors.Join(err, failed)
			}
		}
		if !born {
			break
		}
		marks, err = b.marks(ctx)
	}
	return err
}

// marks reads the marks of all members. That of a member which does not answer or must not be
// used is nil, and part of the error.
func (b *backend) marks(ctx context.Context) ([]*markReply, error) { return b.readMarks(ctx, false) }

// marksOfNew is marks for members that may be new, unless this process knows that they are not. A search
// takes further round trips, for which a slow link may have no time.
func (b *backend) marksOfNew(ctx context.Context) ([]*markReply, error) {
	b.births.mu.Lock()
	search := !b.births.mu.known
	b.births.mu.Unlock()
	return b.readMarks(ctx, search)
}

func (b *backend) readMarks(ctx context.Context, search bool) ([]*markReply, error) {
	marks, errs := make([]*markReply, len(b.members)), make([]error, len(b.members))
	var all sync.WaitGroup
	for i, m := range b.members {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
			defer cancel()
			sent := time.Now()
			re, err := m.mark(ctx, &markRequest{search: search})
			if err == nil {
				err = re.unfit
				m.learn(about{time: re.time, incarnation: re.incarnation(), birth: re.mark.birth, ever: re.mark.ever && re.incarnation() != 0}, sent)
			}
			wrong := err
			if err == nil {
				wrong = b.refuses(m, re)
			}
			m.mu.Lock()
			m.mu.wrong = wrong
			m.mu.Unlock()
			if err != nil {
				errs[i] = err
				return
			}
			marks[i] = re
		})
	}
	all.Wait()
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	for _, re := range marks {
		if re == nil {
			continue
		}
		b.births.mu.known = b.births.mu.known || re.mark.ever && re.mark.members == b.hash
		b.births.mu.whole = b.births.mu.whole || re.mark.ever
		if re.mark != (mark{}) {
			b.births.marked.Store(true)
		}
	}
	marked := b.births.marked.Load()
	for i, re := range marks {
		switch {
		case re == nil:
		case re.incarnation() != 0 || !marked: // while no member has a mark, no founding has begun
			b.births.mu.unborn[i] = time.Time{}
		case b.births.mu.unborn[i].IsZero():
			b.births.mu.unborn[i] = time.Now()
		}
	}
	return marks, errors.Join(errs...)
}

// incarnation returns that of a mark of the running process, or 0.
func (re *markReply) incarnation() int64 {
	if re.mark.run != re.run {
		return 0
	}
	return re.mark.incarnation
}

// isNew reports whether no member has ever been one: all answer, and all are empty. A process
// that has seen a mark knows better, also if the mark was of another list: that of before a
// replacement, whose removed member may be the only one that still has data.
func (b *backend) isNew(marks []*markReply) bool {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.known || b.births.marked.Load() {
		return false
	}
	for _, re := range marks {
		if re == nil || re.mark != (mark{}) || !re.empty {
			return false
		}
	}
	return true
}

// mayResume reports whether this process can go on with a founding that an error has stopped.
// The members have its marks, so they have accepted nothing that they have lost. One may be
// without a mark in the first slack alone, and before any member is said to have seen all that
// was ever accepted: until then no member is old enough for any class, so nothing was accepted
// before its restart, if it has restarted.
func (b *backend) mayResume(marks []*markReply) bool {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.own == nil {
		return false
	}
	unmarked, ever := false, false
	for i, re := range marks {
		if re == nil {
			return false
		}
		own := b.births.mu.own[i]
		own.ever = re.mark.ever
		if re.mark == own && re.run == own.run {
			ever = ever || own.ever
			continue
		}
		// By the clock of the server: that of this process stands still while its machine is suspended.
		if re.mark != (mark{}) || !re.empty || re.time >= b.births.mu.begun+b.slack.Microseconds() {
			return false
		}
		unmarked = true
	}
	return !unmarked || !ever
}

// newMark returns the mark of a member that is born now: by the last time at which its mark can
// be set. That is not long after its mark was read: a process that stood still since then does not know
// any more what lists the members have.
func (b *backend) newMark(re *markReply) mark {
	birth := re.time + 2*b.options.Timeout.Microseconds() // the other marks are read, and this one is set
	return mark{incarnation: 1 + rand.Int64N(maxID-1), run: re.run, members: b.hash, birth: birth}
}

// lastTime returns the time of a member by which it has made a request that is sent now, or
// refuses it.
func (b *backend) lastTime(m *member) int64 {
	now, _ := m.timeAt(time.Now())
	return now + b.options.Timeout.Microseconds()
}

var (
	// errMarked says that another process set a mark first.
	errMarked = errors.New("another process marked the server first")
	// errMarkedLate says that a mark came after the birth in it.
	errMarkedLate = errors.New("the server got its mark too late")
	// errRetired says that the store was cleared.
	errRetired = errors.New("the store has deleted its keys, and marks no server any more")
)

// setMark replaces the mark of a member. A mark of a birth is not set after that birth: what the
// member did and lost since it was read would be unknown.
func (b *backend) setMark(ctx context.Context, m *member, old, now mark) error {
	last := b.lastTime(m)
	if now.incarnation != old.incarnation {
		last = now.birth
	}
	return b.setMarkBy(ctx, m, old, now, last)
}

// setMarkBy replaces the mark of a member until a time of its clock.
func (b *backend) setMarkBy(ctx context.Context, m *member, old, now mark, last int64) error {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	re, err := m.mark(ctx, &markRequest{old: old, new: now, last: last})
	switch {
	case err != nil:
		return err
	case !re.set && re.mark == old:
		return fmt.Errorf("%s: %w", m.name(), errMarkedLate)
	case !re.set:
		return fmt.Errorf("%s: %w", m.name(), errMarked)
	}
	b.births.marked.Store(true)
	return nil
}

// mayBear reports whether this process may mark a member as born now. It must not if another
// member has another list, or may have: a member is being replaced, or was. Before any member
// has seen all that was ever accepted, another process may be founding the quorum, so it waits
// for as long as that may go on.
//
// Of several members without a mark, the one with the least name is born first, and the others
// after its mark was read. One that was disowned has the mark of its list, and may have to wait until its
// clock is right. Otherwise processes with the lists of before and after a replacement
// could each mark one of two members that restarted, and both lists would have a majority.
func (b *backend) mayBear(i int, marks []*markReply) bool {
	re := marks[i]
	if re.incarnation() != 0 || !b.agreeing()[i] {
		return false
	}
	if re.time-b.quorumTime() > skewSlack.Microseconds() { // two clocks that agree with a majority are no further apart
		return false // its clock was ahead when the mark was read, and would be the time of its birth
	}
	if re.mark != (mark{}) && re.mark.members != b.hash {
		return false
	}
	others := 0
	for j, other := range marks {
		switch {
		case other == nil || j == i:
		case other.mark != (mark{}) && other.mark.members != b.hash:
			return false
		case other.incarnation() == 0 && !other.disowned() && b.members[j].name() < b.members[i].name():
			return false
		default:
			others++
		}
	}
	if others < b.majority { // those that do not answer may have another list
		return false
	}
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.known {
		return true
	}
	since := b.births.mu.unborn[i]
	return b.births.marked.Load() && !since.IsZero() && time.Since(since) >= b.slack
}

// bear marks a member as born now.
func (b *backend) bear(ctx context.Context, m *member, re *markReply) error {
	return b.setMark(ctx, m, re.mark, b.newMark(re))
}

// Init founds a quorum, and says why it cannot.
func (b *backend) initialize(ctx context.Context) error {
	marks, err := b.marksOfNew(ctx)
	if err != nil {
		return err
	}
	if b.isNew(marks) || b.mayResume(marks) {
		return b.found(ctx, marks)
	}
	return b.notNew(marks)
}

// notNew returns the error of servers that all answer, and cannot become a quorum.
func (b *backend) notNew(marks []*markReply) error {
	var why []string
	for i, re := range marks {
		switch name := b.members[i].name(); {
		case re.mark.ever && re.mark.members == b.hash:
			why = append(why, name+" is a member already")
		case re.mark != (mark{}):
			why = append(why, name+" has a mark of a quorum")
		case re.unsearched:
			why = append(why, name+" has too many keys to be searched in time for those of Stint (use a database with fewer: its number ends the URL)")
		case !re.empty:
			why = append(why, name+" is not empty")
		}
	}
	return &stint.Error{Code: stint.CodeInvalid, Problem: "the servers cannot become a quorum: " + strings.Join(why, "; "),
		Mend: "use empty servers, or run stint store repair for the members that have restarted"}
}
