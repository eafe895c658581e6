package guard

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/storekit"
)

// shardCall is the call of TakeGroups to one shard.
type shardCall struct {
	shard *shard
	call  breaker.Call
	open  bool  // the breaker refuses
	worst class // the greatest class of the outcomes of its parts
	err   error // the error of that class
}

// beginCalls asks the breakers of the shards of a part, each once for all groups of the
// call.
func (gc *groupCall) beginCalls(o *outcome) {
	if o.invalid {
		return
	}
	for i := range o.claims {
		sc := gc.callOf(&o.claims[i], o.waits)
		switch {
		case sc.open && o.err == nil:
			o.shard, o.err = sc.shard, errRefused
		case o.shard == nil:
			o.shard = sc.shard
		}
	}
}

// callOf returns the call to the shard of a claim whose group may wait for replicas.
// The claim is valid, unless the store has only one shard.
func (gc *groupCall) callOf(c *stint.Claim, waits bool) *shardCall {
	shard := gc.guard.shards.ofValid(c).target(waits)
	for i := range gc.calls {
		if gc.calls[i].shard == shard {
			return &gc.calls[i]
		}
	}
	call, ok := shard.begin()
	gc.calls = append(gc.calls, shardCall{shard: shard, call: call, open: !ok})
	return &gc.calls[len(gc.calls)-1]
}

// firstCall returns one of the calls that the breakers let through. All of them began
// at the same time.
func (gc *groupCall) firstCall() breaker.Call {
	for i := range gc.calls {
		if !gc.calls[i].open {
			return gc.calls[i].call
		}
	}
	return breaker.Call{}
}

// onlyShard returns the name of the shard that the call is sent to, and "" if there are
// several.
func (gc *groupCall) onlyShard() (name string) {
	sent := 0
	for i := range gc.calls {
		if !gc.calls[i].open {
			name = gc.calls[i].shard.name
			sent++
		}
	}
	if sent > 1 {
		return ""
	}
	return name
}

// markHealthy records that every shard answered.
func (gc *groupCall) markHealthy() {
	for i := range gc.calls {
		gc.calls[i].worst = classAnswered
	}
}

// assignErrors gives each part that was sent its error, if it has one.
func (gc *groupCall) assignErrors(ctx context.Context, err error) {
	errs, err := storekit.PartErrors(err, len(gc.outcomes)-gc.refused)
	n := 0
	for i := range gc.outcomes {
		o := &gc.outcomes[i]
		if o.err != nil {
			continue
		}
		if errs != nil {
			err = errs[n]
		}
		gc.assignError(ctx, o, err)
		n++
	}
}

// assignError records the error of a part, or its success, for each of its shards. The
// failing shard is not known. A shard that works has successes beside such failures; a
// shard that is down has none.
func (gc *groupCall) assignError(ctx context.Context, o *outcome, err error) {
	found := classAnswered
	if err != nil {
		found = classify(ctx, err)
		o.err, o.final = err, !found.degrades()
	}
	if found == classRule {
		gc.guard.noteUnconfirmed(err)
	}
	if o.invalid {
		return
	}
	for i := range o.claims {
		if sc := gc.callOf(&o.claims[i], o.waits); found >= sc.worst {
			sc.worst, sc.err = found, err
		}
	}
}

// report reports the calls to the breakers. It skips slow calls to several shards,
// unless they failed: the duration says nothing of any one shard.
func (gc *groupCall) report() {
	for i := range gc.calls {
		sc := &gc.calls[i]
		if sc.open || len(gc.calls) > 1 && sc.worst != classFailure && sc.call.Elapsed() >= gc.guard.shards.breaker.SlowAfter {
			continue
		}
		sc.shard.report(sc.call, sc.worst, sc.err)
	}
}
