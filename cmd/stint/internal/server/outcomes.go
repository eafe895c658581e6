package server

import (
	"sync"

	"github.com/stintdev/stint/rule"
)

// outcomePool keeps outcomes, so that a decision needs no new slice.
type outcomePool struct{ pool sync.Pool }

func (p *outcomePool) get() *rule.Outcome {
	if o, ok := p.pool.Get().(*rule.Outcome); ok {
		return o
	}
	return new(rule.Outcome)
}

// put takes an outcome back. Its hits name callers, so they are dropped.
func (p *outcomePool) put(o *rule.Outcome) {
	clear(o.Hits)
	*o = rule.Outcome{Hits: o.Hits[:0]}
	p.pool.Put(o)
}
