package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// statuses are what a proxy can be told in place of the true status, where it
// does not understand that one. 0 changes nothing.
type statuses struct {
	deny   int // deny_status: for every denial. nginx understands 401 and 403 alone
	failed int // error_status: for 500 and above. Envoy takes those for a failure, and may let the request pass
}

// of is what stands for a status.
func (s statuses) of(status int) int {
	if s.failed != 0 && status >= http.StatusInternalServerError {
		return s.failed
	}
	return status
}

// statusesOf reads the parameters of a URL, as the proxy's configuration wrote
// them: the query of /v1/auth, or what follows in the same segment of the path,
// as in /v1/auth;error_status=429/orders. A query behind a longer path is part
// of the original request, and its client's.
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

// parametersOf is what stands in the path between the name auth and the path of
// the original request.
func parametersOf(rest string) string {
	text, ok := strings.CutPrefix(rest, ";")
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, "/")
	return text
}

// statusIn returns 0 when the parameter is not given.
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
