package grpcapi

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/secret"
)

// wantCode checks the code of an error, and that its text contains a given part.
func wantCode(t *testing.T, name string, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), says) {
		t.Errorf("%s: %v, want %v with %q", name, err, code, says)
	}
}

func TestCheckIsDecidedByTheRules(t *testing.T) {
	r := run(t, Options{})
	for i, c := range []struct {
		path, key       string
		cost            *int64
		allowed, listed bool
		rule            string
		limits          int
		remaining       int64
	}{
		{"/orders", "a", nil, true, false, "orders", 1, 2},
		{"/orders", "a", proto.Int64(0), true, false, "orders", 1, 2},
		{"/orders", "a", proto.Int64(3), false, false, "orders", 1, 2},
		{"/both", "a", nil, true, false, "both", 2, 1},
		{"/watched", "a", nil, true, false, "", 1, 0},
		{"/watched", "a", nil, true, false, "", 1, 0},
		{"/free", "a", nil, true, false, "", 0, 0},
		{"/orders", "bad_1", nil, false, true, "", 0, 0},
		{"/orders", "good_1", nil, true, false, "", 0, 0},
	} {
		got, err := r.Check(t.Context(), &stintv1.CheckRequest{Attributes: map[string]string{"path": c.path, "api_key": c.key}, Cost: c.cost})
		if err != nil {
			t.Fatal(i, err)
		}
		d := got.GetDecision()
		if d.GetAllowed() != c.allowed || got.GetListed() != c.listed || got.GetRule() != c.rule || len(got.GetLimits()) != c.limits || d.GetRemaining() != c.remaining {
			t.Errorf("%d: %v", i, got)
		}
	}
	if n := r.rules.counted.Load(); n != 9 {
		t.Errorf("%d outcomes were counted", n)
	}
}

func TestBatchOfChecksDecidesAsChecks(t *testing.T) {
	one, many := run(t, Options{}), run(t, Options{})
	m := &stintv1.CheckBatchRequest{Names: []string{"api_key", "path"}}
	paths := []string{"/orders", "/both", "/watched", "/free"}
	for i := range 60 {
		key := fmt.Sprint("k", i%3)
		switch i % 20 {
		case 0:
			key = "bad_1"
		case 10:
			key = "good_1"
		}
		m.Values = append(m.Values, key, paths[i%4])
		m.Cost = append(m.Cost, int64(i%3))
	}
	m.Cost[7] = -1
	got, err := many.CheckBatch(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if f := got.GetFailures(); len(f) != 1 || f[0].GetIndex() != 7 || f[0].GetCode() != int32(codes.InvalidArgument) {
		t.Errorf("failures: %v", f)
	}
	for i := range 60 {
		want, err := one.Check(t.Context(), &stintv1.CheckRequest{Cost: &m.Cost[i], Attributes: map[string]string{"api_key": m.GetValues()[2*i], "path": m.GetValues()[2*i+1]}})
		if i == 7 {
			wantCode(t, "cost", err, codes.InvalidArgument, "cost: -1 is out of range")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		by := ""
		if place := at(got.GetRule(), i, 0); place > 0 {
			by = got.GetRules()[place-1]
		}
		if d := decisionAt(got.GetDecisions(), i); !proto.Equal(d, want.GetDecision()) || by != want.GetRule() || at(got.GetListed(), i, false) != want.GetListed() {
			t.Errorf("%d: %v of %q, alone %v", i, d, by, want)
		}
	}
}

// decisionAt returns one decision of a batch.
func decisionAt(m *stintv1.Decisions, i int) *stintv1.Decision {
	return &stintv1.Decision{
		Allowed: at(m.GetAllowed(), i, false), Limit: at(m.GetLimit(), i, 0), Remaining: at(m.GetRemaining(), i, 0),
		RetryAfterUs: at(m.GetRetryAfterUs(), i, 0), ResetAfterUs: at(m.GetResetAfterUs(), i, 0), NextAfterUs: at(m.GetNextAfterUs(), i, 0),
		DelayUs: at(m.GetDelayUs(), i, 0), Granted: at(m.GetGranted(), i, 0), AtUs: at(m.GetAtUs(), i, 0),
		Never: at(m.GetNever(), i, false), Degraded: at(m.GetDegraded(), i, false), Unavailable: at(m.GetUnavailable(), i, false),
	}
}

// algorithms returns a limit of each algorithm.
func algorithms() []*stintv1.Limit {
	second := time.Second.Microseconds()
	return []*stintv1.Limit{
		{Capacity: 5, RefillRate: "1.67"},
		{Algorithm: "gcra", Limit: 5, WindowUs: second},
		{Algorithm: "fixed_window", Limit: 5, WindowUs: second},
		{Algorithm: "sliding_window_counter", Limit: 5, WindowUs: second, Buckets: 4},
		{Algorithm: "sliding_window_log", Limit: 5, WindowUs: second},
		{Algorithm: "leaky_bucket", Limit: 5, WindowUs: second, Queue: 3},
		{Algorithm: "quota", Limit: 5, Period: "day", UtcOffset: "+02:00"},
		{Algorithm: "quota", Limit: 5, Period: "30h", Anchor: "2020-01-31T00:00:00Z", Name: "own"},
	}
}

// A take has the same decision through every call.
func TestEveryWayDecidesAlike(t *testing.T) {
	r := run(t, Options{})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		after time.Duration
		cost  int64
	}{{0, 1}, {0, 3}, {0, 0}, {100 * time.Millisecond, 2}, {0, 9}, {0, 1}, {0, -1}, {300 * time.Millisecond, 1}, {time.Hour, 5}} {
		r.now.Add(step.after.Microseconds())
		for j, limit := range algorithms() {
			limits := []*stintv1.Limit{limit}
			alone, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: fmt.Sprint("alone", j), Limits: limits, Cost: &step.cost})
			if err != nil {
				t.Fatal(err)
			}
			batch, err := r.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{Keys: []string{fmt.Sprint("batch", j)}, Limits: limits, Cost: []int64{step.cost}})
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&stintv1.StreamRequest{Id: uint64(j), Request: &stintv1.StreamRequest_Take{
				Take: &stintv1.TakeRequest{Key: fmt.Sprint("stream", j), Limits: limits, Cost: &step.cost},
			}}); err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			streamed, want := answer.GetAnswers()[0], alone.GetDecision()
			if got := streamed.GetTake().GetDecision(); !proto.Equal(got, want) || streamed.GetId() != uint64(j) {
				t.Errorf("step %d, limit %d: %v by the stream, %v alone", i, j, got, want)
			}
			if got := decisionAt(batch.GetDecisions(), 0); !proto.Equal(got, want) {
				t.Errorf("step %d, limit %d: %v in a batch, %v alone", i, j, got, want)
			}
		}
	}
}

