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

// token is the token of a request.
type token struct {
	claims  map[string]any // nil if err is not nil
	err     error          // the token gives no claims
	refused error          // the request is ambiguous: servers would read different tokens
}

// noToken is the token of requests without one.
var noToken token

// readToken verifies the token of the request, on the first call only.
func (r *Request) readToken() *token {
	if r.token == nil {
		r.token = r.verifyToken()
	}
	return r.token
}

func (r *Request) verifyToken() *token {
	who := r.Identity()
	if who.Tokens == nil || r.Request == nil || who.TokenFrom.kind == fromClaim {
		return &noToken
	}
	text, err := who.TokenFrom.read(r)
	switch {
	case err != nil:
		return &token{err: ErrInvalidToken, refused: err}
	case text == "":
		return &noToken
	}
	claims, err := who.Tokens.VerifyToken(r.Context(), text)
	if err != nil {
		return &token{err: tokenError(err)}
	}
	return &token{claims: claims}
}

func tokenError(err error) error {
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
	if !r.Identity().RejectInvalidTokens {
		return nil
	}
	return r.readToken().err
}

// VerifierError returns the error of a token that could not be verified at the moment, if
// the token was read. It is for logs: the request counts as one without a token, or has a
// [Request.TokenError].
func (r *Request) VerifierError() error {
	if r.token == nil || errors.Is(r.token.err, ErrInvalidToken) {
		return nil
	}
	return r.token.err
}

// claim returns a claim of a verified token as text, "" if there is none. Lists and
// objects count as none.
func (r *Request) claim(name string) (string, error) {
	token := r.readToken()
	if token.err != nil {
		return "", token.refused
	}
	switch value := token.claims[name].(type) {
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
