package jwtverify

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Options says which tokens a [Verifier] accepts. Keys or KeyFunc is required.
//
// The type of a key decides which algorithms it verifies: []byte verifies HS256, HS384
// and HS512; *rsa.PublicKey verifies RS and PS; *ecdsa.PublicKey verifies the ES
// algorithm of its curve; ed25519.PublicKey verifies EdDSA.
type Options struct {
	// Keys maps the key id ("kid") of a token to its key. The key under "" verifies
	// tokens without an id. Without a KeyFunc it also verifies tokens whose id is not
	// in Keys.
	Keys map[string]any
	// KeyFunc, if not nil, returns the keys that Keys does not have; id is "" for
	// tokens without an id. [ErrUnknownKey] or a nil key means that there is no such
	// key: the token is invalid. Any other error, and a key of a type that verifies
	// nothing, means that the keys cannot be read at the moment. KeyFunc is called for
	// every such token; it must be safe for concurrent use and should cache what it
	// fetches, unknown ids included.
	KeyFunc func(ctx context.Context, id string) (key any, err error)
	// Algorithms, if not empty, are the only accepted ones, such as "RS256".
	Algorithms []string
	// Issuer and Audience, if not empty, must equal those of the token.
	Issuer, Audience string
	// Leeway is the clock difference that expiry checks tolerate. Defaults to 0. A token
	// without the claim "exp" never expires.
	Leeway time.Duration
	// Clock returns the current time for expiry checks. Defaults to time.Now.
	Clock func() time.Time
}

// ErrUnknownKey is what KeyFunc returns for an id that no key has.
var ErrUnknownKey = errors.New("no key has the id of the token")

// Verifier verifies tokens. It implements [httplimit.TokenVerifier], and is safe for
// concurrent use. Make one with [New]: a nil or zero Verifier accepts no token.
type Verifier struct {
	options Options
	parser  *jwt.Parser
}

var _ httplimit.TokenVerifier = (*Verifier)(nil)

// New returns a verifier. It is an error if there is no key, if a key is of a kind that
// verifies nothing, or if an algorithm is unknown. The options must not be changed
// afterwards.
func New(o Options) (*Verifier, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("jwtverify: %w", err)
	}
	parse := []jwt.ParserOption{jwt.WithJSONNumber(), jwt.WithLeeway(o.Leeway)}
	if len(o.Algorithms) > 0 {
		parse = append(parse, jwt.WithValidMethods(o.Algorithms))
	}
	if o.Issuer != "" {
		parse = append(parse, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		parse = append(parse, jwt.WithAudience(o.Audience))
	}
	if o.Clock != nil {
		parse = append(parse, jwt.WithTimeFunc(o.Clock))
	}
	return &Verifier{options: o, parser: jwt.NewParser(parse...)}, nil
}

func (o *Options) validate() error {
	if len(o.Keys) == 0 && o.KeyFunc == nil {
		return errors.New("no key (set Keys or KeyFunc)")
	}
	if o.Leeway < 0 {
		return fmt.Errorf("leeway: %v is below 0 (use 0 or a duration such as 30s)", o.Leeway)
	}
	for id, key := range o.Keys {
		if algorithms(key) == nil {
			return unusable(id, key)
		}
	}
	for _, name := range o.Algorithms {
		if name == jwt.SigningMethodNone.Alg() || jwt.GetSigningMethod(name) == nil {
			return fmt.Errorf("algorithm %q is unknown (use names such as RS256, ES256 or EdDSA)", name)
		}
	}
	return nil
}

// VerifyToken returns the claims of a token. The error says why the token is invalid: its
// signature is wrong, it is expired or not yet valid, or its issuer or audience differs.
// If the keys cannot be read, the error is a [*stint.Error] of code CodeUnavailable.
func (v *Verifier) VerifyToken(ctx context.Context, token string) (map[string]any, error) {
	if v == nil || v.parser == nil {
		return nil, errors.New("the verifier is nil or a zero value (make it with New, and look at its error)")
	}
	var unread error
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, func(parsed *jwt.Token) (key any, err error) {
		key, unread, err = v.key(ctx, parsed)
		return key, err
	})
	switch {
	case unread != nil:
		return nil, &stint.Error{Code: stint.CodeUnavailable, Problem: "the keys of tokens cannot be read", Err: unread}
	case err != nil:
		return nil, err
	}
	return claims, nil
}

// key returns the key of a token, if it verifies the token's algorithm. unread is the
// error of KeyFunc, or that of a key of KeyFunc that verifies nothing.
func (v *Verifier) key(ctx context.Context, token *jwt.Token) (key any, unread, err error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, nil, errors.New("the token requires an extension that is not supported")
	}
	id, _ := token.Header["kid"].(string)
	key, err = v.find(ctx, id)
	if err == nil && algorithms(key) == nil {
		err = unusable(id, key)
	}
	switch {
	case errors.Is(err, ErrUnknownKey):
		return nil, nil, err
	case err != nil:
		return nil, err, err
	case !slices.Contains(algorithms(key), token.Method.Alg()):
		return nil, nil, fmt.Errorf("the key does not verify %s", token.Method.Alg())
	}
	return key, nil, nil
}

func (v *Verifier) find(ctx context.Context, id string) (any, error) {
	if key, ok := v.options.Keys[id]; ok {
		return key, nil
	}
	if v.options.KeyFunc != nil {
		key, err := v.options.KeyFunc(ctx, id)
		if key == nil && err == nil {
			err = ErrUnknownKey
		}
		return key, err
	}
	if key, ok := v.options.Keys[""]; ok {
		return key, nil
	}
	return nil, ErrUnknownKey
}

func unusable(id string, key any) error {
	return fmt.Errorf("key %.100q is %T and verifies nothing (use a non-empty []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey)", id, key)
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
