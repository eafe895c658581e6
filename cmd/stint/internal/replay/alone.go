package replay

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// aloneJudge finds for each rule, and for each limit of a rule with several, which events it
// denies if there is no other.
//
// A rule by itself charges requests that another rule denies, and so its counters differ from
// those of all rules together. But they differ only for the keys of such requests, which are few
// in most traffic. So a key has counters of its own from the first request that the rule admits
// and another rule denies: they begin as a copy of those of all rules together, which that
// request did not change. Until then, what the rule does alone is what it does beside the others.
// This takes no second look at the counters of most keys, which would be as slow as the first,
// and no memory for a second set of them. Where others deny most requests, most keys have counters
// of their own, and those that no request charged have no others.
//
// When another store than a memory store decides, its counters cannot be copied. All keys then
// have counters of their own from the first request on.
//
// When a deny list or a rule denied a request without the store, the claims of the other rules
// are missing. Each rule then decides the request as a set of its own.
type aloneJudge struct {
	counts    *attribution
	together  *stint.Memory // counts for all rules together; nil: another store does
	rules     ownCounters   // of rules
	limits    ownCounters   // of single limits, of rules with several
	sets      []*rule.Set   // each has one rule, in the order of counts
	groups    []stint.Group // of the rules whose keys have counters of their own
	hits      []rule.Hit    // of these groups
	decisions []stint.Decision
	outcome   rule.Outcome
	charged   rulesStore
	now       int64 // time of the event in work
}

func newAloneJudge(set *rule.Set, a *attribution, together *stint.Memory) *aloneJudge {
	j := &aloneJudge{counts: a, together: together, charged: rulesStore{record: true}}
	for _, r := range set.Rules() {
		if r.Mode != rule.Off {
			j.sets = append(j.sets, set.Only(r))
		}
	}
	clock := func() time.Time { return time.UnixMicro(j.now) }
	j.rules, j.limits = newOwnCounters(clock, len(a.counts)), newOwnCounters(clock, a.limits)
	return j
}

// decide decides an event once more, after all rules together did. sent are the claims that these
// sent to the store.
func (j *aloneJudge) decide(ctx context.Context, o *rule.Outcome, sent []stint.Claim, e *plannedEvent) error {
	j.now = e.t
	if len(sent) == 0 && !o.Decision.Allowed {
		return j.eachRule(ctx, e)
	}
	j.groups, j.hits = j.groups[:0], j.hits[:0]
	for i := range j.counts.judged {
		of := &j.counts.judged[i]
		if len(sent) == 0 || sent[0].Limit != of.hits[0].Limit || sent[0].Key != of.hits[0].Key {
			j.deniedWithoutStore(of) // by a rule in shadow mode
			continue
		}
		claims := sent[:len(of.hits)]
		sent = sent[len(of.hits):]
		charged := o.Decision.Allowed && !of.denied
		if err := j.eachLimit(ctx, of, claims, charged); err != nil {
			return err
		}
		if err := j.rule(of, claims, charged); err != nil {
			return err
		}
	}
	return j.takeGroups(ctx)
}

// rule counts a rule that denies the event alone. If the key has counters of its own, they decide,
// in takeGroups. charged says whether the event charged the counters of all rules together.
func (j *aloneJudge) rule(of *judged, claims []stint.Claim, charged bool) error {
	if len(j.sets) == 1 { // it is alone
		return nil
	}
	own := &j.rules.sets[of.number]
	for i := range of.hits {
		own.learn(of.hits[i].Limit)
	}
	switch {
	case j.isOwn(own, of.hash):
	case of.denied:
		j.counts.counts[of.number].Alone++
		return nil
	case charged:
		return nil
	default:
		if err := j.rules.begin(own, j.together, of.hits[0].Key, of.hash); err != nil {
			return err
		}
	}
	j.groups, j.hits = append(j.groups, stint.Group{Claims: claims}), append(j.hits, of.hits...)
	for i := range claims {
		claims[i].Limit = j.rules.copies.of(claims[i].Limit)
	}
	return nil
}

