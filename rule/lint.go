package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// lint warns about valid text that is probably unintended: conditions that no request can
// meet, rules and limits that others always preempt, and logins that fail open.
func (c *compiler) lint() {
	alike := make(map[string]int32)
	for i, r := range c.set.rules {
		d := c.raw.rules[i]
		if r.Mode == Off {
			continue
		}
		c.lintMatch(r, d)
		c.lintOverrides(r, d)
		c.lintLimits(r, d)
		c.lintLists(r, d)
		c.lintSensitive(r, d)
		c.findShared(r, d)
		if key := r.conditionsText(); r.Mode == Enforce {
			if first, known := alike[key]; known {
				c.lintAlike(c.set.rules[first], r, d)
			} else {
				alike[key] = int32(i)
			}
		}
	}
	c.lintTiers()
}

// findShared records a strict rule that does not tell callers apart.
func (c *compiler) findShared(r *Rule, d *rawRule) {
	if r.Policy.Consistency == stint.Strict && !r.denyAll && !r.identity.tellsCallersApart() {
		shared := c.shared[r.Store]
		c.add(&shared, d.at, "rule "+r.ID+" is strict, and all its callers charge the same key", "set consistency: leased, or count by api_key or ip, too")
		c.shared[r.Store] = shared
	}
}

// lintMatch warns about contradictory conditions.
func (c *compiler) lintMatch(r *Rule, d *rawRule) {
	m, begin, regex := &r.match, r.match.regexPrefix(), d.match.regex.text
	begins := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	switch {
	case m.path != "" && !hasPathPrefix(m.path, m.prefix):
		c.warn(d.match.path.at, "rule "+r.ID+" matches nothing: its path does not begin with its path_prefix", "remove one of them")
	case m.path != "" && m.regex != nil && !m.regex.MatchString(m.path):
		c.warn(d.match.regex.at, "rule "+r.ID+" matches nothing: its endpoint_regex does not match its path", "remove one of them")
	case strings.HasSuffix(regex, "/$") && !strings.Contains(regex, "|") && !m.regex.MatchString("/"):
		c.warn(d.match.regex.at, "rule "+r.ID+" matches nothing: paths are matched without a / at their end", "remove the / before the $")
	case begin != "" && begin[0] != '/':
		c.warn(d.match.regex.at, "rule "+r.ID+" matches nothing: paths begin with /", "write ^/")
	case strings.Contains(strings.ToUpper(regex), "%2F"):
		c.warn(d.match.regex.at, "rule "+r.ID+" matches nothing unless the server keeps paths encoded: its endpoint_regex has an encoded slash", "write /, or serve with --path-encoding keep")
	case begin != "" && m.prefix != "" && !begins(begin, m.prefix) && !begins(begin+"/", m.prefix):
		c.warn(d.match.regex.at, "rule "+r.ID+" matches nothing: its endpoint_regex and its path_prefix begin differently", "remove one of them")
	}
}

// lintOverrides warns about overrides for keys that the rule does not match.
func (c *compiler) lintOverrides(r *Rule, d *rawRule) {
	if r.match.apiKey == nil || len(r.identity.by) != 1 || r.identity.by[0] != slotAPIKey {
		return
	}
	for _, list := range [][]rawOverride{d.override, d.temporary} {
		for i := range list {
			g := newGlob(list[i].key.text)
			if _, isNetwork := parseNetwork(g.text); !isNetwork && g.exact() && !r.match.apiKey.match(g.text) {
				c.warn(list[i].key.at, "rule "+r.ID+" has an override for a key that it does not match", "widen its api_key_pattern, or remove the override")
			}
		}
	}
}

// lintLimits warns about a limit that another limit of the rule always
// preempts.
func (c *compiler) lintLimits(r *Rule, d *rawRule) {
	if r.any || len(d.numbers.limits) < 2 || len(r.byTier[0]) != len(d.numbers.limits) {
		return
	}
	limits := r.byTier[0]
	for i, l := range limits {
		for j, other := range limits {
			if i != j && within(other, l) && (j < i || !within(l, other)) {
				c.warn(d.numbers.limits[i].at, fmt.Sprintf("limit %s of rule %s never denies: %s always does before", l.Name(), r.ID, other.Name()), "remove it, or lower it")
				break
			}
		}
	}
}

