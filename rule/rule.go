package rule

import (
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// Mode selects what a rule does when a request exceeds its limits.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // deny the request
	Shadow              // decide and count, but never deny
	Off                 // ignore the rule
)

// modeNames are the names of the modes in rule files, by mode.
var modeNames = []string{"enforce", "shadow", "off"}

// String returns the name of the mode in rule files.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// Rule is one rule of a [Set]. It is immutable.
type Rule struct {
	ID      string
	Version string // the rule's version in its file; may be empty
	Tier    string // the tier or label in the file; may be empty
	Mode    Mode
	// Headers is the dialect of the response headers: "standard" (the default),
	// "ietf", "ietf-03", "x-ratelimit", "unix-reset" or "none".
	Headers string
	// RetryJitter is the largest share of the retry time, 0 to 1, that is added at
	// random to the retry time of a denial. 0 adds nothing.
	RetryJitter float64
	// Policy is set on every claim of the rule.
	Policy stint.Policy
	// Store names the store that counts the rule, where there are several; empty is the
	// default one. Its limits have the same [stint.Spec.Store].
	Store string
	// Local is the limit that replaces the rule's own limits while the store fails,
	// and LocalBy is the identity that it counts by. Local is invalid when the rule
	// configures none. LocalBy is empty when Local counts by the rule's own
	// identity.
	Local   stint.Limit
	LocalBy []string
	// Penalty punishes callers that keep exceeding the limits. Nil adds nothing to
	// the denials.
	Penalty *Penalty

	at           position // of the id
	match        conditions
	identity     identity
	local        identity // identity for Local; a request without these attributes counts by its address
	cost         cost
	any          bool // alternatives: it suffices that one of the limits admits
	denyAll      bool
	lists        lists
	perTier      bool // limits depend on the request's tier
	byTier       variants
	sources      []string // of the rates in byTier, as in Explained.Source
	overrides    []override
	overriddenBy selector
	temporaries  []override
	temporarily  selector
}

// Effective holds the limits that a rule applies to one kind of request.
type Effective struct {
	// Tier is the tier of these requests. It is empty for requests of every tier;
	// in a list that also has entries with a tier, it is empty for requests without
	// a tier.
	Tier string
	// Override is the key, glob or network of an override. It is empty for requests
	// that no override matches.
	Override string
	// Limits is empty when the rule does not count these requests.
	Limits []stint.Limit
}

// Effective lists the limits of the rule for each kind of request, with the
// values inherited from tiers and defaults filled in.
func (r *Rule) Effective(s *Set) (list []Effective) {
	for _, o := range append([]override{{byTier: r.byTier}}, r.overrides...) {
		for i, limits := range o.byTier {
			e := Effective{Tier: r.Tier, Override: o.key, Limits: limits}
			if r.perTier && i > 0 {
				e.Tier = s.tiers.names[i-1]
			}
			list = append(list, e)
		}
	}
	return list
}

// Any reports whether a request is admitted as soon as one of the limits admits
// it.
func (r *Rule) Any() bool { return r.any }

// DenyAll reports whether the rule denies every request that it matches.
func (r *Rule) DenyAll() bool { return r.denyAll }

// limitsOf returns the limits that apply to a request with the given key. The
// result is empty when the rule does not apply.
func (q *request) limitsOf(r *Rule, key string) []stint.Limit {
	if len(r.byTier) == 0 { // a zero rule
		return nil
	}
	t := 0
	if r.perTier {
		t = int(q.tierOf()) + 1
	}
	if i, ok := q.overrideOf(r, &r.temporarily, key); ok {
		return r.temporaries[i].byTier[t]
	}
	if i, ok := q.overrideOf(r, &r.overriddenBy, key); ok {
		return r.overrides[i].byTier[t]
	}
	return r.byTier[t]
}

// overrideOf looks for an override by the identity if that is a single
// attribute, then by the API key, then by the address.
func (q *request) overrideOf(r *Rule, overrides *selector, key string) (int32, bool) {
	if overrides.empty() {
		return 0, false
	}
	if r.named(key) {
		if i, ok := q.selectedByText(overrides, key); ok {
			return i, true
		}
	}
	return q.selected(overrides)
}

// named reports whether an override can match the key by its text: the key must
// be one attribute that the request carries, not a substitute for a missing
// one. So "*" matches every API key, but not a request without one.
func (r *Rule) named(key string) bool {
	return len(r.identity.by) == 1 && !strings.HasPrefix(key, markIP) && key != markShared
}
