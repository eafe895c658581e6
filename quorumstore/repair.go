package quorumstore

import (
	"context"
	"fmt"
	"time"

	"github.com/stintdev/stint"
)

// walkBatch is about how many keys a repair moves at once.
const walkBatch = 100

// repair makes a young member as old as the others: it accepts the newest state of each key of
// a majority of members that have seen all that was ever accepted. What the member accepted
// before its birth, and lost, is known to one of those too.
//
// A repair begins a slack after the birth: until then, an accept of before the birth may still
// be under way to others. It ends without success if a server restarts meanwhile, or its clock leaps.
func (b *backend) repair(ctx context.Context, young *member) error {
	marks, err := b.marks(ctx)
	own := marks[young.index]
	if own == nil {
		return err
	}
	for i, re := range marks {
		if re != nil && re.incarnation() != 0 && re.mark.members != b.hash {
			return &stint.Error{Code: stint.CodeUnavailable, Kind: kindMembers, Problem: "no repair: " + b.members[i].name() + " " + statusOtherMembers.String(), Mend: mendMembers}
		}
	}
	if own.incarnation() == 0 {
		return b.noRepair(young.name() + " is not a member yet")
	}
	if own.mark.ever {
		return nil
	}
	if wait := own.mark.birth + b.slack.Microseconds() - own.time; wait > 0 && !b.noRepairWait {
		return b.noRepair(fmt.Sprintf("%s can be repaired in %s", young.name(), (time.Duration(wait) * time.Microsecond).Round(100*time.Millisecond)))
	}
	var walked []*member
	agree := b.agreeing()
	for i, re := range marks {
		// The rows of a member whose clock is ahead, or was, may have expired.
		if re != nil && agree[i] && b.members[i].trusts(re.incarnation()) && re.mark.ever && re.incarnation() != 0 && re.mark.members == b.hash && len(walked) < b.majority {
			walked = append(walked, b.members[i])
		}
	}
	if len(walked) < b.majority {
		return b.tooFewWhole(marks)
	}
	for _, m := range walked {
		if err := b.walk(ctx, m, marks[m.index].mark.incarnation, young); err != nil {
			return err
		}
	}
	if err := b.still(ctx, walked, marks); err != nil {
		return err
	}
	old := own.mark
	if b.noRepairCheck {
		re, err := young.mark(ctx, &markRequest{})
		if err != nil {
			return err
		}
		old = re.mark
		old.run = re.run
	}
	next := old
	next.ever = true
	return b.setMark(ctx, young, old, next)
}

// walk has the young member accept the state of each key of another one.
func (b *backend) walk(ctx context.Context, m *member, incarnation int64, young *member) error {
	r := &scanRequest{head: head{members: b.hash, incarnation: incarnation, slack: b.slack}, count: walkBatch}
	if b.noRepairCheck {
		r.head.incarnation = 0
	}
	for {
		re, err := b.scan(ctx, m, r)
		if err != nil {
			return err
		}
		if err := b.copyTo(ctx, young, re.keys); err != nil {
			return err
		}
		if re.next == "" {
			return nil
		}
		r.cursor = re.next
	}
}

func (b *backend) scan(ctx context.Context, m *member, r *scanRequest) (*scanReply, error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	sent := time.Now()
	re, err := m.scan(ctx, r)
	if err == nil {
		m.learn(re.about, sent)
	}
	if err == nil && re.about.status != statusOK {
		err = b.noRepair(m.name() + " " + re.about.status.String())
	}
	return re, err
}

// copyTo finishes a round of each key that a member accepts.
func (b *backend) copyTo(ctx context.Context, young *member, keys []string) error {
	left := make([]*reading, 0, len(keys))
	for len(keys) > 0 || len(left) > 0 {
		for len(left) < walkBatch && len(keys) > 0 {
			left, keys = append(left, &reading{key: keys[0], least: maxClass, must: young}), keys[1:]
		}
		_, again, err := b.finish(ctx, left)
		if err != nil {
			return err
		}
		for _, r := range left {
			if r.err != nil && !r.finished { // a value that cannot be read is copied as it is
				return r.err
			}
		}
		if left = again; len(left) > 0 && !backOff(ctx, 1) {
			return b.noAnswer(ctx)
		}
	}
	return nil
}

// still returns an error if a member that was walked may have had less to show than when its mark was
// read: it has restarted, or its clock has leapt ahead since, so that rows expired before the walk
// came to them.
func (b *backend) still(ctx context.Context, walked []*member, before []*markReply) error {
	if b.noRepairCheck {
		return nil
	}
	now, err := b.marks(ctx)
	agree := b.agreeing()
	for _, m := range walked {
		re := now[m.index]
		switch {
		case re == nil:
			return err
		case re.incarnation() != before[m.index].incarnation() || re.mark.members != b.hash:
			return b.noRepair(m.name() + " has restarted, or was given another list of members")
		case !agree[m.index] || !m.trusts(re.incarnation()):
			return b.clockIsOff(m)
		}
	}
	return nil
}

// tooFewWhole returns the error of a repair from fewer members than a majority. If the others are
// there, and have lost their data too, no later repair can do better. One whose clock ran back becomes
// a new member.
func (b *backend) tooFewWhole(marks []*markReply) error {
	e := &stint.Error{Code: stint.CodeUnavailable, Kind: KindYoung, Problem: "no repair: too few members have seen all that was ever accepted", Mend: "start those that are down, and try again later"}
	whole, agree := 0, b.agreeing()
	var off *member
	for i, re := range marks {
		switch {
		case re == nil:
			whole++ // it may be
		case re.mark.ever && re.incarnation() != 0 && b.members[i].trusts(re.incarnation()):
			if whole++; !agree[i] {
				off = b.members[i]
			}
		}
	}
	switch {
	case whole < b.majority:
		e.Problem = "no repair: a majority of the members has lost its data, had a clock that ran back, or was not founded to the end"
		e.Mend = "wait until the limits have forgotten what was lost, or begin afresh: stop the nodes, empty all servers and start the nodes"
	case off != nil:
		return b.clockIsOff(off)
	}
	return e
}

func (b *backend) noRepair(problem string) error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: KindYoung, Problem: "no repair: " + problem, Mend: "try again later"}
}
