package stint

import (
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
