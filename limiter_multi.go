package stint

import (
	"context"
	"sync"
)

// taker is the part of a [Store] that takes one claim.
type taker interface {
	Take(ctx context.Context, c Claim) (Decision, error)
}

// together takes a claim on each of its limits as one atomic group. It ignores
// the limit that the claim itself names.
type together struct {
	store  Store
	limits []Limit
	calls  sync.Pool // a pool of *joined
}

// Take returns the decision of the group, as [Combine] returns it.
func (t *together) Take(ctx context.Context, c Claim) (Decision, error) {
	j := t.join(&c)
	defer t.calls.Put(j)
	_, d, err := t.take(ctx, j, j.out)
	return d, err
}

// takeEach is Take, and writes the decision of each limit into out.
func (t *together) takeEach(ctx context.Context, c *Claim, out []Decision) (binding int, d Decision, err error) {
	j := t.join(c)
	defer t.calls.Put(j)
	return t.take(ctx, j, out)
}

func (t *together) take(ctx context.Context, j *joined, out []Decision) (binding int, d Decision, err error) {
	if err := t.store.TakeGroups(ctx, j.group[:], out); err != nil {
		return -1, d, err
	}
	binding, d = Combine(j.group[0].Claims, out)
	return binding, d, nil
}

// joined holds the buffers of one call. A pool keeps them for later calls.
type joined struct {
	group [1]Group
	out   []Decision
}

func (t *together) join(c *Claim) *joined {
	j, ok := t.calls.Get().(*joined)
	if !ok {
		j = &joined{out: make([]Decision, len(t.limits))}
		j.group[0].Claims = make([]Claim, len(t.limits))
		for i, limit := range t.limits {
			j.group[0].Claims[i].Limit = limit
		}
	}
	for i := range j.group[0].Claims {
		claim := &j.group[0].Claims[i]
		claim.Key, claim.Cost, claim.At, claim.MaxDelay = c.Key, c.Cost, c.At, c.MaxDelay // the only fields that a Limiter sets
	}
	return j
}
