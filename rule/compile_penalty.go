package rule

import (
	"fmt"
	"math/big"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
)

// rawPenalty is a penalty as its file states it.
type rawPenalty struct {
	at                              position
	after, window, coolDown, factor located
	max, banAfter, ban, forget      located
	hotKey                          located
}

var penaltyFields = fields[rawPenalty]{
	"hot_key":   func(r *reader, n *yaml.Node, p *rawPenalty) { p.hotKey, _ = r.text(n, "hot_key") },
	"after":     func(r *reader, n *yaml.Node, p *rawPenalty) { p.after, _ = r.text(n, "after") },
	"window":    func(r *reader, n *yaml.Node, p *rawPenalty) { p.window, _ = r.text(n, "window") },
	"cool_down": func(r *reader, n *yaml.Node, p *rawPenalty) { p.coolDown, _ = r.text(n, "cool_down") },
	"factor":    func(r *reader, n *yaml.Node, p *rawPenalty) { p.factor, _ = r.text(n, "factor") },
	"max":       func(r *reader, n *yaml.Node, p *rawPenalty) { p.max, _ = r.text(n, "max") },
	"ban_after": func(r *reader, n *yaml.Node, p *rawPenalty) { p.banAfter, _ = r.text(n, "ban_after") },
	"ban":       func(r *reader, n *yaml.Node, p *rawPenalty) { p.ban, _ = r.text(n, "ban") },
	"forget":    func(r *reader, n *yaml.Node, p *rawPenalty) { p.forget, _ = r.text(n, "forget") },
}

func readPenalty(r *reader, n *yaml.Node, d *rawRule) {
	d.penalty = &rawPenalty{at: r.at(n)}
	readFields(r, n, "penalty", penaltyFields, d.penalty)
}

// Defaults and bounds of a penalty.
const (
	defaultAfter    = 10
	defaultWindow   = time.Minute
	defaultCoolDown = 10 * time.Second
	defaultMax      = 10 * time.Minute
	leastForget     = time.Hour
	maxAfter        = 1000
	maxCooldowns    = 100
	maxFactor       = 100
)

// compilePenalty compiles the penalty of a rule, if it has one.
func (c *compiler) compilePenalty(d *rawRule, r *Rule) {
	p := d.penalty
	if p == nil {
		return
	}
	switch {
	case d.denyAll:
		c.mistake(p.at, "penalty: the rule denies everything already", "remove it")
		return
	case r.Policy.Consistency != stint.Strict:
		c.mistake(p.at, "penalty: the rule must be strict", "remove it, or consistency")
		return
	case r.Mode != Enforce:
		c.warn(p.at, "penalty: a rule in mode shadow or off punishes nobody", "")
	case r.identity.missing == missingShared:
		c.warn(p.at, "penalty: requests without their identity share one key, so they are punished for one another", "set missing to ip, skip or deny")
	}
	if r.Mode == Enforce && !r.identity.tellsCallersApart() {
		c.warn(p.at, "penalty: by does not tell callers apart, so they are punished together", "count by api_key or ip, too")
	}
	before := len(c.mistakes)
	out := &Penalty{Denials: p.countsDenials()}
	out.HotKey = c.penaltyTime("hot_key", p.hotKey, 0, maxPunishment)
	c.compileCooldowns(p, out)
	longest := out.cooldowns[len(out.cooldowns)-1]
	after := c.whole("penalty: after", p.after, defaultAfter, 1, maxAfter)
	window := c.penaltyTime("window", p.window, defaultWindow, stint.MaxWindow)
	forget := c.penaltyTime("forget", p.forget, max(leastForget, 2*out.longest()), stint.MaxWindow)
	if forget <= longest {
		c.mistake(p.forget.at, "penalty: forget is not longer than the longest cool-down, so cool-downs would never grow", "make it longer than max")
	}
	if len(c.mistakes) > before {
		return
	}
	levels := int64(len(out.cooldowns))
	if out.ban > 0 {
		levels++
	}
	c.compilePenaltyLimit(d, &out.Gate, stint.Spec{Name: gateName, Algorithm: stint.LeakyBucket, Limit: 1, Window: GateUnit, Queue: int64(out.longest() / GateUnit)})
	c.compilePenaltyLimit(d, &out.Strikes, stint.Spec{Name: strikesName, Algorithm: stint.SlidingWindowLog, Limit: after, Window: window})
	c.compilePenaltyLimit(d, &out.Levels, stint.Spec{Name: levelsName, Algorithm: stint.SlidingWindowLog, Limit: levels, Window: forget})
	for _, l := range r.everyLimit() {
		if name := l.Name(); name == gateName || name == strikesName || name == levelsName {
			c.mistake(d.penalty.at, fmt.Sprintf("penalty: a limit of rule %s is named %s, as a limit of the penalty is", d.id.text, name), "give the limit another name")
		}
	}
	r.Penalty = out
}

