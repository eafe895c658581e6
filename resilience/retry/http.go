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

// ClassifyHTTP classifies the result of a round trip. Statuses 408, 429, 500, 502, 503
// and 504 are retried after the wait that [RequestedWait] returns, unless the server forbids
// the retry. Errors are retried if [NetworkError] reports true. No other status is
// retried.
func ClassifyHTTP(resp *http.Response, err error, now time.Time) Classification {
	if err != nil {
		return Classification{Retry: NetworkError(err)}
	}
	if !retryableStatus(resp.StatusCode) {
		return Classification{}
	}
	wait, retry := RequestedWait(resp, now)
	return Classification{Retry: retry, After: wait}
}

// retryableStatus reports whether a status says that the same request may
// succeed later: 408, 429, 500, 502, 503, 504.
func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// NetworkError reports whether an error of a round trip came from the network, so that
// the next attempt may succeed: connection refused, broken off or timed out. It reports
// false for permanent errors: a name that does not exist, an invalid address, a TLS
// handshake that either side refuses, and an error whose method Retryable returns false.
// It looks at the error inside an error of http.Client.
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

// refusedByTLS reports whether the other side ended a handshake with an alert. If this
// side does not trust the other, the error is not of package net.
func refusedByTLS(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// brokenOff reports whether the error's text says that a connection or stream has ended.
// For HTTP/2, net/http reports this only in the text.
func brokenOff(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"http2: ", "stream error: ", "connection error: ", "http: server closed idle connection"}, func(begin string) bool {
		return strings.HasPrefix(text, begin)
	})
}

// Repeatable reports whether a request is safe to send twice: its method is idempotent
// (RFC 9110, section 9.2.2), or it has an Idempotency-Key or X-Idempotency-Key.
func Repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return hasKey(req.Header, "Idempotency-Key") || hasKey(req.Header, "X-Idempotency-Key")
}

// hasKey reports whether a header has a key. An empty list of values means, as in
// net/http, that the header is not sent but the request is idempotent.
func hasKey(h http.Header, name string) bool {
	values, ok := h[name]
	return ok && (len(values) == 0 || values[0] != "")
}
