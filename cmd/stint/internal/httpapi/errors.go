package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stintdev/stint"
)

// The codes of an error body. They are stable; messages are not.
const (
	codeInvalid      = "INVALID_REQUEST"
	codeTooLarge     = "BODY_TOO_LARGE"
	codeUnauthorized = "UNAUTHORIZED"
	codeForbidden    = "FORBIDDEN"
	codeNotFound     = "NOT_FOUND"
	codeMethod       = "METHOD_NOT_ALLOWED"
	codeUnavailable  = "STORE_UNAVAILABLE"
	codeExhausted    = "CALLER_LIMITS_EXHAUSTED"
	codeInternal     = "INTERNAL"
)

// apiError is an answer that is not a decision.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, codeInvalid, fmt.Sprintf(format, args...)}
}

// asAPIError is the only place that translates store errors to HTTP.
func asAPIError(err error) *apiError {
	if api, ok := errors.AsType[*apiError](err); ok {
		return api
	}
	if _, ok := errors.AsType[*stint.LimitError](err); ok {
		return &apiError{http.StatusBadRequest, codeInvalid, err.Error()}
	}
	if failed, ok := errors.AsType[*stint.Error](err); ok {
		return fromStore(failed)
	}
	return &apiError{http.StatusInternalServerError, codeInternal, "no decision could be made"}
}

func fromStore(e *stint.Error) *apiError {
	if overCallersBudget(e) {
		return &apiError{http.StatusServiceUnavailable, codeExhausted, e.Error()}
	}
	switch e.Code {
	case stint.CodeInvalid:
		return &apiError{http.StatusBadRequest, codeInvalid, e.Error()}
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted:
		// The cause may name internal servers, so it goes only to the log.
		return &apiError{http.StatusServiceUnavailable, codeUnavailable, "no decision could be made: the store fails (" + e.KindName() + ")"}
	}
	return &apiError{http.StatusInternalServerError, codeInternal, "no decision could be made"}
}

// fail answers with the error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.logFailure(r, err)
	e := asAPIError(err)
	writeJSON(w, e.status, errorBody{errorDetail{e.code, e.message}})
}

// overCallersBudget reports whether the error means that caller-supplied limits have used
// up their budget in the store. The store itself and the rules are unaffected.
func overCallersBudget(e *stint.Error) bool {
	return e.Code == stint.CodeExhausted && e.Kind == stint.KindCallerBudget
}

// logFailure logs an error unless the caller caused it. It skips canceled requests, and
// errors of an open circuit, which was logged when it opened. Callers over their budget
// are only counted, because a flood of them would fill the log.
func (s *Server) logFailure(r *http.Request, err error) {
	if asAPIError(err).status >= http.StatusInternalServerError && r.Context().Err() == nil && !leftAlone(err) {
		s.log.Error("no decision", errorAttr(err))
	}
}

// leftAlone reports whether an error was logged or counted where it arose.
func leftAlone(err error) bool {
	if _, ok := errors.AsType[told](err); ok {
		return true
	}
	e, ok := errors.AsType[*stint.Error](err)
	return ok && (e.Kind == "breaker_open" || overCallersBudget(e))
}

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// writeJSON answers with the value as JSON. The value must be encodable.
func writeJSON(w http.ResponseWriter, status int, value any) {
	setJSON(w.Header())
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) //nolint:errchkjson // none of our values can fail; the client may be gone
}

// setJSON sets the headers of an API answer. A decision is valid only at the moment it is
// made, so no cache may keep it.
func setJSON(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