func TestExtraIsGranted(t *testing.T) {
	r := run(t, Options{})
	got, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(5)}, Cost: proto.Int64(2), Extra: 9})
	if d := got.GetDecision(); err != nil || d.GetGranted() != 3 || d.GetRemaining() != 0 {
		t.Error(got, err)
	}
}

func TestSeveralLimitsAreChargedTogether(t *testing.T) {
	r := run(t, Options{})
	m := &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{{Name: "burst", Limit: 1, WindowUs: 1e6}, {Name: "hour", Limit: 9, WindowUs: 3600e6}}}
	for i, allowed := range []bool{true, false, false} {
		got, err := r.Take(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if l := got.GetLimits(); got.GetDecision().GetAllowed() != allowed || len(l) != 2 || l[1].GetName() != "hour" || l[1].GetDecision().GetRemaining() != 8 {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func TestPeekGiveBackAndReset(t *testing.T) {
	r := run(t, Options{Private: true})
	limits := []*stintv1.Limit{{Algorithm: "fixed_window", Limit: 5, WindowUs: 60e6}}
	taken, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: limits, Cost: proto.Int64(5)})
	if err != nil {
		t.Fatal(err)
	}
	remaining := func(want int64) {
		t.Helper()
		got, err := r.Peek(t.Context(), &stintv1.PeekRequest{Key: "k", Limits: limits})
		if err != nil || got.GetDecision().GetRemaining() != want {
			t.Errorf("%v, %v, want %d", got, err, want)
		}
	}
	remaining(0)
	got, err := r.GiveBack(t.Context(), &stintv1.GiveBackRequest{Key: "k", Limits: limits, Cost: proto.Int64(2), AtUs: taken.GetDecision().GetAtUs()})
	if err != nil || got.GetDecision().GetRemaining() != 2 {
		t.Error(got, err)
	}
	if _, err := r.GiveBack(t.Context(), &stintv1.GiveBackRequest{Key: "k", Limits: limits, AtUs: 1}); err != nil { // at_us is in another window
		t.Error(err)
	}
	remaining(2)
	if _, err := r.Reset(t.Context(), &stintv1.ResetRequest{Key: "k", Limits: limits}); err != nil {
		t.Error(err)
	}
	remaining(5)
}

func TestUnknownCallersMayNotNameRules(t *testing.T) {
	r := run(t, Options{})
	ruled := []*stintv1.Limit{{Rule: "orders", Limit: 3, WindowUs: 60e6}}
	spaced := []*stintv1.Limit{perMinute(3), {Namespace: "resp", Limit: 3, WindowUs: 60e6}}
	_, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: ruled})
	wantCode(t, "rule", err, codes.PermissionDenied, "limits[0]: to name a rule or a namespace is for callers who are known")
	_, err = r.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{Keys: []string{"k"}, Limits: spaced})
	wantCode(t, "namespace", err, codes.PermissionDenied, "limits[1]: to name")
	_, err = r.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{Keys: []string{"k"}, Limits: spaced[:1], Cost: []int64{math.MinInt64}})
	wantCode(t, "forget", err, codes.PermissionDenied, "to forget a key is for callers")
	_, err = r.Reset(t.Context(), &stintv1.ResetRequest{Key: "k", Limits: spaced[:1]})
	wantCode(t, "reset", err, codes.PermissionDenied, "--http-token-file")
	answer := r.streamed(t, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: &stintv1.TakeRequest{Key: "k", Limits: ruled}}})
	if f := answer.GetFailure(); f.GetCode() != int32(codes.PermissionDenied) {
		t.Errorf("stream: %v", answer)
	}
}

