package guard

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
)

// local is what is decided in memory while the store fails. It is dropped when
// the store is back. While single calls fail it stays, so that a store that
// fails now and then does not hand out the share anew each time.
type local struct {
	store   stint.Store
	nodes   int
	shares  shares // of limits of rules and programs
	callers shares // of limits that callers bring: ever new ones drop no others
}

// shares are this node's parts of limits, found once.
type shares struct {
	known sync.Map // of stint.Limit to stint.Limit, zero where there is none
	count atomic.Int64
}

// maxShares bounds how many limits' shares are remembered, of each kind.
const maxShares = 10_000

// spare is an empty store for the next failure, made ahead: to make one takes
// as long as a check may while the store fails.
type spare struct {
	sync.Mutex

	store stint.Store // nil: in use
}

// localNow returns the local state, made anew when the number of nodes has
// changed: shares of two sizes must not share state.
func (s *Store) localNow() *local {
	nodes := s.nodes()
	if l := s.local.Load(); l != nil && l.nodes == nodes {
		return l
	}
	s.spare.Lock()
	defer s.spare.Unlock()
	if l := s.local.Load(); l != nil && l.nodes == nodes {
		return l
	}
	store := s.spare.store
	if s.spare.store = nil; store == nil {
		store = s.options.Local()
	}
	l := &local{store: store, nodes: nodes}
	s.local.Store(l)
	return l
}

// forgetLocal drops the local state, and has an empty one ready for the next
// failure.
func (s *Store) forgetLocal() {
	if s.local.Swap(nil) == nil {
		return
	}
	fresh := s.options.Local()
	s.spare.Lock()
	defer s.spare.Unlock()
	s.spare.store = fresh
}

// share is this node's part of a limit, found once.
func (l *local) share(limit stint.Limit) (stint.Limit, bool) {
	if l.nodes <= 1 {
		return limit, true
	}
	s := &l.shares
	if limit.FromCaller() {
		s = &l.callers
	}
	return s.of(limit, l.nodes)
}

func (s *shares) of(limit stint.Limit, nodes int) (stint.Limit, bool) {
	if known, ok := s.known.Load(limit); ok {
		share, _ := known.(stint.Limit)
		return share, share.Valid()
	}
	share, err := limit.Share(nodes)
	if err != nil {
		share = stint.Limit{}
	}
	if s.count.Add(1) > maxShares {
		s.known.Clear()
		s.count.Store(0)
	}
	s.known.Store(limit, share)
	return share, err == nil
}

// standIn is the claim that is decided in place of one of the store's; not ok
// when the limit is too slow to be divided.
func (l *local) standIn(c *stint.Claim) (in stint.Claim, ok bool) {
	in = stint.Claim{Key: c.Key, Cost: c.Cost, At: c.At, Any: c.Any}
	if c.Local == nil {
		in.Limit, ok = l.share(c.Limit)
		return in, ok
	}
	in.Limit = c.Local.Limit
	if c.Local.Key != "" {
		in.Key = c.Local.Key
	}
	return in, true
}

// takeLocal decides one claim in memory. A limit too slow to be divided counts
// as closed: nothing may be had of it here.
func (s *Store) takeLocal(c stint.Claim, sh *shard) (stint.Decision, error) {
	l := s.localNow()
	in, ok := l.standIn(&c)
	if !ok {
		return s.denied(&c, sh), nil
	}
	d, err := l.store.Take(context.Background(), in)
	d.Degraded = true
	s.degraded.local.Add(1)
	return d, err
}

// standIns is room for the local claims of one group.
type standIns struct {
	group [1]stint.Group
	of    []int // by claim of the group: which of these answers for it; below 0: none
	out   []stint.Decision
}

// takeLocal decides the local claims of a group as one, and so the group.
func (r *round) takeLocal(claims []stint.Claim, out []stint.Decision, sh *shard) error {
	l, in := r.guard.localNow(), &r.stand
	if !in.gather(l, claims) {
		for i := range claims {
			out[i] = r.guard.denied(&claims[i], sh)
		}
		return nil
	}
	if err := l.store.TakeGroups(context.Background(), in.group[:], in.out); err != nil {
		return err
	}
	for i := range claims {
		if in.of[i] < 0 {
			out[i] = r.guard.unused(&claims[i])
			continue
		}
		out[i] = in.out[in.of[i]]
		out[i].Degraded = true
		r.guard.degraded.local.Add(1)
	}
	return nil
}

// gather collects the claims that stand in. Several that share one (a rule's
// own local limit stands in for all of its limits) are one claim, of the
// greatest cost. It is not ok when there is none for one of them.
func (in *standIns) gather(l *local, claims []stint.Claim) (ok bool) {
	stand := in.group[0].Claims[:0]
	in.of = in.of[:0]
	for i := range claims {
		c := &claims[i]
		if c.Policy.OnFailure != stint.FailLocal {
			in.of = append(in.of, -1)
			continue
		}
		one, ok := l.standIn(c)
		if !ok {
			return false
		}
		at := indexOf(stand, &one)
		if at == len(stand) {
			stand = append(stand, one)
		}
		stand[at].Cost = max(stand[at].Cost, one.Cost)
		in.of = append(in.of, at)
	}
	in.group[0].Claims = stand
	in.out = append(in.out[:0], make([]stint.Decision, len(stand))...)
	return true
}

// indexOf is where the state of a claim is among others; behind them if it is
// not.
func indexOf(claims []stint.Claim, c *stint.Claim) int {
	for i := range claims {
		if claims[i].Key == c.Key && claims[i].Limit == c.Limit {
			return i
		}
	}
	return len(claims)
}
