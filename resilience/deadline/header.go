package deadline

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultHeader carries the time left in whole milliseconds: "850".
const DefaultHeader = "X-Deadline-Ms"

// Two headers of others that are understood, too.
const (
	grpcHeader  = "Grpc-Timeout"                   // gRPC over HTTP/2
	envoyHeader = "X-Envoy-Expected-Rq-Timeout-Ms" // in whole milliseconds
)

// Left is the time that a request has left by its headers: the least of what
// the named one, grpc-timeout and x-envoy-expected-rq-timeout-ms say. It is 0
// where that is over, also by a number below 0 in the named one. Values that
// cannot be read say nothing; when none can, ok is false. A name of "" is
// [DefaultHeader]; the other two may be named, and are read as what they are.
func Left(h http.Header, name string) (left time.Duration, ok bool) {
	for _, name := range []string{orDefault(name), grpcHeader, envoyHeader} {
		if d, said := least(h, name); said && (!ok || d < left) {
			left, ok = d, true
		}
	}
	return left, ok
}

// least is the least of what a header's values say.
func least(h http.Header, name string) (left time.Duration, ok bool) {
	read := reader(name)
	for _, value := range h.Values(name) {
		if d, said := read(value); said && (!ok || d < left) {
			left, ok = d, true
		}
	}
	return left, ok
}

func reader(name string) func(string) (time.Duration, bool) {
	switch http.CanonicalHeaderKey(name) {
	case grpcHeader:
		return GRPCTimeout
	case envoyHeader:
		return envoyTimeout
	}
	return Milliseconds
}

func orDefault(name string) string {
	if name == "" {
		return DefaultHeader
	}
	return name
}

// Milliseconds reads a whole number of milliseconds. One below 0 is 0, one too
// great for a time the greatest there is.
func Milliseconds(value string) (time.Duration, bool) {
	digits, below := strings.CutPrefix(strings.TrimSpace(value), "-")
	if !isDigits(digits) {
		return 0, false
	}
	if below {
		return 0, true
	}
	return times(digits, time.Millisecond), true
}

// envoyTimeout is Milliseconds, of which Envoy takes 0 for no deadline.
func envoyTimeout(value string) (time.Duration, bool) {
	d, ok := Milliseconds(value)
	return d, ok && d > 0
}

// GRPCTimeout reads grpc-timeout: one to eight digits and a unit, H, M, S, m
// (milliseconds), u or n. Hours too many for a time are the greatest there is.
func GRPCTimeout(value string) (time.Duration, bool) {
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

// times is a number in digits times a unit, or the greatest time there is.
func times(digits string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// Set writes the time left into the named header, rounded down. Where the
// headers already have grpc-timeout or Envoy's, as of a request that is passed
// on, it brings those down to no more, but Envoy's to 1 at least: 0 would be no
// deadline.
func Set(h http.Header, name string, left time.Duration) {
	left = max(0, left)
	write(h, orDefault(name), left)
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

// formatGRPC is the greatest value of grpc-timeout that is no more.
func formatGRPC(d time.Duration) string {
	const most = 99_999_999 // eight digits
	for _, letter := range []byte("numSM") {
		if n := d / grpcUnit(letter); n <= most {
			return strconv.FormatInt(int64(n), 10) + string(letter)
		}
	}
	return strconv.FormatInt(int64(d/time.Hour), 10) + "H"
}
