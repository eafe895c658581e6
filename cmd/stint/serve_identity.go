package main

import (
	"context"
	"log/slog"

	"github.com/stintdev/stint/cmd/stint/internal/identity"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// openIdentity sets who the clients of requests are, with the keys that verify their
// tokens.
func (f *serveFlags) openIdentity(ctx context.Context, c *server.Config, log *slog.Logger) error {
	if err := f.checkTokens(); err != nil {
		return err
	}
	var err error
	if f.jwtKeys != "" {
		if c.Keys, err = identity.OpenKeys(ctx, f.jwtKeys, nil, log); err != nil {
			return usagef("%w", err)
		}
	}
	c.Identity, err = identity.New(&identity.Settings{
		Sources: f.identity, TokenFrom: f.jwtFrom, Algorithms: f.jwtAlgorithms, Issuer: f.jwtIssuer, Audience: f.jwtAudience,
		Leeway: f.jwtLeeway, Reject: f.jwtInvalid == jwtReject,
	}, c.Keys)
	if err != nil {
		return usagef("%w", err)
	}
	return nil
}

// checkTokens rejects settings of tokens that are wrong, or that have no effect without
// keys.
func (f *serveFlags) checkTokens() error {
	switch {
	case f.jwtInvalid != jwtMissing && f.jwtInvalid != jwtReject:
		return usagef("jwt-invalid: %q is not known (use missing or reject)", f.jwtInvalid)
	case f.jwtLeeway < 0:
		return usagef("jwt-leeway: %v is below 0 (use 0 or a time such as 30s)", f.jwtLeeway)
	case f.jwtKeys != "":
		return nil
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"jwt-algorithms", len(f.jwtAlgorithms) > 0}, {"jwt-issuer", f.jwtIssuer != ""}, {"jwt-audience", f.jwtAudience != ""},
		{"jwt-leeway", f.jwtLeeway != defaultLeeway}, {"jwt-from", f.jwtFrom != "bearer"}, {"jwt-invalid", f.jwtInvalid != jwtMissing},
	} {
		if flag.given {
			return usagef("%s: no key verifies tokens (give --jwt-keys FILE or URL)", flag.name)
		}
	}
	return nil
}
