package quorumstore

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
)

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
	if err := b.disown(ctx, marks, old, between, b.hash); err != nil {
		return err
	}
	moved, members, begun := true, 0, false
	for i, re := range marks {
		switch list := re.mark.members; {
		case i == replaced && re.mark != (mark{}) && list != b.hash:
			return &stint.Error{Code: stint.CodeInvalid, Problem: b.members[i].name() + " has a mark of another quorum", Mend: "use an empty server"}
		case i == replaced:
		case re.mark != (mark{}) && list != old && list != between && list != b.hash:
			return b.notReplaced(i)
		case re.incarnation() != 0:
			members++
			begun = begun || list == b.hash
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
	if err := b.inStep(); err != nil {
		return err
	}
	if err := b.moveTo(ctx, between, replaced, marks); err != nil {
		return err
	}
	// It is born after nobody writes by the old list. It may have been a member of the same
	// list before, and lacks what came since. But if a member has the new list already, an earlier
	// call was at this point, and the new server has seen all since then.
	if now := marks[replaced]; !begun || now.incarnation() == 0 || now.mark.members != b.hash {
		re, err := b.members[replaced].mark(ctx, &markRequest{})
		if err == nil {
			err = b.bear(ctx, b.members[replaced], re)
		}
		if err != nil {
			return err
		}
	}
	return b.moveTo(ctx, b.hash, replaced, marks)
}

// inStep returns an error if the clock of a member, as it was last told, is off. A member must not
// be born then: once its clock is right, it would seem to be older than it is.
func (b *backend) inStep() error {
	agree := b.agreeing()
	for i, m := range b.members {
		if !agree[i] {
			return b.clockIsOff(m)
		}
	}
	return nil
}

func (b *backend) clockIsOff(m *member) error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "clock", Problem: "the clock of " + m.name() + " is more than a second off those of the others", Mend: "have NTP set it"}
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
