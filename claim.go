package stint

import (
	"fmt"
	"math"
	"time"
)

// Forget is the cost of a claim that drops the key's state: afterwards the key
// is as if never used. Such a claim is always allowed.
const Forget = math.MinInt64

// MaxCost is the greatest cost of a claim. −MaxCost is the least, apart from
// [Forget]. No capacity is greater than MaxCost.
const MaxCost = 1_000_000_000

// MaxKey is the greatest length of a key, in bytes.
const MaxKey = 4096

// Claim is one part of a request: a key, a limit and a cost.
type Claim struct {
	// Key names the user, address or other identity whose use is counted. It
	// has 1 to [MaxKey] bytes, of any value. [JoinKey] makes a key of several
	// parts. Limits of different scope never share state, even under the same key.
	Key string
	// Limit is what is allowed. The zero Limit is an error.
	Limit Limit
	// Cost is how many units the request uses, up to [MaxCost]. A cost of zero
	// peeks: it is always allowed and charges nothing. A cost below zero
	// refunds. [Forget] drops the state.
	Cost int64
	// Extra asks for up to this many units in addition to Cost, as far as they
	// are available. [Decision.Granted] is the number granted. 0 to [MaxCost].
	Extra int64
	// At is, for a refund, the [Decision.At] of the charge, in microseconds
	// since the Unix epoch. Zero means now.
	At int64
	// MaxDelay is the greatest [Decision.Delay] that the caller can use. A
	// leaky bucket that would delay the request for longer refuses it and
	// charges nothing. Zero means any delay; below zero means no delay.
	// MaxDelay is rounded down to whole microseconds. Limits that never delay
	// ignore it, and so do peeks and refunds, which are always allowed.
	// [MaxDelayOf] returns the MaxDelay for a context.
	MaxDelay time.Duration
	// Local replaces the claim under [FailLocal] while its store fails.
	// Nil means this node's share of the limit itself. The other policies ignore
	// Local.
	Local *Local
	// AnyOf, above zero, makes the claim one of a set of alternatives: the
	// claims of its [Group] with the same number. A set admits when one of its
	// claims admits, and every claim of the set that admits is charged. 0: the
	// claim is no alternative.
	AnyOf uint8
	// Policy says which consistency the claim needs and what happens when its
	// store fails. The zero value is Strict and FailOpen.
	Policy Policy
}

// Policy is the consistency of a claim and what happens when its store fails. Every
// value is valid whose fields are constants of this package.
// The memory store ignores it; stores that wrap other stores follow it.
type Policy struct {
	Consistency Consistency
	OnFailure   OnFailure
	Replicas    uint8 // how many replicas must have the charge; 0: none
}

// Local is the key and the limit under which a node decides a claim by itself.
type Local struct {
	Key   string // empty: the key of the claim
	Limit Limit
}

// Consistency is how a distributed store decides a claim.
type Consistency uint8

// The kinds of consistency.
const (
	Strict      Consistency = iota // every check calls the store
	Leased                         // decided from a lease when the node holds one
	Partitioned                    // decided from the node's own part of the limit
)

var consistencyNames = [...]string{"strict", "leased", "partitioned"}

// String returns the name that rule files use, such as "leased".
func (c Consistency) String() string { return nameOf("consistency", consistencyNames[:], c) }

// OnFailure is how a claim is decided while its store fails.
type OnFailure uint8

// The failure policies.
const (
	FailOpen      OnFailure = iota // the check is allowed
	FailClosed                     // the check is denied
	FailLocal                      // decided in memory, by this node's share
	FailLastKnown                  // as FailLocal, but continues from what the node last knew of the key
)

var failureNames = [...]string{"open", "closed", "local", "last_known"}

// String returns the name that rule files use, such as "closed".
func (f OnFailure) String() string { return nameOf("failure policy", failureNames[:], f) }

// isPlain reports whether a claim is valid and is a take or a peek without
// Extra and At. It is the cheap check for nearly every claim.
func (c *Claim) isPlain() bool {
	return c.Limit.n != nil && uint(len(c.Key)-1) < MaxKey && uint64(c.Cost) <= MaxCost && c.Extra == 0 && c.At == 0
}

// Validate returns the error that every store returns for an invalid claim, or
// nil.
func (c *Claim) Validate() error {
	if c.isPlain() {
		return nil
	}
	return c.check()
}

var errZeroLimit = invalid("limit: is the zero Limit", "compile a Spec, or use ParseLimit")

// check is Validate for claims that are not plain.
func (c *Claim) check() error {
	switch {
	case c.Limit.n == nil:
		return errZeroLimit
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
