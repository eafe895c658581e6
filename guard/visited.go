package guard

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// visited is a shard that some group of a round is of.
type visited struct {
	shard *shard
	call  breaker.Call
	open  bool  // the breaker refuses
	worst blame // what the errors of its groups say of it; zero: nothing
	err   error // the one that says it
}

// visitShards asks the breakers of a group's shards, each once a round.
func (r *round) visitShards(g *stint.Group, f *fate) {
	for i := range g.Claims {
		v := r.visitedBy(&g.Claims[i], f.waits)
		switch {
		case v == nil:
		case v.open && f.err == nil:
			f.shard, f.err = v.shard, errRefused
		case f.shard == nil:
			f.shard = v.shard
		}
	}
}

// visitedBy returns the shard of a claim, whose group may wait for replicas; nil
// for one that is wrong, which the store refuses by itself.
func (r *round) visitedBy(c *stint.Claim, waits bool) *visited {
	shards := &r.guard.shards
	if shards.only == nil && c.Validate() != nil {
		return nil
	}
	shard := shards.ofValid(c).judging(waits)
	for i := range r.visited {
		if r.visited[i].shard == shard {
			return &r.visited[i]
		}
	}
	call, ok := shard.begin()
	r.visited = append(r.visited, visited{shard: shard, call: call, open: !ok})
	return &r.visited[len(r.visited)-1]
}

// firstCall is any of the calls that breakers let through: they all began now.
func (r *round) firstCall() breaker.Call {
	for i := range r.visited {
		if !r.visited[i].open {
			return r.visited[i].call
		}
	}
	return breaker.Call{}
}

// praise notes that all answered.
func (r *round) praise() {
	for i := range r.visited {
		r.visited[i].worst = blameNone
	}
}

// spread gives each group that was sent its error, or none.
func (r *round) spread(ctx context.Context, err error, sent int) {
	var partial *stint.GroupsError
	if !errors.As(err, &partial) || len(partial.Errs) != sent {
		partial = nil
	}
	n := 0
	for i := range r.groups {
		if r.fates[i].err != nil {
			continue
		}
		if partial != nil {
			err = partial.Errs[n]
		}
		r.blame(ctx, i, err)
		n++
	}
}

// blame notes the error of a group, if it has one, for each of its shards:
// which of them it was is not known, but only one that fails for good has no
// successes beside its failures.
func (r *round) blame(ctx context.Context, group int, err error) {
	b := blameNone
	if err != nil {
		b = blameFor(ctx, err)
		r.fates[group].err, r.fates[group].final = err, !b.degrades()
	}
	claims, waits := r.groups[group].Claims, r.fates[group].waits
	for i := range claims {
		if v := r.visitedBy(&claims[i], waits); v != nil && b >= v.worst {
			v.worst, v.err = b, err
		}
	}
}

// report tells the breakers. How long a call to several shards took says
// nothing of any one of them.
func (r *round) report() {
	for i := range r.visited {
		v := &r.visited[i]
		if v.open || len(r.visited) > 1 && v.worst != blameStore && v.call.Elapsed() >= r.guard.shards.breaker.SlowAfter {
			continue
		}
		v.shard.report(v.call, v.worst, v.err)
	}
}
