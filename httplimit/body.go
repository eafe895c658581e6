package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
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
}

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
	body := a.refusal(now)
	body.status = status
	body.write(w, r)
}

// DenialBody returns the body of a denial, with the answer's own status in it, and its
// media type, which the Accept of r selects. It is for servers that hand the denial to
// another server, which answers the client. The answer must not be Allowed.
func (a *Answer) DenialBody(r *http.Request, now time.Time) (mediaType string, text []byte) {
	body := a.refusal(now)
	body.status = a.Status()
	return body.text(r)
}

func (a *Answer) refusal(now time.Time) refusal {
	switch {
	case a.Listed:
		return refusal{code: codeListed, message: "Access is denied by a list", problem: problemNone}
	case a.Unavailable:
		return refusal{code: codeUnavailable, message: "The limit cannot be checked at the moment",
			details: &details{RetryAfterSeconds: a.retrySeconds()}, problem: problemCapacity,
			title: "Request cannot be satisfied due to temporary server capacity constraints"}
	}
	return a.exceeded(now)
}

func (a *Answer) exceeded(now time.Time) refusal {
	body := refusal{code: codeExceeded, message: "Rate limit exceeded",
		details: &details{RetryAfterSeconds: a.retrySeconds()}, problem: problemQuota,
		title:    "Request cannot be satisfied as assigned quota has been exceeded",
		violated: a.violated()}
	if face := a.face(); face != nil {
		d, limit := body.details, a.Decision.Limit
		d.Limit, d.WindowSeconds = &limit, seconds(face.Limit.Window())
		d.ResetAt = time.Unix(a.resetAt(now), 0).UTC().Format(time.RFC3339)
		body.message = fmt.Sprintf("Rate limit of %d requests per %d seconds exceeded", limit, d.WindowSeconds)
	}
	return body
}

// violated returns the names of the policies that denied.
func (a *Answer) violated() (names []string) {
	for i := range a.Policies {
		if a.Policies[i].Exceeded {
			names = append(names, a.Policies[i].Name)
		}
	}
	if face := a.face(); face != nil && names == nil {
		names = []string{face.Name}
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
