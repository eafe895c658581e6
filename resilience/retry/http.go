package retry

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ClassifyHTTP is the verdict on a round trip: a retry for 408, 429, 500, 502,
// 503 and 504, after the wait that [Hint] reads, unless that forbids it, and
// for what [NetworkError] says is one. No other status is worth a retry, no
// other 4xx above all.
func ClassifyHTTP(resp *http.Response, err error, now time.Time) Verdict {
	if err != nil {
		return Verdict{Retry: NetworkError(err)}
	}
	if !RetryableStatus(resp.StatusCode) {
		return Verdict{}
	}
	wait, retry := Hint(resp, now)
	return Verdict{Retry: retry, After: wait}
}

// RetryableStatus reports whether a status says that the same request may
// succeed later: 408, 429, 500, 502, 503, 504.
func RetryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// NetworkError reports whether an error of a round trip came from the network
// on the way, so that the next may succeed: not connected, broken off, timed
// out. A name that does not exist, an address that cannot be and a handshake
// that either side of TLS refuses are none: they stay as they are. Nor is what
// has a method Retryable that says false. Of an error of http.Client, the one
// in it counts.
func NetworkError(err error) bool {
	if client, ok := errors.AsType[*url.Error](err); ok && !refusal(err) {
		err = client.Err
	}
	var dns *net.DNSError
	var address *net.AddrError
	switch {
	case refusal(err), refusedByTLS(err), errors.As(err, &address):
		return false
	case errors.As(err, &dns):
		return !dns.IsNotFound
	}
	var network net.Error
	var errno syscall.Errno
	return errors.As(err, &network) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || brokenOff(err)
}

// refusedByTLS reports whether the other side ended a handshake by an alert.
// What this side does not trust is no error of net at all.
func refusedByTLS(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// brokenOff reports whether net/http says in words alone, as it does for
// HTTP/2, that a connection or stream has ended.
func brokenOff(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"http2: ", "stream error: ", "connection error: ", "http: server closed idle connection"}, func(begin string) bool {
		return strings.HasPrefix(text, begin)
	})
}

// Repeatable reports whether sending a request twice does no more than sending
// it once: its method is idempotent (RFC 9110, section 9.2.2), or it has an
// Idempotency-Key or X-Idempotency-Key.
func Repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return hasKey(req.Header, "Idempotency-Key") || hasKey(req.Header, "X-Idempotency-Key")
}

// hasKey reports whether a header names a key. An empty list of values stands
// for one that is not sent, as net/http has it.
func hasKey(h http.Header, name string) bool {
	values, ok := h[name]
	return ok && (len(values) == 0 || values[0] != "")
}
