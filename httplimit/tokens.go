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

// Tokens verifies JSON Web Tokens, so that their claims can be identities. A
// token that cannot be verified gives no claims, as if the request had none.
//
// The kind of the key says which algorithms it verifies, never the token:
// []byte for HS256, HS384 and HS512; *rsa.PublicKey for RS and PS;
// *ecdsa.PublicKey for the ES algorithm of its curve; ed25519.PublicKey for
// EdDSA. Expiry and "not before" are checked where a token has them. Tokens
// must not change once in use.
type Tokens struct {
	// Keys has the keys by the key id ("kid") of tokens. The one under ""
	// verifies tokens that name no key or one that is not here.
	Keys map[string]any
	// KeyFunc, when set, is asked for keys that Keys has not, the one of
	// tokens without an id included. It is called once a request at most,
	// and should remember what it fetched.
	KeyFunc func(ctx context.Context, id string) (key any, err error)
	// From is where a request has its token. Defaults to bearer.
	From Source
	// Issuer and Audience, when set, must be those of the token.
	Issuer, Audience string
	// Leeway is allowed for clocks that differ. Defaults to none.
	Leeway time.Duration
	// Clock returns the time that expiry is checked at. Defaults to time.Now.
	Clock func() time.Time
	// RejectInvalid makes the middleware answer 401 to a request whose token
	// cannot be verified. It is counted all the same, without identity.
	RejectInvalid bool
}

func (t *Tokens) validate() error {
	if len(t.Keys) == 0 && t.KeyFunc == nil {
		return errors.New("tokens: no key (set Keys or KeyFunc)")
	}
	if t.From.kind == fromClaim {
		return errors.New("tokens: a token cannot stand in a claim (read it from bearer, a header, a query or a cookie)")
	}
	for id, key := range t.Keys {
		if algorithms(key) == nil {
			return fmt.Errorf("tokens: key %q is %T and verifies nothing (use a non-empty []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey)", id, key)
		}
	}
	return nil
}

// algorithms is what a key verifies, nil for a key that verifies nothing.
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

// verify returns the claims of a token, and false when it is not genuine, not
// in force or for somebody else.
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

// key finds the key of a token and checks that it verifies its algorithm.
func (t *Tokens) key(ctx context.Context, token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errors.New("the token demands an extension that is not known")
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

// readToken verifies the request's token, once.
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

// claim returns a claim of a verified token as text; empty is none. Lists and
// objects are no identity.
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
