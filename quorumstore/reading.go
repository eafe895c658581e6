package quorumstore

import (
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint/internal/cas"
)

// reading is the read of one key.
type reading struct {
	key   string
	at    int // the place of the read in the request
	least int
	seen  ballot
	must  *member // see proposal
	isNew bool    // a write follows if there is no item
	// until says, if it is not zero, that the newest state is accepted anew in any case, and kept until then
	// at least. An accept of before may be all that is newest in a class, and be known to one member alone,
	// although the lower classes have been written since: another round would make that part of it. So
	// would one that finds nothing else any more, because the rows of the others have expired.
	until time.Time

	prepared ballot // of that write, by the last read; zero: it prepared nothing
	finished bool   // a majority accepted the newest state
	wrong    error  // why too few of the members that answered have told the row; nil: enough have

	item cas.Item
	err  error
}

// read reads the keys, and returns those that have to be finished. It also prepares the writes
// of new keys.
func (b *backend) read(ctx context.Context, pending []*reading) (now int64, left []*reading, err error) {
	e := b.newExchange()
	ops := make([]operation, len(pending))
	now = b.quorumTime()
	for i, r := range pending {
		r.item, r.prepared, ops[i] = cas.Item{}, ballot{}, operation{verb: verbRead, key: r.key}
		if r.isNew && now > 0 {
			r.prepared = newBallot(now, r.seen)
			ops[i].verb, ops[i].ballot = verbPrepareNew, r.prepared
		}
	}
	request := &request{head: head{members: b.hash, slack: b.slack}, ops: ops, wire: &wire{}}
	for _, m := range b.members {
		e.ask(ctx, m, request)
	}
	var timer <-chan time.Time
	left = pending
	for len(left) > 0 {
		a := e.wait(ctx, timer)
		if a == nil {
			break
		}
		usable := e.usable()
		if len(usable) < b.majority {
			continue
		}
		now = b.quorumTime()
		left = b.settleReads(usable, left)
		waits := b.someLackMembers(left, usable) && e.expectsMore()
		if timer == nil && len(left) > 0 && !waits {
			t := time.NewTimer(e.grace())
			defer t.Stop()
			timer = t.C
		}
	}
	if len(e.usable()) < b.majority {
		return 0, nil, b.noMajority(ctx, e)
	}
	if timer == nil && slices.ContainsFunc(pending, func(r *reading) bool { return r.unwritten() != nil }) {
		e.linger(ctx) // a member that promises now also gets the write
	}
	usable := e.usable()
	ages := b.agesOf(usable)
	b.keepPromises(usable, ages, pending)
	return now, b.oldEnoughFor(left, usable, ages), nil
}

// someLackMembers reports whether too few of the members that answered are old enough for one of the
// reads, or have told its row. A slower member, which may do so, is then waited for.
func (b *backend) someLackMembers(left []*reading, usable []*answer) bool {
	upTo := majorityAge(b.agesOf(usable), b.majority)
	return slices.ContainsFunc(left, func(r *reading) bool { return upTo < r.least || r.wrong != nil })
}

// oldEnoughFor returns those of the reads that enough members have answered and are old enough for.
// The others get an error.
func (b *backend) oldEnoughFor(left []*reading, usable []*answer, ages []int) (finish []*reading) {
	for _, r := range left {
		if majorityAge(ages, b.majority) < r.least {
			r.err = b.tooYoung(usable, r.least)
			continue
		}
		if r.wrong != nil {
			r.err = r.wrong
			continue
		}
		finish = append(finish, r)
	}
	return finish
}

// unwritten returns the memo of a key that has no item and whose write was prepared, and nil for
// other keys.
func (r *reading) unwritten() *memo {
	if m, read := r.item.Memo.(*memo); read && m.version == 0 && r.prepared != (ballot{}) {
		return m
	}
	return nil
}

// keepPromises notes who promised the writes of new keys, if a majority did.
func (b *backend) keepPromises(usable []*answer, ages []int, pending []*reading) {
	for _, r := range pending {
		m := r.unwritten()
		if m == nil {
			continue
		}
		k, enough := &promised{next: r.prepared}, 0
		for i, a := range usable {
			if result := &a.reply.results[r.at]; result.err == nil && !result.refused && len(result.row.parts) == 0 {
				k.incarnations[a.member.index] = a.reply.about.incarnation
				if ages[i] >= int(m.upTo) {
					enough++
				}
			}
		}
		m.seen = maxBallot(m.seen, r.prepared)
		if enough >= b.majority {
			m.kept = k
		}
	}
}

