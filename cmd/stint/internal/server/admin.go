package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
	"github.com/stintdev/stint/cmd/stint/internal/adminui"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/rule"
)

// adminHandler returns the handler of the admin listener.
func (s *Server) adminHandler() http.Handler {
	t := s.newRouter()
	t.Paths["/metrics"] = httpapi.Route{Method: http.MethodGet, Handle: s.forRole(adminapi.Viewer, s.metrics.Handler().ServeHTTP)}
	t.Folders = s.rulesAPI()
	if s.config.Profiling {
		t.Folders = append(t.Folders, httpapi.Folder{Prefix: profilePath, Handle: s.forRole(adminapi.Admin, profile)})
	}
	t.Folders = append(t.Folders, httpapi.Folder{Prefix: adminui.Prefix, Handle: adminui.Handler().ServeHTTP})
	return s.ownPagesOnly(t)
}

const profilePath = "/debug/pprof"

// profile serves the runtime profiles of this process.
func profile(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case profilePath + "/profile":
		pprof.Profile(w, r)
	case profilePath + "/trace":
		pprof.Trace(w, r)
	case profilePath + "/cmdline":
		commandName(w, r)
	case profilePath + "/symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Index(w, r)
	}
}

// commandName replaces pprof.Cmdline, which shows every argument: a URL on the command
// line may contain a password.
func commandName(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "stint") // the client may be gone
}

// rulesAPI returns the routes of the admin API for rules and keys. The API checks tokens
// itself.
func (s *Server) rulesAPI() (folders []httpapi.Folder) {
	if s.adminTokens != nil {
		s.metrics.ReadAdminTokens(func() uint64 { return s.adminTokens.Refused() })
	}
	api := httplimit.SpellHeaders(adminapi.New(adminapi.Config{Rules: s.rules.manager, Store: s.store, NamedStores: len(s.config.Stores) > 0, Tokens: s.adminTokens, Logger: s.log, Live: s.live, HashKey: s.config.KeyHash.Hash, DecisionLog: s.config.DecisionLogFile,
		Emergency: emergencyAPI{s.rules.switched, s.rules}, Top: s.keys, Shadows: &s.rules.shadows, Denials: s.denials, Sample: s.rules.sample, MostDenied: s.config.MostDenied, Trial: s.rules.trial}))
	for _, path := range adminapi.Paths() {
		folders = append(folders, httpapi.Folder{Prefix: path, Handle: api.ServeHTTP})
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
			httpapi.ErrorWriter{Logger: s.log}.Unauthorized(w, r, "the token is missing or wrong, or not of role "+string(role))
			return
		}
		next(w, r)
	}
}

// openAdminTokens loads the tokens of the admin listener and returns the files that hold
// them. Without any token the listener is open to everyone.
func (s *Server) openAdminTokens() (*secret.Files, error) {
	var flags, paths []string
	if path := s.config.AdminTokenFile; path != "" {
		flags, paths = append(flags, "admin-token-file"), append(paths, path)
	}
	if path := s.config.AdminTokens; path != "" {
		flags, paths = append(flags, "admin-tokens-file"), append(paths, path)
	}
	if len(paths) > 0 {
		return secret.Open(strings.Join(flags, ", "), paths, s.useAdminTokens)
	}
	if s.config.AdminToken != "" {
		s.adminTokens = adminapi.NewTokens(s.config.AdminToken)
	}
	return nil, nil //nolint:nilnil // no file is named
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