// countsDenials reports whether denials are punished: not if hot_key is the only field.
func (p *rawPenalty) countsDenials() bool {
	for _, t := range []located{p.after, p.window, p.coolDown, p.factor, p.max, p.banAfter, p.ban, p.forget} {
		if t.text != "" {
			return true
		}
	}
	return p.hotKey.text == ""
}

func (c *compiler) compilePenaltyLimit(d *rawRule, into *stint.Limit, spec stint.Spec) {
	spec.Rule = d.id.text
	l, err := spec.Compile()
	if err != nil {
		return // the id is invalid, which is already recorded
	}
	*into = l
	c.checkHash(l, d.penalty.at)
}

// compileCooldowns computes the cool-downs, up to the longest or up to the ban.
func (c *compiler) compileCooldowns(p *rawPenalty, out *Penalty) {
	first := c.penaltyTime("cool_down", p.coolDown, defaultCoolDown, maxPunishment)
	most := c.penaltyTime("max", p.max, max(defaultMax, first), maxPunishment)
	if first > most {
		c.mistake(p.at, fmt.Sprintf("penalty: cool_down %v is longer than max %v", first, most), "lower it, or raise max")
	}
	banAfter := c.whole("penalty: ban_after", p.banAfter, 0, 1, maxCooldowns)
	out.ban = c.penaltyTime("ban", p.ban, 0, maxPunishment)
	out.cooldowns = growing(first, most, c.penaltyFactor(p.factor), banAfter)
	longest := out.cooldowns[len(out.cooldowns)-1]
	switch {
	case p.ban.text != "" && p.banAfter.text == "":
		c.mistake(p.ban.at, "penalty: ban has no ban_after", "set the number of cool-downs before it, such as ban_after: 5")
	case p.ban.text == "" && p.banAfter.text != "":
		c.mistake(p.banAfter.at, "penalty: ban_after has no ban", "set its duration, such as ban: 1h")
	case out.ban > 0 && out.ban < longest:
		c.mistake(p.ban.at, fmt.Sprintf("penalty: ban %v is shorter than the cool-down %v before it", out.ban, longest), "raise it, or lower max")
	case p.ban.text == "" && longest < most && len(out.cooldowns) == maxCooldowns:
		c.warn(p.factor.at, fmt.Sprintf("penalty: cool-downs end with the %dth, %v, which is less than max", maxCooldowns, longest.Round(time.Millisecond)), "raise factor")
	}
}

// growing returns cool-downs that each last factor times the one before, in
// whole microseconds and at most most. It returns count of them. A count of 0
// ends the list at the first cool-down that equals most, or at the first if
// factor does not exceed 1. The list has at most maxCooldowns entries.
func growing(first, most time.Duration, factor *big.Rat, count int64) (list []time.Duration) {
	grows := factor.Cmp(big.NewRat(1, 1)) > 0
	for d := min(first, most); ; d = min(times(d, factor), most) {
		list = append(list, d)
		done := d == most || !grows
		if n := int64(len(list)); n == maxCooldowns || n == count || count == 0 && done {
			return list
		}
	}
}

// times returns factor times d. d is short enough for maxFactor not to
// overflow.
func times(d time.Duration, factor *big.Rat) time.Duration {
	us := new(big.Int).Mul(big.NewInt(d.Microseconds()), factor.Num())
	return time.Duration(us.Quo(us, factor.Denom()).Int64()) * time.Microsecond
}

func (c *compiler) penaltyTime(field string, t located, otherwise, most time.Duration) time.Duration {
	if t.text == "" {
		return otherwise
	}
	d, err := parseDuration(field, t.text)
	if err != nil || d < GateUnit || d > most || d%time.Microsecond != 0 {
		c.mistake(t.at, fmt.Sprintf("penalty: %s: %.40q is not a time in its range", field, t.text), fmt.Sprintf("write 10s, 5m or 1h, from %v to %dd", GateUnit, most/(24*time.Hour)))
		return otherwise
	}
	return d
}

func (c *compiler) penaltyFactor(t located) *big.Rat {
	two := big.NewRat(2, 1)
	if t.text == "" {
		return two
	}
	f, ok := decimal(t.text)
	if !ok || len(t.text) > 20 || f.Cmp(big.NewRat(1, 1)) < 0 || f.Cmp(big.NewRat(maxFactor, 1)) > 0 {
		c.mistake(t.at, fmt.Sprintf("penalty: factor: %.40q is out of range", t.text), fmt.Sprintf("use a number from 1 to %d, such as 2", maxFactor))
		return two
	}
	return f
}
