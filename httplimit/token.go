package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/stintdev/stint"
)

// TokenVerifier verifies the tokens of requests, such as JSON Web Tokens, so that their
// claims can be identities. Package jwtverify has one. It must be safe for concurrent
// use, and is called at most once per request.
type TokenVerifier interface {
	// VerifyToken returns the claims of a token as encoding/json decodes them, if
	// possible with numbers as json.Number. With an error the token gives no claims,
	// as if the request had none. The error says that the token is invalid, unless
	// [stint.CodeOf] of it is CodeUnavailable or CodeTimeout: then the token could not
	// be verified, because its keys could not be read for example.
	VerifyToken(ctx context.Context, token string) (claims map[string]any, err error)
}

// ErrInvalidToken is the error of a request whose token is invalid; see
// [Request.TokenError].
var ErrInvalidToken = errors.New("the token cannot be verified")

var errNoTokens = errors.New("no token can be verified (set Tokens to a verifier, such as one of package jwtverify)")

// readToken verifies the token of the request, on the first call only.
func (r *Request) readToken() {
	if r.tokenRead {
		return
	}
	r.tokenRead = true
	who := r.who()
	if who.Tokens == nil || r.Request == nil || who.TokenFrom.kind == fromClaim {
		return
	}
	text, err := who.TokenFrom.read(r)
	switch {
	case err != nil:
		r.tokenRefused, r.tokenErr = err, ErrInvalidToken
	case text != "":
		r.claims, err = who.Tokens.VerifyToken(r.Context(), text)
		r.tokenErr = tokenError(err)
	}
}

func tokenError(err error) error {
	if err == nil {
		return nil
	}
	switch code := stint.CodeOf(err); code {
	case stint.CodeUnavailable, stint.CodeTimeout, stint.CodeCanceled:
		return &stint.Error{Code: code, Problem: "the token of the request cannot be verified at the moment", Err: err}
	default:
		return ErrInvalidToken
	}
}

// TokenError returns an error if the request must not pass because of its token; see
// [Identity.RejectInvalidTokens]. The error is [ErrInvalidToken], or a [*stint.Error] if
// the token could not be verified at the moment. [WriteError] answers both.
func (r *Request) TokenError() error {
	if !r.who().RejectInvalidTokens {
		return nil
	}
	r.readToken()
	return r.tokenErr
}

// claim returns a claim of a verified token as text, "" if there is none. Lists and
// objects count as none.
func (r *Request) claim(name string) (string, error) {
	r.readToken()
	if r.tokenErr != nil {
		return "", r.tokenRefused
	}
	switch value := r.claims[name].(type) {
	case string:
		return value, nil
	case json.Number:
		return value.String(), nil
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), nil
	case bool:
		return strconv.FormatBool(value), nil
	}
	return "", nil
}
