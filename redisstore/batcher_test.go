package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
)

// heldServer answers a batch with an error when the test says so.
type heldServer struct {
	mu      sync.Mutex
	keys    [][]string // keys of each batch
	answers chan struct{}
}

func (h *heldServer) send(_ context.Context, calls []invocation, replies []reply) {
	var keys []string
	for _, c := range calls {
		keys = append(keys, c.keys...)
	}
	h.mu.Lock()
	h.keys = append(h.keys, keys)
	h.mu.Unlock()
	<-h.answers
	failAll(replies, errHeld)
}

var errHeld = errors.New("no server")

// heldBatcher is a batcher and its server.
type heldBatcher struct {
	*batcher
	*heldServer

	t     *testing.T
	calls pendingPool
}

func newHeldBatcher(t *testing.T) *heldBatcher {
	t.Helper()
	server := &heldServer{answers: make(chan struct{})}
	return &heldBatcher{batcher: newBatcher(server, encodingOf(t, Options{}), 0), heldServer: server, t: t}
}

// take sends a check of a key and returns when it is sent or queued. Its error follows
// later.
func (b *heldBatcher) take(ctx context.Context, key string) chan error {
	return b.send(ctx, b.pending(key, 1))
}

func (b *heldBatcher) pending(key string, cost int64) *pending {
	c := b.calls.get()
	c.addOne(&stint.Claim{Key: key, Limit: tenASecond(), Cost: cost})
	return c
}

func (b *heldBatcher) send(ctx context.Context, c *pending) chan error {
	end := make(chan error, 1)
	b.Send(ctx, &c.Call, false)
	go func() {
		err := b.calls.await(ctx, c)
		if err == nil {
			err = c.errs[0]
		}
		end <- err
	}()
	synctest.Wait()
	return end
}

// occupy fills all places in flight.
func (b *heldBatcher) occupy() {
	for i := range coalesce.MaxInFlight {
		b.take(b.t.Context(), fmt.Sprint("first", i))
	}
}

// wantKeys checks how many keys each batch so far had.
func (b *heldBatcher) wantKeys(want ...int) {
	b.t.Helper()
	synctest.Wait()
	var got []int
	for _, keys := range b.keys {
		got = append(got, len(keys))
	}
	if !slices.Equal(got, want) {
		b.t.Fatalf("batches of %v keys, want %v", got, want)
	}
}

// answerAll answers the batches in flight and those that follow, until the queue is empty.
func (b *heldBatcher) answerAll() {
	for b.InFlight() > 0 {
		b.answers <- struct{}{}
		synctest.Wait()
	}
}

func tenASecond() stint.Limit {
	l, err := stint.ParseLimit("10/s")
	if err != nil {
		panic(err)
	}
	return l
}

func TestEqualChecksShareALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHeldBatcher(t)
		b.occupy()
		var ends []chan error
		for range 10 {
			ends = append(ends, b.take(t.Context(), "hot"))
		}
		b.answerAll()
		b.wantKeys(1, 1, 1)
		for _, end := range ends {
			if err := <-end; !errors.Is(err, errHeld) {
				t.Error(err)
			}
		}
	})
}

func TestFrozenServerHoldsTwoBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHeldBatcher(t)
		for i := range 3 * maxLines {
			b.take(t.Context(), fmt.Sprint(i))
		}
		b.wantKeys(1, 1)
		b.answers <- struct{}{}
		b.wantKeys(1, 1, maxLines)
		b.answerAll()
		b.wantKeys(1, 1, maxLines, maxLines, maxLines-2)
	})
}

func TestCheckThatLeavesTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHeldBatcher(t)
		b.occupy()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		before, leaves, after := b.take(t.Context(), "before"), b.take(ctx, "leaves"), b.take(t.Context(), "after")
		var e *stint.Error
		if err := <-leaves; !errors.As(err, &e) || e.Code != stint.CodeTimeout || !wasUnsent(err) {
			t.Errorf("left with %v", err)
		}
		b.answerAll()
		if got := fmt.Sprint(len(b.keys[2]), b.Queued()); got != "2 0" {
			t.Errorf("keys sent, calls that wait: %s, want 2 0", got)
		}
		for _, end := range []chan error{before, after} {
			if err := <-end; !errors.Is(err, errHeld) {
				t.Error(err)
			}
		}
	})
}

func TestCallerLeavesWhileItsCheckIsInFlight(t *testing.T) {
	for _, test := range []struct {
		name string
		code stint.Code
		end  func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"its time is over", stint.CodeTimeout, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		}},
		{"it gives up", stint.CodeCanceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx, cancel
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newHeldBatcher(t)
				ctx, cancel := test.end(t.Context())
				defer cancel()
				end, stays := b.take(ctx, "a"), b.take(t.Context(), "b")
				var e *stint.Error
				if err := <-end; !errors.As(err, &e) || e.Code != test.code {
					t.Errorf("left with %v", err)
				}
				b.answerAll()
				if err := <-stays; !errors.Is(err, errHeld) {
					t.Error(err)
				}
				b.wantKeys(1, 1)
			})
		})
	}
}

func TestRefundIsSentWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHeldBatcher(t)
		b.occupy()
		c := b.pending("kept", -1)
		c.Keep = true
		ctx, cancel := context.WithCancel(t.Context())
		end := b.send(ctx, c)
		cancel()
		if err := <-end; err == nil {
			t.Error("the caller waited although it gave up")
		}
		b.answerAll()
		b.wantKeys(1, 1, 1)
	})
}

// BenchmarkBatcher measures a check of a hot key among many callers, without the
// connection and the server.
func BenchmarkBatcher(b *testing.B) {
	e, err := newEncoding(&Options{})
	if err != nil {
		b.Fatal(err)
	}
	n := &node{}
	n.batchers[0].Store(newBatcher(allowAll{}, e, 0))
	s := &Store{encoding: e, topology: &topology{one: n}}
	claim := stint.Claim{Key: "user:00000001", Limit: benchmarkLimit(b), Cost: 1}
	const callers = 256
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range b.N / callers {
				if _, err := s.Take(context.Background(), claim); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// allowAll is a server where no key has a state. It admits all callers of a line.
type allowAll struct{}

func (allowAll) send(_ context.Context, calls []invocation, replies []reply) {
	for range 2 {
		runtime.Gosched() // other callers queue meanwhile
	}
	callers := uint32(1)
	if args := calls[0].args[0]; len(args) > 7+7+4+36 {
		callers = binary.BigEndian.Uint32([]byte(args[len(args)-6:]))
	}
	replies[0].data = singleReply(1, callers, nil)
}
