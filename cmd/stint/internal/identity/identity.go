package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/httplimit/jwtverify"
)

// Settings are the flags of stint serve that say who a client is, as text.
type Settings struct {
	Sources          []string // --identity; nil: bearer, then X-API-Key
	TokenFrom        string   // --jwt-from
	Algorithms       []string // --jwt-algorithms; nil: all that a key verifies
	Issuer, Audience string   // --jwt-issuer, --jwt-audience
	Leeway           time.Duration
	Reject           bool // requests with an invalid token are answered 401
}

// New returns the identity of the settings. keys may be nil. Errors begin with the name of
// the flag.
func New(s *Settings, keys *Keys) (httplimit.Identity, error) {
	id := httplimit.Identity{RejectInvalidTokens: s.Reject}
	var err error
	if id.APIKey, err = ParseSources(s.Sources); err != nil {
		return id, fmt.Errorf("identity: %w", err)
	}
	if id.TokenFrom, err = httplimit.ParseSource(s.TokenFrom); err != nil {
		return id, fmt.Errorf("jwt-from: %w", err)
	}
	if strings.HasPrefix(s.TokenFrom, claimPrefix) {
		return id, fmt.Errorf("jwt-from: %s is a claim of a token (use bearer, header:NAME, query:NAME or cookie:NAME)", s.TokenFrom)
	}
	if keys != nil {
		v, err := jwtverify.New(jwtverify.Options{
			KeyFunc: keys.Key, Algorithms: s.Algorithms, Issuer: s.Issuer, Audience: s.Audience, Leeway: s.Leeway,
		})
		if err != nil {
			return id, fmt.Errorf("jwt-algorithms: %w", errors.Unwrap(err))
		}
		id.Tokens = &boundedVerifier{v}
		return id, nil
	}
	for _, source := range s.Sources {
		if err := CheckSource(source, false); err != nil {
			return id, fmt.Errorf("identity: %w", err)
		}
	}
	if s.Reject {
		return id, errors.New("jwt-invalid: no key verifies tokens (give --jwt-keys FILE or URL)")
	}
	return id, nil
}

const claimPrefix = "jwt:"

// ParseSources parses places of API keys, in order. It returns nil for none.
func ParseSources(texts []string) ([]httplimit.Source, error) {
	var sources []httplimit.Source
	for _, text := range texts {
		s, err := httplimit.ParseSource(text)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// maxToken bounds the bytes of a token. Its parts are decoded before its signature is
// verified, so a client without any key could make a server decode as much as it sends.
const maxToken = 16 << 10

// boundedVerifier verifies tokens of a bounded length.
type boundedVerifier struct{ *jwtverify.Verifier }

// VerifyToken implements [httplimit.TokenVerifier].
func (v *boundedVerifier) VerifyToken(ctx context.Context, token string) (map[string]any, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("the token is longer than %d bytes", maxToken)
	}
	return v.Verifier.VerifyToken(ctx, token)
}

// RawTokens reports whether the API key may be a whole token, as text. A client gets a new
// token every few minutes, and with it a new count.
func RawTokens(id *httplimit.Identity) bool {
	if id.Tokens == nil {
		return false
	}
	for _, source := range sourcesOf(id) {
		if text := source.String(); strings.HasPrefix(text, claimPrefix) {
			return false // a token counts by its claim first
		} else if text == id.TokenFrom.String() {
			return true
		}
	}
	return false
}

// sourcesOf returns where a request may have its API key.
func sourcesOf(id *httplimit.Identity) []httplimit.Source {
	if id.APIKey != nil {
		return id.APIKey
	}
	sources, _ := ParseSources([]string{"bearer", "header:X-API-Key"}) // both are sources
	return sources
}
