package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/secret"
)

// admit asks a call for the token, if there is one.
func (s *Service) admit(ctx context.Context) error { return Admit(ctx, s.options.Token) }

// Admit returns an error of code Unauthenticated unless the metadata of a call
// brings the token. A nil token admits every call. Other services of the same
// listener use it too, so that all of them take a token in the same form.
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

// trusted reports whether callers are known, so that they may speak for rules
// and forget keys. Everyone else could empty the keys of rules.
func (s *Service) trusted() bool { return s.options.Token != nil || s.options.Private }

// refuse says who may do what an unknown caller asks for.
func refuse(what string) error {
	return status.Error(codes.PermissionDenied, what+" is for callers who are known (start the server with --http-token-file or --client-ca, or let --grpc listen on 127.0.0.1)")
}

// isCallers reports whether a limit is the caller's own, whatever it says: that
// of one who is not known, or one that names no rule and no namespace. Another
// Stint speaks for its rules.
func (s *Service) isCallers(l *stint.Spec) bool {
	return !s.trusted() || l.Rule == "" && l.Namespace == ""
}

// checkScope refuses the scope of rules to those who are not known.
func (s *Service) checkScope(limit stint.Limit, field string) error {
	if s.trusted() || limit.Rule() == "" && limit.Namespace() == "" {
		return nil
	}
	return refuse(field + ": to name a rule or a namespace")
}
