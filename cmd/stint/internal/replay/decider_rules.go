package replay

import (
	"context"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// rulesJudge decides every event by a rule set.
type rulesJudge struct {
	set     *rule.Set
	store   rulesStore
	format  Format
	keys    *keyTally
	numbers map[*rule.Rule]int // index in counts
	counts  []RuleCount
	event   timedFields
	outcome rule.Outcome
}

// timedFields are the fields of an event together with its time.
type timedFields struct {
	fields

	t int64
}

// At returns the time of the event.
func (f *timedFields) At() int64 { return f.t }

func newRulesJudge(store stint.Store, set *rule.Set, format Format, keys *keyTally) *rulesJudge {
	j := &rulesJudge{set: set, store: rulesStore{Store: store}, format: format, keys: keys, numbers: map[*rule.Rule]int{}}
	for _, r := range set.Rules() {
		if r.Mode == rule.Off {
			continue
		}
		mode := "enforce"
		if r.Mode == rule.Shadow {
			mode = "shadow"
		}
		j.numbers[r] = len(j.counts)
		j.counts = append(j.counts, RuleCount{Rule: r.ID, Mode: mode})
	}
	return j
}

func (j *rulesJudge) decide(ctx context.Context, p *pending, v *verdict) (err error) {
	if j.event.fields, _, err = j.format.fields(p.text, j.event.fields[:0]); err != nil {
		return err
	}
	j.event.t = p.t
	j.store.givesBack, j.store.at = p.cost < 0, p.at
	if err = j.set.DecideInto(ctx, &j.store, &j.event, max(p.cost, -p.cost), &j.outcome); err != nil {
		return err
	}
	j.tell(v)
	j.count()
	return nil
}

// tell sets the verdict from the outcome. An event on a list, or that no
// enforced rule counted, has no binding claim.
func (j *rulesJudge) tell(v *verdict) {
	*v = verdict{decision: j.outcome.Decision}
	for i := range j.outcome.Hits {
		if key := j.outcome.Hits[i].Key; key != "" {
			j.keys.see(key)
		}
	}
	face := j.face()
	if face == nil {
		return
	}
	v.rule, v.key = face.Rule.ID, rule.KeyText(face.Key)
	if !v.decision.Allowed && v.key != "" {
		j.keys.deny(v.key, j.show)
	}
}

// face returns the hit of the binding claim, or nil.
func (j *rulesJudge) face() *rule.Hit {
	if j.outcome.Face < 0 {
		return nil
	}
	return &j.outcome.Hits[j.outcome.Face]
}

// show masks the parts of a key that are credentials of the current event.
func (j *rulesJudge) show(key string) string {
	for _, f := range j.event.fields {
		if f.value != "" && secretAttribute(f.name) {
			key = strings.ReplaceAll(key, f.value, maskKey(f.value))
		}
	}
	return key
}

// count counts the event once for each rule that matched it.
func (j *rulesJudge) count() {
	hits := j.outcome.Hits
	for len(hits) > 0 {
		r := hits[0].Rule
		end := slices.IndexFunc(hits, func(h rule.Hit) bool { return h.Rule != r })
		if end < 0 {
			end = len(hits)
		}
		if n, ok := j.numbers[r]; ok {
			j.counts[n].count(j.denies(hits[:end]))
		}
		hits = hits[end:]
	}
}

// denies reports whether the rule of these hits decided a denial, or would have
// in shadow mode.
func (j *rulesJudge) denies(hits []rule.Hit) bool {
	if !hits[0].Shadow {
		face := j.face()
		return face != nil && face.Rule == hits[0].Rule && !j.outcome.Allowed()
	}
	denied := func(h rule.Hit) bool { return !h.Decision.Allowed }
	if hits[0].Rule.Any() {
		return !slices.ContainsFunc(hits, func(h rule.Hit) bool { return !denied(h) })
	}
	return slices.ContainsFunc(hits, denied)
}

func (j *rulesJudge) perRule() []RuleCount { return j.counts }

// rulesStore lets rules decide refunds. Rules know only positive costs, also
// where a rule sets its own cost. A refund is therefore decided as a request
// with the positive cost, and rulesStore negates the cost of its claims.
type rulesStore struct {
	stint.Store
	givesBack bool  // whether the current event is a refund
	at        int64 // when the cost was taken; 0: now
}

// Take passes the claim to the store.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.turn(&c)
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups to the store.
func (s *rulesStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.givesBack {
		return s.Store.TakeGroups(ctx, groups, out)
	}
	turned := slices.Clone(groups)
	for i := range turned {
		turned[i].Claims = slices.Clone(turned[i].Claims)
		for c := range turned[i].Claims {
			s.turn(&turned[i].Claims[c])
		}
	}
	return s.Store.TakeGroups(ctx, turned, out)
}

// turn makes a claim of a refund event a refund.
func (s *rulesStore) turn(c *stint.Claim) {
	if s.givesBack {
		c.Cost, c.At = -c.Cost, s.at
	}
}
