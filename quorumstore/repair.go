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
// be under way to others. It ends without success if a server restarts meanwhile.
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
		return b.noRepair(fmt.Sprintf("%s can be repaired in %s", young.name(), time.Duration(wait)*time.Microsecond))
	}
	var walked []*member
	for i, re := range marks {
		if re != nil && re.mark.ever && re.incarnation() != 0 && re.mark.members == b.hash && len(walked) < b.majority {
			walked = append(walked, b.members[i])
		}
	}
	if len(walked) < b.majority {
		return b.noRepair("too few members have seen all that was ever accepted")
	}
	for _, m := range walked {
		if err := b.walk(ctx, m, marks[m.index].mark.incarnation, young); err != nil {
			return err
		}
	}
	for _, m := range walked {
		if err := b.still(ctx, m, marks[m.index].mark.incarnation); err != nil {
			return err
		}
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
	re, err := m.scan(ctx, r)
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
			if r.err != nil {
				return r.err
			}
		}
		if left = again; len(left) > 0 && !backOff(ctx, 1) {
			return b.noAnswer(ctx)
		}
	}
	return nil
}

// still returns an error if a member has restarted.
func (b *backend) still(ctx context.Context, m *member, incarnation int64) error {
	if b.noRepairCheck {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	re, err := m.call(ctx, &request{head: head{members: b.hash, incarnation: incarnation, slack: b.slack}})
	if err == nil && re.about.status != statusOK {
		err = b.noRepair(m.name() + " " + re.about.status.String())
	}
	return err
}

func (b *backend) noRepair(problem string) error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: KindYoung, Problem: "no repair: " + problem, Mend: "try again later"}
}
