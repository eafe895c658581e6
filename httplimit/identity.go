package httplimit

import (
	"errors"
	"fmt"
)

// Identity says how the api_key and the ip of requests are read. The zero
// value reads the token of "Authorization: Bearer", else X-API-Key, and
// trusts no proxy. It must not change once in use.
//
// An API key is what a client claims. Whether it is a key of yours, the
// handler finds out; only claims of verified tokens are proof.
type Identity struct {
	// APIKey is where to look for the API key, in order; the first that is
	// there counts. Defaults to bearer, then header:X-API-Key.
	APIKey []Source
	// Clients finds the client's address.
	Clients Clients
	// Tokens verifies JSON Web Tokens. Without it no request has a claim.
	Tokens *Tokens
}

var errNoTokens = errors.New("no token can be verified (set Tokens with the keys of the issuer)")

// standardSources is where an API key stands unless configured.
func standardSources() [2]Source {
	return [2]Source{{kind: fromBearer}, {kind: fromHeader, name: "X-Api-Key"}}
}

// Validate says what is wrong with an identity: claims without a way to
// verify them, or a key of no known kind.
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
