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

// parameter is one number or name of a limit, as files name it.
type parameter uint8

const (
	pAlgorithm parameter = iota
	pLimit
	pWindow
	pCapacity
	pRefillRate
	pBuckets
	pQueue
	pPeriod
	pAnchor
	pUTCOffset
	parameterCount
)

var parameterNames = [parameterCount]string{
	"algorithm", "limit", "window", "capacity", "refill_rate", "buckets", "queue", "period", "anchor", "utc_offset",
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

// asNamed has an error about a capacity that was written as burst say burst.
func asNamed(name string, err error) error {
	var wrong *stint.LimitError
	if name != "burst" || !errors.As(err, &wrong) || wrong.Field != "capacity" {
		return err
	}
	return &stint.LimitError{Field: name, Problem: wrong.Problem, Mend: wrong.Mend}
}

// limitKeys is every name that a limit written as a mapping may use.
func limitKeys() []string { return append([]string{"name", "burst"}, parameterNames[:]...) }

// parse reads the text of one parameter into s. Numbers stay decimal text or
// become whole numbers; none passes through a float.
func (p parameter) parse(text string, s *stint.Spec) (err error) {
	switch p {
	case pAlgorithm:
		s.Algorithm, err = parseAlgorithm(text)
	case pLimit:
		s.Limit, err = whole("limit", text, 1, stint.MaxLimit)
	case pWindow:
		s.Window, err = parseWindow(text)
	case pCapacity:
		s.Capacity, err = whole("capacity", text, 1, stint.MaxLimit)
	case pRefillRate:
		s.RefillRate, err = text, checkRate(text)
	case pBuckets:
		var n int64
		n, err = whole("buckets", text, 1, stint.MaxBuckets)
		s.Buckets = int(n)
	case pQueue:
		s.Queue, err = whole("queue", text, 0, stint.MaxLimit-1)
	case pPeriod:
		s.Period = text
	case pAnchor:
		s.Anchor = text
	default:
		s.UTCOffset = text
	}
	return err
}

// copy takes the parameter of one spec to another.
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
	case pPeriod:
		to.Period = from.Period
	case pAnchor:
		to.Anchor = from.Anchor
	default:
		to.UTCOffset = from.UTCOffset
	}
}

// takes reports whether an algorithm has the parameter.
func (p parameter) takes(a stint.Algorithm) bool {
	bucket := a == stint.TokenBucket || a == stint.GCRA
	switch p {
	case pCapacity:
		return bucket
	case pRefillRate:
		return a == stint.TokenBucket
	case pBuckets:
		return a == stint.SlidingWindowCounter
	case pQueue:
		return a == stint.LeakyBucket
	case pWindow:
		return a != stint.Quota
	case pPeriod, pAnchor, pUTCOffset:
		return a == stint.Quota
	}
	return true
}

// whole reads a whole number from least to most: decimal text, an exponent or
// a fraction of zeros allowed.
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

// wholeValue reads what strconv does not: 1e3, 100.0, and numbers beyond 64
// bits, which become the greatest or least that there is.
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

// decimal reads decimal text exactly, within bounds of length and exponent
// that keep it cheap.
func decimal(text string) (*big.Rat, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > 400 || len(strings.TrimLeft(exponent, "+-")) > 3 || strings.Trim(mantissa, "+-.0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

func parseAlgorithm(text string) (stint.Algorithm, error) {
	a, err := stint.ParseAlgorithm(text)
	if err != nil {
		return a, &stint.LimitError{Field: "algorithm", Problem: fmt.Sprintf("%.40q is not known", text), Mend: nearestMend(text, stint.Algorithms())}
	}
	return a, nil
}

// parseWindow reads whole seconds, a Go duration, or one that begins with
// days, such as 1d or 1d12h.
func parseWindow(text string) (time.Duration, error) {
	w, err := parseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case w < stint.MinWindow || w > stint.MaxWindow:
		return 0, &stint.LimitError{Field: "window", Problem: fmt.Sprintf("%.40s is out of range", text), Mend: "use a time from 1ms to 400d"}
	case w%time.Microsecond != 0:
		return 0, &stint.LimitError{Field: "window", Problem: fmt.Sprintf("%.40s is not whole microseconds", text), Mend: "round it"}
	}
	return w, nil
}

func parseDuration(text string) (time.Duration, error) {
	if _, isNumber := decimal(text); isNumber {
		return wholeSeconds(text)
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
		return 0, &stint.LimitError{Field: "window", Problem: fmt.Sprintf("%.40q is not a time", text),
			Mend: "write whole seconds, such as 60, or a length such as 500ms, 1m30s, 12h or 1d"}
	}
	return scaled(int64(n), 24*time.Hour) + min(d, math.MaxInt64/4), nil
}

func wholeSeconds(text string) (time.Duration, error) {
	n, problem := wholeValue(text)
	if problem != "" {
		return 0, &stint.LimitError{Field: "window", Problem: problem, Mend: "a number is whole seconds; write what is less as 500ms"}
	}
	return scaled(n, time.Second), nil
}

// scaled is n units, held within what is far out of every range and yet adds
// up without overflow.
func scaled(n int64, unit time.Duration) time.Duration {
	most := int64(math.MaxInt64/4) / int64(unit)
	return time.Duration(max(-most, min(n, most))) * unit
}

func checkRate(text string) error {
	_, err := stint.Spec{RefillRate: text, Capacity: 1}.Compile()
	return err
}
