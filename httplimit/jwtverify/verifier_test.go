package jwtverify

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

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
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
	plain := Options{Keys: i.verified}
	strict := Options{Keys: i.verified, Issuer: "us", Audience: "api"}
	now := tokenTime.Unix()
	for name, c := range map[string]struct {
		options Options
		text    string
		want    string
	}{
		"HS256":                {plain, sign(t, jwt.SigningMethodHS256, "hs", i.secret, subject()), "user-1"},
		"HS512":                {plain, sign(t, jwt.SigningMethodHS512, "hs", i.secret, subject()), "user-1"},
		"RS256":                {plain, sign(t, jwt.SigningMethodRS256, "rs", i.rsa, subject()), "user-1"},
		"PS384":                {plain, sign(t, jwt.SigningMethodPS384, "rs", i.rsa, subject()), "user-1"},
		"ES256":                {plain, sign(t, jwt.SigningMethodES256, "es", i.p256, subject()), "user-1"},
		"ES384":                {plain, sign(t, jwt.SigningMethodES384, "es384", i.p384, subject()), "user-1"},
		"ES512":                {plain, sign(t, jwt.SigningMethodES512, "es512", i.p521, subject()), "user-1"},
		"EdDSA":                {plain, sign(t, jwt.SigningMethodEdDSA, "ed", i.ed, subject()), "user-1"},
		"without a key id":     {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), "user-1"},
		"an id not known":      {plain, sign(t, jwt.SigningMethodHS256, "other", i.secret, subject()), "user-1"},
		"still in force":       {plain, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", now+1, "nbf", now)), "user-1"},
		"of ours, for us":      {strict, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("iss", "us", "aud", []string{"x", "api"})), "user-1"},
		"of a given algorithm": {Options{Keys: i.verified, Algorithms: []string{"RS256", "HS256"}}, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), "user-1"},
		"late but in leeway":   {Options{Keys: i.verified, Leeway: time.Minute}, sign(t, jwt.SigningMethodHS256, "", i.secret, subject("exp", now-59)), "user-1"},

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
		"of another algorithm":       {Options{Keys: i.verified, Algorithms: []string{"RS256", "HS512"}}, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Clock = func() time.Time { return tokenTime }
			if got := claimOf(verifier(t, c.options), c.text, "jwt:sub"); got != c.want {
				t.Errorf("sub %q; want %q", got, c.want)
			}
		})
	}
}

