package quorumstore

import (
	"context"
	"errors"
	"slices"
)

// disown takes the members of some lists whose clock is ahead, or ran back, out of the quorum, by marks
// that are of no process. Their rows may have expired, and a process that starts once the clock is right
// cannot know that. Each may be born again as soon as its clock agrees with the others.
func (b *backend) disown(ctx context.Context, marks []*markReply, lists ...uint64) (err error) {
	for i, re := range marks {
		if re == nil || re.incarnation() == 0 || !slices.Contains(lists, re.mark.members) || b.mayBeFounded(re) {
			continue
		}
		if b.members[i].trusts(re.incarnation()) && !b.staysAhead(ctx, i, marks) {
			continue
		}
		disowned := re.mark
		disowned.run = disownedRun(re.run)
		if failed := b.setMark(ctx, b.members[i], re.mark, disowned); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		re.mark = disowned
	}
	return err
}

// mayBeFounded reports whether another process may be founding the quorum of a mark. The server is too
// young for any limit then, so it has nothing to lose.
func (b *backend) mayBeFounded(re *markReply) bool {
	b.births.mu.Lock()
	defer b.births.mu.Unlock()
	return !re.mark.ever && !b.births.mu.whole && re.time < re.mark.birth+b.slack.Microseconds()
}

// staysAhead reports whether the clock of a member is ahead in these marks, and when they are read once
// more. Between two answers this process may have been suspended: the second one seems to be ahead.
func (b *backend) staysAhead(ctx context.Context, i int, marks []*markReply) bool {
	if !b.isAhead(marks[i], marks) {
		return false
	}
	again, _ := b.marks(ctx)
	return again[i] != nil && again[i].mark == marks[i].mark && b.isAhead(again[i], again)
}

// isAhead reports whether the clock of a member is so far ahead of a majority that it may soon expire
// rows too early.
func (b *backend) isAhead(re *markReply, marks []*markReply) bool {
	behind := 0
	for _, other := range marks {
		if other != nil && other.incarnation() != 0 && re.time-other.time > b.slack.Microseconds() {
			behind++
		}
	}
	return behind >= b.majority
}

// disowned reports whether the running process had the mark, so that its list is still that of the
// process.
func (re *markReply) disowned() bool { return re.mark.run == disownedRun(re.run) }
