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
	store   takenAtStore
	format  Format
	keys    *keyTally
	numbers map[*rule.Rule]int // in counts
	counts  []RuleCount
	fields  fields
	outcome rule.Outcome
}

func newRulesJudge(store stint.Store, set *rule.Set, format Format, keys *keyTally) *rulesJudge {
	j := &rulesJudge{set: set, store: takenAtStore{Store: store}, format: format, keys: keys, numbers: map[*rule.Rule]int{}}
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
	if j.fields, _, err = j.format.fields(p.text, j.fields[:0]); err != nil {
		return err
	}
	j.store.at = p.at
	if err = j.set.DecideInto(ctx, &j.store, &j.fields, p.cost, &j.outcome); err != nil {
		return err
	}
	j.tell(v)
	j.count()
	return nil
}

// tell says which claim decided. An event on a list, or that no enforced rule
// matched, has none; one on a deny list would never be allowed.
func (j *rulesJudge) tell(v *verdict) {
	*v = verdict{decision: j.outcome.Decision}
	if v.decision.Allowed = j.outcome.Allowed(); j.outcome.List == rule.ListDeny {
		v.decision.RetryAfter = stint.Never
	}
	for i := range j.outcome.Hits {
		j.keys.see(j.outcome.Hits[i].Key)
	}
	if face := j.face(); face != nil {
		v.rule, v.key = face.Rule.ID, rule.KeyText(face.Key)
		if !v.decision.Allowed {
			j.keys.deny(v.key, j.show)
		}
	}
}

// face is the claim that decided; nil when none did.
func (j *rulesJudge) face() *rule.Hit {
	if j.outcome.Face < 0 {
		return nil
	}
	return &j.outcome.Hits[j.outcome.Face]
}

// show masks a key that holds a credential of the event at hand.
func (j *rulesJudge) show(key string) string {
	for _, f := range j.fields {
		if f.value != "" && secretAttribute(f.name) {
			key = strings.ReplaceAll(key, f.value, maskKey(f.value))
		}
	}
	return key
}

// count counts the event once for every rule that matched it.
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

// denies reports whether the rule of these hits decided a denial, or in
// shadow mode would have.
func (j *rulesJudge) denies(hits []rule.Hit) bool {
	if !hits[0].Shadow {
		face := j.face()
		return face != nil && face.Rule == hits[0].Rule && !j.outcome.Allowed()
	}
	return slices.ContainsFunc(hits, func(h rule.Hit) bool { return !h.Decision.Allowed })
}

func (j *rulesJudge) perRule() []RuleCount { return j.counts }

// takenAtStore adds to give-backs when they were taken: rules know of a
// request's cost, not of its past.
type takenAtStore struct {
	stint.Store
	at int64
}

// TakeGroups passes the groups on.
func (s *takenAtStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if s.at == 0 {
		return s.Store.TakeGroups(ctx, groups, out)
	}
	dated := make([]stint.Group, len(groups))
	for i, g := range groups {
		dated[i] = stint.Group{Claims: slices.Clone(g.Claims), Shadow: g.Shadow}
		for c := range dated[i].Claims {
			dated[i].Claims[c].At = s.at
		}
	}
	return s.Store.TakeGroups(ctx, dated, out)
}
