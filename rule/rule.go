package rule

import (
	"strings"

	"github.com/stintdev/stint"
)

// Mode says what a rule does when its limits exceed.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // denies
	Shadow              // decides and counts, never denies
	Off                 // is not looked at
)

// Rule is one rule of a [Set]. It never changes.
type Rule struct {
	ID      string
	Version string // of this rule, as its file says; may be empty
	Tier    string // the tier or label that the file names; may be empty
	Mode    Mode
	// Headers is the dialect of response headers: "standard" (the default),
	// "ietf", "ietf-03", "x-ratelimit" or "none".
	Headers string
	// RetryJitter is the share of the retry time, 0 to 1, that is added to
	// it at random on a denial. 0 adds none.
	RetryJitter float64
	// Policy travels with every claim of the rule.
	Policy stint.Policy
	// Local is the limit that stands in for the rule's own while the store
	// fails, and LocalBy its identity. Local is invalid when the rule names
	// none; LocalBy is empty when it is the rule's own identity.
	Local   stint.Limit
	LocalBy []string
	// Penalty is what happens to who keeps hitting the limits; nil: nothing
	// but the denials.
	Penalty *Penalty

	match        conditions
	identity     identity
	local        identity // of Local; a request without it counts by its address
	cost         cost
	any          bool // one of the limits that admits is enough
	denyAll      bool
	lists        lists
	perTier      bool // takes the numbers of the request's tier
	byTier       variants
	overrides    []override
	overriddenBy selector
	temporaries  []override
	temporarily  timed
}

// Effective is the limits that a rule has for some requests.
type Effective struct {
	// Tier is whose requests these are; empty for every request or, beside
	// others with a tier, for those without one.
	Tier string
	// Override is the key, glob or network of an override; empty for all
	// that no override names.
	Override string
	// Limits is empty when the rule does not count such requests.
	Limits []stint.Limit
}

// Effective lists the limits of the rule with everything taken from tiers and
// defaults: what each kind of request meets.
func (r *Rule) Effective(s *Set) (list []Effective) {
	list = r.byTier.effective(r, s, "")
	for i := range r.overrides {
		list = append(list, r.overrides[i].byTier.effective(r, s, r.overrides[i].key)...)
	}
	return list
}

func (v variants) effective(r *Rule, s *Set, override string) (list []Effective) {
	for i, limits := range v {
		e := Effective{Tier: r.Tier, Override: override, Limits: limits}
		if r.perTier && i > 0 {
			e.Tier = s.tiers.names[i-1]
		}
		list = append(list, e)
	}
	return list
}

// Any reports whether one of the limits that admits is enough.
func (r *Rule) Any() bool { return r.any }

// DenyAll reports whether the rule denies all that it matches.
func (r *Rule) DenyAll() bool { return r.denyAll }

// limitsOf returns the limits that the rule has for the request, whose key is
// given; none when the rule does not apply.
func (q *request) limitsOf(r *Rule, key string) []stint.Limit {
	if len(r.byTier) == 0 { // a zero rule
		return nil
	}
	t := 0
	if r.perTier {
		t = int(q.tierOf()) + 1
	}
	if !r.temporarily.empty() {
		if i, ok := q.temporaryOf(r, key); ok {
			return r.temporaries[i].byTier[t]
		}
	}
	if !r.overriddenBy.empty() {
		if i, ok := q.overrideOf(r, key); ok {
			return r.overrides[i].byTier[t]
		}
	}
	return r.byTier[t]
}

// temporaryOf is overrideOf for those that end, and have not.
func (q *request) temporaryOf(r *Rule, key string) (int32, bool) {
	if r.named(key) {
		if i, ok := q.liveText(&r.temporarily, key); ok {
			return i, true
		}
	}
	return q.live(&r.temporarily)
}

// overrideOf finds an override by the identity, when it is one attribute, then
// by the API key, then by the address.
func (q *request) overrideOf(r *Rule, key string) (int32, bool) {
	if r.named(key) {
		if i, ok := r.overriddenBy.byText(key, &q.buffer); ok {
			return i, true
		}
	}
	return q.selected(&r.overriddenBy)
}

// named reports whether an override can name the key by its text: it is one
// attribute that the request brought, not what stands in for a missing one. So
// "*" is every API key, and no request without one.
func (r *Rule) named(key string) bool {
	return len(r.identity.by) == 1 && !strings.HasPrefix(key, markIP) && key != markShared
}
