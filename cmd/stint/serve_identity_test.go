package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

// issued is a key with the id under which an issuer publishes it.
type issued struct {
	id  string
	key *ecdsa.PrivateKey
}

func newIssued(t *testing.T, id string) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issued{id, key}
}

// token returns a token for a subject. Each one is another text.
func (i *issued) token(t *testing.T, subject string) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": subject, "aud": "orders", "jti": rand.Text()})
	token.Header["kid"] = i.id
	text, err := token.SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTokensAreVerifiedByTheKeysOfAnIssuer runs the program with an issuer over HTTPS, which
// rotates its key and then ends.
func TestTokensAreVerifiedByTheKeysOfAnIssuer(t *testing.T) {
	var published atomic.Pointer[issued]
	published.Store(newIssued(t, "1"))
	fetched := make(chan struct{}, 10)
	issuer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i := published.Load()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.id, Use: "sig"}}})
		fetched <- struct{}{}
	}))
	defer issuer.Close()
	folder := t.TempDir()
	authority := writeFile(t, filepath.Join(folder, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw})))
	settings := writeFile(t, filepath.Join(folder, "stint.yaml"),
		"identity: ['jwt:sub', 'header:Authorization:ApiKey']\njwt_keys: "+issuer.URL+"\njwt_audience: orders\njwt_algorithms: [ES256]\njwt_invalid: reject\n")
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), "rules: [{id: each, by: [api_key], missing: deny, limit: 2, window: 3600}]\n")
	p := startServer(t, []string{"SSL_CERT_FILE=" + authority}, "--config", settings, "--rules", rules)
	<-fetched
	status := func(authorization string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr("http")+"/v1/auth/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	want := func(authorization string, want int) {
		t.Helper()
		if got := status(authorization); got != want {
			t.Errorf("%d; want %d", got, want)
		}
	}
	first, second := published.Load(), newIssued(t, "2")
	want("Bearer "+first.token(t, "ann"), http.StatusOK)
	want("Bearer "+first.token(t, "ann"), http.StatusOK)
	want("Bearer "+first.token(t, "ann"), http.StatusTooManyRequests)
	want("Bearer "+first.token(t, "bob"), http.StatusOK)
	want("ApiKey key-1", http.StatusOK)
	p.awaitMetric("\nstint_jwt_keys_last_success_timestamp_seconds 1.") // a Unix time of this century

	published.Store(second)
	p.signal(syscall.SIGHUP)
	<-fetched
	p.waitNth("keys of tokens in force", 2)
	want("Bearer "+second.token(t, "bob"), http.StatusOK)
	want("Bearer "+second.token(t, "bob"), http.StatusTooManyRequests)
	want("Bearer "+first.token(t, "eve"), http.StatusTooManyRequests) // missing: deny, which decides first

	issuer.Close()
	p.signal(syscall.SIGHUP)
	p.wait("the last ones stay in force")
	want("Bearer "+second.token(t, "dan"), http.StatusOK)
}
