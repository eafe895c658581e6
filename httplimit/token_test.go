package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// verifier knows the claims of some tokens. It answers all other tokens with err.
type verifier struct {
	known map[string]map[string]any
	err   error
	asked int
}

func (v *verifier) VerifyToken(_ context.Context, token string) (map[string]any, error) {
	v.asked++
	if claims, ok := v.known[token]; ok {
		return claims, nil
	}
	return map[string]any{"sub": "forged"}, v.err
}

// user1 verifies the token "good" alone.
func user1() *verifier {
	return &verifier{known: map[string]map[string]any{"good": {"sub": "user-1", "tenant": "t1"}}, err: errors.New("bad signature")}
}

// bearing returns a request with a bearer token.
func bearing(token string, id *Identity) *Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return NewRequest(r, id)
}

func TestClaimsBecomeText(t *testing.T) {
	claims := map[string]any{
		"sub": "user-1", "n": json.Number("12345678901234567890"), "f": float64(1e15), "half": 0.5, "yes": true, "list": []any{"a"}, "null": nil,
	}
	q := bearing("good", &Identity{Tokens: &verifier{known: map[string]map[string]any{"good": claims}}})
	for claim, want := range map[string]string{
		"sub": "user-1", "n": "12345678901234567890", "f": "1000000000000000", "half": "0.5", "yes": "true", "list": "", "null": "", "none": "",
	} {
		if got, _ := q.Attribute("jwt:" + claim); got != want {
			t.Errorf("%s: %q; want %q", claim, got, want)
		}
	}
}

func TestTokenIsVerifiedOnceARequest(t *testing.T) {
	for _, token := range []string{"good", "forged"} {
		v := user1()
		q := bearing(token, &Identity{Tokens: v, RejectInvalidTokens: true})
		for range 2 {
			_, _ = q.Attribute("jwt:sub")
			_, _ = q.Attribute("jwt:tenant")
			if err := q.TokenError(); (err == nil) != (token == "good") {
				t.Errorf("%s: %v", token, err)
			}
		}
		if v.asked != 1 {
			t.Errorf("%s: the verifier was asked %d times", token, v.asked)
		}
	}
}

func TestClaimAsAPIKeyFallsThroughWhenNotVerified(t *testing.T) {
	id := Identity{APIKey: sources(t, "jwt:sub", "header:X-API-Key"), Tokens: user1()}
	for token, want := range map[string]string{"good": "user-1", "forged": "sk_2"} {
		q := bearing(token, &id)
		q.Header.Set("X-API-Key", "sk_2")
		if got, _ := q.Attribute("api_key"); got != want {
			t.Errorf("api_key %q; want %q", got, want)
		}
	}
}

func TestTokenIsReadWhereTheIdentitySays(t *testing.T) {
	id := Identity{Tokens: user1(), TokenFrom: sources(t, "cookie:session")[0]}
	q := bearing("forged", &id)
	q.Header.Set("Cookie", "session=good")
	if got, _ := q.Attribute("jwt:sub"); got != "user-1" {
		t.Errorf("sub %q", got)
	}
}

func TestIdentityIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		id   Identity
		want string
	}{
		"the zero value":          {Identity{}, ""},
		"claims with a verifier":  {Identity{APIKey: sources(t, "jwt:sub"), Tokens: user1()}, ""},
		"claims without verifier": {Identity{APIKey: sources(t, "jwt:sub")}, "jwt:sub"},
		"rejects without":         {Identity{RejectInvalidTokens: true}, "rejected"},
		"a token in a claim":      {Identity{Tokens: user1(), TokenFrom: sources(t, "jwt:x")[0]}, "claim"},
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
	id := Identity{Tokens: user1(), RejectInvalidTokens: true}
	q := bearing("good", &id)
	q.Header["Authorization"] = []string{"Bearer good", "Bearer b"}
	if value, ok := q.Attribute("jwt:sub"); ok || q.Refusal("jwt:sub") == nil || !errors.Is(q.TokenError(), ErrInvalidToken) {
		t.Errorf("%q, %v, %v", value, q.Refusal("jwt:sub"), q.TokenError())
	}
	q = bearing("forged", &id)
	if value, ok := q.Attribute("jwt:sub"); ok || q.Refusal("jwt:sub") != nil || !errors.Is(q.TokenError(), ErrInvalidToken) {
		t.Errorf("a forged token: %q, %v", value, q.Refusal("jwt:sub"))
	}
}

func TestVerifierThatFailsIsNotTheClientsFault(t *testing.T) {
	down := &stint.Error{Code: stint.CodeUnavailable, Problem: "keys.internal is down"}
	for name, c := range map[string]struct {
		reject bool
		want   int
	}{"unless said, no token": {false, 200}, "where tokens are rejected, 503": {true, 503}} {
		q := bearing("any", &Identity{Tokens: &verifier{err: down}, RejectInvalidTokens: c.reject})
		if value, ok := q.Attribute("jwt:sub"); ok || q.Refusal("jwt:sub") != nil {
			t.Errorf("%s: %q, %v", name, value, q.Refusal("jwt:sub"))
		}
		w := httptest.NewRecorder()
		if err := q.TokenError(); err != nil {
			WriteError(w, q.Request, err)
		}
		if w.Code != c.want || strings.Contains(w.Body.String(), "internal is down") || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %v %s; want %d", name, w.Code, w.Header(), w.Body, c.want)
		}
	}
}
