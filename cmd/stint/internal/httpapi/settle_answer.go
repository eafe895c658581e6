package httpapi

import (
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// answered is the result of one item of a batch, apart from its JSON.
type answered struct {
	face   stint.Decision
	closed bool // denied because the store failed
}

// settle appends the answer to an item and counts it, or returns the error that prevented
// a decision.
func (b *batch) settle(out []byte, i *item) ([]byte, answered, error) {
	switch {
	case i.err != nil:
		return out, answered{}, i.err
	case b.err != nil && i.groups.to > i.groups.from:
		return out, answered{}, b.err
	case i.isCheck:
		return b.settleCheck(out, i)
	}
	return b.settleTake(out, i)
}

func (b *batch) settleCheck(out []byte, i *item) ([]byte, answered, error) {
	var errs []error
	if b.errs != nil {
		errs = b.errs[i.groups.from:i.groups.to]
	}
	o := &b.outcome
	if err := i.plan.Settle(b.decisions[i.decisions.from:i.decisions.to], errs, o); err != nil {
		return out, answered{}, err
	}
	b.version.Count(i.plan, o)
	return appendOutcome(out, o), answered{o.Decision, closed(o)}, nil
}

func (b *batch) settleTake(out []byte, i *item) ([]byte, answered, error) {
	if b.errs != nil && b.errs[i.groups.from] != nil {
		return out, answered{}, b.errs[i.groups.from]
	}
	claims, decisions := b.groups[i.groups.from].Claims, b.decisions[i.decisions.from:i.decisions.to]
	_, face := stint.Combine(claims, decisions)
	onFailure := claims[0].Policy.OnFailure
	b.server.metrics.CountTake(&face, onFailure)
	return appendTaken(out, &face, claims, decisions), answered{face, closedClaim(&face, onFailure)}, nil
}

// observe records the duration of every item that could be read.
func (b *batch) observe(took time.Duration) {
	for i := range b.items {
		switch it := &b.items[i]; {
		case it.err != nil:
		case it.isCheck:
			b.server.metrics.ObserveCheck(metrics.Check, took)
		default:
			b.server.metrics.ObserveCheck(metrics.Take, took)
		}
	}
}
