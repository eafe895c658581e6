package server

import (
	"context"
	"sync"

	"github.com/stintdev/stint/cmd/stint/internal/filewatch"
	"github.com/stintdev/stint/internal/secret"
)

// openSecrets reads every file that holds a token or a certificate.
func (s *Server) openSecrets() (err error) {
	s.httpToken = secret.Fixed(s.config.HTTPToken)
	if path := s.config.HTTPTokenFile; path != "" {
		if s.httpToken, err = secret.OpenText("http-token-file", "token", path); err != nil {
			return err
		}
		s.keepSecret(s.httpToken.Files)
	}
	if s.certs, err = loadCertificates(s.config.TLS); err != nil {
		return err
	}
	if s.grpcTLS, err = s.loadGRPCCertificates(); err != nil {
		return err
	}
	s.keepSecret(s.certs.secret())
	if s.grpcTLS != s.certs {
		s.keepSecret(s.grpcTLS.secret())
	}
	admin, err := s.openAdminTokens()
	s.keepSecret(admin)
	for i := range s.config.GatewayGroups {
		if files := s.config.GatewayGroups[i].Files; files != nil {
			s.keepSecret(files.Files)
		}
	}
	if s.config.Keys != nil {
		s.keepSecret(s.config.Keys.Files)
	}
	for _, files := range s.config.Secrets {
		s.keepSecret(files)
	}
	return err
}

// keepSecret adds files to those that are watched and that Reload reads again.
func (s *Server) keepSecret(files *secret.Files) {
	if files == nil {
		return
	}
	files.LogTo(s.log)
	s.secrets = append(s.secrets, files)
}

// watchSecrets reads files with secrets again when they change, until ctx ends. Only Reload
// reads a file again that cannot be watched.
func (s *Server) watchSecrets(ctx context.Context) {
	var watching sync.WaitGroup
	for _, files := range s.secrets {
		for _, path := range files.Paths() {
			watcher := filewatch.New(path, func(bool) { files.Refresh() }, func(err error) {
				s.log.Warn("secret file: " + err.Error())
			})
			watching.Go(func() { watcher.Run(ctx) })
		}
	}
	watching.Wait()
}
