package quorumstore

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// maxMembers is the greatest number of members.
const maxMembers = 7

// backend is a [cas.Backend] over a quorum of servers. Each item is a register of CASPaxos
// (see docs/decisions/038).
type backend struct {
	members  []*member
	majority int
	hash     uint64        // of the list of members
	slack    time.Duration // of floors, expiries and ages
	options  backendOptions
	births   births

	// Tests switch a rule off to show that it is needed.
	ageless, bareRead, noRepairCheck, noRepairWait, noFoundingCheck bool
	// proposes tells tests what a proposal is made from. It is nil otherwise.
	proposes func(p *proposal, chosen []part)
}

// backendOptions configures a backend.
type backendOptions struct {
	Timeout time.Duration // of a call to a server; 0 means 1 s
	Logger  *slog.Logger  // nil means no logging
}

// newBackend returns a backend over 3, 5 or 7 servers. It sends nothing before the first call.
func newBackend(servers []server, o backendOptions) *backend {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &backend{majority: len(servers)/2 + 1, options: o, slack: skewSlack + o.Timeout}
	names := make([]string, len(servers))
	for i, s := range servers {
		b.members = append(b.members, &member{server: s, index: i})
		names[i] = s.name()
	}
	b.hash = membersHash(names)
	b.births.init()
	return b
}

// memo is what the backend knows of an item beside its value.
type memo struct {
	upTo    uint8     // the class that its readers were old enough for
	version uint64    // see versionOf
	seen    ballot    // the greatest promise
	expires int64     // of its parts up to upTo, the latest
	above   []string  // see unite
	kept    *promised // nil: the next round prepares
}

// Covers implements [cas.Covering].
func (m *memo) Covers(horizon time.Duration) bool { return classOfHorizon(horizon) <= int(m.upTo) }

// Load implements [cas.Backend]. It reads all servers, and answers from a majority that
// agrees. Items on which none does are finished first: the newest state is accepted by a
// majority, so that it stays.
func (b *backend) Load(ctx context.Context, loads []cas.Load) (now time.Time, err error) {
	pending := make([]*reading, len(loads))
	for i := range loads {
		pending[i] = &reading{key: loads[i].Key, at: i, least: classOfHorizon(loads[i].Horizon), isNew: loads[i].New}
	}
	all := pending
	defer func() {
		for i, r := range all {
			loads[i].Item, loads[i].Err = r.item, r.err
		}
	}()
	at, pending, err := b.readFounded(ctx, pending)
	if err != nil {
		return time.Time{}, err
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		if attempt > 0 && !backOff(ctx, attempt) {
			return time.Time{}, b.noAnswer(ctx)
		}
		if at, pending, err = b.finish(ctx, pending); err != nil {
			return time.Time{}, err
		}
	}
	return time.UnixMicro(at), nil
}

// reading is the read of one key.
type reading struct {
	key   string
	at    int // the place of the read in the request
	least int
	seen  ballot
	must  *member // see proposal
	isNew bool    // a write follows if there is no item

	prepared ballot // of that write; zero: nothing was prepared

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
		r.item, ops[i] = cas.Item{}, operation{verb: verbRead, key: r.key}
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
		if timer == nil && len(left) > 0 {
			t := time.NewTimer(e.grace())
			defer t.Stop()
			timer = t.C
		}
	}
	usable := e.usable()
	if len(usable) < b.majority {
		return 0, nil, b.noMajority(ctx, e)
	}
	if timer == nil && slices.ContainsFunc(pending, (*reading).awaitsPromises) {
		e.linger(ctx) // a member that promises now also gets the write
		usable = e.usable()
	}
	ages := b.agesOf(usable)
	b.keepPromises(usable, ages, pending)
	var finish []*reading
	for _, r := range left {
		if majorityAge(ages, b.majority) < r.least {
			r.err = b.tooYoung(usable, r.least)
			continue
		}
		finish = append(finish, r)
	}
	return now, finish, nil
}

// awaitsPromises reports whether a key has no item, and its write was prepared.
func (r *reading) awaitsPromises() bool {
	m, read := r.item.Memo.(*memo)
	return read && m.version == 0 && r.prepared != ballot{}
}

// keepPromises notes who promised the writes of new keys, if a majority did.
func (b *backend) keepPromises(usable []*answer, ages []int, pending []*reading) {
	for _, r := range pending {
		if !r.awaitsPromises() {
			continue
		}
		m, k, enough := r.item.Memo.(*memo), &promised{next: r.prepared}, 0
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
		var wrong error
		for i, a := range usable {
			result := &a.reply.results[r.at]
			if result.err != nil {
				wrong = result.err
				continue
			}
			r.seen = maxBallot(r.seen, result.row.promise)
			rows = append(rows, &result.row)
			if ages[i] >= upTo {
				voters = append(voters, &result.row)
			}
		}
		chosen, agreed := choose(rows, voters, uint8(upTo), b.majority)
		switch {
		case len(rows) < b.majority && wrong != nil:
			r.err = wrong
		case agreed || b.bareRead:
			r.answer(chosen, uint8(upTo))
		default:
			left = append(left, r)
		}
	}
	return left
}