func verifier(t *testing.T, o Options) *Verifier {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claimOf returns an attribute of a request with the token.
func claimOf(v *Verifier, text, attribute string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	value, _ := httplimit.NewRequest(r, &httplimit.Identity{Tokens: v}).Attribute(attribute)
	return value
}

func TestTamperedTokenIsNone(t *testing.T) {
	i := newIssuer(t)
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject())
	other := sign(t, jwt.SigningMethodHS256, "", i.secret, jwt.MapClaims{"sub": "user-2"})
	parts, otherParts := strings.Split(text, "."), strings.Split(other, ".")
	if got := claimOf(verifier(t, Options{Keys: i.verified}), parts[0]+"."+otherParts[1]+"."+parts[2], "jwt:sub"); got != "" {
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
		if got := claimOf(verifier(t, Options{Keys: i.verified}), text, "jwt:sub"); got != "" {
			t.Errorf("%s: sub %q", name, got)
		}
	}
	_, claims, _ := strings.Cut(sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), ".")
	claims, _, _ = strings.Cut(claims, ".")
	for _, none := range []string{"none", "None", "NONE", "nOnE", ""} {
		header := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"` + none + `"}`))
		for _, signature := range []string{"", "AA"} {
			if got := claimOf(verifier(t, Options{Keys: i.verified}), header+"."+claims+"."+signature, "jwt:sub"); got != "" {
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
	if got := claimOf(verifier(t, Options{Keys: i.verified}), text, "jwt:sub"); got != "" {
		t.Errorf("sub %q of a token that demands more than was checked", got)
	}
}

func TestClaimsBecomeText(t *testing.T) {
	i := newIssuer(t)
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject("n", uint64(12345678901234567890), "yes", true, "list", []string{"a"}, "null", nil))
	for claim, want := range map[string]string{"sub": "user-1", "n": "12345678901234567890", "yes": "true", "list": "", "null": "", "none": ""} {
		if got := claimOf(verifier(t, Options{Keys: i.verified}), text, "jwt:"+claim); got != want {
			t.Errorf("%s: %q; want %q", claim, got, want)
		}
	}
}

func TestKeyFuncIsAskedForOtherKeysOnceARequest(t *testing.T) {
	i := newIssuer(t)
	var asked []string
	v := verifier(t, Options{Keys: map[string]any{"hs": i.secret}, KeyFunc: func(_ context.Context, id string) (any, error) {
		asked = append(asked, id)
		if id != "new" {
			return nil, ErrUnknownKey
		}
		return &i.p256.PublicKey, nil
	}})
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+sign(t, jwt.SigningMethodES256, "new", i.p256, subject("tenant", "t1")))
	q := httplimit.NewRequest(r, &httplimit.Identity{Tokens: v})
	sub, _ := q.Attribute("jwt:sub")
	tenant, _ := q.Attribute("jwt:tenant")
	if sub != "user-1" || tenant != "t1" || len(asked) != 1 {
		t.Errorf("sub %q, tenant %q, asked %q", sub, tenant, asked)
	}
	if got := claimOf(v, sign(t, jwt.SigningMethodHS256, "hs", i.secret, subject()), "jwt:sub"); got != "user-1" || len(asked) != 1 {
		t.Errorf("a key that is there: sub %q, asked %q", got, asked)
	}
	if got := claimOf(v, sign(t, jwt.SigningMethodHS256, "", i.secret, subject()), "jwt:sub"); got != "" {
		t.Errorf("sub %q without a key", got)
	}
}

func TestKeysThatCannotBeReadAreNotTheClientsFault(t *testing.T) {
	i := newIssuer(t)
	down := errors.New("no route to keys.internal")
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject())
	for name, c := range map[string]struct {
		key    any
		err    error
		status int
		code   stint.Code
	}{
		"keys that cannot be read": {nil, down, 503, stint.CodeUnavailable},
		"a key that is not there":  {nil, ErrUnknownKey, 401, stint.CodeInternal},
		"a key of another kind":    {&i.rsa.PublicKey, nil, 401, stint.CodeInternal},
		"a private key":            {i.rsa, nil, 503, stint.CodeUnavailable},
		"a key by value":           {i.rsa.PublicKey, nil, 503, stint.CodeUnavailable},
		"an empty secret":          {[]byte{}, nil, 503, stint.CodeUnavailable},
		"no key and no error":      {nil, nil, 401, stint.CodeInternal},
		"a nil pointer":            {(*rsa.PublicKey)(nil), nil, 503, stint.CodeUnavailable},
		"the key":                  {i.secret, nil, 200, 0},
	} {
		v := verifier(t, Options{KeyFunc: func(context.Context, string) (any, error) { return c.key, c.err }})
		_, err := v.VerifyToken(t.Context(), text)
		if (err == nil) != (c.status == 200) || err != nil && stint.CodeOf(err) != c.code || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		q := httplimit.NewRequest(r, &httplimit.Identity{Tokens: v, RejectInvalidTokens: true})
		w := httptest.NewRecorder()
		if err := q.TokenError(); err != nil {
			httplimit.WriteError(w, r, err)
		}
		if w.Code != c.status || strings.Contains(w.Body.String(), "internal") {
			t.Errorf("%s: %d %s; want %d", name, w.Code, w.Body, c.status)
		}
	}
}

func TestOptionsAreValidated(t *testing.T) {
	i := newIssuer(t)
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"keys of every kind":            {Options{Keys: i.verified, Algorithms: []string{"HS256", "EdDSA"}}, ""},
		"no keys":                       {Options{}, "KeyFunc"},
		"an empty secret":               {Options{Keys: map[string]any{"a": []byte{}}}, `"a"`},
		"a curve that no algorithm has": {Options{Keys: map[string]any{"a": &ecdsa.PublicKey{Curve: elliptic.P224()}}}, `"a"`},
		"a private key":                 {Options{Keys: map[string]any{"a": crypto.PrivateKey(i.rsa)}}, "*rsa.PrivateKey"},
		"a text":                        {Options{Keys: map[string]any{"a": "secret"}}, "string"},
		"no key":                        {Options{Keys: map[string]any{"a": (*ecdsa.PublicKey)(nil)}}, `"a"`},
		"no RSA key":                    {Options{Keys: map[string]any{"a": (*rsa.PublicKey)(nil)}}, `"a"`},
		"an unknown algorithm":          {Options{Keys: i.verified, Algorithms: []string{"RS255"}}, `"RS255"`},
		"no algorithm":                  {Options{Keys: i.verified, Algorithms: []string{"none"}}, `"none"`},
		"a leeway below 0":              {Options{Keys: i.verified, Leeway: -1}, "leeway"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.options)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestVerifierThatWasNotMadeAcceptsNothing(t *testing.T) {
	i := newIssuer(t)
	text := sign(t, jwt.SigningMethodHS256, "", i.secret, subject())
	for name, v := range map[string]*Verifier{"nil": nil, "zero": {}} {
		if claims, err := v.VerifyToken(t.Context(), text); err == nil || claims != nil || claimOf(v, text, "jwt:sub") != "" {
			t.Errorf("%s: %v, %v", name, claims, err)
		}
	}
}
