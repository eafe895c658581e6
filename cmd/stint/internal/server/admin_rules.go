package server

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/rule"
)

// keep adds a request and its outcome to the sample, if one is kept.
func (v *version) keep(p rule.Plan, o *rule.Outcome) {
	if v.sample == nil {
		return
	}
	a, cost := p.Request()
	v.sample.Add(v.set.Attributes(), a, cost, o)
}

// rulesAPI returns the routes of the admin API for rules and keys. The API checks tokens
// itself.
func (s *Server) rulesAPI() (folders []folder) {
	if s.adminTokens != nil {
		s.metrics.ReadAdminTokens(func() uint64 { return s.adminTokens.Refused() })
	}
	api := adminapi.New(adminapi.Config{Rules: s.rules.manager, Store: s.store, Tokens: s.adminTokens, Logger: s.log,
		Sample: s.rules.sample, MostDenied: s.config.MostDenied})
	for _, path := range adminapi.Paths() {
		folders = append(folders, folder{path, api.ServeHTTP})
	}
	return folders
}

// forRole requires a token with at least the given role. Without configured tokens it
// lets every request pass.
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

// openAdminTokens loads the tokens of the admin listener and returns the files that hold
// them. Without any token the listener is open to everyone.
func (s *Server) openAdminTokens() (*secret.Files, error) {
	one, list := s.config.AdminTokenFile, s.config.AdminTokens
	switch {
	case one == "" && list == "" && s.config.AdminToken == "":
		return nil, nil //nolint:nilnil // no tokens are asked for.
	case one == "" && list == "":
		s.adminTokens = adminapi.NewTokens(s.config.AdminToken)
		return nil, nil //nolint:nilnil // no file is named.
	case one == "":
		return secret.Open("admin-tokens-file", []string{list}, s.useAdminTokens)
	case list == "":
		return secret.Open("admin-token-file", []string{one}, s.useAdminTokens)
	}
	return secret.Open("admin-token-file, admin-tokens-file", []string{one, list}, s.useAdminTokens)
}

// useAdminTokens parses the contents of the token files and puts the tokens in force.
func (s *Server) useAdminTokens(contents [][]byte) (err error) {
	admin := s.config.AdminToken
	if path := s.config.AdminTokenFile; path != "" {
		if admin, err = secret.ParseText("token", path, contents[0]); err != nil {
			return err
		}
		contents = contents[1:]
	}
	tokens := adminapi.NewTokens(admin)
	if path := s.config.AdminTokens; path != "" {
		if len(bytes.TrimSpace(contents[0])) == 0 {
			return fmt.Errorf("%s is empty (write the hashes of tokens into it, or a comment to have none)", path)
		}
		if tokens, err = adminapi.ParseTokens(rule.File{Name: path, Data: contents[0]}, admin); err != nil {
			return err
		}
	}
	if s.adminTokens == nil {
		s.adminTokens = tokens
	} else {
		s.adminTokens.Replace(tokens)
	}
	return nil
}
