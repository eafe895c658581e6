package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// births is what a backend knows of the marks of its members.
type births struct {
	tending chan struct{} // has an element while a call of tend runs
	marked  atomic.Bool   // a member had a mark, maybe of another list, so the servers are not new

	mu struct {
		sync.Mutex

		known  bool                  // the quorum has been founded, so it is never new
		unborn [maxMembers]time.Time // since when a member was seen without a mark
		own    []mark                // of the members of a quorum that this process founds; nil: it does not
		begun  time.Time             // when it began to
	}
}

func (s *births) init() { s.tending = make(chan struct{}, 1) }

// look notes what an answer tells of the mark, and looks after the marks in the background if
// the member has restarted.
func (b *backend) look(a about) {
	if a.status != statusUnborn {
		if !b.births.marked.Load() {
			b.births.marked.Store(true)
		}
		return
	}
	select {
	case b.births.tending <- struct{}{}:
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

// tendOnce reads the marks of all members. It founds a new quorum, and marks the members of
// another one that have restarted, as born now.
func (b *backend) tendOnce(ctx context.Context) error {
	marks, err := b.marks(ctx)
	if b.isNew(marks) || b.mayResume(marks) {
		return b.found(ctx, marks)
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
func (b *backend) marks(ctx context.Context) ([]*markReply, error) {
	marks, errs := make([]*markReply, len(b.members)), make([]error, len(b.members))
	var all sync.WaitGroup
	for i, m := range b.members {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
			defer cancel()
			sent := time.Now()
			re, err := m.mark(ctx, &markRequest{})
			if err == nil {
				err = re.unfit
				m.learn(about{time: re.time, incarnation: re.incarnation(), birth: re.mark.birth, ever: re.mark.ever}, sent)
			}
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
	for i, re := range marks {
		if re == nil {
			continue
		}
		b.births.mu.known = b.births.mu.known || re.mark.ever && re.mark.members == b.hash
		if re.mark != (mark{}) {
			b.births.marked.Store(true)
		}
		if re.incarnation() != 0 {
			b.births.mu.unborn[i] = time.Time{}
		} else if b.births.mu.unborn[i].IsZero() {
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
// without a mark in the first slack alone: until then no member is old enough for any class, so
// nothing was accepted before its restart, if it has restarted.
func (b *backend) mayResume(marks []*markReply) bool {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.own == nil {
		return false
	}
	for i, re := range marks {
		if re == nil {
			return false
		}
		own := b.births.mu.own[i]
		own.ever = re.mark.ever
		if re.mark == own && re.run == own.run {
			continue
		}
		if re.mark != (mark{}) || !re.empty || time.Since(b.births.mu.begun) >= b.slack {
			return false
		}
	}
	return true
}

// found marks the members of a new quorum, and then says of each that it has seen all that was
// ever accepted. Processes that found a quorum at the same time begin with the same member,
// which only one of them can mark. One that was marked again in between ends it.
func (b *backend) found(ctx context.Context, marks []*markReply) error {
	own := b.ownMarks(marks)
	for i, re := range marks {
		if re.mark != (mark{}) {
			continue // an earlier call marked it
		}
		if err := b.setMark(ctx, b.members[i], mark{}, own[i]); err != nil {
			return err
		}
	}
	for i, m := range b.members {
		if marks[i].mark.ever {
			continue
		}
		old, ever := own[i], own[i]
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

// ownMarks returns the marks of the founding, which it begins if there is none. A member that has
// restarted since gets another one.
func (b *backend) ownMarks(marks []*markReply) []mark {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	if b.births.mu.own == nil {
		b.births.mu.own, b.births.mu.begun = make([]mark, len(marks)), time.Now()
	}
	for i, re := range marks {
		if b.births.mu.own[i].run != re.run {
			b.births.mu.own[i] = b.newMark(re)
		}
	}
	return slices.Clone(b.births.mu.own)
}

// newMark returns the mark of a member that is born now: by the time at which its mark is set,
// at the latest.
func (b *backend) newMark(re *markReply) mark {
	return mark{incarnation: 1 + rand.Int64N(maxID-1), run: re.run, members: b.hash, birth: re.time + b.options.Timeout.Microseconds()}
}

// errMarked says that another process set a mark first.
var errMarked = errors.New("another process marked the server first")

func (b *backend) setMark(ctx context.Context, m *member, old, now mark) error {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	re, err := m.mark(ctx, &markRequest{old: old, new: now})
	switch {
	case err != nil:
		return err
	case !re.set:
		return fmt.Errorf("%s: %w", m.name(), errMarked)
	}
	b.births.marked.Store(true)
	return nil
}

// mayBear reports whether this process may mark a member as born now. It must not if another
// member has another list, or may have: a member is being replaced, or was. Before any member
// has seen all that was ever accepted, another process may be founding the quorum, so it waits.
//
// Of several members without a mark, the one with the least name is born first, and the others
// after its mark was read. Otherwise processes with the lists of before and after a replacement
// could each mark one of two members that restarted, and both lists would have a majority.
func (b *backend) mayBear(i int, marks []*markReply) bool {
	re := marks[i]
	if re.incarnation() != 0 && b.members[i].trusts(re.incarnation()) || !b.agreeing()[i] {
		return false
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
		case other.incarnation() == 0 && b.members[j].name() < b.members[i].name():
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
	return b.births.marked.Load() && !since.IsZero() && time.Since(since) >= 2*b.options.Timeout
}

// bear marks a member as born now.
func (b *backend) bear(ctx context.Context, m *member, re *markReply) error {
	return b.setMark(ctx, m, re.mark, b.newMark(re))
}

// Init founds a quorum, and says why it cannot.
func (b *backend) initialize(ctx context.Context) error {
	marks, err := b.marks(ctx)
	if err != nil {
		return err
	}
	if b.isNew(marks) || b.mayResume(marks) {
		return b.found(ctx, marks)
	}
	var why []string
	for i, re := range marks {
		switch name := b.members[i].name(); {
		case re.mark.ever && re.mark.members == b.hash:
			why = append(why, name+" is a member already")
		case re.mark != (mark{}):
			why = append(why, name+" has a mark of a quorum")
		case !re.empty:
			why = append(why, name+" is not empty")
		}
	}
	return &stint.Error{Code: stint.CodeInvalid, Problem: "the quorum is not new: " + strings.Join(why, "; "),
		Mend: "use empty servers, or run stint store repair for the members that have restarted"}
}

// replace gives the other members of the list with a server replaced the new list. All of them
// and the new server must answer. b has the new list; old is the hash of the one before.
//
// A majority of the old list and one of the new list need have no member in common once the
// new server counts. So all members first get a list that nobody uses, and the new server
// is born, and the members get the new list, once no majority has the old one. A call that
// fails halfway is made again.
func (b *backend) replace(ctx context.Context, replaced int, old uint64) error {
	marks, err := b.marks(ctx)
	if slices.Contains(marks, nil) {
		return err
	}
	between := b.hash ^ 1<<52 // below 2^53
	moved, members := true, 0
	for i, re := range marks {
		switch list := re.mark.members; {
		case i == replaced && re.mark != (mark{}) && list != b.hash:
			return &stint.Error{Code: stint.CodeInvalid, Problem: b.members[i].name() + " has a mark of another quorum", Mend: "use an empty server"}
		case i == replaced:
		case re.mark != (mark{}) && list != old && list != between && list != b.hash:
			return b.notReplaced(i)
		case re.incarnation() != 0:
			members++
			fallthrough
		default:
			moved = moved && list == b.hash
		}
	}
	switch {
	case moved:
		return nil // an earlier call did it
	case members == 0:
		return b.notReplaced((replaced + 1) % len(marks))
	}
	if err := b.moveTo(ctx, between, replaced, marks); err != nil {
		return err
	}
	// It is born after nobody writes by the old list. It may have been a member of the same
	// list before, and lacks what came since.
	re, err := b.members[replaced].mark(ctx, &markRequest{})
	if err == nil {
		err = b.bear(ctx, b.members[replaced], re)
	}
	if err != nil {
		return err
	}
	return b.moveTo(ctx, b.hash, replaced, marks)
}

func (b *backend) notReplaced(i int) error {
	return &stint.Error{Code: stint.CodeInvalid, Problem: b.members[i].name() + " is not a member of the list that is to be replaced",
		Mend: "write the list that the servers have now, and replace one server at a time"}
}

// moveTo gives the members but one a list, and sets it in their marks. Those that have the
// last list keep it. One that has restarted is born now.
func (b *backend) moveTo(ctx context.Context, list uint64, replaced int, marks []*markReply) error {
	for i, re := range marks {
		if i == replaced || re.mark.members == b.hash || re.mark.members == list {
			continue
		}
		next := re.mark
		if re.incarnation() == 0 {
			next = b.newMark(re)
		}
		next.members = list
		if err := b.setMark(ctx, b.members[i], re.mark, next); err != nil {
			return err
		}
		re.mark = next
	}
	return nil
}
