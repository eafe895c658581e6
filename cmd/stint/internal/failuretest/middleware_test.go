package failuretest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/grpclimit"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// Middleware over a limiter that fails closed answers 503 and UNAVAILABLE with the
// time of the next attempt while its store is down. A client that is over its limit
// gets 429 and RESOURCE_EXHAUSTED, before and after.
func TestMiddlewareTellsAFailedStoreFromALimit(t *testing.T) {
	p := redistest.Server(t)
	store, err := redisstore.New(redisstore.Options{Addrs: []string{p.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	guarded, err := guard.New(store, guard.Options{Deadline: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guarded.Close() })
	closed := stint.Policy{OnFailure: stint.FailClosed}
	one := stint.MustParseLimit("1/h")
	for name, limits := range map[string][]stint.Limit{"one": {one}, "two": {one, stint.MustParseLimit("100/d")}} {
		limiter, err := stint.NewLimiter(guarded, name, limits...)
		if err != nil {
			t.Fatal(err)
		}
		wantAnswers(t, limiter.With(closed), answered{http.StatusOK, codes.OK})
		wantAnswers(t, limiter.With(closed), answered{http.StatusTooManyRequests, codes.ResourceExhausted})
		p.Kill()
		wantAnswers(t, limiter.With(closed), answered{http.StatusServiceUnavailable, codes.Unavailable})
		wantAnswers(t, limiter, answered{http.StatusOK, codes.OK})
		p.Restart()
		recovered := time.Now().Add(20 * time.Second)
		for d, err := limiter.Peek(t.Context(), "k"); err != nil || d.Degraded; d, err = limiter.Peek(t.Context(), "k") {
			if time.Now().After(recovered) {
				t.Fatal("the store is not back", d, err)
			}
		}
	}
}

// answered is how middleware answers a request.
type answered struct {
	http int
	grpc codes.Code
}

// wantAnswers sends a request to each middleware over the limiter. Every denial must
// have a retry time, of at most 2 s while the store is down.
func wantAnswers(t *testing.T, l *stint.Limiter, want answered) {
	t.Helper()
	limited, err := httplimit.Limit(l, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	limited.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	retry := w.Header().Get("Retry-After")
	if w.Code != want.http || (retry == "") != (want.http == http.StatusOK) || w.Code == http.StatusServiceUnavailable && retry > "2" {
		t.Errorf("%s: HTTP answers %d, Retry-After %q; want %d", l.Name(), w.Code, retry, want.http)
	}

	calls, err := grpclimit.Limit(l, grpclimit.Options{Key: func(*grpclimit.Call) (string, error) { return "call", nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = calls.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return struct{}{}, nil })
	if got := status.Convert(err); got.Code() != want.grpc || err != nil && !hasRetry(got) {
		t.Errorf("%s: gRPC answers %v; want %v", l.Name(), got.Proto(), want.grpc)
	}
}

func hasRetry(s *status.Status) bool {
	for _, detail := range s.Details() {
		if r, ok := detail.(*errdetails.RetryInfo); ok {
			wait := r.GetRetryDelay().AsDuration()
			return wait > 0 && (s.Code() != codes.Unavailable || wait <= 2*time.Second)
		}
	}
	return false
}