// answer sets the item of a load.
func (r *reading) answer(chosen []part, upTo uint8) {
	value, above, ok := unite(chosen, upTo)
	if !ok {
		r.err = corrupt(r.key)
		return
	}
	m := &memo{upTo: upTo, version: versionOf(chosen), seen: r.seen, above: above}
	for _, p := range chosen {
		if p.class <= upTo {
			m.expires = max(m.expires, p.expires)
		}
	}
	r.item = cas.Item{Value: value, Memo: m}
	if len(value) > 0 {
		r.item.Version = m.version
	}
}

// finish has a majority accept the newest states, unchanged, and answers the reads of those
// it did. It returns the others.
func (b *backend) finish(ctx context.Context, pending []*reading) (now int64, left []*reading, err error) {
	proposals := make([]*proposal, len(pending))
	for i, r := range pending {
		proposals[i] = &proposal{key: r.key, least: r.least, seen: r.seen, must: r.must, change: func(p *proposal, chosen []part, upTo int) bool {
			p.unchanged(chosen, upTo)
			return true
		}}
	}
	now = b.propose(ctx, proposals)
	for i, p := range proposals {
		r := pending[i]
		switch p.phase {
		case done:
			r.seen = p.ballot
			r.answer(p.chosen, p.upTo)
		case young:
			r.err = b.tooYoung(nil, r.least)
		case failed:
			return 0, nil, b.noAnswer(ctx)
		default:
			r.seen = maxBallot(maxBallot(r.seen, p.ballot), p.told)
			left = append(left, r)
		}
	}
	return now, left, nil
}

// unchanged makes the proposal one of the newest state as it is.
func (p *proposal) unchanged(chosen []part, upTo int) {
	p.upTo = uint8(upTo)
	for i := range chosen {
		c := chosen[i]
		if int(c.class) > upTo {
			p.chosen = append(p.chosen, c)
			continue
		}
		c.ballot = p.ballot
		p.chosen = append(p.chosen, c)
		if len(c.data) > 0 || c.class == p.upTo {
			p.parts = append(p.parts, c)
		}
	}
}

// Swap implements [cas.Backend].
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	proposals := make([]*proposal, len(swaps))
	at := b.quorumTime()
	for i := range swaps {
		proposals[i] = b.proposalOf(&swaps[i], at)
	}
	answered := b.propose(ctx, proposals)
	for i, p := range proposals {
		b.settle(ctx, &swaps[i], p)
	}
	if answered == 0 {
		return time.Time{}, nil
	}
	b.reach(ctx, swaps, answered)
	return time.UnixMicro(answered), nil
}

// proposalOf returns the proposal of a swap.
func (b *backend) proposalOf(w *cas.Swap, now int64) *proposal {
	m, known := w.Memo.(*memo)
	if !known {
		m = &memo{upTo: maxClass}
	}
	p := &proposal{key: w.Key, least: int(m.upTo), seen: m.seen, keep: w.Keep}
	parts := func() []part {
		parts := divide(w.Value, w.Decided, m.upTo, m.above)
		for i := range parts {
			parts[i].expires = max(now+w.TTL.Microseconds(), m.expires)
		}
		return parts
	}
	if k := m.kept; k != nil && k.used.CompareAndSwap(false, true) {
		p.phase, p.ballot, p.upTo, p.parts = accepting, k.next, m.upTo, parts()
		for i := range p.parts {
			p.parts[i].ballot = k.next
		}
		p.granted = k.incarnations
		return p
	}
	p.change = func(p *proposal, chosen []part, _ int) bool {
		if versionOf(chosen) != m.version {
			return false
		}
		p.upTo, p.parts = m.upTo, parts()
		return true
	}
	return p
}

// settle sets the outcome of a swap.
func (b *backend) settle(ctx context.Context, w *cas.Swap, p *proposal) {
	switch p.phase {
	case done:
		w.Outcome = cas.Done
		if w.Keep {
			m := &memo{upTo: p.upTo, version: versionOf(p.parts), seen: p.kept.next, expires: p.parts[len(p.parts)-1].expires, kept: p.kept}
			if old, ok := w.Memo.(*memo); ok {
				m.above = old.above
			}
			w.Memo, w.Written = m, m.version
		}
	case unknown:
		w.Outcome, w.Err = cas.Unknown, b.unanswered(ctx)
	case failed:
		w.Outcome, w.Err = cas.Failed, b.noAnswer(ctx)
	default:
		w.Outcome = cas.Lost
	}
}

// reach waits until the quorum's clock is at the times of the decisions. They were made by a
// bound that may be ahead of it by the time of a call.
func (b *backend) reach(ctx context.Context, swaps []cas.Swap, now int64) {
	var latest time.Time
	for i := range swaps {
		if w := &swaps[i]; w.Outcome == cas.Done && w.NotBefore.After(latest) {
			latest = w.NotBefore
		}
	}
	if ahead := latest.Sub(time.UnixMicro(now)); !latest.IsZero() && ahead > 0 {
		t := time.NewTimer(ahead)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// backOff waits for a random time before the next attempt. It returns false if the context
// has ended.
func backOff(ctx context.Context, attempt int) bool {
	longest := time.Millisecond << min(attempt, 5)
	t := time.NewTimer(longest/4 + rand.N(longest))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	_ cas.Backend  = (*backend)(nil)
	_ cas.Covering = (*memo)(nil)
)

// corrupt returns the error of a key whose row is not one of this package.
func corrupt(key string) error {
	return &stint.Error{Kind: stint.KindCorrupt, Problem: "the row of the key " + key + " is not in the format of this version",
		Mend: "make sure that nothing else writes the keys of the store, and reset the key"}
}
