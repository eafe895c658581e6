package grpcapi

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// left returns what remains of a key under a limit of 10 a minute.
func (r *running) left(t *testing.T, key string) int64 {
	t.Helper()
	m, err := r.Peek(t.Context(), &stintv1.PeekRequest{Key: key, Limits: []*stintv1.Limit{perMinute(10)}})
	if err != nil {
		t.Fatal(err)
	}
	return m.GetDecision().GetRemaining()
}

func takeNamed(id string, cost int64) *stintv1.TakeRequest {
	return &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(10)}, Cost: &cost, RequestId: id}
}

func wantStatus(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: %v; want %v", what, err, code)
	}
}

func TestRequestIDsAreChargedOnce(t *testing.T) {
	r := run(t, Options{})
	first, err := r.Take(t.Context(), takeNamed("take", 4))
	if err != nil || !first.GetDecision().GetAllowed() {
		t.Fatal(first, err)
	}
	for range 3 {
		if again, err := r.Take(t.Context(), takeNamed("take", 4)); err != nil || !proto.Equal(again, first) {
			t.Errorf("%v, %v; want %v", again, err, first)
		}
		if _, err := r.GiveBack(t.Context(), &stintv1.GiveBackRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(10)}, RequestId: "back"}); err != nil {
			t.Error(err)
		}
	}
	if n := r.left(t, "k"); n != 7 {
		t.Errorf("%d of 10 are left after 4 and −1", n)
	}
	_, err = r.Take(t.Context(), takeNamed("take", 5))
	wantStatus(t, "another cost", err, codes.AlreadyExists)
	check := &stintv1.CheckRequest{Attributes: map[string]string{"path": "/orders", "api_key": "a", "ip": "192.0.2.1"}, RequestId: "check"}
	one, err := r.Check(t.Context(), check)
	if err != nil || len(one.GetLimits()) == 0 {
		t.Fatal(one, err)
	}
	if again, err := r.Check(t.Context(), check); err != nil || !proto.Equal(again, one) {
		t.Errorf("%v, %v; want %v", again, err, one)
	}
	check.Attributes["ip"] = "192.0.2.2" // which no rule reads
	_, err = r.Check(t.Context(), check)
	wantStatus(t, "other attributes", err, codes.AlreadyExists)
	for _, id := range []string{"a b", strings.Repeat("x", 129)} {
		_, err = r.Take(t.Context(), takeNamed(id, 1))
		wantStatus(t, id, err, codes.InvalidArgument)
	}
	if r.failed.Load() != 0 {
		t.Error("mistakes of a caller are logged")
	}
}

func TestBatchesHaveRequestIDs(t *testing.T) {
	r := run(t, Options{})
	checks := &stintv1.CheckBatchRequest{
		Names: []string{"path", "api_key"}, Values: []string{"/orders", "b", "/orders", "b", "/orders", "c"}, RequestIds: []string{"one", "one", ""},
	}
	takes := &stintv1.TakeBatchRequest{
		Limits: []*stintv1.Limit{perMinute(10)}, Keys: []string{"k", "l", "k", "k"}, GroupSizes: []uint32{2, 1, 1},
		RequestIds: [][]byte{[]byte("group"), nil, []byte("single")},
	}
	for i := range 3 {
		c, err := r.CheckBatch(t.Context(), checks)
		if err != nil || len(c.GetFailures()) != 0 {
			t.Fatal(c, err)
		}
		m, err := r.TakeBatch(t.Context(), takes)
		if err != nil || len(m.GetFailures()) != 0 {
			t.Fatal(m, err)
		}
		if repeats := m.GetDecisions().GetRepeats(); i > 0 && (len(repeats) != 4 || !repeats[0] || !repeats[1] || repeats[2] || !repeats[3]) {
			t.Errorf("repeats: %v", repeats)
		}
	}
	if k, l := r.left(t, "k"), r.left(t, "l"); k != 5 || l != 9 {
		t.Errorf("%d and %d of 10 are left; want 10 − 1 − 3 − 1, and 9", k, l)
	}
	takes.RequestBodies = [][]byte{make([]byte, 15), nil, nil}
	_, err := r.TakeBatch(t.Context(), takes)
	wantStatus(t, "a short body", err, codes.InvalidArgument)
	takes.RequestBodies = [][]byte{{0: 1, 15: 0}, nil, nil}
	if m, err := r.TakeBatch(t.Context(), takes); err != nil || len(m.GetFailures()) != 1 || codes.Code(m.GetFailures()[0].GetCode()) != codes.AlreadyExists {
		t.Errorf("another body: %v, %v", m, err)
	}
	takes.RequestBodies, takes.RequestIds = nil, [][]byte{[]byte("x")}
	_, err = r.TakeBatch(t.Context(), takes)
	wantStatus(t, "one id for three groups", err, codes.InvalidArgument)
	checks.RequestIds = []string{"x"}
	_, err = r.CheckBatch(t.Context(), checks)
	wantStatus(t, "one id for three rows", err, codes.InvalidArgument)
}

func TestRequestIDsOnAStream(t *testing.T) {
	r := run(t, Options{})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range []*stintv1.TakeRequest{takeNamed("a", 1), takeNamed("a", 1), takeNamed("a", 2), takeNamed("b", 1)} {
		if err := stream.Send(&stintv1.StreamRequest{Id: uint64(i), Request: &stintv1.StreamRequest_Take{Take: m}}); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := receive(stream, 4)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(answers[0].GetTake(), answers[1].GetTake()) || codes.Code(answers[2].GetFailure().GetCode()) != codes.AlreadyExists || !answers[3].GetTake().GetDecision().GetAllowed() {
		t.Errorf("%v", answers)
	}
	if n := r.left(t, "k"); n != 8 {
		t.Errorf("%d of 10 are left", n)
	}
}

func TestRequestIDsBeyondTheBudgetSayWhenToRetry(t *testing.T) {
	r := runOver(t, stint.NewMemory(stint.MemoryOptions{OnceBytes: 1}), Options{})
	_, err := r.Take(t.Context(), takeNamed("a", 1))
	wantStatus(t, "an id without room", err, codes.ResourceExhausted)
	for _, detail := range status.Convert(err).Details() {
		if wait, ok := detail.(*errdetails.RetryInfo); ok && wait.GetRetryDelay().AsDuration() == stint.RememberFor {
			return
		}
	}
	t.Errorf("no RetryInfo: %v", err)
}
