package guard

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// shardCall is the call of a round to one shard.
type shardCall struct {
	shard *shard
	call  breaker.Call
	open  bool  // the breaker refuses
	worst class // the greatest class of the outcomes of its parts
	err   error // the error of that class
}

// beginCalls asks the breakers of the shards of a part, each once a round.
func (r *round) beginCalls(f *outcome) {
	if f.wrong {
		return
	}
	for i := range f.claims {
		v := r.callOf(&f.claims[i], f.waits)
		switch {
		case v.open && f.err == nil:
			f.shard, f.err = v.shard, errRefused
		case f.shard == nil:
			f.shard = v.shard
		}
	}
}

// callOf returns the call to the shard of a claim whose group may wait for replicas.
// The claim is valid, unless the store has only one shard.
func (r *round) callOf(c *stint.Claim, waits bool) *shardCall {
	shard := r.guard.shards.ofValid(c).judging(waits)
	for i := range r.calls {
		if r.calls[i].shard == shard {
			return &r.calls[i]
		}
	}
	call, ok := shard.begin()
	r.calls = append(r.calls, shardCall{shard: shard, call: call, open: !ok})
	return &r.calls[len(r.calls)-1]
}

// firstCall returns one of the calls that the breakers let through. All of them began
// at the same time.
func (r *round) firstCall() breaker.Call {
	for i := range r.calls {
		if !r.calls[i].open {
			return r.calls[i].call
		}
	}
	return breaker.Call{}
}

// markHealthy records that every shard answered.
func (r *round) markHealthy() {
	for i := range r.calls {
		r.calls[i].worst = classAnswered
	}
}

// assignErrors gives each part that was sent its error, if it has one.
func (r *round) assignErrors(ctx context.Context, err error) {
	errs, err := stint.PartErrors(err, len(r.outcomes)-r.refused)
	n := 0
	for i := range r.outcomes {
		f := &r.outcomes[i]
		if f.err != nil {
			continue
		}
		if errs != nil {
			err = errs[n]
		}
		r.assignError(ctx, f, err)
		n++
	}
}

// assignError records the error of a part, or its success, for each of its shards. The
// failing shard is not known. A shard that works has successes beside such failures; a
// shard that is down has none.
func (r *round) assignError(ctx context.Context, f *outcome, err error) {
	b := classAnswered
	if err != nil {
		b = classify(ctx, err)
		f.err, f.final = err, !b.degrades()
	}
	if f.wrong {
		return
	}
	for i := range f.claims {
		if v := r.callOf(&f.claims[i], f.waits); b >= v.worst {
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
