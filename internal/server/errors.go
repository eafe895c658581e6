package server

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

// asAPIError is the one place where the errors of a store become HTTP.
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
		// What is wrong may name servers of the inside; it is for the log.
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

// overCallersBudget reports whether limits that callers bring have used up the
// room that the store has for them. The store and the rules are well.
func overCallersBudget(e *stint.Error) bool {
	return e.Code == stint.CodeExhausted && e.Kind == stint.KindCallerBudget
}

// logFailure logs what is not the caller's mistake. Who gave up is no news, and
// neither is a store that is left alone: that was logged when it began. Callers
// over their budget are counted, because a flood of them would fill the log.
func (s *Server) logFailure(r *http.Request, err error) {
	if asAPIError(err).status >= http.StatusInternalServerError && r.Context().Err() == nil && !leftAlone(err) {
		s.log.Error("no decision", errorAttr(err))
	}
}

// leftAlone reports whether an error was logged, or counted, where it began.
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

// writeJSON answers with the value, which can be written as JSON.
func writeJSON(w http.ResponseWriter, status int, value any) {
	setJSON(w.Header())
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) //nolint:errchkjson // none of our values can fail; the client may be gone
}

// setJSON says what an answer of the API is. It is true only at the moment it
// is given, so no cache may keep it.
func setJSON(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
