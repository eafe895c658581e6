package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

func (c *compiler) compileRule(d *rawRule) *Rule {
	r := &Rule{
		ID: d.id.text, at: d.id.at, Version: d.version.text, Tier: d.tier.text, Mode: d.mode,
		Headers: dialects()[d.dialect], RetryJitter: c.jitter(d.retryJitter),
		Policy: stint.Policy{
			Consistency: stint.Consistency(d.consistency), OnFailure: stint.OnFailure(d.onFailure), Replicas: uint8(c.whole("replicas", d.replicas, 0, 0, maxReplicas)),
		},
		Store:   c.storeOf(d),
		any:     d.any,
		denyAll: d.denyAll,
	}
	c.store = r.Store
	r.identity = identity{c.identityBy(d.by), d.missing}
	r.match = c.compileMatch(&d.match)
	r.match.tier = c.tierOf(d)
	r.cost = c.compileCost(d.cost)
	c.compileLimits(d, r)
	c.checkShaper(d, r)
	c.compileLocal(d, r)
	c.compilePenalty(d, r)
	c.compileLists(&r.lists, d.lists)
	if !r.lists.deny.empty() && r.Mode == Enforce {
		c.set.rulesDeny = true
	}
	return r
}

// checkShaper rejects a leaky bucket that is not strict, because a place in its
// queue cannot be leased.
func (c *compiler) checkShaper(d *rawRule, r *Rule) {
	if r.Policy.Consistency == stint.Strict {
		return
	}
	for _, limits := range r.byTier {
		for _, l := range limits {
			if l.Algorithm() == stint.LeakyBucket {
				c.mistake(d.consistencyAt, "consistency: a leaky_bucket must be strict", "remove it, or use another algorithm")
			}
		}
	}
}

// tierOf returns the index of the rule's declared tier. An undeclared name is
// only a label.
func (c *compiler) tierOf(d *rawRule) int32 {
	if d.tier.text == "" {
		return noTier
	}
	if i, declared := c.set.tiers.byName[d.tier.text]; declared {
		return i
	}
	mend := "declare it under tiers, if it is meant to select requests"
	if len(c.set.tiers.names) > 0 {
		mend = nearestMend(d.tier.text, c.set.tiers.names)
	}
	c.warn(d.tier.at, fmt.Sprintf("tier %.80q is not declared: it is a label and selects nothing", d.tier.text), mend)
	return noTier
}

func (c *compiler) jitter(t located) float64 {
	if t.text == "" {
		return 0
	}
	share, ok := decimal(t.text)
	if !ok || share.Sign() < 0 || share.Num().Cmp(share.Denom()) > 0 {
		c.mistake(t.at, fmt.Sprintf("retry_jitter: %.40q is not a share", t.text), "use a number from 0 to 1, such as 0.2")
		return 0
	}
	f, _ := share.Float64()
	return f
}

// identityBy returns the attributes of an identity, by default the API key.
func (c *compiler) identityBy(by []located) (slots []slot) {
	if len(by) > maxOfRule {
		c.mistake(by[maxOfRule].at, fmt.Sprintf("by: names %d attributes", len(by)), fmt.Sprintf("use at most %d", maxOfRule))
		by = by[:maxOfRule]
	}
	for _, t := range by {
		name := c.attributeName(t)
		s := c.slotOf(name, t.at)
		if slices.Contains(slots, s) {
			c.mistake(t.at, fmt.Sprintf("by: %.80q is named twice", name), "remove one")
		}
		slots = append(slots, s)
	}
	if len(by) == 0 {
		return []slot{slotAPIKey}
	}
	return slots
}

// slotOf returns the slot of an attribute that a rule reads.
func (c *compiler) slotOf(name string, at position) slot {
	s := c.set.slots.of(name)
	c.set.mentions = append(c.set.mentions, mention{s, at})
	return s
}

// attributeName returns the name under which the attribute is read from
// requests.
func (c *compiler) attributeName(t located) string {
	name := t.text
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		if !isToken(header) {
			c.mistake(t.at, fmt.Sprintf("%.80q is not a header name", t.text), "write it as header:X-Tenant")
		}
		return AttributeName(name)
	}
	if len(name) > maxPattern || stint.ValidateKey(name) != nil {
		c.mistake(t.at, "an attribute's name has control characters or is too long", fmt.Sprintf("use at most %d bytes of text", maxPattern))
		return name
	}
	known := wellKnownNames[:]
	if near := nearestOf(name, known); near != "" && near != name {
		c.warn(t.at, fmt.Sprintf("HTTP requests have no attribute %.80q", name), "did you mean "+near+"?")
	}
	return name
}

// isToken reports whether text is a valid header or method name (RFC 9110,
// §5.6.2).
func isToken(text string) bool {
	for _, b := range []byte(text) {
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b)) {
			return false
		}
	}
	return text != "" && len(text) <= 256
}

// maxReplicas is the largest value of replicas. A decision waits for the
// slowest of them.
const maxReplicas = 16

// compileCost parses a cost: a number or the name of an attribute.
func (c *compiler) compileCost(t located) cost {
	if t.text == "" {
		return cost{}
	}
	if !numberLike(t.text) {
		return cost{kind: costAttribute, slot: c.slotOf(c.attributeName(t), t.at)}
	}
	return cost{kind: costNumber, number: c.whole("cost", t, 0, 0, stint.MaxCost)}
}

// numberLike reports whether text looks like a number, valid or not.
func numberLike(text string) bool {
	switch strings.ToLower(text) {
	case "nan", "inf", "infinity", "true", "false":
		return true
	}
	return strings.ContainsAny(text[:1], "+-.0123456789")
}
