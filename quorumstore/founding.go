package quorumstore

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
)

// readFounded is read. It waits for the founding of the quorum, by this process or another
// one, until the context ends.
func (b *backend) readFounded(ctx context.Context, all []*reading) (now int64, left []*reading, err error) {
	now, left, err = b.read(ctx, all)
	for attempt := 0; err != nil || someYoung(all); attempt++ {
		founding := b.beingFounded()
		if !founding && (attempt > 0 || err == nil) {
			break
		}
		if failed := b.tend(ctx); failed != nil && !founding {
			break
		}
		if attempt > 0 && !backOff(ctx, attempt) {
			break
		}
		for _, r := range all {
			r.err = nil
		}
		now, left, err = b.read(ctx, all)
	}
	return now, left, err
}

func someYoung(all []*reading) bool {
	for _, r := range all {
		if isYoung(r.err) {
			return true
		}
	}
	return false
}

// beingFounded reports whether some process may be founding the quorum now: a member was
// marked less than a slack ago, and this process has never seen one that has all counts.
func (b *backend) beingFounded() bool {
	b.births.mu.Lock()
	known := b.births.mu.known
	b.births.mu.Unlock()
	if known {
		return false
	}
	now := b.quorumTime()
	for _, m := range b.members {
		m.mu.Lock()
		a := m.mu.about
		m.mu.Unlock()
		if a.incarnation != 0 && a.birth > now-b.slack.Microseconds() {
			return true
		}
	}
	return false
}

func isYoung(err error) bool {
	known, ok := errors.AsType[*stint.Error](err)
	return ok && known.Kind == KindYoung
}
