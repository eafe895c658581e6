package stint

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that can never be allowed, because its
// cost is greater than the limit.
const Never = time.Duration(math.MaxInt64)

// Decision is the answer to a claim. Durations are whole microseconds and
// count from the decision. The zero Decision allows nothing; it is what
// a call returns with an error.
type Decision struct {
	Allowed  bool // false: nothing was charged
	Degraded bool // decided without the store
	// Unavailable says that the claim was denied because the store failed and
	// its policy is [FailClosed]. The key may not be over its limit: answer 503
	// rather than 429. RetryAfter is then when the store is tried next. A
	// decision that is Unavailable is Degraded too.
	Unavailable bool
	// Penalty says that the claim was denied because its key is being punished,
	// and not because the limit is used up. RetryAfter is then the remaining time
	// of the punishment.
	Penalty PenaltyKind
	// Repeated says that the decision was made for an earlier call with the same
	// [Once], and that this call charged nothing. The durations count from At.
	Repeated bool
	// Limit is the largest cost that an idle key could be allowed at once.
	Limit int64
	// Remaining is how many more requests of cost 1, with the same
	// [Claim.MaxDelay], would be allowed right now, rounded down.
	Remaining int64
	// RetryAfter is 0 when allowed. After a denial it is the least wait after which this same
	// request would be allowed if no other request arrived, or [Never].
	RetryAfter time.Duration
	// ResetAfter is how long until the key, left idle, is as if never used.
	ResetAfter time.Duration
	// NextAfter is how long until Remaining grows by one, if no other request arrives; 0 when
	// Remaining is at its maximum.
	NextAfter time.Duration
	// Delay is how long the caller must wait before it acts on the
	// permission. Only a leaky bucket delays.
	Delay time.Duration
	// Granted is how much of [Claim.Extra] was charged beside the cost.
	Granted int64
	// At is when the claim was decided, in microseconds since the Unix
	// epoch, by the clock of the store. A refund passes it as [Claim.At].
	At int64
	_  int64 // pads to a multiple of 16 bytes: without it copies use overlapping moves, which cost a twelfth of a check
}

// PenaltyKind is the kind of a punishment. Stores do not punish: servers that wrap a
// store do, for callers that keep exceeding their limits.
type PenaltyKind uint8

// The kinds of punishment.
const (
	NoPenalty PenaltyKind = iota
	CoolDown              // a short one, after a number of denials
	Ban                   // a long one, after a number of cool-downs
	HotKey                // a ban for too many requests a second
)

var penaltyNames = [...]string{"none", "cool_down", "ban", "hot_key"}

// String returns "none", "cool_down", "ban" or "hot_key".
func (k PenaltyKind) String() string { return nameOf("penalty", penaltyNames[:], k) }
