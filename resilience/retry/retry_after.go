package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter reads a Retry-After field (RFC 9110, section 10.2.3): a whole
// number of seconds, or a date, of which now is taken off. A date in the past
// is no wait, a number too great for a time the greatest there is. Anything
// else, such as a date that is not in GMT, is not ok.
func ParseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	if wait, ok := seconds(value); ok {
		return wait, true
	}
	date, ok := parseDate(value)
	if !ok {
		return 0, false
	}
	return max(0, date.Sub(now)), true
}

// parseDate reads a date in one of the three formats of RFC 9110, section
// 5.6.7. Unlike http.ParseTime it takes GMT alone for a zone: of others it
// would read the letters and not the hours.
func parseDate(value string) (date time.Time, ok bool) {
	for _, layout := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if date, err := time.Parse(layout, value); err == nil {
			return date, true
		}
	}
	return time.Time{}, false
}

// seconds reads a whole number of seconds, without a sign.
func seconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	return times(s, time.Second), true
}

// times is a number in digits times a unit, or the greatest time there is.
func times(digits string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// ParsePushback reads the value of gRPC's trailer grpc-retry-pushback-ms (gRFC A6):
// a 32-bit number of milliseconds. One below 0, or that is none, forbids the
// retry.
func ParsePushback(value string) (wait time.Duration, retry bool) {
	ms, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || ms < 0 {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

const pushbackHeader = "Grpc-Retry-Pushback-Ms"

// Hint is the least wait that a response asks for: by grpc-retry-pushback-ms
// if it has that, else by Retry-After, the longest where there are several,
// else, on a 429 or 503, by RateLimit. It reports false when the server forbids
// the retry. A date is compared with the response's own Date where it has one,
// so that no clock need be right.
func Hint(resp *http.Response, now time.Time) (wait time.Duration, retry bool) {
	h := resp.Header
	if values := h[pushbackHeader]; len(values) > 0 {
		wait, retry := ParsePushback(values[0])
		return wait, retry && len(values) == 1
	}
	if date, ok := parseDate(h.Get("Date")); ok {
		now = date
	}
	if wait, ok := greatest(h.Values("Retry-After"), now); ok {
		return wait, true
	}
	if s := resp.StatusCode; s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable {
		wait, _ = ParseRateLimit(strings.Join(h.Values("RateLimit"), ", "))
	}
	return wait, true
}

// greatest is of the values that are a Retry-After.
func greatest(values []string, now time.Time) (wait time.Duration, ok bool) {
	for _, value := range values {
		if w, is := ParseRetryAfter(value, now); is {
			wait, ok = max(wait, w), true
		}
	}
	return wait, ok
}
