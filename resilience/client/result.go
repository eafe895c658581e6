package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// result names how a call or an attempt ended.
func result(ctx context.Context, resp *http.Response, err error) string {
	var refused *RefusedError
	switch {
	case err == nil:
		return class(resp.StatusCode)
	case errors.As(err, &refused):
		return "refused"
	case gaveUp(ctx, err), errors.Is(err, context.Canceled):
		return "canceled"
	case timedOut(ctx, err):
		return "timeout"
	}
	return "error"
}

func class(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "429"
	case !valid(status):
		return "5xx"
	}
	return strconv.Itoa(status/100) + "xx"
}

// valid reports whether a number is a valid status. Servers can send any number, and over
// HTTP/2 one of any length. A client treats an invalid status as a 5xx (RFC 9110, section
// 15).
func valid(status int) bool { return status >= 100 && status < 600 }

// gaveUp reports whether an attempt failed because its caller canceled it.
func gaveUp(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}

// timedOut reports whether an attempt failed because it took too long. With
// http.Client.Timeout an attempt ends with another error, sometimes before its context
// ends.
func timedOut(ctx context.Context, err error) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
