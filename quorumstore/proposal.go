package quorumstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// proposal is one round of CASPaxos on one key: prepare, unless a promise was kept from the
// round before, and accept.
type proposal struct {
	key   string
	least int    // the class that a reading majority must be old enough for
	seen  ballot // the greatest promise that is known
	// change sets upTo and parts from the newest state and the class that its readers are
	// old enough for. It returns false if nothing is to be written.
	change func(p *proposal, chosen []part, upTo int) bool
	keep   bool    // keep the promise for the next round
	must   *member // has to accept; nil: any majority

	phase  phase
	ballot ballot
	upTo   uint8
	parts  []part
	places []place   // of the states in parts
	kept   *promised // what the accept asks for

	granted [maxMembers]int64 // the incarnation of each member that promised; 0: it did not
	sent    int               // members that got the accept
	at      [maxMembers]int   // the place of the operation in the request to each member; -1: none
	accepts int
	refused int
	mustAck bool
	told    ballot // the greatest promise of a refusal
	unable  int    // members that could not make the operation, such as full ones
	wrong   error  // the reason of one of them
	chosen  []part // by unchanged
}

// promised is a ballot that a majority has promised to this process for its next round. The
// next accept also goes to members that did not promise it in time, if they promised the
// round before: they take it unless they promised more to another process, or restarted.
//
// It is used once. A write that is sent again, because its outcome is unknown, prepares: the
// members may have promised more to others meanwhile.
type promised struct {
	next         ballot
	used         atomic.Bool
	incarnations [maxMembers]int64 // of each member that gets the accept; 0: none
}

type phase uint8

const (
	preparing phase = iota
	accepting
	done
	notMade // refused everywhere, or the state is another one: nothing was written
	young   // a majority promised, and too few of them are old enough
	failed  // too few members answered, or could make the operation: nothing was written
	unknown // the accept may or may not win
)

// propose runs the proposals to their ends. It returns the time of the quorum at the last
// round trip, or 0.
func (b *backend) propose(ctx context.Context, all []*proposal) (now int64) {
	if now = b.round(ctx, all); now == 0 {
		return 0
	}
	var granted []*proposal
	for _, p := range all {
		if p.phase == accepting && p.sent == 0 {
			granted = append(granted, p)
		}
	}
	if len(granted) == 0 {
		return now
	}
	if at := b.round(ctx, granted); at != 0 {
		now = at
	}
	return now
}

// round makes one round trip: it sends the prepares and the accepts of the proposals.
func (b *backend) round(ctx context.Context, all []*proposal) (now int64) {
	e := b.newExchange()
	at, prepares := b.quorumTime(), false
	for _, p := range all {
		switch p.phase {
		case preparing:
			p.ballot, prepares = newBallot(at, p.seen), true
		case accepting:
			next := ballot{}
			if p.keep {
				next = newBallot(0, p.ballot)
			}
			p.kept = &promised{next: next, incarnations: p.granted}
		}
	}
	whole := &request{wire: &wire{}}
	for _, m := range b.members {
		if r := b.requestOf(m, all, whole); len(r.ops) > 0 {
			e.ask(ctx, m, r)
		}
	}
	b.gather(ctx, e, all, prepares)
	for _, p := range all {
		p.finish(b, e)
	}
	if len(e.usable()) == 0 {
		return 0
	}
	return b.quorumTime()
}

// requestOf returns the request of the proposals to a member. Those that have all operations
// share those of whole.
func (b *backend) requestOf(m *member, all []*proposal, whole *request) *request {
	r := &request{head: head{members: b.hash, slack: b.slack}}
	incarnation, count := m.incarnation(), 0
	last, _ := m.timeAt(time.Now())
	for _, p := range all {
		switch {
		case p.phase == preparing:
		case p.phase == accepting && p.granted[m.index] != 0 && p.granted[m.index] == incarnation:
			// What was told about one incarnation does not hold for the next one, and what
			// a frozen server executes later could win over what came after.
			r.head.incarnation, r.head.last = incarnation, last+b.options.Timeout.Microseconds()
			p.sent++
		default:
			p.at[m.index] = -1
			continue
		}
		p.at[m.index] = count
		count++
	}
	if count == len(all) {
		if whole.ops == nil {
			whole.ops = operationsOf(m, all, count)
		}
		r.ops, r.wire = whole.ops, whole.wire
	} else {
		r.ops = operationsOf(m, all, count)
	}
	return r
}

// operationsOf returns the operations of the proposals that concern a member.
func operationsOf(m *member, all []*proposal, count int) []operation {
	ops := make([]operation, 0, count)
	for _, p := range all {
		switch {
		case p.at[m.index] < 0:
		case p.phase == preparing:
			ops = append(ops, operation{verb: verbPrepare, key: p.key, ballot: p.ballot})
		default:
			ops = append(ops, operation{verb: verbAccept, key: p.key, ballot: p.ballot, next: p.kept.next, upTo: p.upTo, parts: p.parts})
		}
	}
	return ops
}

// gather waits for the answers that decide the proposals.
func (b *backend) gather(ctx context.Context, e *exchange, all []*proposal, prepares bool) {
	var timer <-chan time.Time
	for {
		a := e.wait(ctx, timer)
		if a == nil {
			return
		}
		if timer != nil || !b.decided(e, all) {
			continue
		}
		if !prepares && !anyRefused(all) {
			return
		}
		grace := e.grace() // a member that promises now need not be asked for a read later
		if grace == 0 {
			return
		}
		t := time.NewTimer(grace)
		defer t.Stop()
		timer = t.C
	}
}

