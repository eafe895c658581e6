package httplimit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// The error codes of bodies. They are stable: programs may depend on them.
const (
	codeExceeded     = "RATE_LIMIT_EXCEEDED"
	codeListed       = "DENIED_BY_LIST"
	codeUnavailable  = "LIMITER_UNAVAILABLE"
	codeInvalid      = "INVALID_REQUEST"
	codeInvalidToken = "INVALID_TOKEN"
	codeInternal     = "INTERNAL"
)

// Problem types of RFC 9457: the registered ones, and "about:blank" for all else.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	problemNone     = "about:blank"
)

// refusal is the content of an error body, before its media type is chosen.
type refusal struct {
	status  int
	code    string
	message string
	details *details

	problem, title string
	violated       []string
}

// details are the details of a denial. Fields that do not apply are omitted.
type details struct {
	Limit             *int64 `json:"limit,omitempty"` // 0 where a rule denies everything
	WindowSeconds     int64  `json:"window_seconds,omitempty"`
	RetryAfterSeconds int64  `json:"retry_after_seconds,omitempty"`
	ResetAt           string `json:"reset_at,omitempty"`
	Penalty           string `json:"penalty,omitempty"`  // cool_down, ban or hot_key
	Endpoint          string `json:"endpoint,omitempty"` // the path of the request, percent-encoded
}

// maxEndpoint bounds the path in a body, in bytes: proxies pass the body on in a header of
// limited size.
const maxEndpoint = 256

// WriteDenial is shorthand for WriteDenialAs(w, r, now, a.Status()).
func (a *Answer) WriteDenial(w http.ResponseWriter, r *http.Request, now time.Time) {
	a.WriteDenialAs(w, r, now, a.Status())
}

// WriteDenialAs writes a whole denial: the headers of [Answer.SetHeaders], the given
// status and, unless the request is HEAD, a body in the media type that its Accept
// prefers. It is for servers that must answer a denial with another status than the
// answer's own. The answer must not be Allowed.
func (a *Answer) WriteDenialAs(w http.ResponseWriter, r *http.Request, now time.Time, status int) {
	a.SetHeaders(w.Header(), now)
	body := a.refusal(r, now)
	body.status = status
	body.write(w, r)
}

// DenialBody returns the body of a denial, with the answer's own status in it, and its
// media type, which the Accept of r selects. It is for servers that hand the denial to
// another server, which answers the client. The answer must not be Allowed.
func (a *Answer) DenialBody(r *http.Request, now time.Time) (mediaType string, text []byte) {
	body := a.refusal(r, now)
	body.status = a.Status()
	return body.text(r)
}

func (a *Answer) refusal(r *http.Request, now time.Time) refusal {
	switch {
	case a.Listed:
		return refusal{code: codeListed, message: "Access is denied by a list", problem: problemNone}
	case a.unavailable():
		return refusal{code: codeUnavailable, message: "The limit cannot be checked at the moment",
			details: &details{RetryAfterSeconds: a.retrySeconds()}, problem: problemCapacity,
			title: "Request cannot be satisfied due to temporary server capacity constraints"}
	}
	return a.exceeded(r, now)
}

func (a *Answer) exceeded(r *http.Request, now time.Time) refusal {
	body := refusal{code: codeExceeded, message: "Rate limit exceeded",
		details: &details{RetryAfterSeconds: a.retrySeconds()}, problem: problemQuota,
		title:    "Request cannot be satisfied as assigned quota has been exceeded",
		violated: a.violated()}
	binding := a.binding()
	if binding == nil {
		return body
	}
	d, path := body.details, r.URL.EscapedPath()
	d.ResetAt = time.Unix(a.resetAt(now), 0).UTC().Format(time.RFC3339)
	d.Endpoint = path[:min(len(path), maxEndpoint)]
	if a.Decision.Penalty != stint.NoPenalty { // the limit is not the reason
		d.Penalty = a.Decision.Penalty.String()
		body.message = cmp.Or(a.Reason, "Denied for a time after too many requests")
		return body
	}
	limit := a.Decision.Limit
	d.Limit, d.WindowSeconds = &limit, seconds(binding.Limit.Window())
	body.message = fmt.Sprintf("Rate limit of %d requests per %d seconds exceeded", limit, d.WindowSeconds)
	return body
}

// violated returns the names of the policies that denied.
func (a *Answer) violated() (names []string) {
	for i := range a.Policies {
		if a.Policies[i].Exceeded {
			names = append(names, a.Policies[i].Name)
		}
	}
	if binding := a.binding(); binding != nil && names == nil {
		names = []string{binding.Name}
	}
	return names
}

