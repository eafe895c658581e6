package guard

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// shardCall is the call of a round to one shard.
type shardCall struct {
	shard *shard
	call  breaker.Call
	open  bool  // the breaker refuses
	worst class // what the errors of its groups say of it; zero: nothing
	err   error // the one that says it
}

// beginCalls asks the breakers of a group's shards, each once a round.
func (r *round) beginCalls(g *stint.Group, f *outcome) {
	for i := range g.Claims {
		v := r.callOf(&g.Claims[i], f.waits)
		switch {
		case v == nil:
		case v.open && f.err == nil:
			f.shard, f.err = v.shard, errRefused
		case f.shard == nil:
			f.shard = v.shard
		}
	}
}

// callOf returns the shard of a claim, whose group may wait for replicas; nil
// for one that is wrong, which the store refuses by itself.
func (r *round) callOf(c *stint.Claim, waits bool) *shardCall {
	shards := &r.guard.shards
	if shards.only == nil && c.Validate() != nil {
		return nil
	}
	shard := shards.ofValid(c).judging(waits)
	for i := range r.calls {
		if r.calls[i].shard == shard {
			return &r.calls[i]
		}
	}
	call, ok := shard.begin()
	r.calls = append(r.calls, shardCall{shard: shard, call: call, open: !ok})
	return &r.calls[len(r.calls)-1]
}

// firstCall is any of the calls that breakers let through: they all began now.
func (r *round) firstCall() breaker.Call {
	for i := range r.calls {
		if !r.calls[i].open {
			return r.calls[i].call
		}
	}
	return breaker.Call{}
}

// markHealthy notes that all answered.
func (r *round) markHealthy() {
	for i := range r.calls {
		r.calls[i].worst = classAnswered
	}
}

// assignErrors gives each group that was sent its error, or none.
func (r *round) assignErrors(ctx context.Context, err error, sent int) {
	var partial *stint.GroupsError
	if !errors.As(err, &partial) || len(partial.Errs) != sent {
		partial = nil
	}
	n := 0
	for i := range r.groups {
		if r.outcomes[i].err != nil {
			continue
		}
		if partial != nil {
			err = partial.Errs[n]
		}
		r.assignError(ctx, i, err)
		n++
	}
}

// assignError records the error of a group, or its success, for each of its shards. The
// failing shard is not known. A shard that works has successes beside such failures; a
// shard that is down has none.
func (r *round) assignError(ctx context.Context, group int, err error) {
	b := classAnswered
	if err != nil {
		b = classify(ctx, err)
		r.outcomes[group].err, r.outcomes[group].final = err, !b.degrades()
	}
	claims, waits := r.groups[group].Claims, r.outcomes[group].waits
	for i := range claims {
		if v := r.callOf(&claims[i], waits); v != nil && b >= v.worst {
			v.worst, v.err = b, err
		}
	}
}

// report reports the calls to the breakers. It skips slow calls to several shards,
// unless they failed: the duration says nothing of any one shard.
func (r *round) report() {
	for i := range r.calls {
		v := &r.calls[i]
		if v.open || len(r.calls) > 1 && v.worst != classFailure && v.call.Elapsed() >= r.guard.shards.breaker.SlowAfter {
			continue
		}
		v.shard.report(v.call, v.worst, v.err)
	}
}
