package httplimit

import (
	"errors"
	"net/http"

	"github.com/stintdev/stint"
)

// WriteError answers a request that could not be decided. The status is 400 with the
// reason if the request is at fault, 503 if the store failed or the time ran out, else
// 500. The answers 503 and 500 do not contain the cause, because it may name internal
// hosts.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	body := refusal{status: http.StatusInternalServerError, code: codeInternal,
		message: "The limit could not be checked", problem: problemNone}
	if coded, ok := errors.AsType[*stint.Error](err); ok {
		body.translate(coded)
	}
	w.Header().Set("Cache-Control", "no-store")
	body.write(w, r)
}

// translate maps error codes to statuses. No other function does.
func (b *refusal) translate(err *stint.Error) {
	switch err.Code {
	case stint.CodeInvalid:
		b.status, b.code, b.message = http.StatusBadRequest, codeInvalid, err.Error()
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted:
		b.status, b.code = http.StatusServiceUnavailable, codeUnavailable
		b.message = "The limit cannot be checked at the moment"
	case stint.CodeInternal: // 500, as WriteError has set
	}
}

// writeInvalidToken writes a 401 as in RFC 6750, section 3.1.
func writeInvalidToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	w.Header().Set("Cache-Control", "no-store")
	body := refusal{status: http.StatusUnauthorized, code: codeInvalidToken,
		message: "The token cannot be verified", problem: problemNone}
	body.write(w, r)
}
