package deadline

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultHeader carries the time left in whole milliseconds: "850".
const DefaultHeader = "X-Deadline-Ms"

// Two headers of other systems that are also read.
const (
	grpcHeader  = "Grpc-Timeout"                   // gRPC over HTTP/2
	envoyHeader = "X-Envoy-Expected-Rq-Timeout-Ms" // in whole milliseconds
)

// Left returns the time that a request has left by its headers: the least value of the
// named header, grpc-timeout and x-envoy-expected-rq-timeout-ms. It returns 0 if the time
// is over, which a number below 0 in the named header also says. Invalid values are
// ignored; without a valid value ok is false. A name of "" means [DefaultHeader]. The
// other two headers may also be named, and keep their own format.
func Left(h http.Header, name string) (left time.Duration, ok bool) {
	named := DefaultHeader
	if name != "" {
		named = http.CanonicalHeaderKey(name)
	}
	for _, name := range [...]string{named, grpcHeader, envoyHeader} {
		if d, valid := least(h, name); valid && (!ok || d < left) {
			left, ok = d, true
		}
	}
	return left, ok
}

// least returns the least valid value of a header with a canonical name.
func least(h http.Header, name string) (left time.Duration, ok bool) {
	parse := milliseconds
	switch name {
	case grpcHeader:
		parse = grpcTimeout
	case envoyHeader:
		parse = envoyTimeout
	}
	for _, value := range h[name] {
		if d, valid := parse(value); valid && (!ok || d < left) {
			left, ok = d, true
		}
	}
	return left, ok
}

// milliseconds parses a whole number of milliseconds. A number below 0 is 0; a number too
// great for a Duration is the greatest Duration.
func milliseconds(value string) (time.Duration, bool) {
	digits, below := strings.CutPrefix(strings.TrimSpace(value), "-")
	if !isDigits(digits) {
		return 0, false
	}
	if below {
		return 0, true
	}
	return times(digits, time.Millisecond), true
}

// envoyTimeout is milliseconds, except that 0 means no deadline, as in Envoy.
func envoyTimeout(value string) (time.Duration, bool) {
	d, ok := milliseconds(value)
	return d, ok && d > 0
}

// grpcTimeout parses grpc-timeout: one to eight digits and a unit, H, M, S, m
// (milliseconds), u or n. A value too great for a Duration is the greatest Duration.
func grpcTimeout(value string) (time.Duration, bool) {
	if len(value) < 2 || len(value) > 9 {
		return 0, false
	}
	digits, unit := value[:len(value)-1], grpcUnit(value[len(value)-1])
	if unit == 0 || !isDigits(digits) {
		return 0, false
	}
	return times(digits, unit), true
}

func grpcUnit(letter byte) time.Duration {
	switch letter {
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	case 'S':
		return time.Second
	case 'm':
		return time.Millisecond
	case 'u':
		return time.Microsecond
	case 'n':
		return time.Nanosecond
	}
	return 0
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// times multiplies a decimal number by a unit. If the product overflows it is the
// greatest Duration.
func times(digits string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// Set writes the time left into the named header, rounded down. If the headers already
// have grpc-timeout or Envoy's header, as in a request that is passed on, Set lowers
// those to the time left, but Envoy's at least to 1, because there 0 means no deadline.
func Set(h http.Header, name string, left time.Duration) {
	left = max(0, left)
	write(h, cmp.Or(name, DefaultHeader), left)
	for _, other := range []string{grpcHeader, envoyHeader} {
		if d, ok := least(h, other); ok && d > left {
			write(h, other, left)
		}
	}
}

func write(h http.Header, name string, left time.Duration) {
	value := strconv.FormatInt(left.Milliseconds(), 10)
	switch http.CanonicalHeaderKey(name) {
	case grpcHeader:
		value = formatGRPC(left)
	case envoyHeader:
		value = strconv.FormatInt(max(1, left.Milliseconds()), 10)
	}
	h.Set(name, value)
}

// formatGRPC returns the greatest value of grpc-timeout that does not exceed d.
func formatGRPC(d time.Duration) string {
	const most = 99_999_999 // eight digits
	for _, letter := range []byte("numSM") {
		if n := d / grpcUnit(letter); n <= most {
			return strconv.FormatInt(int64(n), 10) + string(letter)
		}
	}
	return strconv.FormatInt(int64(d/time.Hour), 10) + "H"
}
