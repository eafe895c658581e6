package httplimit

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuer has a private key of each kind.
type issuer struct {
	secret   []byte
	rsa      *rsa.PrivateKey
	p256     *ecdsa.PrivateKey
	p384     *ecdsa.PrivateKey
	p521     *ecdsa.PrivateKey
	ed       ed25519.PrivateKey
	verified map[string]any
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{secret: []byte("a secret of thirty-two characters")}
	var err [5]error
	i.rsa, err[0] = rsa.GenerateKey(rand.Reader, 2048)
	i.p256, err[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.p384, err[2] = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, i.ed, err[3] = ed25519.GenerateKey(rand.Reader)
	i.p521, err[4] = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if e := errors.Join(err[:]...); e != nil {
		t.Fatal(e)
	}
	i.verified = map[string]any{"hs": i.secret, "rs": &i.rsa.PublicKey, "es": &i.p256.PublicKey,
		"es384": &i.p384.PublicKey, "es512": &i.p521.PublicKey, "ed": i.ed.Public(), "": i.secret}
	return i
}

func sign(t *testing.T, method jwt.SigningMethod, kid string, key any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tokenTime is the time at which the tests verify tokens.
var tokenTime = time.Unix(1_700_000_000, 0)

func subject(claims ...any) jwt.MapClaims {
	m := jwt.MapClaims{"sub": "user-1"}
	for i := 0; i < len(claims); i += 2 {
		m[claims[i].(string)] = claims[i+1]
	}
	return m
}

func TestVerifiedTokensGiveClaims(t *testing.T) {
	i := newIssuer(t)
	plain := Tokens{Keys: i.verified}
	strict := Tokens{Keys: i.verified, Issuer: "us", Audience: "api"}
	now := tokenTime.Unix()
	for name, c := range map[string]struct {
		tokens Tokens
		text   string
		want   string
	}{
		"HS256":              {plain, sign(t, jwt.SigningMethodHS256, "hs", i.secret, subject()), "user-1"},
		"HS512":              {plain, sign(t, jwt.SigningMethodHS512, "hs", i.secret, subject()), "user-1"},
		"RS256":              {plain, sign(t, jwt.SigningMethodRS256, "rs", i.rsa, subject()), "user-1"},
		"PS384":              {plain, sign(t, jwt.SigningMethodPS384, "rs", i.rsa, subject()), "user-1"},
		"ES256":              {plain, sign(t, jwt.SigningMethodES256, "es", i.p256, subject()), "user-1"},
		"ES384":              {plain, sign(t, jwt.SigningMethodES384, "es384", i.p384, subject()), "user-1"},
		"ES512":              {plain, sign(t, jwt.SigningMethodES512, "es512", i.p521, subject()), "user-1"},
		"EdDSA":              {plain, sign(t, jwt.SigningMethodEdDSA, "ed", i.ed, subject()), "user-1"},
		"without a key id":   {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), "user-1"},
		"an id not known":    {plain, sign(t, jwt.SigningMethodHS256, "other", i.secret, subject()), "user-1"},
		"still in force":     {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", now+1, "nbf", now)), "user-1"},
		"of ours, for us":    {strict, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("iss", "us", "aud", []string{"x", "api"})), "user-1"},
		"late but in leeway": {Tokens{Keys: i.verified, Leeway: time.Minute}, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", now-59)), "user-1"},

		"another secret":             {plain, sign(t, jwt.SigningMethodHS256, "", []byte("another"), subject()), ""},
		"another key of the kind":    {plain, sign(t, jwt.SigningMethodES384, "es", i.p384, subject()), ""},
		"unsigned":                   {plain, sign(t, jwt.SigningMethodNone, "", jwt.UnsafeAllowNoneSignatureType, subject()), ""},
		"a public key as a secret":   {plain, sign(t, jwt.SigningMethodHS256, "rs", i.rsa.N.Bytes(), subject()), ""},
		"a public Ed25519 as secret": {plain, sign(t, jwt.SigningMethodHS256, "ed", []byte(i.ed.Public().(ed25519.PublicKey)), subject()), ""},
		"expired":                    {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", now-1)), ""},
		"not yet in force":           {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("nbf", now+1)), ""},
		"an expiry that is no time":  {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", "tomorrow")), ""},
		"of another issuer":          {strict, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("iss", "them", "aud", "api")), ""},
		"for somebody else":          {strict, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("iss", "us", "aud", "web")), ""},
		"no token at all":            {plain, "sk_live_1", ""},
		"no keys":                    {Tokens{}, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.tokens.Clock = func() time.Time { return tokenTime }
			if got := claimOf(&c.tokens, c.text, "jwt:sub"); got != c.want {
				t.Errorf("sub %q; want %q", got, c.want)
			}
		})
	}
}

