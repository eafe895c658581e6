package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/httplimit"
)

// The codes of an error body. They are stable; messages are not.
const (
	codeInvalid      = "INVALID_REQUEST"
	codeTooLarge     = "BODY_TOO_LARGE"
	codeUnauthorized = "UNAUTHORIZED"
	codeInvalidToken = "INVALID_TOKEN"
	codeForbidden    = "FORBIDDEN"
	codeNotFound     = "NOT_FOUND"
	codeMethod       = "METHOD_NOT_ALLOWED"
	codeUnavailable  = "STORE_UNAVAILABLE"
	codeExhausted    = "CALLER_LIMITS_EXHAUSTED"
	codeIDReused     = "REQUEST_ID_REUSED"
	codeIDsExhausted = "REQUEST_IDS_EXHAUSTED"
	codeInternal     = "INTERNAL"
)

// apiError is an answer that is not a decision.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.message }

// loggedError is an answer whose cause has been logged already or needs no log.
type loggedError struct{ *apiError }

func (e loggedError) Unwrap() error { return e.apiError }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, codeInvalid, fmt.Sprintf(format, args...)}
}

// asAPIError is the only place that translates errors of decisions to HTTP.
func asAPIError(err error) *apiError {
	if api, ok := errors.AsType[*apiError](err); ok {
		return api
	}
	if errors.Is(err, httplimit.ErrInvalidToken) {
		return &apiError{http.StatusUnauthorized, codeInvalidToken, "The token cannot be verified"}
	}
	if _, ok := errors.AsType[*stint.LimitError](err); ok {
		return &apiError{http.StatusBadRequest, codeInvalid, err.Error()}
	}
	failed, ok := errors.AsType[*stint.Error](err)
	switch {
	case !ok || failed.Code == stint.CodeInternal:
		return &apiError{http.StatusInternalServerError, codeInternal, "no decision could be made"}
	case failed.Code == stint.CodeInvalid:
		return &apiError{http.StatusBadRequest, codeInvalid, decide.Explain(failed)}
	case failed.Code == stint.CodeConflict:
		return &apiError{http.StatusConflict, codeIDReused, decide.Explain(failed)}
	case failed.Code == stint.CodeExhausted && failed.Kind == stint.KindOnceBudget:
		return &apiError{http.StatusServiceUnavailable, codeIDsExhausted, decide.Explain(failed)}
	case failed.Code == stint.CodeExhausted && failed.Kind == stint.KindCallerBudget:
		return &apiError{http.StatusServiceUnavailable, codeExhausted, decide.Explain(failed)}
	}
	return &apiError{http.StatusServiceUnavailable, codeUnavailable, decide.Explain(failed)}
}

// ErrorWriter answers requests with errors, and logs the errors that callers did not
// cause.
type ErrorWriter struct{ Logger *slog.Logger }

// write answers with the error.
func (e ErrorWriter) write(w http.ResponseWriter, r *http.Request, err error) {
	e.Log(r, err)
	api := asAPIError(err)
	if failed, ok := errors.AsType[*stint.Error](err); ok && failed.RetryAfter > 0 {
		setRetryAfter(w.Header(), failed.RetryAfter)
	}
	writeJSON(w, api.status, api.body())
}

// Unauthorized answers that the token is missing or wrong.
func (e ErrorWriter) Unauthorized(w http.ResponseWriter, r *http.Request, problem string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
	e.write(w, r, &apiError{http.StatusUnauthorized, codeUnauthorized,
		problem + ": send it as Authorization: Bearer TOKEN, or as " + TokenHeader})
}

// Log logs an error unless the caller caused it, gave up, or the error was logged or
// counted where it arose.
func (e ErrorWriter) Log(r *http.Request, err error) {
	_, logged := errors.AsType[loggedError](err)
	if !logged && asAPIError(err).status >= http.StatusInternalServerError && r.Context().Err() == nil && decide.IsFailure(err) {
		e.Logger.Error("no decision", "error", fmt.Sprint(err))
	}
}

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *apiError) body() errorBody { return errorBody{errorDetail{e.code, e.message}} }

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