// within reports whether the second limit allows everything that the first
// allows, for the same identity and from the start.
func within(first, second stint.Limit) bool {
	a, b := first.Algorithm(), second.Algorithm()
	bucket := func(a stint.Algorithm) bool { return a == stint.TokenBucket || a == stint.GCRA }
	switch {
	case bucket(a) && bucket(b):
		return first.Max() <= second.Max() && first.Rate().Cmp(second.Rate()) <= 0
	case a != b || first.Max() > second.Max():
		return false
	case a == stint.SlidingWindowLog:
		return first.Window() >= second.Window()
	case a == stint.FixedWindow:
		return first.Window()%second.Window() == 0
	}
	return false
}

// lintLists warns about a rule whose callers are all on a list of the set.
func (c *compiler) lintLists(r *Rule, d *rawRule) {
	if r.match.apiKey == nil {
		return
	}
	for name, list := range map[string]*selector{"allow": &c.set.lists.allow, "deny": &c.set.lists.deny} {
		if list.covers(r.match.apiKey) {
			c.warn(d.match.apiKey.at, fmt.Sprintf("rule %s counts nobody: every key that it matches is on the %s list", r.ID, name), "remove it, or the entry")
		}
	}
}

// covers reports whether every text that the pattern matches has a value that
// does not expire.
func (s *selector) covers(pattern *glob) bool {
	stays := func(value int32) bool { return s.untils == nil || s.untils[value] == forever }
	if value, ok := s.exact[pattern.text]; ok && pattern.exact() && stays(value) {
		return true
	}
	return slices.ContainsFunc(s.prefixes.collect(pattern.prefix(), nil), func(i int32) bool {
		g := &s.globs[i] // the prefix of the glob is a prefix of the pattern
		return stays(s.values[i]) && (g.text == pattern.text || len(g.segments) == 2 && g.segments[1] == "" && g.prefix() == g.segments[0])
	})
}

// lintAlike warns about a rule that matches and counts the same requests as an
// earlier rule.
func (c *compiler) lintAlike(first, r *Rule, d *rawRule) {
	switch {
	case first.denyAll:
		c.warn(d.at, fmt.Sprintf("rule %s counts nothing: rule %s denies everything that it matches", r.ID, first.ID), "remove one of them")
	case first.plain() && r.plain() && within(first.byTier[0][0], r.byTier[0][0]):
		c.warn(d.at, fmt.Sprintf("rule %s never denies: rule %s matches the same requests and always does before", r.ID, first.ID), "remove it, or lower it")
	}
}

// plain reports whether the rule has exactly one limit, and no overrides, lists
// or cost of its own.
func (r *Rule) plain() bool {
	return len(r.byTier) == 1 && len(r.byTier[0]) == 1 && len(r.overrides)+len(r.temporaries) == 0 && r.lists.allow.empty() && r.lists.deny.empty() && r.cost.kind == costOfCaller
}

// conditionsText returns a text that is equal for rules that match and count
// the same requests.
func (r *Rule) conditionsText() string {
	m := &r.match
	var b strings.Builder
	fmt.Fprintf(&b, "%d %q %q %q %q %v %v %d", m.tier, m.methods, m.path, m.prefix, m.host, m.cidrs, r.identity.by, r.identity.missing)
	if m.apiKey != nil {
		fmt.Fprintf(&b, " key %q", m.apiKey.text)
	}
	if m.regex != nil {
		fmt.Fprintf(&b, " regex %q", m.regex.String())
	}
	for i := range m.headers {
		fmt.Fprintf(&b, " header %d %q", m.headers[i].slot, m.headers[i].glob.text)
	}
	return b.String()
}

// lintTiers warns about tiers with the same pattern and about a set that denies
// everyone.
func (c *compiler) lintTiers() {
	first := map[string]string{}
	for i := range c.raw.tiers {
		t := &c.raw.tiers[i]
		if other, known := first[t.pattern.text]; known && t.pattern.text != "" {
			c.warn(t.pattern.at, fmt.Sprintf("tier %s selects no key: tier %s has the same pattern", t.name.text, other), "give it a pattern of its own, or none")
		} else {
			first[t.pattern.text] = t.name.text
		}
	}
	for i, r := range c.set.rules {
		if r.denyAll && r.Mode == Enforce && r.identity.missing != missingSkip && r.match.anything() {
			c.warn(c.raw.rules[i].at, "rule "+r.ID+" denies every request", "give it a match, unless this is intended")
		}
	}
}

// anything reports whether the conditions match every request.
func (c *conditions) anything() bool {
	return c.tier == noTier && len(c.methods)+len(c.headers)+len(c.cidrs) == 0 && c.path == "" && (c.prefix == "" || c.prefix == "/") && c.host == "" && c.apiKey == nil && c.regex == nil
}
