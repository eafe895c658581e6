package grpclimit

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// details finds the details of a status.
func details(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

func first(md metadata.MD, name string) string {
	if values := md.Get(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

func TestCallsOverTheLimitDoNotReachTheHandler(t *testing.T) {
	served := make(chan string, 10)
	client := serve(t, &service{served: served}, mustLimit(t, fixed(t), Options{Clock: func() time.Time { return testNow }}).Options())
	for n, want := range []string{"1", "0"} {
		var header metadata.MD
		_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
		if err != nil || first(header, "x-ratelimit-remaining") != want || first(header, "ratelimit-policy") != `"orders";q=2;w=60` ||
			first(header, "ratelimit") != `"orders";r=`+want+`;t=30` || first(header, "x-ratelimit-limit") != "2" {
			t.Errorf("call %d: %v, %v; want %s remaining", n, err, header, want)
		}
	}
	var header, trailer metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != "rate limit orders of 2 per 1m0s exceeded" {
		t.Errorf("%v", err)
	}
	if header.Len() > 0 || first(trailer, "grpc-retry-pushback-ms") != "30000" || first(trailer, "ratelimit") != `"orders";r=0;t=30` ||
		trailer.Get("retry-after") != nil || trailer.Get("cache-control") != nil {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	retry, quota := details(err)
	if retry.GetRetryDelay().AsDuration() != 30*time.Second {
		t.Errorf("RetryInfo %v; want 30s", retry)
	}
	want := &errdetails.QuotaFailure_Violation{
		Subject: "orders", Description: "rate limit orders of 2 per 1m0s exceeded",
		ApiService: "grpc.testing.TestService", QuotaId: "orders", QuotaValue: 2,
	}
	if len(quota.GetViolations()) != 1 || !proto.Equal(quota.GetViolations()[0], want) {
		t.Errorf("QuotaFailure %v; want %v", quota, want)
	}
	if len(served) != 2 {
		t.Errorf("the handler was called %d times; want 2", len(served))
	}
}

func TestViolationsAreTheLimitsThatDenied(t *testing.T) {
	client := serve(t, &service{}, mustLimit(t, fixed(t, stint.Spec{Name: "minute", Limit: 1, Window: time.Minute}, stint.Spec{Name: "hour", Limit: 5, Window: time.Hour}), Options{}).Options())
	_, _ = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if _, quota := details(err); len(quota.GetViolations()) != 1 || quota.GetViolations()[0].GetSubject() != "orders/minute" {
		t.Errorf("%v, %v; want minute alone", err, quota)
	}
}

func TestCostThatNeverFitsIsNotToBeRetried(t *testing.T) {
	client := serve(t, &service{}, mustLimit(t, fixed(t), Options{Cost: func(*Call) int64 { return 3 }}).Options())
	var trailer metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
	retry, quota := details(err)
	if status.Code(err) != codes.ResourceExhausted || retry != nil || quota == nil || first(trailer, pushbackField) != "-1" {
		t.Errorf("%v, %v, %v", err, retry, trailer)
	}
}

func TestPushbackIsNeverLessThanTheWait(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", 24 * time.Hour: "86400000",
		30 * 24 * time.Hour: "-1", stint.Never: "-1",
	} {
		d := newDenial(&httplimit.Answer{Decision: stint.Decision{RetryAfter: wait}}, unaryMethod)
		if got := d.pushback(); got != want {
			t.Errorf("%v: %s; want %s", wait, got, want)
		}
	}
}

func TestJitterIsTheSameEverywhere(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 50 {
		d := newDenial(&httplimit.Answer{Decision: stint.Decision{RetryAfter: time.Minute}, Jitter: 0.5}, unaryMethod)
		retry, _ := details(d.status().Err())
		delay := retry.GetRetryDelay().AsDuration()
		if delay != d.wait || delay < time.Minute || delay > 90*time.Second {
			t.Fatalf("RetryInfo %v, pushback of %v; want the same, from 60 s to 90", delay, d.wait)
		}
		seen[delay] = true
	}
	if len(seen) < 2 {
		t.Error("all got the same delay")
	}
}

// A grpc-go client with a retry policy of its own obeys the pushback.
func TestClientsRetryAfterTheAnnouncedTime(t *testing.T) {
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"600s","maxBackoff":"600s",
		"backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE"]}}]}`
	const window = 20 * time.Millisecond
	for name, c := range map[string]struct {
		cost  int64
		asked int
		want  codes.Code
	}{
		"after the wait, in their second attempt": {1, 3, codes.OK},
		"never, where no wait helps":              {2, 2, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan time.Time, 10)
			clock := func() time.Time { return testNow.Add(time.Duration(len(asked)/3) * window) }
			count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				asked <- time.Now()
				return handler(ctx, req)
			}
			s := mustLimit(t, limiter(t, clock, stint.Spec{Limit: 1, Window: window}), Options{Cost: func(*Call) int64 { return c.cost }})
			client := serve(t, &service{}, append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(count)}, s.Options()...), grpc.WithDefaultServiceConfig(policy))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 2 {
				if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != c.want {
					t.Fatalf("%v; want %v", err, c.want)
				}
			}
			if len(asked) != c.asked {
				t.Fatalf("asked %d times; want %d", len(asked), c.asked)
			}
			_, denied := <-asked, <-asked
			if c.want == codes.OK && (<-asked).Sub(denied) < window {
				t.Errorf("asked again before %v had passed", window)
			}
		})
	}
}

func TestJitterIsAShare(t *testing.T) {
	for jitter, most := range map[float64]time.Duration{-3: time.Minute, 7: 2 * time.Minute, math.Inf(1): 2 * time.Minute, math.NaN(): time.Minute} {
		for range 50 {
			d := newDenial(&httplimit.Answer{Decision: stint.Decision{RetryAfter: time.Minute}, Jitter: jitter}, unaryMethod)
			if d.wait < time.Minute || d.wait > most {
				t.Fatalf("%v: %v; want a minute to %v", jitter, d.wait, most)
			}
		}
	}
}

func TestJitterOfAnEndlessWait(t *testing.T) {
	d := newDenial(&httplimit.Answer{Decision: stint.Decision{RetryAfter: stint.Never / 2}, Jitter: 1}, unaryMethod)
	if d.wait < stint.Never/2 || d.pushback() != "-1" {
		t.Errorf("%v, %s", d.wait, d.pushback())
	}
}

func TestListedClientsAreForbidden(t *testing.T) {
	client := serve(t, &service{}, asking(t, answers{answer: httplimit.Answer{Listed: true, Binding: -1}}, Options{}).Options())
	var trailer metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
	if status.Code(err) != codes.PermissionDenied || first(trailer, pushbackField) != "-1" {
		t.Errorf("%v, %v", err, trailer)
	}
}

func TestClosedRuleIsUnavailableUntilTheNextProbe(t *testing.T) {
	closed := httplimit.Answer{Unavailable: true, Decision: stint.Decision{Degraded: true, RetryAfter: 250 * time.Millisecond}, Binding: -1}
	client := serve(t, &service{}, asking(t, answers{answer: closed}, Options{}).Options())
	var trailer metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
	retry, quota := details(err)
	if status.Code(err) != codes.Unavailable || retry.GetRetryDelay().AsDuration() != 250*time.Millisecond || quota != nil ||
		first(trailer, pushbackField) != "250" || first(trailer, "x-ratelimit-policy") != "degraded" {
		t.Errorf("%v, %v, %v", err, retry, trailer)
	}
}

func TestDegradedCallsPassAndSaySo(t *testing.T) {
	client := serve(t, &service{}, asking(t, answers{answer: httplimit.Answer{Decision: stint.Decision{Allowed: true, Degraded: true}, Binding: -1}}, Options{}).Options())
	var header metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
	if err != nil || first(header, "x-ratelimit-policy") != "degraded" || first(header, "x-ratelimit-remaining") != "-1" {
		t.Errorf("%v, %v", err, header)
	}
}

func TestCallsWithoutADecisionFailByTheirCause(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{&stint.Error{Code: stint.CodeUnavailable, Problem: "redis-7.internal: no route"}, codes.Unavailable},
		{&stint.Error{Code: stint.CodeTimeout}, codes.Unavailable},
		{&stint.Error{Code: stint.CodeExhausted}, codes.Unavailable},
		{&stint.Error{Code: stint.CodeInvalid, Problem: "key: is empty"}, codes.InvalidArgument},
		{&stint.Error{Code: stint.CodeCanceled, Err: context.Canceled}, codes.Canceled},
		{&stint.Error{Code: stint.CodeCanceled, Err: context.DeadlineExceeded}, codes.DeadlineExceeded},
		{&stint.Error{Problem: "redis-7.internal: corrupt"}, codes.Internal},
		{errors.New("redis-7.internal: odd"), codes.Internal},
		{status.Error(codes.Aborted, "as the decider says"), codes.Aborted},
	} {
		client := serveInMemory(t, &service{}, asking(t, answers{err: c.err}, Options{}).Options())
		_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
		s := status.Convert(err)
		if s.Code() != c.want || len(s.Message()) == 0 || s.Message() == c.err.Error() && c.want != codes.InvalidArgument {
			t.Errorf("%v: %v; want %v", c.err, err, c.want)
		}
		if retry, _ := details(err); (retry.GetRetryDelay().AsDuration() == time.Second) != (c.want == codes.Unavailable) {
			t.Errorf("%v: RetryInfo %v", c.err, retry)
		}
	}
}

func TestOnErrorMayLetPass(t *testing.T) {
	var failed error
	s := asking(t, answers{err: errors.New("no store")}, Options{OnError: func(_ *Call, err error) error { failed = err; return nil }})
	client := serveInMemory(t, &service{}, s.Options())
	if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil || failed == nil {
		t.Errorf("%v, %v", err, failed)
	}
}

// noToken verifies no token.
type noToken struct{}

func (noToken) VerifyToken(context.Context, string) (map[string]any, error) {
	return nil, errors.New("bad signature")
}

func TestTokenThatCannotBeVerifiedIsUnauthenticated(t *testing.T) {
	o := Options{
		Identity:       httplimit.Identity{Tokens: noToken{}, RejectInvalidTokens: true},
		OnError:        func(*Call, error) error { return nil },
		MessageDecider: answers{answer: pass()},
	}
	for name, decider := range map[string]Decider{"decided": answers{answer: pass()}, "not decided": nil, "no decision": answers{err: errors.New("no store")}} {
		client := serveInMemory(t, &service{}, asking(t, decider, o).Options())
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer forged")
		if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v; want UNAUTHENTICATED", name, err)
		}
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Errorf("%s, without a token: %v", name, err)
		}
	}
}

func TestLeakyBucketDelaysCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now
		s := mustLimit(t, limiter(t, now, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Second, Queue: 5}), Options{})
		handler := func(context.Context, any) (any, error) { return "served", nil }
		call := func(ctx context.Context) (time.Duration, any, error) {
			start := time.Now()
			got, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, handler)
			return time.Since(start), got, err
		}
		if took, got, err := call(t.Context()); took != 0 || got != "served" || err != nil {
			t.Errorf("the first took %v: %v, %v", took, got, err)
		}
		if took, got, err := call(t.Context()); took != time.Second || got != "served" || err != nil {
			t.Errorf("the second took %v: %v, %v; want a second", took, got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if took, got, err := call(ctx); took != 0 || got != nil || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("with a deadline it took %v: %v, %v; want it refused at once", took, got, err)
		}
		canceled, cancelNow := context.WithCancel(t.Context())
		cancelNow()
		if _, got, err := call(canceled); got != nil || status.Code(err) != codes.Canceled {
			t.Errorf("canceled: %v, %v", got, err)
		}
	})
}
