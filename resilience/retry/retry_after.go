package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// parseRetryAfter parses a Retry-After field (RFC 9110, section 10.2.3): a whole number
// of seconds, or a date, from which it subtracts now. A date in the past is a wait of 0.
// A number too great for a Duration is the greatest Duration. For any other value, such
// as a date that is not in GMT, ok is false.
func parseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
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

// parseDate parses a date in one of the three formats of RFC 9110, section 5.6.7. Unlike
// http.ParseTime it accepts only the zone GMT: of another zone, http.ParseTime reads the
// name and ignores the offset.
func parseDate(value string) (date time.Time, ok bool) {
	for _, layout := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if date, err := time.Parse(layout, value); err == nil {
			return date, true
		}
	}
	return time.Time{}, false
}

// seconds parses a whole number of seconds without a sign.
func seconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	return times(s, time.Second), true
}

// times multiplies a decimal number by a unit. If the product overflows it is the
// greatest Duration.
func times(digits string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// ParsePushback parses the value of gRPC's trailer grpc-retry-pushback-ms (gRFC A6): a
// 32-bit number of milliseconds. A number below 0 and an invalid value forbid the retry.
func ParsePushback(value string) (wait time.Duration, retry bool) {
	ms, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || ms < 0 {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

const pushbackHeader = "Grpc-Retry-Pushback-Ms"

// RequestedWait returns the least wait that a response asks for. It reads the first of these
// that is present: grpc-retry-pushback-ms; the longest of the valid Retry-After fields;
// RateLimit, if the status is 429 or 503. retry is false if the server forbids the retry. A
// Retry-After that is a date is compared with the response's own Date field if there is one, so
// that the clocks of client and server need not agree.
func RequestedWait(resp *http.Response, now time.Time) (wait time.Duration, retry bool) {
	h := resp.Header
	if values := h[pushbackHeader]; len(values) > 0 {
		wait, retry := ParsePushback(values[0])
		return wait, retry && len(values) == 1
	}
	if date, ok := parseDate(h.Get("Date")); ok {
		now = date
	}
	var ok bool
	for _, value := range h.Values("Retry-After") {
		if w, valid := parseRetryAfter(value, now); valid {
			wait, ok = max(wait, w), true
		}
	}
	if ok {
		return wait, true
	}
	if s := resp.StatusCode; s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable {
		wait, _ = parseRateLimit(strings.Join(h.Values("RateLimit"), ", "))
	}
	return wait, true
}