// text returns the body and its media type, which the Accept of the request selects.
func (b *refusal) text(r *http.Request) (kind string, text []byte) {
	kind, form := "application/json", b.json()
	if prefersProblem(r.Header["Accept"]) {
		kind, form = "application/problem+json", b.problemJSON()
	}
	text, err := json.Marshal(form)
	if err != nil { // strings and numbers never fail; without a body, the status still answers
		text = nil
	}
	return kind, text
}

// write writes the status and the body.
func (b *refusal) write(w http.ResponseWriter, r *http.Request) {
	kind, text := b.text(r)
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(b.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) //nolint:gosec // JSON with its escapes; and a client that is gone needs no answer
	}
}

// json returns the body in Stint's own format.
func (b *refusal) json() any {
	type body struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Details *details `json:"details,omitempty"`
	}
	return struct {
		Error body `json:"error"`
	}{body{b.code, b.message, b.details}}
}

// problemJSON returns the body in the format of RFC 9457.
func (b *refusal) problemJSON() any {
	form := struct {
		Type       string   `json:"type"`
		Title      string   `json:"title"`
		Status     int      `json:"status"`
		Detail     string   `json:"detail,omitempty"`
		Code       string   `json:"code"`
		RetryAfter int64    `json:"retry_after_seconds,omitempty"`
		Violated   []string `json:"violated-policies,omitempty"`
	}{Type: b.problem, Title: b.title, Status: b.status, Detail: b.message, Code: b.code, Violated: b.violated}
	if form.Title == "" {
		form.Title = http.StatusText(b.status)
	}
	if b.details != nil {
		form.RetryAfter = b.details.RetryAfterSeconds
	}
	return form
}

// prefersProblem reports whether a client that sent these Accept lines
// (RFC 9110, section 12.5.1) asks for application/problem+json: it names that
// type, and gives plain JSON no greater quality. A wildcard does not ask for
// it, so that only clients that know the type get it.
func prefersProblem(lines []string) bool {
	problem, plain, precision := 0.0, 0.0, 0
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			name, quality := mediaRange(element)
			if name == "application/problem+json" {
				problem = max(problem, quality)
			} else if p := plainPrecision(name); p > precision {
				plain, precision = quality, p
			}
		}
	}
	return problem > 0 && problem >= plain
}

// plainPrecision returns how specifically a media range matches application/json: 3 is
// an exact match, 0 no match.
func plainPrecision(name string) int {
	switch name {
	case "application/json":
		return 3
	case "application/*":
		return 2
	case "*/*":
		return 1
	}
	return 0
}

// mediaRange reads one element of Accept. It returns the name in lower case, and the
// quality, 0 if that is malformed.
func mediaRange(element string) (name string, quality float64) {
	name, parameters, _ := strings.Cut(element, ";")
	quality = 1
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			q = 0
		}
		quality = q
	}
	return strings.ToLower(strings.TrimSpace(name)), quality
}

// WriteError answers a request that could not be decided, with [ErrorStatus] and a body.
// The body has the reason if the request is at fault. The answers 503 and 500 do not
// contain the cause, because it may name internal hosts.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	body := errorRefusal(err)
	if body.status == http.StatusUnauthorized { // as in RFC 6750, section 3.1
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	body.write(w, r)
}

// ErrorStatus returns the status code for a request that could not be decided: 400 if the
// request is at fault, 401 for [ErrInvalidToken], 503 if the store failed or the time ran
// out, and 500 for any other error.
func ErrorStatus(err error) int {
	body := errorRefusal(err)
	return body.status
}

// errorRefusal maps errors to statuses. No other function does.
func errorRefusal(err error) refusal {
	body := refusal{status: http.StatusInternalServerError, code: codeInternal,
		message: "The limit could not be checked", problem: problemNone}
	coded, ok := errors.AsType[*stint.Error](err)
	if !ok {
		if errors.Is(err, ErrInvalidToken) {
			body.status, body.code, body.message = http.StatusUnauthorized, codeInvalidToken, "The token cannot be verified"
		}
		return body
	}
	switch coded.Code {
	case stint.CodeInvalid:
		body.status, body.code, body.message = http.StatusBadRequest, codeInvalid, coded.Error()
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted, stint.CodeContended:
		body.status, body.code, body.message = http.StatusServiceUnavailable, codeUnavailable, "The limit cannot be checked at the moment"
	case stint.CodeInternal, stint.CodeConflict: // 500, as set above; requests that are limited have no ids
	}
	return body
}
