package grpclimit

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// usersAndTenants limits a user to two calls a minute and a tenant to three.
func usersAndTenants(t testing.TB, store stint.Store) *stint.JointLimiter {
	t.Helper()
	limiter := func(name, limit string) *stint.Limiter {
		l, err := stint.NewLimiter(store, name, stint.MustParseLimit(limit))
		if err != nil {
			t.Fatal(err)
		}
		return l.With(stint.Policy{OnFailure: stint.FailClosed})
	}
	joint, err := stint.Join(limiter("users", "2/m"), limiter("tenants", "3/m"))
	if err != nil {
		t.Fatal(err)
	}
	return joint
}

// userAndTenant counts by an API key and by the tenant that a function finds.
var userAndTenant = []Part{
	{By: []string{"api_key"}},
	{Key: func(c *Call) (string, error) { return c.Metadata("tenant"), nil }},
}

func TestJointLimiterCountsUnderBothKeysOrNeither(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return testNow }})
	client := serveInMemory(t, &service{}, mustLimit(t, usersAndTenants(t, store), Options{Parts: userAndTenant}).Options())
	for n, c := range []struct {
		user, tenant string
		want         codes.Code
		exceeded     string
	}{
		{"ann", "acme", codes.OK, ""},
		{"ann", "acme", codes.OK, ""},
		{"ann", "acme", codes.ResourceExhausted, "users"}, // charges the tenant nothing
		{"bob", "acme", codes.OK, ""},
		{"bob", "acme", codes.ResourceExhausted, "tenants"},
		{"bob", "", codes.OK, ""}, // the tenant's key is that of calls without an address
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", c.user, "tenant", c.tenant)
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		exceeded := ""
		if _, quota := details(err); len(quota.GetViolations()) == 1 {
			exceeded = quota.GetViolations()[0].GetSubject()
		}
		if status.Code(err) != c.want || exceeded != c.exceeded {
			t.Errorf("call %d: %v of %q; want %v of %q", n, err, exceeded, c.want, c.exceeded)
		}
	}
}

// closedStore denies every group as a guard does while the store is unavailable.
type closedStore struct{ stint.Store }

func (closedStore) TakeGroups(_ context.Context, _ []stint.Group, out []stint.Decision) error {
	for i := range out {
		out[i] = stint.Decision{Degraded: true, Unavailable: true, RetryAfter: 1500 * time.Millisecond}
	}
	return nil
}

func TestClosedJointLimiterIsUnavailable(t *testing.T) {
	joint := usersAndTenants(t, closedStore{stint.NewMemory(stint.MemoryOptions{})})
	client := serveInMemory(t, &service{}, mustLimit(t, joint, Options{Parts: userAndTenant}).Options())
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if retry, _ := details(err); status.Code(err) != codes.Unavailable || retry.GetRetryDelay().AsDuration() != 1500*time.Millisecond {
		t.Errorf("%v; want UNAVAILABLE", err)
	}
}

func TestOnDeniedReturnsTheErrorOrLetsPass(t *testing.T) {
	for name, answer := range map[string]httplimit.Answer{
		"a limit":  {Decision: stint.Decision{RetryAfter: time.Second}, Binding: -1},
		"a list":   {Listed: true, Binding: -1},
		"no store": {Unavailable: true, Decision: stint.Decision{RetryAfter: time.Second}, Binding: -1},
	} {
		var passes bool
		o := Options{OnDenied: func(c *Call, a *httplimit.Answer, denial *status.Status) error {
			if c.Method != unaryMethod || a.Allowed() || denial.Code() == codes.OK {
				t.Errorf("%s: the hook got %s, %+v, %v", name, c.Method, a, denial)
			}
			if passes {
				return nil
			}
			return status.Error(codes.Aborted, denial.Message())
		}}
		client := serveInMemory(t, &service{}, asking(t, answers{answer: answer}, o).Options())
		for _, passes = range []bool{false, true} {
			var trailer metadata.MD
			_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
			if want := codes.Aborted; (status.Code(err) == want) == passes || passes == (err != nil) || (len(trailer.Get(pushbackField)) == 0) != passes {
				t.Errorf("%s, passes %v: %v, %v", name, passes, err, trailer)
			}
		}
	}
}

func TestErrorOfAKeyIsAnErrorOfTheCall(t *testing.T) {
	var text strings.Builder
	secret := errors.New("the session store is down")
	o := Options{Key: func(*Call) (string, error) { return "", secret }, Logger: slog.New(slog.NewTextHandler(&text, nil)), Clock: func() time.Time { return testNow }}
	s := mustLimit(t, fixed(t), o)
	for range 100 {
		_, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, nil)
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), secret.Error()) {
			t.Errorf("%v; want INTERNAL without the cause", err)
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="the rate limit of a call could not be checked" error="the session store is down" code=internal`) {
		t.Errorf("the log is %s", got)
	}
}

// downVerifier verifies no token at the moment.
type downVerifier struct{}

func (downVerifier) VerifyToken(context.Context, string) (map[string]any, error) {
	return nil, &stint.Error{Code: stint.CodeUnavailable, Problem: "no keys"}
}

func TestVerifierThatFailsIsLoggedAndNotTheClientsFault(t *testing.T) {
	for reject, want := range map[bool]codes.Code{false: codes.OK, true: codes.Unavailable} {
		var text strings.Builder
		s := mustLimit(t, fixed(t), Options{
			By:       []string{"jwt:sub"},
			Identity: httplimit.Identity{Tokens: downVerifier{}, RejectInvalidTokens: reject},
			Logger:   slog.New(slog.NewTextHandler(&text, nil)),
		})
		ctx := incoming("203.0.113.9:1", "authorization", "Bearer any").ctx
		_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) { return struct{}{}, nil })
		if status.Code(err) != want || !strings.Contains(text.String(), "no keys") {
			t.Errorf("reject %v: %v; the log is %q", reject, err, &text)
		}
	}
}