// takeGroups decides the claims of the rules whose keys have counters of their own.
func (j *aloneJudge) takeGroups(ctx context.Context) error {
	if len(j.groups) == 0 {
		return nil
	}
	if err := j.take(ctx); err != nil {
		return err
	}
	for i := range j.hits {
		j.hits[i].Decision = j.decisions[i]
	}
	for hits := range byRule(j.hits) {
		j.count(hits)
	}
	return nil
}

// take decides the groups. A group with an invalid claim, which only a shadow rule can have,
// is allowed, as the rules have it.
func (j *aloneJudge) take(ctx context.Context) error {
	j.decisions = slices.Grow(j.decisions[:0], len(j.hits))[:len(j.hits)]
	errs, whole := storekit.PartErrors(j.rules.store.TakeGroups(ctx, j.groups, j.decisions), len(j.groups))
	if whole != nil {
		return whole
	}
	decisions := j.decisions
	for i := range j.groups {
		n := len(j.groups[i].Claims)
		for d := range decisions[:n] {
			if errs != nil && errs[i] != nil {
				decisions[d] = stint.Decision{Allowed: true}
			}
		}
		decisions = decisions[n:]
	}
	return nil
}

// count counts a rule that denies the event by itself.
func (j *aloneJudge) count(hits []rule.Hit) {
	if denies(hits) {
		j.counts.counts[j.counts.numbers[hits[0].Rule]].Alone++
	}
}

// eachLimit decides the claims of a rule with several limits one by one.
func (j *aloneJudge) eachLimit(ctx context.Context, of *judged, claims []stint.Claim, charged bool) error {
	if j.counts.counts[of.number].Limits == nil {
		return nil
	}
	hits := of.hits
	for i := range hits {
		l := j.counts.counts[of.number].limit(hits[i].Limit)
		if l == nil {
			continue
		}
		own := &j.limits.sets[l.number]
		own.learn(hits[i].Limit)
		denied := !hits[i].Decision.Allowed
		if !j.isOwn(own, of.hash) && !denied && !charged {
			if err := j.limits.begin(own, j.together, hits[i].Key, of.hash); err != nil {
				return err
			}
		}
		if j.isOwn(own, of.hash) {
			claim := claims[i]
			claim.Limit = j.limits.copies.of(claim.Limit)
			d, err := j.limits.store.Take(ctx, claim)
			if err != nil && !invalid(err) {
				return err
			}
			denied = err == nil && !d.Allowed
		}
		if denied {
			l.Alone++
		}
	}
	return nil
}

// isOwn reports whether the key with this hash has counters of its own.
func (j *aloneJudge) isOwn(own *ownKeys, hash uint64) bool { return j.together == nil || own.has(hash) }

// deniedWithoutStore counts a rule that denies without the store, whichever rules there are.
func (j *aloneJudge) deniedWithoutStore(of *judged) {
	j.counts.counts[of.number].Alone++
	j.deniedLimits(of.number, of.hits)
}

// deniedLimits counts the limits of a rule that denies without the store.
func (j *aloneJudge) deniedLimits(n int, hits []rule.Hit) {
	for i := range hits {
		if l := j.counts.counts[n].limit(hits[i].Limit); l != nil {
			l.Alone++
		}
	}
}