func (b *backend) agesOf(answers []*answer) []int {
	ages := make([]int, len(answers))
	for i, a := range answers {
		ages[i] = b.ageOf(a)
	}
	return ages
}

// settleReads answers the reads on which a majority agrees, and returns the others.
func (b *backend) settleReads(usable []*answer, pending []*reading) (left []*reading) {
	ages := b.agesOf(usable)
	upTo := majorityAge(ages, b.majority)
	rows, voters := make([]*row, 0, maxMembers), make([]*row, 0, maxMembers)
	for _, r := range pending {
		if upTo < r.least {
			left = append(left, r)
			continue
		}
		rows, voters = rows[:0], voters[:0]
		r.wrong = nil
		for i, a := range usable {
			result := &a.reply.results[r.at]
			if result.err != nil {
				r.wrong = result.err
				continue
			}
			r.seen = maxBallot(r.seen, result.row.promise)
			rows = append(rows, &result.row)
			if ages[i] >= upTo {
				voters = append(voters, &result.row)
			}
		}
		if len(rows) < b.majority {
			left = append(left, r)
			continue
		}
		r.wrong = nil
		if r.settles() && !b.bareRead {
			left = append(left, r)
			continue
		}
		if chosen, agreed := choose(rows, voters, uint8(upTo), b.majority); !agreed && !b.bareRead || !r.answer(chosen, uint8(upTo), b.now()) {
			left = append(left, r)
		}
	}
	return left
}

// answer sets the item of a load. It returns false if the item needs older members, and raises least.
func (r *reading) answer(chosen []part, upTo uint8, now time.Time) bool {
	value, places, ok := unite(chosen, upTo, now)
	if !ok {
		r.err = corrupt(r.key)
		return true
	}
	if class := copiedAbove(places, upTo); class > 0 {
		r.least = max(r.least, int(class))
		return false
	}
	m := &memo{upTo: upTo, version: versionOf(chosen), seen: r.seen, places: places}
	for _, p := range chosen {
		if p.class <= upTo {
			m.expires = max(m.expires, p.expires)
		}
	}
	r.item = cas.Item{Value: value, Memo: m}
	if len(value) > 0 {
		r.item.Version = m.version
	}
	return true
}

// finish has a majority accept the newest states, unchanged, and answers the reads of those
// it did. It returns the others.
func (b *backend) finish(ctx context.Context, pending []*reading) (now int64, left []*reading, err error) {
	proposals := make([]*proposal, len(pending))
	for i, r := range pending {
		proposals[i] = &proposal{key: r.key, least: r.least, seen: r.seen, must: r.must, change: func(p *proposal, chosen []part, upTo int) bool {
			now := b.now()
			_, places, _ := unite(chosen, uint8(max(0, upTo)), now)
			if class := copiedAbove(places, uint8(max(0, upTo))); class > 0 {
				p.phase, r.least = young, max(r.least, int(class))
				return false
			}
			until := int64(0)
			if r.settles() && !b.noOutliving {
				until = r.until.UnixMicro()
			}
			p.unchanged(chosen, upTo, now, until)
			return true
		}}
	}
	now = b.propose(ctx, proposals)
	for i, p := range proposals {
		r := pending[i]
		switch p.phase {
		case done:
			r.seen, r.finished = p.ballot, true
			if !r.answer(p.chosen, p.upTo, b.now()) {
				r.err = b.tooYoung(nil, r.least) // a state has ended since change looked
			}
			r.item.Settled = r.settles()
		case young:
			if r.least > p.least { // change raised it, and older members may be slower
				r.seen, left = maxBallot(r.seen, p.ballot), append(left, r)
				continue
			}
			r.err = b.tooYoung(nil, r.least)
		case failed:
			if p.wrong == nil {
				return 0, nil, b.noAnswer(ctx)
			}
			r.err = p.wrong
		default:
			r.seen = maxBallot(maxBallot(r.seen, p.ballot), p.told)
			left = append(left, r)
		}
	}
	return now, left, nil
}

// settles reports whether the read decides what became of a write of before.
func (r *reading) settles() bool { return !r.until.IsZero() }

// unchanged makes the proposal one of the newest state as it is, which is kept until a time at least.
func (p *proposal) unchanged(chosen []part, upTo int, now time.Time, until int64) {
	p.upTo = uint8(upTo)
	p.parts = renew(chosen, p.upTo, now)
	for i := range p.parts {
		p.parts[i].ballot, p.parts[i].expires = p.ballot, max(p.parts[i].expires, until)
	}
	p.chosen = slices.Clone(p.parts)
	for _, c := range chosen {
		if c.class > p.upTo {
			p.chosen = append(p.chosen, c)
		}
	}
}
