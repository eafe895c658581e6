package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// issuer is an HTTPS server of a JSON Web Key Set, and who signs tokens.
type issuer struct {
	*httptest.Server

	fetched atomic.Int32
	answer  atomic.Pointer[http.HandlerFunc] // in place of the keys

	mu   sync.Mutex
	keys map[string]crypto.Signer // guarded by mu; by kid
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]crypto.Signer{}}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetched.Add(1)
		if answer := i.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		_, _ = w.Write(i.document())
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) document() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for id, key := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return data
}

// rotate replaces the keys by one.
func (i *issuer) rotate(id string, key crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.keys)
	i.keys[id] = key
}

func (i *issuer) instead(answer http.HandlerFunc) {
	if answer == nil {
		i.answer.Store(nil)
		return
	}
	i.answer.Store(&answer)
}

// trust is the configuration of a client that trusts the issuer's certificate.
func (i *issuer) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(i.Certificate())
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func (i *issuer) open(t *testing.T) (*Keys, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	k, err := OpenKeys(t.Context(), i.URL, i.trust(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return k, &log
}

// forget makes the last fetch one of long ago.
func (k *Keys) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = time.Time{}
}

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, method jwt.SigningMethod, header map[string]any, key any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func es256(t *testing.T, id string, key any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodES256, map[string]any{"kid": id}, key, jwt.MapClaims{"sub": "ann"})
}

// subject returns the claim sub of a request with the token, and the error of the token.
func subject(t *testing.T, keys *Keys, s *Settings, token string) (string, error) {
	t.Helper()
	if s == nil {
		s = &Settings{}
	}
	s.TokenFrom, s.Reject = "bearer", true
	id, err := New(s, keys)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	q := httplimit.NewRequest(r, &id)
	sub, _ := q.Attribute("jwt:sub")
	return sub, q.TokenError()
}

func TestKeysRotate(t *testing.T) {
	i, first, second := newIssuer(t), p256(t), p256(t)
	i.rotate("1", first)
	k, _ := i.open(t)
	if sub, err := subject(t, k, nil, es256(t, "1", first)); sub != "ann" || err != nil {
		t.Fatalf("the first key: %q, %v", sub, err)
	}
	i.rotate("2", second)
	if sub, err := subject(t, k, nil, es256(t, "2", second)); sub != "" || !errors.Is(err, httplimit.ErrInvalidToken) {
		t.Errorf("a new key a moment after a fetch: %q, %v", sub, err)
	}
	k.forget()
	if sub, err := subject(t, k, nil, es256(t, "2", second)); sub != "ann" || err != nil {
		t.Errorf("a new key: %q, %v", sub, err)
	}
	if sub, _ := subject(t, k, nil, es256(t, "1", first)); sub != "" {
		t.Errorf("the key that the issuer removed: %q", sub)
	}
	if n := i.fetched.Load(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

func TestUnknownIDsFetchSeldom(t *testing.T) {
	i := newIssuer(t)
	i.rotate("1", p256(t))
	k, _ := i.open(t)
	k.forget()
	stranger := p256(t)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { _, _ = k.Key(t.Context(), rand.Text()) })
	}
	all.Wait()
	for _, id := range []string{"../../dev/null", "'; DROP TABLE keys", strings.Repeat("k", 8000), "https://evil.example/jwks", "\x00"} {
		if sub, err := subject(t, k, nil, es256(t, id, stranger)); sub != "" || !errors.Is(err, httplimit.ErrInvalidToken) {
			t.Errorf("kid %.40q: %q, %v", id, sub, err)
		}
	}
	if n := i.fetched.Load(); n != 2 { // the first, and one for all of these
		t.Errorf("%d fetches", n)
	}
}

