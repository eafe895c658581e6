package httplimit

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Tokens verifies JSON Web Tokens, so that their claims can be identities. A token
// that cannot be verified gives no claims, as if the request had no token.
//
// The type of the key decides which algorithms it verifies, and the token cannot
// choose another: []byte verifies HS256, HS384 and HS512; *rsa.PublicKey verifies RS
// and PS; *ecdsa.PublicKey verifies the ES algorithm of its curve; ed25519.PublicKey
// verifies EdDSA. Expiry and "not before" are checked if the token has them. Tokens
// must not change once it is in use.
type Tokens struct {
	// Keys maps the key id ("kid") of a token to its key. The key under "" verifies
	// tokens without an id. Without a KeyFunc it also verifies tokens whose id is not
	// in Keys.
	Keys map[string]any
	// KeyFunc, if not nil, returns the keys that Keys does not have; id is "" for
	// tokens without an id. It is called at most once per request, and should cache
	// what it fetches.
	KeyFunc func(ctx context.Context, id string) (key any, err error)
	// From is where a request has its token. Defaults to bearer.
	From Source
	// Issuer and Audience, if not empty, must equal those of the token.
	Issuer, Audience string
	// Leeway is the clock difference that expiry checks tolerate. Defaults to 0.
	Leeway time.Duration
	// Clock returns the current time for expiry checks. Defaults to time.Now.
	Clock func() time.Time
	// RejectInvalid makes the middleware answer 401 to a request whose token cannot be
	// verified. The request is still counted, but not under a claim of the token.
	RejectInvalid bool
}

func (t *Tokens) validate() error {
	if len(t.Keys) == 0 && t.KeyFunc == nil {
		return errors.New("tokens: no key (set Keys or KeyFunc)")
	}
	if t.From.kind == fromClaim {
		return errors.New("tokens: a token cannot be read from a claim (read it from bearer, a header, a query or a cookie)")
	}
	for id, key := range t.Keys {
		if algorithms(key) == nil {
			return fmt.Errorf("tokens: key %q is %T and verifies nothing (use a non-empty []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey)", id, key)
		}
	}
	return nil
}

// algorithms returns the algorithms that a key verifies, nil for an unusable key.
func algorithms(key any) []string {
	switch k := key.(type) {
	case []byte:
		if len(k) > 0 { // anybody could sign with an empty secret
			return []string{"HS256", "HS384", "HS512"}
		}
	case *rsa.PublicKey:
		if k != nil {
			return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		return curveAlgorithm(k)
	case ed25519.PublicKey:
		if len(k) == ed25519.PublicKeySize {
			return []string{"EdDSA"}
		}
	}
	return nil
}

func curveAlgorithm(key *ecdsa.PublicKey) []string {
	if key == nil {
		return nil
	}
	switch key.Curve {
	case elliptic.P256():
		return []string{"ES256"}
	case elliptic.P384():
		return []string{"ES384"}
	case elliptic.P521():
		return []string{"ES512"}
	}
	return nil
}

// verify returns the claims of a token. It returns false if the signature is wrong,
// the token is expired or not yet valid, or its issuer or audience differs.
func (t *Tokens) verify(ctx context.Context, text string) (jwt.MapClaims, bool) {
	options := []jwt.ParserOption{jwt.WithJSONNumber(), jwt.WithLeeway(t.Leeway)}
	if t.Issuer != "" {
		options = append(options, jwt.WithIssuer(t.Issuer))
	}
	if t.Audience != "" {
		options = append(options, jwt.WithAudience(t.Audience))
	}
	if t.Clock != nil {
		options = append(options, jwt.WithTimeFunc(t.Clock))
	}
	claims := jwt.MapClaims{}
	_, err := jwt.NewParser(options...).ParseWithClaims(text, claims, func(token *jwt.Token) (any, error) {
		return t.key(ctx, token)
	})
	return claims, err == nil
}

// key returns the key of a token, if it verifies the token's algorithm.
func (t *Tokens) key(ctx context.Context, token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errors.New("the token requires an extension that is not supported")
	}
	id, _ := token.Header["kid"].(string)
	key, err := t.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(algorithms(key), token.Method.Alg()) {
		return nil, fmt.Errorf("the key does not verify %s", token.Method.Alg())
	}
	return key, nil
}

func (t *Tokens) find(ctx context.Context, id string) (any, error) {
	if key, ok := t.Keys[id]; ok {
		return key, nil
	}
	if t.KeyFunc != nil {
		return t.KeyFunc(ctx, id)
	}
	return t.Keys[""], nil
}

// RejectsToken reports whether the request must not pass because its token
// cannot be verified; see [Tokens.RejectInvalid].
func (r *Request) RejectsToken() bool {
	tokens := r.who().Tokens
	return tokens != nil && r.Request != nil && tokens.RejectInvalid && r.readToken() == tokenInvalid
}

// readToken verifies the token of the request, on the first call only.
func (r *Request) readToken() tokenState {
	if r.token != tokenUnread {
		return r.token
	}
	r.token = tokenAbsent
	tokens := r.who().Tokens
	if tokens == nil || tokens.From.kind == fromClaim {
		return r.token
	}
	text, err := tokens.From.read(r)
	switch {
	case err != nil:
		r.token = tokenInvalid
		return r.token
	case text == "":
		return r.token
	}
	claims, ok := tokens.verify(r.Context(), text)
	if !ok {
		r.token = tokenInvalid
		return r.token
	}
	r.claims, r.token = claims, tokenVerified
	return r.token
}

// claim returns a claim of a verified token as text, "" if there is none. Lists and
// objects count as none.
func (r *Request) claim(name string) (string, error) {
	switch r.readToken() {
	case tokenVerified:
	case tokenInvalid:
		_, err := r.who().Tokens.From.read(r)
		return "", err
	default:
		return "", nil
	}
	switch value := r.claims[name].(type) {
	case string:
		return value, nil
	case json.Number:
		return value.String(), nil
	case bool:
		return strconv.FormatBool(value), nil
	}
	return "", nil
}
