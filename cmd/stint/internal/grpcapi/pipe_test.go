package grpcapi

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// hand runs a stream whose requests come from the test, on a store that waits for the
// test. The channel receives the error with which the stream ends.
func hand(t *testing.T) (s *Service, store *waiting, stream *handed, ended chan error) {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(someRules)})
	if err != nil {
		t.Fatal(err)
	}
	store = newWaiting()
	s = New(Options{Decider: deciderOver(store, &fixed{set: set}, nil)})
	ctx, cancel := context.WithCancel(t.Context())
	stream = &handed{ctx: ctx, requests: make(chan *stintv1.StreamRequest, 100), asked: make(chan struct{}, 1000), answers: make(chan *stintv1.StreamResponse, 100)}
	ended = make(chan error, 1)
	go func() {
		ended <- s.Stream(stream)
		cancel() // grpc-go cancels the context too
	}()
	return s, store, stream, ended
}

// ids returns the ids of all answers so far.
func (h *handed) ids() (ids []uint64) {
	for len(h.answers) > 0 {
		for _, a := range (<-h.answers).GetAnswers() {
			ids = append(ids, a.GetId())
		}
	}
	return ids
}

// Requests that have arrived when the server stops are answered first. The stream
// notices the stop either before or after it looks for waiting requests, by chance, so
// the test repeats to see both.
func TestDrainAnswersWhatHasCome(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s, store, stream, ended := hand(t)
			for i := range uint64(5) {
				stream.requests <- streamTake(i, 100)
				synctest.Wait() // the first is decided alone
			}
			s.Drain()
			close(store.let)
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ends with %v", err)
			}
			if ids := stream.ids(); len(ids) != 5 || ids[4] != 4 {
				t.Errorf("answers to %v", ids)
			}
			close(stream.requests)
		})
	}
}

// At most one megabyte waits, plus the first request that does not fit.
func TestLargeRequestsAreReadAsThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, stream, ended := hand(t)
		for i := range uint64(20) {
			m := streamTake(i, 100)
			m.GetTake().Limits[0].RefillRate = strings.Repeat("9", 300_000) // invalid, and answered in its turn
			if i == 0 {
				m = streamTake(i, 100)
			}
			stream.requests <- m
		}
		synctest.Wait()
		if got := len(stream.asked); got != 1+3+1 {
			t.Errorf("%d were read while one is decided, want it, three that fit and one that does not", got)
		}
		close(store.let)
		close(stream.requests)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if ids := stream.ids(); len(ids) != 20 || ids[19] != 19 {
			t.Errorf("answers to %v", ids)
		}
	})
}

// At most maxWaiting requests wait, however small they are.
func TestSmallRequestsWaitUpToANumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, stream, ended := hand(t)
		go func() {
			defer close(stream.requests)
			for i := range uint64(800) {
				stream.requests <- streamTake(i, 1000)
			}
		}()
		synctest.Wait()
		if got := len(stream.asked); got > maxWaiting+maxWaiting+1 {
			t.Errorf("%d were read while at most %d are decided", got, maxWaiting)
		}
		close(store.let)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for len(store.calls) > 0 {
			if n := <-store.calls; n > maxWaiting {
				t.Errorf("a call has %d groups", n)
			}
		}
	})
}

// A client that sends nothing for hours is not cut off: only one that does not read
// answers is.
func TestAStreamMayBeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, stream, ended := hand(t)
		close(store.let)
		for i := range uint64(2) {
			time.Sleep(25 * time.Hour) // in virtual time
			stream.requests <- streamTake(i, 100)
		}
		close(stream.requests)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if ids := stream.ids(); len(ids) != 2 {
			t.Errorf("answers to %v", ids)
		}
	})
}