// decided reports whether the answers so far decide all proposals, or no further answer is worth
// its wait.
func (b *backend) decided(e *exchange, all []*proposal) bool {
	usable := e.usable()
	if len(usable) < b.majority {
		return false
	}
	for _, p := range all {
		switch enough := p.tally(b, usable); {
		case !enough && !p.outbid(b), enough && p.tooYoung(b, usable) && e.expectsMore():
			return false
		}
	}
	return true
}

func anyRefused(all []*proposal) bool {
	return slices.ContainsFunc(all, func(p *proposal) bool { return p.refused > 0 })
}

// outbid reports whether members have refused the proposal for a higher ballot of another process,
// and waiting for the other members is of no use. A prepare is then sent again with a higher
// ballot, because members that have not answered may hang. A member that cannot make the operation,
// such as one that is full, has named no ballot. An accept cannot win any more; whether a member has
// made it is unknown.
func (p *proposal) outbid(b *backend) bool {
	if p.phase == preparing {
		return p.told != (ballot{}) && p.accepts+p.refused >= b.majority
	}
	return p.refused > len(b.members)-b.majority
}

// tally counts the answers for one proposal, and reports whether they decide it.
func (p *proposal) tally(b *backend, usable []*answer) bool {
	good, bad := 0, 0
	p.unable, p.wrong, p.mustAck = 0, nil, p.must == nil
	for _, a := range usable {
		i := p.at[a.member.index]
		if i < 0 {
			continue
		}
		r := &a.reply.results[i]
		if r.refused || r.err != nil {
			bad++
			p.told = maxBallot(p.told, r.row.promise)
			if r.err != nil {
				p.unable, p.wrong = p.unable+1, r.err
			}
			continue
		}
		good++
		p.mustAck = p.mustAck || a.member == p.must
	}
	p.accepts, p.refused = good, bad
	return good >= b.majority && p.mustAck
}

// tooYoung reports whether too few of the members that promised are old enough for the proposal. A
// member that is slower, and older, is then waited for.
func (p *proposal) tooYoung(b *backend, usable []*answer) bool {
	if p.phase != preparing {
		return false
	}
	var buf [maxMembers]int
	ages := buf[:0]
	for _, a := range usable {
		if p.promisedBy(a) {
			ages = append(ages, b.ageOf(a))
		}
	}
	return majorityAge(ages, b.majority) < p.least
}

// promisedBy reports whether an answer has a promise for the proposal.
func (p *proposal) promisedBy(a *answer) bool {
	i := p.at[a.member.index]
	return i >= 0 && !a.reply.results[i].refused && a.reply.results[i].err == nil
}

// finish sets the phase that follows from the answers.
func (p *proposal) finish(b *backend, e *exchange) {
	enough := p.tally(b, e.usable())
	switch p.phase {
	case preparing:
		p.choose(b, e, enough)
	case accepting:
		switch {
		case enough:
			p.phase = done
		case p.mayBeMade(e):
			p.phase = unknown
		case p.hopeless(b):
			p.phase = failed
		default:
			p.phase = notMade
		}
	}
}

// hopeless reports whether another ballot would not help, because no majority can make the operation.
func (p *proposal) hopeless(b *backend) bool { return p.unable > len(b.members)-b.majority }

// mayBeMade reports whether a member has accepted the proposal, or may have.
func (p *proposal) mayBeMade(e *exchange) bool {
	refused := 0
	for _, a := range e.answers {
		i := p.at[a.member.index]
		switch {
		case i < 0:
		case a.err != nil && nothingSent(a.err),
			a.err == nil && (a.reply.about.status != statusOK || a.reply.results[i].refused || a.reply.results[i].err != nil):
			refused++
		}
	}
	return refused < p.sent
}

// choose takes the newest state of those that promised, and sets what to accept.
func (p *proposal) choose(b *backend, e *exchange, enough bool) {
	if !enough {
		p.phase = failed
		if p.told != (ballot{}) && !p.hopeless(b) {
			p.phase = notMade
		}
		return
	}
	var rows []*row
	var ages []int
	for _, a := range e.usable() {
		if !p.promisedBy(a) {
			continue
		}
		p.granted[a.member.index] = a.reply.about.incarnation
		rows, ages = append(rows, &a.reply.results[p.at[a.member.index]].row), append(ages, b.ageOf(a))
	}
	upTo := majorityAge(ages, b.majority)
	if upTo < p.least {
		p.phase = young
		return
	}
	chosen, _ := choose(rows, rows, uint8(upTo), b.majority)
	p.phase = notMade
	if p.change(p, chosen, upTo) {
		for i := range p.parts {
			p.parts[i].ballot = p.ballot
		}
		p.phase = accepting
		if b.proposes != nil {
			b.proposes(p, chosen)
		}
	}
}

// ageOf returns the class that the server of an answer is old enough for.
func (b *backend) ageOf(a *answer) int {
	if b.ageless {
		return maxClass
	}
	return a.reply.about.oldEnough(b.slack)
}

// majorityAge returns the greatest class that a majority is old enough for.
func majorityAge(ages []int, majority int) int {
	var buf [maxMembers]int
	sorted := append(buf[:0], ages...)
	for i := 1; i < len(sorted); i++ {
		for j := i; j > 0 && sorted[j] > sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	if len(sorted) < majority {
		return tooYoung
	}
	return sorted[majority-1]
}
