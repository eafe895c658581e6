package stint

import (
	"fmt"
	"math"
	"time"
)

// Forget is the cost of a claim that drops the key's state: the key is as if
// never used. It is always allowed.
const Forget = math.MinInt64

// MaxCost is the greatest cost of a claim, and −MaxCost the least beside
// [Forget]. No capacity is greater.
const MaxCost = 1_000_000_000

// MaxKey is the greatest length of a key, in bytes.
const MaxKey = 4096

// Claim is one line of what a request asks for.
type Claim struct {
	// Key is whose use is counted; not empty. Keys of several parts are
	// joined by [JoinKey]. Limits of different scope never share state, even
	// under the same key.
	Key string
	// Limit is what is allowed. The zero Limit is an error.
	Limit Limit
	// Cost is how much the request uses. Zero peeks: it is always allowed
	// and charges nothing. Below zero gives back. [Forget] drops the state.
	Cost int64
	// Extra asks for up to so much more than Cost, if there is that much.
	// What was granted of it is [Decision.Granted]. At least 0.
	Extra int64
	// At is, for a give-back, the [Decision.At] of its take. Zero means now.
	At int64
	// MaxDelay is the greatest [Decision.Delay] that the caller can use: a
	// leaky bucket that would delay the request for longer refuses it and
	// charges nothing. Zero means any delay; below zero means none at all.
	// It is rounded down to whole microseconds. Limits that never delay
	// ignore it, and so do a peek and a give-back, which are always allowed.
	// [MaxDelayOf] returns that of a context.
	MaxDelay time.Duration
	// Local stands in for the claim under [FailLocal] while its store fails.
	// Nil means this node's share of the limit itself.
	Local *Local
	// Any, above zero, makes the claim one of a set of alternatives: those
	// of its [Group] with the same number. Such a set admits when one of it
	// admits, and every claim of it that does is charged.
	Any uint8
	// Policy says how the claim travels. The zero value is strict and open.
	Policy Policy
}

// Policy is how a claim travels and what happens when its store fails. The
// memory store does not need it; stores that wrap stores do.
type Policy struct {
	Consistency Consistency
	OnFailure   OnFailure
	Replicas    uint8 // how many replicas must have the charge; 0: none
	// Penalty says that the claim is of a rule that punishes who keeps hitting
	// its limits. It is for who decides by rules; stores do not need it.
	Penalty bool
}

// Local is the key and the limit of a claim that a node decides by itself.
type Local struct {
	Key   string
	Limit Limit
}

// Consistency is what a claim asks of a distributed store.
type Consistency uint8

// The kinds of consistency.
const (
	Strict      Consistency = iota // every check asks the store
	Leased                         // decided from a lease when the node holds one
	Partitioned                    // decided from the node's own part
)

// OnFailure is what happens to a claim while its store fails.
type OnFailure uint8

// The failure policies.
const (
	FailOpen   OnFailure = iota // allowed
	FailClosed                  // denied
	FailLocal                   // decided in memory, by this node's share
)

// Group is claims decided together: all are charged or none.
type Group struct {
	Claims []Claim
	// Shadow makes the group observe only: it is decided, and it is charged
	// only if the nearest group before it that is not Shadow (if there is
	// one in the call) was admitted.
	Shadow bool
}

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
