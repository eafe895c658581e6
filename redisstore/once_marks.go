package redisstore

import (
	"errors"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// mark makes the marks of the groups that may be repeated, on a Cluster. A mark says in
// the slot of an ID which group has it. All marks of a call on one server travel together.
//
// A group whose mark cannot be made is taken without one: its own record still keeps it
// from being charged twice.
func (p *plan) mark() {
	if p.onces == nil || !p.store.encoding.cluster || p.ctx.Err() != nil {
		return
	}
	var marked []*onceCall
	for _, o := range p.onces {
		if o == nil || o.err != nil {
			continue
		}
		if o.mode = p.store.encoding.modeOfNew(); o.mode != onceFind {
			marked = append(marked, o)
		}
	}
	p.sendMarks(marked, onceMark, func(o *onceCall, status byte) {
		switch status {
		case statusConflict:
			o.err = storekit.OnceConflict()
		case statusRemembered:
			o.marked = true
			p.store.encoding.noteRecord(len(o.name())*3, answerHead)
		}
	})
}

// unmark deletes the marks that this call has made for groups that were refused.
func (p *plan) unmark() {
	if p.onces == nil || !p.store.encoding.cluster {
		return
	}
	var unused []*onceCall
	part, first := 0, 0
	for i := range p.groups {
		g := &p.groups[i]
		if o := p.onces[i]; o != nil && o.marked && uncharged(g, p.out[first:first+len(g.Claims)], p.errs.Of(part)) {
			unused = append(unused, o)
		}
		claims, parts := stint.Sizes(p.groups[i : i+1])
		part, first = part+parts, first+claims
	}
	p.sendMarks(unused, onceUnmark, func(*onceCall, byte) {})
}

// uncharged reports whether a group was certainly not charged: it was denied, or a budget of
// callers is used up.
func uncharged(g *stint.Group, decisions []stint.Decision, err error) bool {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Kind == stint.KindCallerBudget || e.Kind == stint.KindOnceBudget
	}
	_, binding := stint.Combine(g.Claims, decisions)
	return err == nil && !binding.Allowed
}

// sendMarks runs once.lua on the marks of the IDs, by one round trip to each server, and
// passes the status of each to answered.
func (p *plan) sendMarks(onces []*onceCall, mode onceMode, answered func(*onceCall, byte)) {
	byNode := map[*node][]*onceCall{}
	for _, o := range onces {
		n := p.store.topology.nodeOf(crc16(o.name()) % slots)
		byNode[n] = append(byNode[n], o)
	}
	for n, own := range byNode {
		calls, replies := make([]invocation, len(own)), make([]reply, len(own))
		for i, o := range own {
			calls[i] = p.store.encoding.markCall(o, mode)
		}
		n.send(p.ctx, calls, replies)
		for i, o := range own {
			if data := replies[i].data; replies[i].err == nil && len(data) == answerHead+onceTrailer {
				answered(o, data[answerHead+1])
			}
		}
	}
}

// markCall returns the call of once.lua on the mark of an ID.
func (e *encoding) markCall(o *onceCall, mode onceMode) invocation {
	name, call := o.name(), *o
	call.mode = mode
	key := string(e.appendKey(nil, name, markMark, name))
	return invocation{script: e.once, keys: []string{key}, args: append([]string{string(e.appendTimes(nil))}, call.args(false)...)}
}
