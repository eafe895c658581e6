package jwtverify_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/httplimit/jwtverify"
)

// A verified claim identifies the client. A program reads the issuer's public key in
// place of this secret.
func ExampleNew() {
	secret := []byte("a secret of thirty-two characters")
	tokens, err := jwtverify.New(jwtverify.Options{
		Keys:       map[string]any{"2026-01": secret},
		Algorithms: []string{"HS256"},
		Issuer:     "https://login.example.com",
		Leeway:     30 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	identity := &httplimit.Identity{Tokens: tokens, RejectInvalidTokens: true}

	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "user-1", "iss": "https://login.example.com"})
	token.Header["kid"] = "2026-01"
	text, err := token.SignedString(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sent := range []string{text, "forged"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+sent)
		q := httplimit.NewRequest(r, identity)
		user, ok := q.Attribute("jwt:sub")
		fmt.Println(user, ok, q.TokenError())
	}
	// Output:
	// user-1 true <nil>
	//  false the token cannot be verified
}
