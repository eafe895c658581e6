package httplimit

import (
	"errors"
	"net/http"

	"github.com/stintdev/stint"
)

// WriteError answers a request that could not be decided: 400 with the reason
// when the request itself is at fault, 503 when the store is or time ran out,
// else 500. The last two say no more than that, since causes may name hosts.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	body := refusal{status: http.StatusInternalServerError, code: codeInternal,
		message: "The limit could not be checked", problem: problemNone}
	if coded, ok := errors.AsType[*stint.Error](err); ok {
		body.translate(coded)
	}
	w.Header().Set("Cache-Control", "no-store")
	body.write(w, r)
}

// translate is the one place where codes become statuses.
func (b *refusal) translate(err *stint.Error) {
	switch err.Code {
	case stint.CodeInvalid:
		b.status, b.code, b.message = http.StatusBadRequest, codeInvalid, err.Error()
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled, stint.CodeExhausted:
		b.status, b.code = http.StatusServiceUnavailable, codeUnavailable
		b.message = "The limit cannot be checked at the moment"
	case stint.CodeInternal: // as it stands
	}
}

// writeInvalidToken answers as RFC 6750, section 3.1.
func writeInvalidToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	w.Header().Set("Cache-Control", "no-store")
	body := refusal{status: http.StatusUnauthorized, code: codeInvalidToken,
		message: "The token cannot be verified", problem: problemNone}
	body.write(w, r)
}
