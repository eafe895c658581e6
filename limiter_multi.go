package stint

import (
	"context"
	"slices"
	"sync"
)

// taker is the part of a [Store] that takes one claim.
type taker interface {
	Take(ctx context.Context, c Claim) (Decision, error)
}

// together takes claims as one atomic group: one on each limit of a limiter, or of
// all limiters of a joint one.
type together struct {
	store  Store
	claims []Claim   // templates: the Limit, Policy and Local of each claim
	keyOf  []int     // by claim: the index of its key among those of a joint request
	calls  sync.Pool // a pool of *joined
}

// add adds a claim under the key of the given index. It must not be called once
// the first request has come.
func (t *together) add(template Claim, key int) {
	t.claims, t.keyOf = append(t.claims, template), append(t.keyOf, key)
}

func (t *together) limits() []Limit {
	var all []Limit
	for i := range t.claims {
		all = append(all, t.claims[i].Limit)
	}
	return all
}

// Take returns the decision of the group, as [Combine] returns it. It takes the
// key, cost, time and delay of c, and ignores the rest.
func (t *together) Take(ctx context.Context, c Claim) (Decision, error) {
	j := t.join(&c)
	defer t.calls.Put(j)
	_, d, err := t.take(ctx, j, j.out)
	return d, err
}

// takeKeys is Take for the keys of a joint request. (Take does not call it: one
// more copy of the decision takes a tenth of the time of a check.)
func (t *together) takeKeys(ctx context.Context, c *Claim, keys []string) (Decision, error) {
	j := t.join(c)
	defer t.calls.Put(j)
	t.setKeys(j, keys)
	_, d, err := t.take(ctx, j, j.out)
	return d, err
}

// takeBinding is Take or, with keys, takeKeys, and returns the index of the binding
// claim as well.
func (t *together) takeBinding(ctx context.Context, c *Claim, keys []string) (binding int, d Decision, err error) {
	j := t.join(c)
	defer t.calls.Put(j)
	if keys != nil {
		t.setKeys(j, keys)
	}
	return t.take(ctx, j, j.out)
}

// takeEach is takeBinding, and writes the decision of each claim into out.
func (t *together) takeEach(ctx context.Context, c *Claim, keys []string, out []Decision) (binding int, d Decision, err error) {
	j := t.join(c)
	defer t.calls.Put(j)
	if keys != nil {
		t.setKeys(j, keys)
	}
	return t.take(ctx, j, out)
}

func (t *together) setKeys(j *joined, keys []string) {
	claims := j.group[0].Claims
	for i := range claims {
		claims[i].Key = keys[t.keyOf[i]]
	}
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
		j = &joined{out: make([]Decision, len(t.claims))}
		j.group[0].Claims = slices.Clone(t.claims)
	}
	for i := range j.group[0].Claims {
		claim := &j.group[0].Claims[i]
		claim.Key, claim.Cost, claim.At, claim.MaxDelay = c.Key, c.Cost, c.At, c.MaxDelay // all others are those of the template
	}
	return j
}
