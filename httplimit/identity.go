package httplimit

// Identity says how the api_key and ip of requests are read. The zero value
// reads the token of "Authorization: Bearer", else X-API-Key, and trusts no
// proxy. It must not change once in use.
type Identity struct {
	// APIKey is where to look for the API key, in order.
	APIKey []Source
	// Clients finds the client's address.
	Clients Clients
	// Tokens verifies JSON Web Tokens, for claim sources.
	Tokens *Tokens
}

// Source is one place of a request where an identity may stand.
type Source struct {
	kind sourceKind
	name string
}

type sourceKind uint8

// ParseSource reads a source as configuration files name it: "bearer",
// "header:NAME", "query:NAME", "cookie:NAME" or "jwt:CLAIM".
func ParseSource(text string) (Source, error) { return Source{}, nil }

// Tokens verifies JSON Web Tokens.
type Tokens struct{}
