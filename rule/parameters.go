package rule

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// parameter is one parameter of a limit in a rule file.
type parameter uint8

const (
	pAlgorithm parameter = iota
	pLimit
	pWindow
	pCapacity
	pRefillRate
	pBuckets
	pQueue
	pMaxWait
	pPeriod
	pAnchor
	pUTCOffset
	parameterCount
)

var parameterNames = [parameterCount]string{
	"algorithm", "limit", "window", "capacity", "refill_rate", "buckets", "queue", "max_wait", "period", "anchor", "utc_offset",
}

// parameterOf finds a parameter by name; burst is another name of capacity.
func parameterOf(name string) (parameter, bool) {
	if name == "burst" {
		return pCapacity, true
	}
	for p, n := range parameterNames {
		if n == name {
			return parameter(p), true
		}
	}
	return 0, false
}

// asNamed renames the field of an error about capacity to burst if the file
// uses that name.
func asNamed(name string, err error) error {
	var wrong *stint.LimitError
	if name != "burst" || !errors.As(err, &wrong) || wrong.Field != "capacity" {
		return err
	}
	return &stint.LimitError{Field: name, Problem: wrong.Problem, Mend: wrong.Mend}
}

// parse parses one parameter into s. Numbers stay decimal text or become
// integers; they never pass through a float.
func (p parameter) parse(text string, s *stint.Spec) (err error) {
	switch p {
	case pAlgorithm:
		if s.Algorithm, err = stint.ParseAlgorithm(text); err != nil {
			err = &stint.LimitError{Field: "algorithm", Problem: fmt.Sprintf("%.40q is not known", text), Mend: nearestMend(text, stint.Algorithms())}
		}
	case pLimit:
		s.Limit, err = whole("limit", text, 1, stint.MaxLimit)
	case pWindow:
		s.Window, err = parseTime("window", text, stint.MinWindow, "1ms")
	case pCapacity:
		s.Capacity, err = whole("capacity", text, 1, stint.MaxLimit)
	case pRefillRate:
		s.RefillRate = text
		_, err = stint.Spec{RefillRate: text, Capacity: 1}.Compile()
	case pBuckets:
		var n int64
		n, err = whole("buckets", text, 1, stint.MaxBuckets)
		s.Buckets = int(n)
	case pQueue:
		s.Queue, err = whole("queue", text, 0, stint.MaxLimit-1)
	case pMaxWait:
		s.MaxWait, err = parseTime("max_wait", text, time.Microsecond, "1µs")
	case pPeriod:
		s.Period = text
	case pAnchor:
		s.Anchor = text
	default:
		s.UTCOffset = text
	}
	return err
}

// copy copies the parameter from one spec to another.
func (p parameter) copy(to, from *stint.Spec) {
	switch p {
	case pAlgorithm:
		to.Algorithm = from.Algorithm
	case pLimit:
		to.Limit = from.Limit
	case pWindow:
		to.Window = from.Window
	case pCapacity:
		to.Capacity = from.Capacity
	case pRefillRate:
		to.RefillRate = from.RefillRate
	case pBuckets:
		to.Buckets = from.Buckets
	case pQueue:
		to.Queue = from.Queue
	case pMaxWait:
		to.MaxWait = from.MaxWait
	case pPeriod:
		to.Period = from.Period
	case pAnchor:
		to.Anchor = from.Anchor
	default:
		to.UTCOffset = from.UTCOffset
	}
}

// takes reports whether the algorithm uses the parameter.
func (p parameter) takes(a stint.Algorithm) bool {
	bucket := a == stint.TokenBucket || a == stint.GCRA
	switch p {
	case pCapacity:
		return bucket
	case pRefillRate:
		return a == stint.TokenBucket
	case pBuckets:
		return a == stint.SlidingWindowCounter
	case pQueue, pMaxWait:
		return a == stint.LeakyBucket
	case pWindow:
		return a != stint.Quota
	case pPeriod, pAnchor, pUTCOffset:
		return a == stint.Quota
	}
	return true
}

// whole parses an integer from least to most. It accepts decimal text with an
// exponent or with a fraction of zeros.
func whole(field, text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var problem string
		if n, problem = wholeValue(text); problem != "" {
			return 0, &stint.LimitError{Field: field, Problem: problem, Mend: rangeMend(least, most)}
		}
	}
	if n < least || n > most {
		return 0, &stint.LimitError{Field: field, Problem: fmt.Sprintf("%.40s is out of range", text), Mend: rangeMend(least, most)}
	}
	return n, nil
}

func rangeMend(least, most int64) string {
	return fmt.Sprintf("use a whole number from %d to %d", least, most)
}

// wholeValue parses the integers that strconv does not: 1e3, 100.0, and numbers
// beyond 64 bits, which become math.MaxInt64 or math.MinInt64.
func wholeValue(text string) (n int64, problem string) {
	r, ok := decimal(text)
	switch {
	case !ok:
		return 0, fmt.Sprintf("%.40q is not a number", text)
	case !r.IsInt():
		return 0, fmt.Sprintf("%.40s is not whole", text)
	case r.Num().IsInt64():
		return r.Num().Int64(), ""
	case r.Sign() < 0:
		return math.MinInt64, ""
	}
	return math.MaxInt64, ""
}

// decimal parses decimal text exactly. Bounds on length and exponent keep it
// cheap.
func decimal(text string) (*big.Rat, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > 400 || len(strings.TrimLeft(exponent, "+-")) > 3 || strings.Trim(mantissa, "+-.0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// parseTime parses the time of a field, from least to [stint.MaxWindow]. leastText is
// least as files write it.
func parseTime(field, text string, least time.Duration, leastText string) (time.Duration, error) {
	t, err := parseDuration(field, text)
	switch {
	case err != nil:
		return 0, err
	case t < least || t > stint.MaxWindow:
		return 0, &stint.LimitError{Field: field, Problem: fmt.Sprintf("%.40s is out of range", text), Mend: "use a time from " + leastText + " to 400d"}
	case t%time.Microsecond != 0:
		return 0, &stint.LimitError{Field: field, Problem: fmt.Sprintf("%.40s is not whole microseconds", text), Mend: "round it"}
	}
	return t, nil
}

// parseDuration parses whole seconds, a Go duration, or a duration that begins
// with days, such as 1d or 1d12h.
func parseDuration(field, text string) (time.Duration, error) {
	if _, isNumber := decimal(text); isNumber {
		n, problem := wholeValue(text)
		if problem != "" {
			return 0, &stint.LimitError{Field: field, Problem: problem, Mend: "a number is whole seconds; write a shorter time as 500ms"}
		}
		return scaled(n, time.Second), nil
	}
	days, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if rest == "" && hasDays {
		rest = "0s"
	}
	d, err2 := time.ParseDuration(rest)
	if err != nil || err2 != nil || hasDays && strings.HasPrefix(rest, "-") {
		return 0, &stint.LimitError{Field: field, Problem: fmt.Sprintf("%.40q is not a time", text),
			Mend: "write whole seconds, such as 60, or a length such as 500ms, 1m30s, 12h or 1d"}
	}
	return scaled(int64(n), 24*time.Hour) + min(d, math.MaxInt64/4), nil
}

// scaled returns n units, clamped to a value that is out of every valid range
// but still small enough to add without overflow.
func scaled(n int64, unit time.Duration) time.Duration {
	most := int64(math.MaxInt64/4) / int64(unit)
	return time.Duration(max(-most, min(n, most))) * unit
}