// eachRule decides an event by each rule as a set of its own. All rules together did not charge
// it, so the counters of its keys can still be copied.
func (j *aloneJudge) eachRule(ctx context.Context, e *plannedEvent) error {
	for n, set := range j.sets {
		j.charged.Store = &oneRule{j, n}
		j.charged.begin(e.cost, e.at)
		err := set.DecideInto(ctx, &j.charged, &e.event, max(e.cost, -e.cost), &j.outcome)
		if invalid(err) {
			continue // the event has no value that this rule accepts
		}
		if err != nil {
			return err
		}
		hits := j.outcome.Hits
		if len(hits) == 0 {
			continue
		}
		j.count(hits)
		if len(j.charged.sent) != len(hits) {
			j.deniedLimits(n, hits)
			continue
		}
		for i := range hits {
			hits[i].Decision = stint.Decision{Allowed: true} // unknown: the limit decides with counters of its own
		}
		of := judged{number: n, hits: hits, hash: maphash.String(j.counts.seed, hits[0].Key)}
		if err := j.eachLimit(ctx, &of, j.charged.sent, false); err != nil {
			return err
		}
	}
	return nil
}

// oneRule is the store of one rule alone. Each key in it has counters of its own.
type oneRule struct {
	*aloneJudge

	rule int // its index in counts
}

// Take implements [stint.Store].
func (s *oneRule) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if err := s.begin(&c); err != nil {
		return stint.Decision{}, err
	}
	return s.rules.store.Take(ctx, c)
}

// TakeGroups implements [stint.Store].
func (s *oneRule) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for c := range storekit.Claims(groups) {
		if err := s.begin(c); err != nil {
			return err
		}
	}
	return s.rules.store.TakeGroups(ctx, groups, out)
}

// begin gives the key of a claim counters of its own.
func (s *oneRule) begin(c *stint.Claim) error {
	own := &s.rules.sets[s.rule]
	own.learn(c.Limit)
	hash := maphash.String(s.counts.seed, c.Key)
	if s.isOwn(own, hash) {
		return nil
	}
	return s.rules.begin(own, s.together, c.Key, hash)
}

// ownCounters are the counters of keys that have their own, for a number of rules or limits.
type ownCounters struct {
	store  *stint.Memory
	copies limitCopies
	sets   []ownKeys
}

func newOwnCounters(clock func() time.Time, sets int) ownCounters {
	c := ownCounters{memoryStore(clock), limitCopies{}, make([]ownKeys, sets)}
	for i := range c.sets {
		c.sets[i] = ownKeys{keys: map[uint64]struct{}{}, known: map[stint.Limit]struct{}{}}
	}
	return c
}

// begin gives a key counters of its own: a copy of those in another store.
func (c *ownCounters) begin(own *ownKeys, from *stint.Memory, key string, hash uint64) error {
	own.keys[hash] = struct{}{}
	for _, l := range own.limits {
		if err := c.store.CopyState(from, l, key); err != nil {
			return err
		}
	}
	return nil
}

// ownKeys are the keys of a rule or of a limit that have counters of their own.
type ownKeys struct {
	keys   map[uint64]struct{} // by their hash: texts would take more memory than the counters
	limits []stint.Limit       // that have decided so far: one of those that share counters
	known  map[stint.Limit]struct{}
	latest stint.Limit
}

func (o *ownKeys) has(hash uint64) bool {
	_, own := o.keys[hash]
	return own
}

// learn notes a limit that decides an event. A rule has several, by tier and by override.
func (o *ownKeys) learn(l stint.Limit) {
	if l == o.latest {
		return
	}
	o.latest = l
	if _, known := o.known[l]; known {
		return
	}
	o.known[l] = struct{}{}
	if !slices.ContainsFunc(o.limits, func(other stint.Limit) bool { return other.Name() == l.Name() && other.Shape() == l.Shape() }) {
		o.limits = append(o.limits, l)
	}
}

// limitCopies are copies of limits for one more store. A limit remembers where it is in the last
// memory store that wrote a state under it, so two stores that share limits are slow.
type limitCopies map[stint.Limit]stint.Limit

func (c limitCopies) of(l stint.Limit) stint.Limit {
	other, known := c[l]
	if !known {
		var err error
		if other, err = l.Spec().Compile(); err != nil {
			other = l // it works, only slower
		}
		c[l] = other
	}
	return other
}
