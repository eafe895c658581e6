package httplimit

import (
	"errors"
	"fmt"
)

// Identity says how the api_key and the ip of requests are read. The zero value reads
// the token of "Authorization: Bearer", else X-API-Key, and trusts no proxy. It must
// not change once it is in use.
//
// An API key is only what a client claims; the handler must check whether the key
// exists. Only the claims of verified tokens are proof.
type Identity struct {
	// APIKey lists where a request may have its API key; the first source with a value
	// counts. Defaults to bearer, then header:X-API-Key.
	APIKey []Source
	// Clients finds the client's address.
	Clients Clients
	// Tokens verifies JSON Web Tokens. If nil, no request has claims.
	Tokens *Tokens
}

var errNoTokens = errors.New("no token can be verified (set Tokens with the keys of the issuer)")

// standardSources returns the default of Identity.APIKey.
func standardSources() [2]Source {
	return [2]Source{{kind: fromBearer}, {kind: fromHeader, name: "X-Api-Key"}}
}

// Validate returns an error if APIKey has a claim without Tokens to verify it, or if
// Tokens has no key or a key of an unsupported kind.
func (id *Identity) Validate() error {
	for _, s := range id.APIKey {
		if s.kind == fromClaim && id.Tokens == nil {
			return fmt.Errorf("%v: %w", s, errNoTokens)
		}
	}
	if id.Tokens == nil {
		return nil
	}
	return id.Tokens.validate()
}

func (id *Identity) apiKey(r *Request) (string, error) {
	if id.APIKey == nil {
		standard := standardSources()
		return firstOf(standard[:], r)
	}
	return firstOf(id.APIKey, r)
}

func firstOf(sources []Source, r *Request) (string, error) {
	for _, s := range sources {
		if value, err := s.read(r); value != "" || err != nil {
			return value, err
		}
	}
	return "", nil
}
