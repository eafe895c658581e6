package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

func streamTake(id uint64, limit int64) *stintv1.StreamRequest {
	return &stintv1.StreamRequest{Id: id, Request: &stintv1.StreamRequest_Take{Take: &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(limit)}}}}
}

func streamCheck(id uint64, path, key string) *stintv1.StreamRequest {
	return &stintv1.StreamRequest{Id: id, Request: &stintv1.StreamRequest_Check{Check: &stintv1.CheckRequest{Attributes: map[string]string{"path": path, "api_key": key}}}}
}

// receive reads answers until there are n, or the stream ends.
func receive(stream stintv1.LimiterService_StreamClient, n int) (answers []*stintv1.Answer, err error) {
	for len(answers) < n {
		m, err := stream.Recv()
		if err != nil {
			return answers, err
		}
		answers = append(answers, m.GetAnswers()...)
	}
	return answers, nil
}

func TestStreamAnswersInOrder(t *testing.T) {
	r := run(t, Options{})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	go func() {
		for i := range uint64(n) {
			m := streamTake(i, n/4)
			switch i % 4 {
			case 1:
				m = streamCheck(i, "/watched", "a")
			case 2:
				m = &stintv1.StreamRequest{Id: i} // invalid
			case 3:
				m = streamCheck(i, "/orders", fmt.Sprint("k", i))
			}
			_ = stream.Send(m)
		}
		_ = stream.CloseSend()
	}()
	answers, err := receive(stream, n)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.asked.Load(); got != n-n/4 {
		t.Errorf("%d decisions were observed, and %d could be asked for", got, n-n/4)
	}
	for i, a := range answers {
		wrong := a.GetId() != uint64(i)
		switch i % 4 {
		case 0:
			wrong = wrong || a.GetTake().GetDecision().GetRemaining() != int64(n/4-1-i/4)
		case 1:
			wrong = wrong || !a.GetCheck().GetDecision().GetAllowed() || !a.GetCheck().GetLimits()[0].GetShadow()
		case 2:
			wrong = wrong || a.GetFailure().GetCode() != int32(codes.InvalidArgument)
		case 3:
			wrong = wrong || a.GetCheck().GetDecision().GetRemaining() != 2
		}
		if wrong {
			t.Fatalf("answer %d: %v", i, a)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
}

// waiting is a store that blocks until the test releases it.
type waiting struct {
	stint.Store

	let   chan struct{}
	calls chan int // number of groups of each call
}

func (w *waiting) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	w.calls <- 1
	<-w.let
	return w.Store.Take(ctx, c)
}

func (w *waiting) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	w.calls <- len(groups)
	<-w.let
	return w.Store.TakeGroups(ctx, groups, out)
}

func newWaiting() *waiting {
	return &waiting{stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}), make(chan struct{}), make(chan int, 1000)}
}

// handed is the server's end of a stream, with requests from the test.
type handed struct {
	grpc.ServerStream

	ctx      context.Context //nolint:containedctx // Context returns it
	requests chan *stintv1.StreamRequest
	asked    chan struct{} // receives one value for each call of Recv
	answers  chan *stintv1.StreamResponse
}

func (h *handed) Context() context.Context { return h.ctx }

func (h *handed) Recv() (*stintv1.StreamRequest, error) {
	h.asked <- struct{}{}
	if m, more := <-h.requests; more {
		return m, nil
	}
	return nil, io.EOF
}

func (h *handed) Send(m *stintv1.StreamResponse) error { h.answers <- m; return nil }

// Requests that arrive while the store is busy become one call afterwards.
func TestStreamDecidesTogetherWhatWaits(t *testing.T) {
	store := newWaiting()
	s := runOver(t, store, Options{}).service
	stream := &handed{ctx: t.Context(), requests: make(chan *stintv1.StreamRequest), asked: make(chan struct{}, 100), answers: make(chan *stintv1.StreamResponse, 100)}
	ended := make(chan error, 1)
	go func() { ended <- s.Stream(stream) }()
	stream.requests <- streamTake(0, 100)
	if n := <-store.calls; n != 1 {
		t.Errorf("the first call has %d groups", n)
	}
	for i := range uint64(50) {
		stream.requests <- streamTake(1+i, 100)
	}
	for range 52 {
		<-stream.asked // the last time, all others are waiting
	}
	close(store.let)
	if m := <-stream.answers; len(m.GetAnswers()) != 1 {
		t.Errorf("first: %v", m)
	}
	if m := <-stream.answers; len(m.GetAnswers()) != 50 || m.GetAnswers()[49].GetTake().GetDecision().GetRemaining() != 49 {
		t.Errorf("then: %v", m)
	}
	if n := <-store.calls; n != 50 {
		t.Errorf("the second call has %d groups", n)
	}
	close(stream.requests)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A client that sends and does not read is cut off.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	r := run(t, Options{WriteTimeout: 50 * time.Millisecond})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		for err == nil {
			err = stream.Send(streamCheck(1, "/both", strings.Repeat("k", 100)))
		}
	}()
	select {
	case err := <-r.ended:
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "were not read within 50ms") {
			t.Errorf("the stream ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the stream does not end")
	}
	if _, err = receive(stream, 1<<30); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("its client hears %v", err)
	}
}

// Large requests pass in order, even if together they exceed the bound on waiting
// bytes.
func TestLargeRequestsWaitForRoom(t *testing.T) {
	r := run(t, Options{})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := range uint64(20) {
			m := streamCheck(i, "/orders", "k")
			m.GetCheck().Attributes["note"] = strings.Repeat("n", 300_000)
			_ = stream.Send(m)
		}
	}()
	if answers, err := receive(stream, 20); err != nil || answers[19].GetId() != 19 {
		t.Error(len(answers), err)
	}
}

func TestDrainSendsStreamsElsewhere(t *testing.T) {
	r := run(t, Options{})
	stream, err := r.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(streamTake(7, 5)); err != nil {
		t.Fatal(err)
	}
	if answers, err := receive(stream, 1); err != nil || answers[0].GetId() != 7 {
		t.Fatal(answers, err)
	}
	r.service.Drain()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "open another stream") {
		t.Errorf("the stream ends with %v", err)
	}
	if err := r.openAndClose(t.Context()); err != nil && status.Code(err) != codes.Unavailable {
		t.Errorf("another stream ends with %v", err)
	}
}

// broken is a store with a bug.
type broken struct{ stint.Store }

func (broken) Take(context.Context, stint.Claim) (stint.Decision, error) { panic("a bug") }

func TestPanicEndsTheStreamAlone(t *testing.T) {
	r := runOver(t, broken{}, Options{})
	for n := range int64(2) { // the process still runs
		stream, err := r.Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(streamTake(1, 5)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Internal || status.Convert(err).Message() != "no decision could be made" {
			t.Errorf("the stream ends with %v", err)
		}
		if got := r.failed.Load(); got != n+1 {
			t.Errorf("%d failures were reported, want %d", got, n+1)
		}
	}
}

// Streams that clients drop in the middle leave no goroutine behind.
func TestDroppedStreamsLeaveNothing(t *testing.T) {
	r := run(t, Options{})
	before := runtime.NumGoroutine()
	for range 20 {
		conn := dial(t, r.addr)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { drop(t, conn) })
		}
		wg.Wait()
		conn.Close()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before+10; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// drop opens a stream, sends a request, and drops the connection.
func drop(t *testing.T, conn grpc.ClientConnInterface) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := stintv1.NewLimiterServiceClient(conn).Stream(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range uint64(20) {
		_ = stream.Send(streamTake(i, 5))
	}
}
