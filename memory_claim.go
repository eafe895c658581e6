package stint

import "fmt"

// isPlain reports whether there is certainly nothing wrong with a claim.
func (c *Claim) isPlain() bool {
	return c.Limit.n != nil && uint(len(c.Key)-1) < MaxKey && uint64(c.Cost) <= MaxCost && c.Extra == 0 && c.At == 0
}

// Validate says what is wrong with a claim: the error that every store gives.
func (c *Claim) Validate() error {
	if c.isPlain() {
		return nil
	}
	return c.check()
}

// Validate says what is wrong with the claims of a group, or that two of them
// are of one state.
func (g *Group) Validate() error {
	for i := range g.Claims {
		if err := g.Claims[i].Validate(); err != nil {
			return err
		}
	}
	return checkDistinct(g.Claims)
}

// check says what is wrong with a claim.
func (c *Claim) check() error {
	switch {
	case c.Limit.n == nil:
		return invalid("limit: is the zero Limit", "compile a Spec, or use ParseLimit")
	case c.Key == "":
		return invalid("key: is empty", "name whose use is counted, such as user:42")
	case len(c.Key) > MaxKey:
		return invalid(fmt.Sprintf("key: is %d bytes long", len(c.Key)), fmt.Sprintf("use at most %d bytes; hash what is longer", MaxKey))
	case c.Cost > MaxCost || c.Cost < -MaxCost && c.Cost != Forget:
		return invalid(fmt.Sprintf("cost: %d is out of range", c.Cost), fmt.Sprintf("use %d to %d", -MaxCost, MaxCost))
	case c.Extra < 0 || c.Extra > MaxCost:
		return invalid(fmt.Sprintf("extra: %d is out of range", c.Extra), fmt.Sprintf("use 0 to %d", MaxCost))
	case c.At < 0 || c.At > maxMicros:
		return invalid(fmt.Sprintf("at: %d is not a time", c.At), "pass the Decision.At of the take, in microseconds")
	}
	return nil
}

// asInput writes the claim as a step reads it. A give-back asks for nothing extra.
func (c *Claim) asInput(a *input, now int64) {
	a.now, a.cost, a.extra, a.at, a.maxDelay = now, c.Cost, c.Extra, c.At, c.MaxDelay
	if c.Cost < 0 {
		a.extra = 0
	}
}
