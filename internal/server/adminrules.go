package server

import (
	"fmt"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/internal/adminapi"
	"github.com/stintdev/stint/rule"
)

// keep lets the sample hear of a request.
func (v *version) keep(p rule.Plan, o *rule.Outcome) {
	if v.sample == nil {
		return
	}
	a, cost := p.Request()
	v.sample.Add(v.set.Attributes(), a, cost, o)
}

// rulesAPI is what the admin listener answers about rules and keys. It knows
// tokens by itself.
func (s *Server) rulesAPI() (folders []folder) {
	if s.adminTokens != nil {
		s.metrics.registry.MustRegister(prometheus.NewCounterFunc(tokensRefused("admin"), func() float64 { return float64(s.adminTokens.Refused()) }))
	}
	api := adminapi.New(adminapi.Config{Rules: s.rules.keeper, Store: s.store, Tokens: s.adminTokens, Logger: s.log,
		Sample: s.rules.sample, MostDenied: s.config.MostDenied})
	for _, path := range adminapi.Paths() {
		folders = append(folders, folder{path, api.ServeHTTP})
	}
	return folders
}

// forRole lets those pass whose token has at least the role; where no token is
// asked for, everyone.
func (s *Server) forRole(role adminapi.Role, next http.HandlerFunc) http.HandlerFunc {
	if s.adminTokens == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.adminTokens.Allow(r.Header, role) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
			s.fail(w, r, &apiError{http.StatusUnauthorized, codeUnauthorized,
				"the token is missing or wrong, or not of role " + string(role) + ": send it as Authorization: Bearer TOKEN, or as " + tokenHeader})
			return
		}
		next(w, r)
	}
}

// readAdminTokens returns who may use the admin listener; nil: everyone.
func (s *Server) readAdminTokens() (*adminapi.Tokens, error) {
	path := s.config.AdminTokens
	switch {
	case path == "" && s.config.AdminToken == "":
		return nil, nil //nolint:nilnil // no tokens are asked for.
	case path == "":
		return adminapi.NewTokens(s.config.AdminToken), nil
	}
	data, err := os.ReadFile(path) //nolint:gosec // which file is the operator's choice.
	if err != nil {
		return nil, fmt.Errorf("admin-tokens-file: %w", err)
	}
	return adminapi.ParseTokens(rule.File{Name: path, Data: data}, s.config.AdminToken)
}

// reloadAdminTokens reads the tokens again. Those of a file with a mistake do
// not replace the last good ones.
func (s *Server) reloadAdminTokens() {
	if s.config.AdminTokens == "" {
		return
	}
	tokens, err := s.readAdminTokens()
	if err != nil {
		s.log.Error("admin tokens kept", errorAttr(err))
		return
	}
	s.adminTokens.Replace(tokens)
	s.log.Info("admin tokens reloaded")
}
