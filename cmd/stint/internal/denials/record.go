package denials

import (
	"cmp"
	"hash/maphash"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// Recorder records the denials of one rule set.
type Recorder struct {
	recent *Recent
	places map[*rule.Rule]place
}

// Record records the outcome of a request if it denies. A cost of 0 only looks, and is recorded
// only if a deny list denies it. on is the number of the surface, in Options.Surfaces.
func (c *Recorder) Record(on uint8, a rule.Attributes, cost int64, o *rule.Outcome) {
	if o.Allowed() || cost == 0 && o.List != rule.ListDeny {
		return
	}
	r := c.recent
	apiKey, _ := a.Attribute("api_key")
	path, _ := a.Attribute("path")
	if o.Binding < 0 {
		r.recordListed(on, a, apiKey, path, cost, o)
		return
	}
	h := &o.Hits[o.Binding]
	at, known := c.places[h.Rule]
	if !known {
		at = r.none
	}
	ring, e := r.lock(at.share, h.Key)
	if ring == nil {
		return
	}
	r.fill(e, &o.Decision)
	e.surface, e.list, e.cost, e.id = on, uint8(o.List), cost, 0
	from := 0
	if at.rule != "" {
		from = e.put(rulePart, 0, at.rule)
	}
	from = e.put(limitPart, from, h.Limit.Name())
	from = e.putKey(from, h.Key)
	if apiKey == h.Key {
		e.states |= keyIsAPIKey
	} else {
		from = e.put(apiKeyPart, from, apiKey)
	}
	e.put(pathPart, e.putIdentities(from, apiKey, o), path)
	ring.mu.Unlock()
}

// putIdentities copies the keys of the other limits, because the path may show them too.
func (e *entry) putIdentities(from int, apiKey string, o *rule.Outcome) int {
	binding, last, part := o.Hits[o.Binding].Key, "", identityPart
	for i := range o.Hits {
		key := o.Hits[i].Key
		if key == binding || key == apiKey || key == last {
			continue
		}
		if part == pathPart {
			e.states |= hidePath
			break
		}
		from = e.put(part, from, key)
		last = key
		part++
	}
	return from
}

// recordListed records a denial by no limit: that of a deny list.
func (r *Recent) recordListed(on uint8, a rule.Attributes, apiKey, path string, cost int64, o *rule.Outcome) {
	ip, _ := a.Attribute("ip")
	key := cmp.Or(apiKey, ip)
	ring, e := r.lock(r.none.share, key)
	if ring == nil {
		return
	}
	r.fill(e, &stint.Decision{At: o.Decision.At})
	e.surface, e.list, e.cost, e.id = on, uint8(o.List), cost, 0
	if e.states = 0; apiKey != "" {
		e.states = keyIsAPIKey
	}
	from := e.putKey(0, key)
	if ip != key {
		from = e.put(identityPart, from, ip)
	}
	e.put(pathPart, from, path)
	ring.mu.Unlock()
}

// RecordTake records the denial of a take: its binding claim and the combined decision. Peeks
// are not recorded. The entry has no name of a limit, because the caller chooses it.
func (r *Recent) RecordTake(on uint8, c *stint.Claim, d *stint.Decision) {
	if c.Cost <= 0 {
		return
	}
	at := r.takes
	if !c.Limit.FromCaller() { // another Stint server brings the limit of its rule
		at.rule = c.Limit.Rule()
	}
	r.record(on, &at, "", c, d)
}

// RecordEnvoy records a decision on a request from Envoy if it denies.
func (r *Recent) RecordEnvoy(on uint8, d *envoyrls.Decided) {
	if d.Allowed || d.Cost <= 0 {
		return
	}
	at := &r.envoy
	if d.Rule == emergency.Rule {
		at = &r.emergency
	}
	r.record(on, at, d.Limit, &stint.Claim{Key: d.Key, Cost: d.Cost}, &d.Decision)
}

// record records the denial of a claim that has no attributes, at a place unless the limit of
// the emergency denies it. The id is that of package topkeys, which counts the claim.
func (r *Recent) record(on uint8, at *place, limit string, c *stint.Claim, d *stint.Decision) {
	if c.Limit.Rule() == emergency.Rule {
		at = &r.emergency
	}
	ring, e := r.lock(at.share, c.Key)
	if ring == nil {
		return
	}
	r.fill(e, d)
	e.surface, e.list, e.cost = on, uint8(rule.ListNone), c.Cost
	e.id = topkeys.ID(topkeys.Hash(c.Key), topkeys.Hash(c.Limit.Rule()), c.Limit.FromCaller())
	e.putKey(e.put(limitPart, e.put(rulePart, 0, at.rule), limit), c.Key)
	ring.mu.Unlock()
}

// lock returns the place of the next denial of a key, and its ring, locked. It returns nil if
// the share has no room, or is being resized at this moment.
func (r *Recent) lock(s *share, key string) (*ring, *entry) {
	spread := uint32(maphash.String(r.seed, key))
	rings := *s.rings.Load()
	one := &rings[spread&uint32(len(rings)-1)]
	one.mu.Lock()
	if len(one.entries) == 0 {
		one.mu.Unlock()
		return nil, nil
	}
	e := one.takeLocked()
	e.spread = spread
	return one, e
}

// fill writes what a decision says, and clears the texts. Its caller holds the lock of the ring.
func (r *Recent) fill(e *entry, d *stint.Decision) {
	e.turn, e.at = r.turn.Load(), d.At
	if e.at == 0 { // no limit counted the request
		e.at = r.options.Now().UnixMicro()
	}
	e.limit, e.remaining, e.retry = d.Limit, d.Remaining, d.RetryAfter
	e.penalty, e.states = uint8(d.Penalty), hasNumbers
	if d.Degraded {
		e.states |= degraded
	}
	e.lengths, e.cut = [partCount]uint8{}, 0
}
