package rule

import (
	"errors"
	"slices"

	"github.com/stintdev/stint"
)

// A canary applies a new set of rules to a share of the callers while the others keep the old
// one. Both sets count in one store, where a limit whose numbers alone differ is one limit. A
// caller belongs to one side, so the counts of a rule that counts each caller alone have one set
// of numbers. A rule whose counts several callers share has requests of both sides: its numbers
// would change with every request, and neither side would have the limit that its set states.
// In a canary such a rule therefore keeps its old numbers.

// SplitBy returns the attribute by which a canary of next beside s splits the callers: "api_key",
// or "ip" if neither set counts or matches by the API key. With "api_key", a request without a
// key is split by its address.
func (s *Set) SplitBy(next *Set) string {
	for _, one := range []*Set{s.orZero(), next.orZero()} {
		reads := slices.ContainsFunc(one.mentions, func(m mention) bool { return m.slot == slotAPIKey })
		counts := slices.ContainsFunc(one.rules, func(r *Rule) bool {
			return r.Mode != Off && (slices.Contains(r.identity.by, slotAPIKey) || r.match.apiKey != nil)
		})
		if reads || counts || !one.tiers.byKey.empty() {
			return "api_key"
		}
	}
	return "ip"
}

// Caller returns the text that identifies the caller of a request, in the form in which rules
// count it: its API key, or else its address; with by "ip", its address alone. It is "" for a
// request that has neither or that rules would refuse.
func (s *Set) Caller(a Attributes, by string) string {
	q := s.borrow(a, 0)
	defer s.release(q)
	if by != "ip" {
		if key, ok := q.get(slotAPIKey); ok {
			return key
		}
	}
	if ip, ok := q.get(slotIP); ok {
		return markIP + ip
	}
	return ""
}

// Canary returns next as a canary beside s applies it when the callers are split by the given
// attribute, and the ids of the rules that keep the limits and the penalty of s: those that have
// others in next, and whose counts callers of both sides share. The error says that next
// identifies callers in another way, so that the split would not hold.
func (s *Set) Canary(next *Set, by string) (canary *Set, kept []string, err error) {
	s, next = s.orZero(), next.orZero()
	switch {
	case !slices.Equal(s.sources, next.sources):
		return nil, nil, errors.New("identity: a canary cannot change it, because it says which requests are one caller (publish the change to all callers)")
	case s.ipv6Bits != next.ipv6Bits:
		return nil, nil, errors.New("ipv6_prefix: a canary cannot change it, because it says which addresses are one caller (publish the change to all callers)")
	}
	split := slotAPIKey
	if by == "ip" {
		split = slotIP
	}
	canary = next.WithPathEncoding(next.pathEncoding)
	canary.rules = slices.Clone(next.rules)
	for i, r := range canary.rules {
		old := s.Rule(r.ID)
		if old == nil || !s.sharesCounts(old, next, r, split) {
			continue
		}
		if own := r.withLimitsOf(old, next, s); !own.sameLimits(r) {
			canary.rules[i] = own
			kept = append(kept, r.ID)
		}
	}
	return canary, kept, nil
}

// sharesCounts reports whether requests of callers on both sides can have the same counts under
// the old and the new form of a rule.
func (s *Set) sharesCounts(old *Rule, next *Set, r *Rule, split slot) bool {
	if old.Mode == Off || r.Mode == Off || old.denyAll || r.denyAll {
		return false // one side counts nothing
	}
	if !slices.Equal(s.By(old), next.By(r)) {
		return false // the keys differ, so the counts do
	}
	return !old.countsAlone(split) || !r.countsAlone(split)
}

// countsAlone reports whether no two callers share a count of the rule. Requests without an API
// key are split by their address: they share a count only if the rule has one for all of them.
func (r *Rule) countsAlone(split slot) bool {
	return slices.Contains(r.identity.by, split) && (split == slotIP || r.identity.missing != missingShared)
}

// withLimitsOf returns r with the limits and the penalty of old. The tiers of the sets may
// differ: a new tier gets what requests without a tier have.
func (r *Rule) withLimitsOf(old *Rule, set, oldSet *Set) *Rule {
	tiers := func(v variants) variants {
		if !old.perTier {
			return v
		}
		own := variants{v[0]}
		for _, name := range set.tiers.names {
			if i, known := oldSet.tiers.byName[name]; known {
				own = append(own, v[i+1])
			} else {
				own = append(own, v[0])
			}
		}
		return own
	}
	overrides := func(list []override) (own []override) {
		for _, o := range list {
			own = append(own, override{o.key, tiers(o.byTier)})
		}
		return own
	}
	own := *r
	own.Store = old.Store // it is that of the limits
	own.perTier, own.byTier, own.sources = old.perTier, tiers(old.byTier), nil
	own.overrides, own.overriddenBy = overrides(old.overrides), old.overriddenBy
	own.temporaries, own.temporarily = overrides(old.temporaries), old.temporarily
	own.Penalty = old.Penalty
	for i := range own.byTier {
		own.sources = append(own.sources, old.sources[min(i, len(old.sources)-1)])
	}
	return &own
}

// sameLimits reports whether two forms of a rule of one set have the same limits and the same
// penalty.
func (r *Rule) sameLimits(other *Rule) bool {
	same := func(a, b override) bool { return a.key == b.key && a.byTier.same(b.byTier) }
	return r.byTier.same(other.byTier) && slices.EqualFunc(r.overrides, other.overrides, same) &&
		slices.EqualFunc(r.temporaries, other.temporaries, same) && slices.Equal(r.temporarily.untils, other.temporarily.untils) &&
		r.Penalty.same(other.Penalty)
}

// same reports whether two variants have the same limits for each tier. One entry stands for all
// tiers.
func (v variants) same(other variants) bool {
	for i := range max(len(v), len(other)) {
		if !slices.EqualFunc(v[min(i, len(v)-1)], other[min(i, len(other)-1)], sameLimit) {
			return false
		}
	}
	return true
}

func (p *Penalty) same(other *Penalty) bool {
	if p == nil || other == nil {
		return p == other
	}
	return slices.EqualFunc(p.Limits(), other.Limits(), sameLimit) && p.Denials == other.Denials && p.HotKey == other.HotKey &&
		slices.Equal(p.cooldowns, other.cooldowns) && p.ban == other.ban
}

func sameLimit(a, b stint.Limit) bool {
	return a.Valid() == b.Valid() && (!a.Valid() || a.Spec() == b.Spec())
}
