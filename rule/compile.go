package rule

import (
	"fmt"
	"regexp"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/shorthash"
)

// compiler builds a [Set] from the raw contents of the files and records mistakes.
type compiler struct {
	*findings
	raw     *rawFile
	set     *Set
	regexes map[string]*regexp.Regexp
	hashes  map[string]limitName
	// flawed means that a limit of the current rule has a mistake. The error that
	// the rule has too few limits is then skipped, because it follows from the
	// first.
	flawed bool
	store  string // of the current rule
	limits int    // number of limits compiled so far
	// regexSizes is the total size of all expressions so far.
	regexSizes int
}

// limitName identifies the limit that a short hash stands for.
type limitName struct{ rule, name, shape string }

func (c *compiler) compile() {
	c.set.version = c.raw.version.text
	c.set.ipv6Bits = int(c.whole("ipv6_prefix", c.raw.ipv6Prefix, 64, 32, 128))
	c.compileSources()
	c.checkNumbers(c.raw.defaults)
	c.compileTiers()
	c.compileLists(&c.set.lists, c.raw.lists)
	ids := make(map[string]position, len(c.raw.rules))
	for _, d := range c.raw.rules {
		if c.stop {
			return
		}
		c.checkID(d, ids)
		before := len(c.set.mentions)
		c.set.rules = append(c.set.rules, c.compileRule(d))
		if d.mode == Off {
			c.set.mentions = c.set.mentions[:before]
		}
	}
	if len(c.mistakes) == 0 {
		c.set.index = newIndex(c.set.rules, c.set.tiers.names)
		c.lint()
	}
}

func (c *compiler) checkID(d *rawRule, ids map[string]position) {
	if d.id.text == "" {
		c.mistake(d.at, "a rule has no id", "give it one of letters, digits and _ . : -; its counts are kept under it")
		return
	}
	c.checkName(d.id, "id")
	if first, taken := ids[d.id.text]; taken {
		c.mistake(d.id.at, fmt.Sprintf("id %.80q is taken", d.id.text), fmt.Sprintf("rename it, or the rule at %s:%d", c.files[first.file], first.line))
		return
	}
	ids[d.id.text] = d.id.at
}

func (c *compiler) compileTiers() {
	t := &c.set.tiers
	t.byName = make(map[string]int32, len(c.raw.tiers))
	for i := range c.raw.tiers {
		d := &c.raw.tiers[i]
		t.names, t.numbers = append(t.names, d.name.text), append(t.numbers, &d.numbers)
		t.byName[d.name.text] = int32(i)
		c.checkNumbers(&d.numbers)
		if d.pattern.text != "" && c.checkPattern(d.pattern) {
			t.byKey.addText(d.pattern.text, int32(i))
		}
		if d.pattern.text == "" { // only the attribute selects the tier
			c.slotOf(wellKnownNames[slotTier], d.name.at)
		}
	}
}

// checkNumbers rejects a place that has both a single limit and a list of
// limits.
func (c *compiler) checkNumbers(n *numbers) {
	if n.namesLimits() && n.level != nil && (n.level.namesRate() || n.level.has(pCapacity) || n.level.has(pWindow)) {
		c.mistake(n.at, "a limit and a list of limits are given", "move the limit into the list; only an algorithm may stand beside the list")
	}
}

func (c *compiler) compileLists(lists *lists, d rawLists) {
	for _, entry := range d.deny {
		if !c.checkEntry(entry.located) {
			continue
		}
		p, isNetwork := parseNetwork(entry.text)
		if g := newGlob(entry.text); isNetwork && p.Bits() == 0 || g.any() {
			c.mistake(entry.at, fmt.Sprintf("%q on the deny list would deny everyone", entry.text), "name fewer, or write a rule with deny_all: true")
		}
		lists.deny.addUntil(entry.text, entry.until)
	}
	for _, entry := range d.allow {
		if !c.checkEntry(entry.located) {
			continue
		}
		if _, isNetwork := parseNetwork(entry.text); !isNetwork {
			c.warn(entry.at, "an API key on the allow list is not verified: a caller that sends a matching key is not limited",
				"verify keys before Stint sees them, or list networks")
		}
		lists.allow.addUntil(entry.text, entry.until)
	}
}

var networkLike = regexp.MustCompile(`^[0-9]+\.[0-9.]+(/\d*)?$|^[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(/\d*)?$`)

// checkEntry rejects an entry that looks like an address or network but is not
// valid, and an invalid pattern.
func (c *compiler) checkEntry(entry located) bool {
	if _, ok := parseNetwork(entry.text); ok {
		return true
	}
	if networkLike.MatchString(entry.text) {
		c.mistake(entry.at, fmt.Sprintf("%q is not an address or network", entry.text), "write it as 10.1.0.0/16 or 2001:db8::/32")
		return false
	}
	return c.checkPattern(entry)
}

// checkPattern rejects a pattern that no key can match. The message does not
// repeat the pattern, which may be a whole API key.
func (c *compiler) checkPattern(pattern located) bool {
	if len(pattern.text) > maxPattern {
		c.mistake(pattern.at, fmt.Sprintf("a pattern is %d bytes long", len(pattern.text)), fmt.Sprintf("use at most %d", maxPattern))
		return false
	}
	if err := stint.ValidateKey(pattern.text); err != nil {
		c.mistake(pattern.at, "a pattern has characters that no key can have", "remove control characters, and write it in UTF-8")
		return false
	}
	return true
}

// checkHash rejects two limits with the same short hash: a store that uses
// short names could not tell them apart.
func (c *compiler) checkHash(l stint.Limit, at position) {
	name := limitName{l.Rule(), l.Name(), l.Shape()}
	hash := shorthash.Of(name.rule, name.name, name.shape)
	other, taken := c.hashes[hash]
	if taken && other != name {
		c.mistake(at, fmt.Sprintf("limit %s of rule %s and limit %s of rule %s have the same short hash (%s)", name.name, name.rule, other.name, other.rule, hash),
			"rename one of the limits")
	}
	c.hashes[hash] = name
}
