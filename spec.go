package stint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a [Spec]. Within them no step can overflow.
const (
	MaxLimit    = 1_000_000_000        // greatest limit, in units
	MinWindow   = time.Millisecond     // also of a period given as a length
	MaxWindow   = 400 * 24 * time.Hour // also of a period given as a length
	MaxBuckets  = 60                   // buckets of a sliding window counter
	MaxLogLimit = 10_000               // units of a sliding window log
	MaxRate     = 100_000_000          // units a second
	minRateDays = 400                  // the least rate is one unit in this many days
	maxName     = 64                   // bytes of a name
	microUnits  = 1_000_000            // micro-units in a unit
)

// Spec is a limit as users write it. [Spec.Compile] validates it once and
// makes the [Limit] that claims carry.
//
// The comment of each field names the algorithms that take it. A field that the
// algorithm does not take must be zero.
type Spec struct {
	// Namespace, Rule and Name are the scope: limits of different scope
	// never share state. Name defaults to "algorithm:window", such as
	// "token_bucket:1m". Each is at most 64 characters of [A-Za-z0-9_.:-];
	// Namespace and Rule may be empty.
	Namespace, Rule, Name string

	// Store names the store that keeps the states of the limit, where a program or a
	// server has several. Empty is the default one. It is at most 64 characters of
	// [A-Za-z0-9_.:-], and no part of the scope: a limit that moves to another store
	// starts fresh, because that store has no states of it. A store that does not
	// wrap several others ignores it.
	Store string

	// Algorithm defaults to TokenBucket.
	Algorithm Algorithm

	// Limit is the number of units that a Window (for a quota, a Period)
	// allows. Every algorithm takes it; a token bucket takes RefillRate
	// instead if that is set.
	Limit int64
	// Window is the length of time that Limit applies to, in whole
	// microseconds from 1 ms to 400 days. Every algorithm but quota takes it.
	Window time.Duration

	// Capacity is the size of a token bucket or GCRA in units, its burst.
	// Defaults to Limit, or to max(1, ⌈2·RefillRate⌉).
	Capacity int64
	// RefillRate is the rate of a token bucket in units a second, as decimal
	// text such as "1.67", which is exactly 167/100. It replaces Limit. A
	// Window beside it only names the limit and describes it to clients.
	RefillRate string

	// Buckets is the number of parts into which a sliding window counter
	// divides its window: 1 (the default, the classic two counters) to 60. It
	// must divide the window into whole microseconds.
	Buckets int

	// Queue is how many units may wait in a leaky bucket. Defaults to 0.
	Queue int64
	// MaxWait is the greatest delay of a leaky bucket. The bucket refuses a
	// request that would wait longer, even when the queue has room. Whole
	// microseconds up to 400 days; zero means any.
	MaxWait time.Duration

	// Period is the period of a quota: "day", "week" (from Monday), "month",
	// or a length such as "30d" or "12h" that runs from Anchor.
	Period string
	// Anchor is when a period of a quota began, in RFC 3339. Without it,
	// days, weeks and months begin at 00:00 of UTCOffset. A length needs it.
	Anchor string
	// UTCOffset is the fixed offset of a quota's calendar, such as "+02:00", from
	// "-14:00" to "+14:00". Defaults to the offset of Anchor, or UTC.
	UTCOffset string

	// FromCaller marks a limit that a caller of a server brought with its
	// request, in contrast to one that an operator or a program wrote. The
	// mark is part of the scope: a caller's limit never shares state with a
	// limit that lacks the mark, even under the same names. Stores bound the
	// states of callers' limits separately.
	FromCaller bool
}

// PerSecond is shorthand for a token bucket of n a second, capacity n. n is 1 to
// [MaxLimit]; [Spec.Compile] checks it. The same holds for the next three.
func PerSecond(n int64) Spec { return Spec{Limit: n, Window: time.Second} }

// PerMinute is shorthand for a token bucket of n a minute, capacity n.
func PerMinute(n int64) Spec { return Spec{Limit: n, Window: time.Minute} }

// PerHour is shorthand for a token bucket of n an hour, capacity n.
func PerHour(n int64) Spec { return Spec{Limit: n, Window: time.Hour} }

// PerDay is shorthand for a token bucket of n in 24 hours, capacity n.
func PerDay(n int64) Spec { return Spec{Limit: n, Window: 24 * time.Hour} }

// ParseSpec reads the short form of a limit: "100/m" is [PerMinute](100).
// The units are s, m, h and d. The error is a [*LimitError].
func ParseSpec(text string) (Spec, error) {
	wrong := &LimitError{Field: "limit", Problem: fmt.Sprintf("%.40q is not a limit", text),
		Mend: "write it as number/unit with the unit s, m, h or d, such as 100/m"}
	number, unit, found := strings.Cut(text, "/")
	if !found || len(number) > 30 {
		return Spec{}, wrong
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) || strings.HasPrefix(number, "+") {
		return Spec{}, wrong
	}
	if err != nil || n < 1 || n > MaxLimit {
		return Spec{}, outOfRange("limit", number, 1, MaxLimit)
	}
	windows := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	window, ok := windows[unit]
	if !ok {
		return Spec{}, wrong
	}
	return Spec{Limit: n, Window: window}, nil
}

// ParseLimit reads the short form of a limit: "100/m" allows 100 at once, and refills 100 a
// minute. The units are s, m, h and d. It is [ParseSpec] and [Spec.Compile] in one; a [Spec]
// has every other window, burst and algorithm.
func ParseLimit(text string) (Limit, error) {
	s, err := ParseSpec(text)
	if err != nil {
		return Limit{}, err
	}
	return s.Compile()
}

// MustParseLimit is [ParseLimit] for limits that are constants of the program,
// such as package variables: it panics if the text is not a limit. Use
// ParseLimit for text from outside.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic("stint: MustParseLimit(" + strconv.Quote(text) + "): " + err.Error())
	}
	return l
}

func outOfRange(field string, got any, least, most int64) error {
	return &LimitError{Field: field, Problem: fmt.Sprintf("%v is out of range", got),
		Mend: fmt.Sprintf("use a whole number from %d to %d", least, most)}
}

// validateName checks one part of a scope. It accepts the empty name, which its
// callers handle.
func validateName(field, name string) error {
	if len(name) > maxName {
		return &LimitError{Field: field, Problem: fmt.Sprintf("%.20q… is %d bytes long", name, len(name)),
			Mend: fmt.Sprintf("use at most %d", maxName)}
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return &LimitError{Field: field, Problem: fmt.Sprintf("%q has %q at byte %d", name, name[i], i),
				Mend: "use only letters, digits and _ . : -"}
		}
	}
	return nil
}

func nameByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '_' || b == '.' || b == ':' || b == '-'
}
