package rule

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// anchor is a condition under which an index can file a rule.
type anchor struct {
	kind anchorKind
	slot slot // the attribute, for kind exact
	text string
}

type anchorKind uint8

const (
	exact     anchorKind = iota // the attribute equals the text
	pathBegin                   // the path begins with the text
	keyBegin                    // the API key begins with the text
	hostBelow                   // the host is a subdomain of the text
	network                     // the address is in the network
)

// index finds the rules that a request may match, without testing every rule.
// Each rule is filed under the one of its conditions that the fewest other
// rules share. A rule that has no such condition is in rest, which is tested
// for every request.
type index struct {
	exact    []exactIndex
	paths    trie
	keys     trie
	hosts    map[string][]int32
	networks networks
	rest     []int32
	used     [network + 1]bool
}

type exactIndex struct {
	slot   slot
	values map[string][]int32
}

// newIndex indexes all rules except those with mode Off.
func newIndex(rules []*Rule, tiers []string) *index {
	choices := make([][][]anchor, len(rules))
	crowd := make(map[anchor]int)
	for i, r := range rules {
		if r.Mode == Off {
			continue
		}
		tier := ""
		if r.match.tier != noTier {
			tier = tiers[r.match.tier]
		}
		choices[i] = r.match.anchors(tier)
		for _, anchors := range choices[i] {
			for _, a := range anchors {
				crowd[a]++
			}
		}
	}
	x := &index{hosts: make(map[string][]int32)}
	for i, r := range rules {
		if r.Mode != Off {
			x.add(leastCrowded(choices[i], crowd), int32(i))
		}
	}
	return x
}

// leastCrowded returns the choice whose most crowded anchor holds the fewest
// rules.
func leastCrowded(choices [][]anchor, crowd map[anchor]int) (best []anchor) {
	least := 0
	for _, anchors := range choices {
		fullest := 0
		for _, a := range anchors {
			fullest = max(fullest, crowd[a])
		}
		if best == nil || fullest < least {
			best, least = anchors, fullest
		}
	}
	return best
}

func (x *index) add(anchors []anchor, rule int32) {
	if len(anchors) == 0 {
		x.rest = append(x.rest, rule)
	}
	for _, a := range anchors {
		x.used[a.kind] = true
		switch a.kind {
		case exact:
			at := slices.IndexFunc(x.exact, func(e exactIndex) bool { return e.slot == a.slot })
			if at < 0 {
				at = len(x.exact)
				x.exact = append(x.exact, exactIndex{a.slot, make(map[string][]int32)})
			}
			x.exact[at].values[a.text] = append(x.exact[at].values[a.text], rule)
		case pathBegin:
			x.paths.add(a.text, rule)
		case keyBegin:
			x.keys.add(a.text, rule)
		case hostBelow:
			x.hosts[a.text] = append(x.hosts[a.text], rule)
		case network:
			p, _ := parseNetwork(a.text)
			x.networks.add(p, rule)
		}
	}
}

// collect appends the rules that the request may match, in file order.
func (x *index) collect(q *request, found []int32) []int32 {
	if x == nil { // a zero Set has no index
		return found
	}
	found = append(found, x.rest...)
	for i := range x.exact {
		if text, ok := q.indexed(x.exact[i].slot); ok {
			found = append(found, x.exact[i].values[text]...)
		}
	}
	if x.used[pathBegin] {
		if path, ok := q.get(slotPath); ok {
			found = x.paths.collect(path, found)
		}
	}
	if x.used[keyBegin] {
		if key, ok := q.get(slotAPIKey); ok {
			found = x.keys.collect(key, found)
		}
	}
	if x.used[hostBelow] {
		host, _ := q.get(slotHost)
		for {
			_, below, more := strings.Cut(host, ".")
			if !more {
				break
			}
			found, host = append(found, x.hosts[below]...), below
		}
	}
	if x.used[network] {
		if a, ok := q.ip(); ok {
			found = x.networks.collect(a, found)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// indexed returns the attribute value to look up in an exact index. For the
// tier it is the declared tier.
func (q *request) indexed(s slot) (string, bool) {
	if s != slotTier {
		return q.get(s)
	}
	if t := q.tierOf(); t != noTier {
		return q.set.tiers.names[t], true
	}
	return "", false
}

// anchors lists the conditions under which the rule can be filed, the cheapest
// to look up first. A rule that is filed under a choice must be filed under
// every anchor of that choice.
func (c *conditions) anchors(tier string) (choices [][]anchor) {
	one := func(kind anchorKind, s slot, text string) {
		if text != "" {
			choices = append(choices, []anchor{{kind, s, text}})
		}
	}
	either := func(kind anchorKind, s slot, decoded, kept string) {
		one(kind, s, decoded)
		if kept != decoded && decoded != "" && kept != "" {
			last := &choices[len(choices)-1]
			*last = append(*last, anchor{kind, s, kept})
		}
	}
	either(exact, slotPath, c.path, c.kept.path)
	either(pathBegin, 0, strings.TrimSuffix(c.prefix, "/"), strings.TrimSuffix(c.kept.prefix, "/"))
	one(pathBegin, 0, c.regexPrefix())
	if below, wild := strings.CutPrefix(c.host, "*."); wild {
		one(hostBelow, 0, below)
	} else {
		one(exact, slotHost, c.host)
	}
	if c.apiKey != nil && c.apiKey.exact() {
		one(exact, slotAPIKey, c.apiKey.text)
	} else if c.apiKey != nil {
		one(keyBegin, 0, c.apiKey.prefix())
	}
	for _, h := range c.headers {
		if h.glob.exact() {
			one(exact, h.slot, h.glob.text)
		}
	}
	one(exact, slotTier, tier)
	var methods, networks []anchor
	for _, m := range c.methods {
		methods = append(methods, anchor{exact, slotMethod, m})
	}
	for _, p := range c.cidrs {
		networks = append(networks, anchor{network, 0, p.String()})
	}
	for _, anchors := range [][]anchor{methods, networks} {
		if len(anchors) > 0 {
			choices = append(choices, anchors)
		}
	}
	return choices
}

// regexPrefix returns the literal text that every match of the expression
// begins with. It returns "" when the expression is not anchored or does not
// begin with a literal.
func (c *conditions) regexPrefix() string {
	if c.regex == nil {
		return ""
	}
	tree, err := syntax.Parse(c.regex.String(), syntax.Perl)
	if err != nil {
		return ""
	}
	if tree = tree.Simplify(); tree.Op != syntax.OpConcat || tree.Sub[0].Op != syntax.OpBeginText {
		return ""
	}
	var prefix strings.Builder
	for _, part := range tree.Sub[1:] {
		if part.Op != syntax.OpLiteral || part.Flags&syntax.FoldCase != 0 {
			break
		}
		prefix.WriteString(string(part.Rune))
	}
	return prefix.String()
}
