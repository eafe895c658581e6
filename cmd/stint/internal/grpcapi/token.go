package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/internal/secret"
)

// admit checks the token of a call, if one is required.
func (s *Service) admit(ctx context.Context) error {
	err := Admit(ctx, s.options.Token)
	if err != nil && s.options.Refused != nil {
		s.options.Refused()
	}
	return err
}

// Admit returns an error of code Unauthenticated unless the metadata of a call
// contains the token. A nil token admits every call. The other services of the same
// listener also use Admit, so that all of them accept tokens in the same form.
func Admit(ctx context.Context, token *secret.Text) error {
	if token == nil {
		return nil
	}
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if token.Is([]byte(bearer(value))) {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "the token is missing or wrong: send it as metadata, authorization: Bearer TOKEN")
}

func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// trusted reports whether callers may name rules in their limits and forget keys. They may if
// they send a token or Private is set. An untrusted caller could empty the keys of rules.
func (s *Service) trusted() bool { return s.options.Token != nil || s.options.Private }

// refuse returns PermissionDenied, and names what only known callers may do.
func refuse(what string) error {
	return status.Error(codes.PermissionDenied, what+" is for callers who are known (start the server with --http-token-file or --client-ca, or let --grpc listen on 127.0.0.1)")
}
