package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

// FallbackOptions is the answer of a route when no upstream answers.
//
// It belongs to the route and not to a rule: several rules decide a request together, a
// rule also decides requests that others forward, and only the route knows what its
// clients expect from the application.
type FallbackOptions struct {
	// Status is the status of the answer, 200 to 599. If it is below 400, the fallback
	// answers GET and HEAD alone: to other methods it would say that something was done.
	Status int

	// Body is the body, at most 64 KiB.
	Body string

	// Headers are header fields of the answer. Content-Type defaults to plain text,
	// Cache-Control to no-store.
	Headers map[string]string
}

const maxFallback = 64 << 10 // bytes

// check returns what is wrong with the options, or nil for a route without a fallback.
func (o *FallbackOptions) check() error {
	if o == nil {
		return nil
	}
	if err := o.problem(); err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	return nil
}

func (o *FallbackOptions) problem() error {
	switch {
	case o.Status < http.StatusOK || o.Status > 599:
		return fmt.Errorf("status %d is out of range (use 200 to 599)", o.Status)
	case o.Status == http.StatusNoContent && o.Body != "" || o.Status == http.StatusNotModified:
		return fmt.Errorf("status %d has no body (use 200)", o.Status)
	case len(o.Body) > maxFallback:
		return fmt.Errorf("the body has %d bytes (use at most %d)", len(o.Body), maxFallback)
	case len(o.Headers) > maxHeaderEdits:
		return fmt.Errorf("it has %d header fields (use at most %d)", len(o.Headers), maxHeaderEdits)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		if err := checkField(name); err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(o.Headers[name]) {
			return errors.New("the value of " + name + " has characters that no header may have (remove them)")
		}
	}
	return nil
}

// serves reports whether the fallback answers a request that failed. It does if no
// upstream has answered, but not if the client is at fault or has given too little time.
func (o *FallbackOptions) serves(r *http.Request, f *failure) bool {
	if o == nil || o.Status < http.StatusBadRequest && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch f.code {
	case codeUnavailable, codeFailed, codeTimeout, codeOverloaded:
		return true
	}
	return false
}

// statusOf returns the status with which answerFailure answers.
func (x *exchange) statusOf(r *http.Request, f *failure) int {
	if o := x.route.fallback; o.serves(r, f) {
		return o.Status
	}
	return f.status
}

// answerFailure answers a request without a response from an upstream, by the fallback of
// its route if there is one.
func (x *exchange) answerFailure(w http.ResponseWriter, r *http.Request, f *failure) {
	x.restore(nil)
	o := x.route.fallback
	if !o.serves(r, f) {
		f.write(w, x.id)
		return
	}
	x.route.metrics.Fallbacks.Inc()
	f.ignore(w)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if f.retryAfter > 0 && o.Status >= http.StatusBadRequest {
		h.Set("Retry-After", strconv.FormatInt(f.retryAfter, 10))
	}
	for name, value := range o.Headers {
		h.Set(name, value)
	}
	w.WriteHeader(o.Status)
	_, _ = w.Write([]byte(o.Body)) //nolint:gosec // it is the text of the settings file, not of a client
}