// TestBadAnswersKeepTheKeys has an endpoint that fails in every way after the first fetch.
func TestBadAnswersKeepTheKeys(t *testing.T) {
	i, key := newIssuer(t), p256(t)
	i.rotate("1", key)
	hang := make(chan struct{})
	defer close(hang)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(i.document()) }))
	defer plain.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an error":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "answers 502"},
		"a page":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>secret</html>")) }, "neither a JSON Web Key Set nor PEM"},
		"no keys":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) }, "has no key"},
		"another kind": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"error":"secret"}`)) }, `no \"keys\"`},
		"a secret": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","kid":"1","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`))
		}, "is a secret"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxDocument+2)) }, "larger than"},
		"nothing in time": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, "no answer within"},
		"a redirect in a circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "too many redirects"},
		"a redirect off the encryption": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://keys.example/", http.StatusFound)
		}, "not encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			i.instead(nil)
			k, log := i.open(t)
			i.instead(c.answer)
			<-k.fetch(t.Context())
			if !strings.Contains(log.String(), c.want) || strings.Contains(log.String(), "c2Vj") || strings.Contains(log.String(), "html") {
				t.Errorf("log %s; want %q in it", log, c.want)
			}
			if sub, err := subject(t, k, nil, es256(t, "1", key)); sub != "ann" || err != nil {
				t.Errorf("the key from before: %q, %v", sub, err)
			}
			if _, err := subject(t, k, nil, es256(t, "2", key)); stint.CodeOf(err) != stint.CodeUnavailable {
				t.Errorf("a key that cannot be fetched: %v", err)
			}
			i.instead(nil)
			if <-k.fetch(t.Context()); !strings.Contains(log.String(), "can be fetched again") {
				t.Errorf("log %s", log)
			}
		})
	}
}

// TestADeadEndpointIsNoReasonNotToStart opens keys before their issuer runs.
func TestADeadEndpointIsNoReasonNotToStart(t *testing.T) {
	i, key := newIssuer(t), p256(t)
	i.rotate("1", key)
	i.instead(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	k, log := i.open(t)
	if _, err := subject(t, k, nil, es256(t, "1", key)); stint.CodeOf(err) != stint.CodeUnavailable || !strings.Contains(log.String(), "no token can be verified") || k.Fetched() != 0 {
		t.Errorf("%v, fetched at %d, log %s", err, k.Fetched(), log)
	}
	i.instead(nil)
	k.forget()
	before := time.Now().Unix()
	if sub, err := subject(t, k, nil, es256(t, "1", key)); sub != "ann" || err != nil || k.Fetched() < before {
		t.Errorf("once it runs: %q, %v, fetched at %d", sub, err, k.Fetched())
	}
	stranger, err := OpenKeys(t.Context(), i.URL, nil, slog.New(slog.DiscardHandler)) // a certificate that nobody signed
	if err != nil || stranger.current.Load() != nil {
		t.Errorf("keys of a server that is not trusted: %v", err)
	}
}

func TestURLsAreEncrypted(t *testing.T) {
	for source, want := range map[string]string{
		"http://keys.example/jwks":     "not encrypted",
		"ftp://keys.example/jwks":      "not encrypted",
		"https://a:b@keys.example/":    "password",
		"https:///jwks":                "names no server",
		"http://127.0.0.1.evil.com/":   "not encrypted",
		"http://localhost.evil.com/k":  "not encrypted",
		"/nowhere/keys.json":           "jwt-keys: ",
		"https://keys.example:port/js": "not a URL",
	} {
		if _, err := OpenKeys(t.Context(), source, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", source, err, want)
		}
	}
}

// TestHostileTokens has tokens of forgers who know everything that is public.
func TestHostileTokens(t *testing.T) {
	i := newIssuer(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.rotate("1", key)
	k, _ := i.open(t)
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})
	kid := map[string]any{"kid": "1"}
	ann := func(more ...any) jwt.MapClaims {
		claims := jwt.MapClaims{"sub": "ann", "iss": "us", "aud": "api"}
		for i := 0; i < len(more); i += 2 {
			claims[more[i].(string)] = more[i+1]
		}
		return claims
	}
	now := time.Now().Unix()
	settings := &Settings{Algorithms: []string{"RS256"}, Issuer: "us", Audience: "api", Leeway: 30 * time.Second}
	for name, c := range map[string]struct{ token, want string }{
		"a good one":                 {sign(t, jwt.SigningMethodRS256, kid, key, ann("exp", now+60)), "ann"},
		"without a kid":              {sign(t, jwt.SigningMethodRS256, nil, key, ann()), "ann"},
		"expired within the leeway":  {sign(t, jwt.SigningMethodRS256, kid, key, ann("exp", now-20)), "ann"},
		"early within the leeway":    {sign(t, jwt.SigningMethodRS256, kid, key, ann("nbf", now+20)), "ann"},
		"expired":                    {sign(t, jwt.SigningMethodRS256, kid, key, ann("exp", now-60)), ""},
		"early":                      {sign(t, jwt.SigningMethodRS256, kid, key, ann("nbf", now+60)), ""},
		"none":                       {sign(t, jwt.SigningMethodNone, kid, jwt.UnsafeAllowNoneSignatureType, ann()), ""},
		"the public key as a secret": {sign(t, jwt.SigningMethodHS256, kid, public, ann()), ""},
		"its DER as a secret":        {sign(t, jwt.SigningMethodHS256, kid, spki, ann()), ""},
		"an algorithm not pinned":    {sign(t, jwt.SigningMethodPS256, kid, key, ann()), ""},
		"another issuer":             {sign(t, jwt.SigningMethodRS256, kid, key, ann("iss", "them")), ""},
		"for another audience":       {sign(t, jwt.SigningMethodRS256, kid, key, ann("aud", "web")), ""},
		"a key of its own":           {sign(t, jwt.SigningMethodES256, map[string]any{"kid": "1", "jku": i.URL}, p256(t), ann()), ""},
		"huge":                       {sign(t, jwt.SigningMethodRS256, kid, key, ann("x", strings.Repeat("x", maxToken))), ""},
		"nested deeply":              {strings.Repeat("[", maxToken/2) + "." + strings.Repeat("[", maxToken/4) + ".x", ""},
		"dots":                       {strings.Repeat(".", 4000), ""},
	} {
		if sub, err := subject(t, k, settings, c.token); sub != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, sub, err, c.want)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	public := func(key any) []byte {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	key, weak := p256(t), rsaKey(t, 1024)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	i := newIssuer(t)
	i.rotate("1", key)
	for name, c := range map[string]struct{ text, want string }{
		"a set":            {string(i.document()), ""},
		"a public key":     {string(public(key.Public())), ""},
		"Ed25519":          {string(public(edwards)), ""},
		"a certificate":    {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})), ""},
		"a secret":         {`{"keys":[{"kty":"oct","kid":"s","k":"` + strings.Repeat("A", 43) + `"}]}`, ""},
		"a short secret":   {`{"keys":[{"kty":"oct","kid":"s","k":"c2hvcnQ"}]}`, "fewer than 32 bytes"},
		"a private key":    {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), "PRIVATE KEY"},
		"two keys":         {string(public(key.Public())) + string(public(edwards)), "several PEM blocks"},
		"a weak key":       {string(public(weak.Public())), "2048"},
		"nothing":          {"", "neither"},
		"keys for secrecy": {strings.ReplaceAll(string(i.document()), `"sig"`, `"enc"`), `the use "enc"`},
		"broken JSON":      {`{"keys":[`, "malformed"},
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := OpenKeys(t.Context(), path, nil, slog.New(slog.DiscardHandler))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if name == "a public key" {
			if sub, err := subject(t, k, nil, es256(t, "any", key)); sub != "ann" || err != nil {
				t.Errorf("%s: %q, %v", name, sub, err)
			}
		}
	}
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
