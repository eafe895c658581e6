package server

import "github.com/stintdev/stint/internal/adminapi"

// rulesAPI is what the admin listener answers about the rules. It knows tokens
// by itself.
func (s *Server) rulesAPI() (folders []folder) {
	var tokens *adminapi.Tokens
	if s.config.AdminToken != "" {
		tokens = adminapi.NewTokens(s.config.AdminToken)
	}
	api := adminapi.New(adminapi.Config{Rules: s.rules.keeper, Store: s.store, Tokens: tokens, Logger: s.log})
	for _, path := range adminapi.Paths() {
		folders = append(folders, folder{path, api.ServeHTTP})
	}
	return folders
}