// streamed returns the answer to one request, on a stream of its own.
func (r *running) streamed(t *testing.T, m *stintv1.StreamRequest) *stintv1.Answer {
	t.Helper()
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil || len(got.GetAnswers()) != 1 {
		t.Fatal(got, err)
	}
	return got.GetAnswers()[0]
}

func TestTokenIsAskedOfEveryCall(t *testing.T) {
	r := run(t, Options{Token: secret.Fixed("s3cret")})
	for _, c := range []struct {
		name, sent string
		right      bool
	}{{"none", "", false}, {"wrong", "Bearer other", false}, {"bare", "s3cret", false}, {"basic", "Basic s3cret", false}, {"empty", "Bearer ", false}, {"right", "Bearer s3cret", true}, {"lower", "bearer s3cret", true}} {
		ctx := t.Context()
		if c.sent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.sent)
		}
		limits := []*stintv1.Limit{{Rule: "r", Limit: 5, WindowUs: 60e6}}
		calls := map[string]func() error{
			"check": func() error {
				_, err := r.Check(ctx, &stintv1.CheckRequest{Attributes: map[string]string{"path": "/"}})
				return err
			},
			"checkBatch": func() error {
				_, err := r.CheckBatch(ctx, &stintv1.CheckBatchRequest{Names: []string{"path"}})
				return err
			},
			"take":      func() error { _, err := r.Take(ctx, &stintv1.TakeRequest{Key: "k", Limits: limits}); return err },
			"takeBatch": func() error { _, err := r.TakeBatch(ctx, &stintv1.TakeBatchRequest{}); return err },
			"peek":      func() error { _, err := r.Peek(ctx, &stintv1.PeekRequest{Key: "k", Limits: limits}); return err },
			"reset":     func() error { _, err := r.Reset(ctx, &stintv1.ResetRequest{Key: "k", Limits: limits}); return err },
			"giveBack": func() error {
				_, err := r.GiveBack(ctx, &stintv1.GiveBackRequest{Key: "k", Limits: limits})
				return err
			},
			"stream": func() error { return r.openAndClose(ctx) },
		}
		for name, call := range calls {
			switch err := call(); {
			case c.right && err != nil:
				t.Errorf("%s with %s: %v", name, c.name, err)
			case !c.right:
				wantCode(t, name+" with "+c.name, err, codes.Unauthenticated, "authorization: Bearer TOKEN")
			}
		}
	}
}

func TestStoreFailuresHaveTheirKind(t *testing.T) {
	broken := &stint.Error{Code: stint.CodeUnavailable, Kind: "readonly", Problem: "10.1.2.3 is a replica"}
	r := runOver(t, failing{broken}, Options{})
	_, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(1)}})
	wantCode(t, "take", err, codes.Unavailable, "no decision could be made: the store fails (readonly)")
	if details := status.Convert(err).Details(); len(details) != 1 || !strings.Contains(fmt.Sprint(details[0]), "readonly") {
		t.Errorf("details: %v", details)
	}
	got, err := r.CheckBatch(t.Context(), &stintv1.CheckBatchRequest{Names: []string{"path", "api_key"}, Values: []string{"/orders", "a", "/free", "b", "/watched", "a"}})
	if err != nil || len(got.GetFailures()) != 2 || got.GetFailures()[0].GetKind() != "readonly" {
		t.Errorf("%v, %v", got, err)
	}
	if strings.Contains(fmt.Sprint(got, err), "10.1.2.3") {
		t.Error("the answer names an internal server")
	}
	if n := r.failed.Load(); n != 2 {
		t.Errorf("%d failures of two calls were reported", n)
	}
}
