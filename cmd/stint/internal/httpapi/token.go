package httpapi

import (
	"net/http"
	"strings"

	"github.com/stintdev/stint/internal/secret"
)

// tokenHeader carries the token of a proxy whose Authorization field belongs to its
// client.
const tokenHeader = "X-Stint-Token"

// guard requires a token from every request. A nil guard requires none.
type guard struct {
	server *Server
	token  *secret.Text
}

func (s *Server) newGuard(token *secret.Text) *guard {
	if token == nil {
		return nil
	}
	return &guard{s, token}
}

// wrap passes on requests that carry the token, with the token removed: nothing behind
// the guard may mistake it for the identity of a caller.
func (g *guard) wrap(next http.HandlerFunc) http.HandlerFunc {
	if g == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.take(r.Header) {
			g.server.metrics.TokenRefused()
			w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
			g.server.fail(w, r, &apiError{http.StatusUnauthorized, codeUnauthorized,
				"the token is missing or wrong: send it as Authorization: Bearer TOKEN, or as " + tokenHeader})
			return
		}
		next(w, r)
	}
}

// take reports whether the headers carry the token, and removes it from them.
func (g *guard) take(h http.Header) bool {
	if own := h.Get(tokenHeader); own != "" {
		h.Del(tokenHeader)
		return g.token.Is([]byte(own))
	}
	if !g.token.Is([]byte(bearer(h.Get("Authorization")))) {
		return false
	}
	h.Del("Authorization")
	return true
}

func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
