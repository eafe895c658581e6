package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// statuses are HTTP statuses that replace the true one for proxies that do not understand
// it. Zero replaces nothing.
type statuses struct {
	deny   int // deny_status: replaces the status of every denial; nginx understands only 401 and 403
	failed int // error_status: replaces 500 and above, which Envoy treats as a failure and may let the request pass
}

// of returns the status to send in place of the given one.
func (s statuses) of(status int) int {
	if s.failed != 0 && status >= http.StatusInternalServerError {
		return s.failed
	}
	return status
}

// statusesOf parses the parameters that the proxy's configuration put into the URL: the
// query of /v1/auth, or the parameters in the same path segment, as in
// /v1/auth;error_status=429/orders. If the path goes on after /v1/auth, the query belongs
// to the original request and is under the client's control, so it is not read.
func statusesOf(u *url.URL) (s statuses, err error) {
	text := parametersOf(strings.TrimPrefix(u.Path, authPath))
	if u.Path == authPath {
		text = u.RawQuery
	}
	if text == "" {
		return s, nil
	}
	given := (&url.URL{RawQuery: text}).Query()
	if s.deny, err = statusIn(given, "deny_status"); err != nil {
		return s, err
	}
	s.failed, err = statusIn(given, "error_status")
	return s, err
}

// parametersOf returns the parameters between "auth" and the path of the original
// request.
func parametersOf(rest string) string {
	text, ok := strings.CutPrefix(rest, ";")
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, "/")
	return text
}

// statusIn returns the status in the named parameter, or 0 if the parameter is absent.
func statusIn(given url.Values, name string) (int, error) {
	if !given.Has(name) {
		return 0, nil
	}
	text := given.Get(name)
	status, err := strconv.Atoi(text)
	if err != nil || status < 400 || status > 499 {
		return 0, badRequest("%s: %s is not a status from 400 to 499", name, shown(text))
	}
	return status, nil
}
