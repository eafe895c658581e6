package stint

import (
	"context"

	"github.com/stintdev/stint/internal/table"
)

// One claim takes this path through the store. A reader opens each file once, in
// this order; calls from here into the same file are listed together:
//
//   - claim.go: isPlain checks the claim.
//   - compiled_limit.go: isBucket selects the fast path.
//   - memory_limits.go: cached finds the short reference of its limit.
//   - key.go: identify hashes its key.
//   - internal/table/table.go: Touch prefetches the slot of the state, and Shard
//     finds the shard.
//   - internal/clock/clock.go: Now reads the time while the memory answers.
//   - internal/table/shard.go: the shard is locked (TryLock, Wait, Relock), and
//     AtHome or Find finds the slot.
//   - bucket.go, or the file of another algorithm: takePlain decides and computes
//     the next state, which Take stores before it unlocks the shard. reportPlain
//     then computes the times of the answer.
//
// take is that path for any claim; step.go chooses the algorithm there. Take is the
// same path in one function for a plain claim on a bucket that has a state, which
// nearly every check is. It keeps its values in registers: to write them into
// structs and to read those again takes longer than the arithmetic. A test
// compares both paths to the last bit.

// Take decides one claim and charges it when allowed.
func (m *Memory) Take(_ context.Context, c Claim) (d Decision, err error) {
	n := c.Limit.n
	if m == nil || !c.isPlain() || !n.isBucket() {
		return d, m.take(&c, &d)
	}
	// The fast path, for nearly every check. Its values stay in registers.
	ref := m.limits.cached(n)
	if ref == 0 { // no state of this store uses the limit, or a caller brought it
		return d, m.take(&c, &d)
	}
	id := m.secrets.identify(c.Key, &n.salt)
	m.table.Touch(id)
	now := m.clock.Now()
	shard := m.table.Shard(id)
	if !shard.TryLock() {
		shard.Wait(now)
	}
	if !shard.Owns(id) {
		shard = m.table.Relock(shard, id)
	}
	slot := shard.AtHome(id, ref)
	if slot == nil {
		if slot = shard.Find(id); slot == nil || slot.Ref() != ref {
			err = m.takeStep(shard, &query{n: n, states: &m.states, id: id}, &c, now, false, &d)
			return d, err
		}
	}
	next, after, allowed := n.takePlain(packed(slot.State), now, c.Cost)
	slot.State = table.State(next)
	shard.Unlock()
	n.reportPlain(&d, after, now, c.Cost, allowed)
	return d, nil
}

// take is Take for any claim.
func (m *Memory) take(c *Claim, d *Decision) error {
	if !m.made() {
		return errNoMemory
	}
	var q query
	if err := m.prepare(&q, c); err != nil {
		return err
	}
	q.states.table.Touch(q.id)
	now := m.clock.Now()
	shard := q.states.table.Shard(q.id)
	shard.LockAt(now)
	return m.takeStep(q.states.table.Relock(shard, q.id), &q, c, now, false, d)
}

// query is a claim's limit and the place of its state.
type query struct {
	n      *compiledLimit
	states *states
	id     table.ID

	// For a claim that is decided in a group:
	shard    *table.Shard
	next     packed // the state after the charge, if the group is admitted
	done     bool   // makeRoom has charged the claim already
	reserved uint32 // the reference of its limit, held until the group is decided; 0: none
}

// prepare checks a claim and finds the place of its state.
func (m *Memory) prepare(q *query, c *Claim) error {
	if !c.isPlain() {
		if err := c.check(); err != nil {
			return err
		}
	}
	*q = query{n: c.Limit.n, states: &m.states}
	if q.n.fromCaller {
		q.states = m.callerStates()
	}
	q.id = m.secrets.identify(c.Key, &q.n.salt)
	return nil
}

// takeStep takes the step of one claim whose shard is locked, and unlocks it.
func (m *Memory) takeStep(shard *table.Shard, q *query, c *Claim, now int64, dry bool, d *Decision) error {
	a := input{dry: dry}
	var r result
	c.asInput(&a, now)
	ok := q.states.step(shard, q, &a, &r)
	shard.Release(now)
	if !ok {
		return errNoRoom()
	}
	q.n.decide(d, &r, &a)
	return nil
}

// step takes the step of one claim on its state, whose shard is locked. It
// reports false when the charge is refused because the table is full. The
// charge is then not stored, and r is the result that it would have had.
func (s *states) step(shard *table.Shard, q *query, a *input, r *result) bool {
	if q.n.wide() {
		return s.stepWide(shard, q, a, r)
	}
	slot := shard.Find(q.id)
	if slot == nil {
		return s.stepFresh(shard, q, a, r)
	}
	from, same := q.n, slot.Ref() == s.limits.cached(q.n)
	if !same {
		from = s.limits.at(slot.Ref())
	}
	c := q.n.step(packed(slot.State), from, a, r)
	if r.write && !r.forget {
		if !same {
			if slot = s.rewrite(shard, slot, q, a.now); slot == nil {
				return false
			}
		}
		slot.State = table.State(c)
	}
	if r.forget {
		shard.Delete(q.id)
	}
	return true
}

// stepFresh is step for a key that has no state.
func (s *states) stepFresh(shard *table.Shard, q *query, a *input, r *result) bool {
	c := q.n.step(packed{}, nil, a, r)
	if !r.write || r.forget {
		return true
	}
	ref := s.limits.hold(q.n)
	if shard.Insert(q.id, ref, table.State(c), a.now) {
		return true
	}
	s.limits.release(ref)
	return !s.refuses
}

// rewrite assigns a state to the limit of the claim, and returns its slot. It
// returns nil when there is no room for another limit.
func (s *states) rewrite(shard *table.Shard, slot *table.Slot, q *query, now int64) *table.Slot {
	old, ref := slot.Ref(), s.limits.hold(q.n)
	if ref == old {
		s.limits.release(ref)
		return slot
	}
	if s.refuses && q.reserved == 0 { // a new limit adds to the weight of the table
		if !shard.Fit(q.id, now) {
			s.limits.release(ref)
			return nil
		}
		slot = shard.Find(q.id)
	}
	slot.SetRef(ref)
	s.limits.release(old)
	return slot
}