func claimOf(tokens *Tokens, text, attribute string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	value, _ := NewRequest(r, &Identity{Tokens: tokens}).Attribute(attribute)
	return value
}

func TestTamperedTokenIsNone(t *testing.T) {
	i := newIssuer(t)
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject())
	other := sign(t, jwt.SigningMethodHS256, "", i.secret, jwt.MapClaims{"sub": "user-2"})
	parts, otherParts := strings.Split(text, "."), strings.Split(other, ".")
	if got := claimOf(&Tokens{Keys: i.verified}, parts[0]+"."+otherParts[1]+"."+parts[2], "jwt:sub"); got != "" {
		t.Errorf("sub %q of a token whose claims were exchanged", got)
	}
}

// TestAKeyInTheTokenVerifiesNothing checks that a key inside a token is ignored. A forger could
// send the key that verifies the token.
func TestAKeyInTheTokenVerifiesNothing(t *testing.T) {
	i := newIssuer(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public), "kid": "ed"}
	for name, header := range map[string]map[string]any{
		"a key":                 {"jwk": jwk},
		"a key of a known id":   {"jwk": jwk, "kid": "ed"},
		"where keys are":        {"jku": "https://evil.example/jwks.json", "kid": "ed"},
		"where a chain is":      {"x5u": "https://evil.example/chain.pem"},
		"a chain":               {"x5c": []string{base64.StdEncoding.EncodeToString(public)}},
		"a path for an id":      {"kid": "../../dev/null"},
		"an id that is no text": {"kid": []string{"ed"}},
	} {
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, subject())
		maps.Copy(token.Header, header)
		text, err := token.SignedString(private)
		if err != nil {
			t.Fatal(err)
		}
		if got := claimOf(&Tokens{Keys: i.verified}, text, "jwt:sub"); got != "" {
			t.Errorf("%s: sub %q", name, got)
		}
	}
	_, claims, _ := strings.Cut(sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), ".")
	claims, _, _ = strings.Cut(claims, ".")
	for _, none := range []string{"none", "None", "NONE", "nOnE", ""} {
		header := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"` + none + `"}`))
		for _, signature := range []string{"", "AA"} {
			if got := claimOf(&Tokens{Keys: i.verified}, header+"."+claims+"."+signature, "jwt:sub"); got != "" {
				t.Errorf("alg %q: sub %q", none, got)
			}
		}
	}
}

func TestCriticalExtensionsAreNotKnown(t *testing.T) {
	i := newIssuer(t)
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, subject())
	token.Header["crit"] = []string{"b64"}
	text, err := token.SignedString(i.secret)
	if err != nil {
		t.Fatal(err)
	}
	if got := claimOf(&Tokens{Keys: i.verified}, text, "jwt:sub"); got != "" {
		t.Errorf("sub %q of a token that demands more than was checked", got)
	}
}

func TestClaimsBecomeText(t *testing.T) {
	i := newIssuer(t)
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject("n", uint64(12345678901234567890), "yes", true, "list", []string{"a"}, "null", nil))
	for claim, want := range map[string]string{"sub": "user-1", "n": "12345678901234567890", "yes": "true", "list": "", "null": "", "none": ""} {
		if got := claimOf(&Tokens{Keys: i.verified}, text, "jwt:"+claim); got != want {
			t.Errorf("%s: %q; want %q", claim, got, want)
		}
	}
}

func TestKeyFuncIsAskedForOtherKeysOnceARequest(t *testing.T) {
	i := newIssuer(t)
	var asked []string
	tokens := &Tokens{Keys: map[string]any{"hs": i.secret}, KeyFunc: func(_ context.Context, id string) (any, error) {
		asked = append(asked, id)
		if id != "new" {
			return nil, errors.New("not known")
		}
		return &i.p256.PublicKey, nil
	}}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+sign(t, jwt.SigningMethodES256, "new", i.p256, subject("tenant", "t1")))
	q := NewRequest(r, &Identity{Tokens: tokens})
	sub, _ := q.Attribute("jwt:sub")
	tenant, _ := q.Attribute("jwt:tenant")
	if sub != "user-1" || tenant != "t1" || len(asked) != 1 {
		t.Errorf("sub %q, tenant %q, asked %q", sub, tenant, asked)
	}
	if got := claimOf(tokens, sign(t, jwt.SigningMethodHS256, "hs", i.secret, subject()), "jwt:sub"); got != "user-1" || len(asked) != 1 {
		t.Errorf("a key that is there: sub %q, asked %q", got, asked)
	}
	if got := claimOf(tokens, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), "jwt:sub"); got != "" {
		t.Errorf("sub %q without a key", got)
	}
}

func TestClaimAsAPIKeyFallsThroughWhenNotVerified(t *testing.T) {
	i := newIssuer(t)
	id := Identity{APIKey: sources(t, "jwt:sub", "header:X-API-Key"), Tokens: &Tokens{Keys: i.verified}}
	for text, want := range map[string]string{
		sign(t, jwt.SigningMethodHS256, "", i.secret, subject()): "user-1",
		"forged": "sk_2",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		r.Header.Set("X-API-Key", "sk_2")
		if got, _ := NewRequest(r, &id).Attribute("api_key"); got != want {
			t.Errorf("api_key %q; want %q", got, want)
		}
	}
}

func TestIdentityIsValidated(t *testing.T) {
	i := newIssuer(t)
	for name, c := range map[string]struct {
		id   Identity
		want string
	}{
		"the zero value":                {Identity{}, ""},
		"keys of every kind":            {Identity{APIKey: sources(t, "jwt:sub"), Tokens: &Tokens{Keys: i.verified}}, ""},
		"claims without tokens":         {Identity{APIKey: sources(t, "jwt:sub")}, "jwt:sub"},
		"tokens without keys":           {Identity{Tokens: &Tokens{}}, "KeyFunc"},
		"an empty secret":               {Identity{Tokens: &Tokens{Keys: map[string]any{"a": []byte{}}}}, `"a"`},
		"a curve that no algorithm has": {Identity{Tokens: &Tokens{Keys: map[string]any{"a": &ecdsa.PublicKey{Curve: elliptic.P224()}}}}, `"a"`},
		"a private key":                 {Identity{Tokens: &Tokens{Keys: map[string]any{"a": crypto.PrivateKey(i.rsa)}}}, "*rsa.PrivateKey"},
		"a text":                        {Identity{Tokens: &Tokens{Keys: map[string]any{"a": "secret"}}}, "string"},
		"no key":                        {Identity{Tokens: &Tokens{Keys: map[string]any{"a": (*ecdsa.PublicKey)(nil)}}}, `"a"`},
		"no RSA key":                    {Identity{Tokens: &Tokens{Keys: map[string]any{"a": (*rsa.PublicKey)(nil)}}}, `"a"`},
		"a token in a claim":            {Identity{Tokens: &Tokens{Keys: i.verified, From: sources(t, "jwt:x")[0]}}, "claim"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.id.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestTokenThatServersReadDifferentlyIsRefused(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
	q := NewRequest(r, &Identity{Tokens: &Tokens{Keys: map[string]any{"": []byte("secret")}, RejectInvalid: true}})
	if value, ok := q.Attribute("jwt:sub"); ok || q.Refusal("jwt:sub") == nil || !q.RejectsToken() {
		t.Errorf("%q, %v, %v", value, q.Refusal("jwt:sub"), q.RejectsToken())
	}
	r.Header["Authorization"] = []string{"Bearer forged"}
	q = NewRequest(r, q.identity)
	if err := q.Refusal("jwt:sub"); err != nil || !q.RejectsToken() {
		t.Errorf("a forged token: %v", err)
	}
}
