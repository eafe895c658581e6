package remotetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/remotestore"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/storekit"
)

// gate is a server whose calls wait until the test answers them.
type gate struct {
	*grpcapi.Service

	addr   string
	server *grpc.Server
	came   chan *stintv1.TakeBatchRequest
	answer chan error // one for each call; nil: the service answers
	calls  atomic.Int64
}

// TakeBatch waits for the test.
func (g *gate) TakeBatch(ctx context.Context, m *stintv1.TakeBatchRequest) (*stintv1.TakeBatchResponse, error) {
	g.calls.Add(1)
	g.came <- m
	if err := <-g.answer; err != nil {
		return nil, err
	}
	return g.Service.TakeBatch(context.WithoutCancel(ctx), m)
}

func newGate(t *testing.T) *gate {
	t.Helper()
	return newGateAt(t, "127.0.0.1:0")
}

func newGateAt(t *testing.T, addr string) *gate {
	t.Helper()
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000})
	g := &gate{
		Service: grpcapi.New(grpcapi.Options{Decider: decide.New(decide.Options{Store: memory}), Private: true}), server: grpc.NewServer(),
		came: make(chan *stintv1.TakeBatchRequest, 1000), answer: make(chan error, 1000),
	}
	stintv1.RegisterLimiterServiceServer(g.server, g)
	g.listen(t, addr)
	return g
}

func (g *gate) listen(t *testing.T, addr string) {
	t.Helper()
	socket, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	g.addr = socket.Addr().String()
	go func() { _ = g.server.Serve(socket) }()
	t.Cleanup(func() { close(g.answer); g.server.Stop() })
}

// await polls until a condition holds that other goroutines bring about.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !happened(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(what + " has not happened")
		}
	}
}

// wantError checks the code of an error, and that its text contains a given part.
func wantError(t *testing.T, name string, err error, code stint.Code, says string) {
	t.Helper()
	var e *stint.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want code %d with %q", name, err, code, says)
	}
}

// At most two batches are at the server. Calls that come meanwhile share the next
// batch.
func TestConcurrentTakesTravelTogether(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	limit := mustLimit(t, "100/h")
	var wg sync.WaitGroup
	take := func() {
		wg.Go(func() {
			if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil || !d.Allowed {
				t.Error(d, err)
			}
		})
	}
	take()
	take()
	<-g.came
	<-g.came
	for range 40 {
		take()
	}
	await(t, "the wait of 40", func() bool { return s.Queued() == 40 })
	for range 42 {
		g.answer <- nil
	}
	wg.Wait()
	m := <-g.came
	if len(m.GetKeys()) != 40 || len(m.GetLimits()) != 1 || len(m.GetLimit()) != 0 || len(m.GetCost()) != 0 || len(m.GetGroupSizes()) != 0 {
		t.Errorf("%d keys, %d limits: %v", len(m.GetKeys()), len(m.GetLimits()), m)
	}
	if n := g.calls.Load(); n != 3 {
		t.Errorf("42 takes made %d calls", n)
	}
	if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit}); err != nil || d.Remaining != 58 {
		t.Error(d, err)
	}
}

func TestAbandonedCallsAreNotSent(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "100/h"), Cost: 1}
	var wg sync.WaitGroup
	for range maxInFlight {
		wg.Go(func() { _, _ = s.Take(t.Context(), claim) })
		<-g.came
	}
	gone, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	wg.Go(func() {
		defer close(left)
		_, err := s.Take(gone, claim)
		wantError(t, "canceled in the queue", err, stint.CodeCanceled, "before the check was sent")
	})
	await(t, "the wait", func() bool { return s.Queued() == 1 })
	cancel()
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := s.Take(late, claim)
	wantError(t, "late in the queue", err, stint.CodeTimeout, "before the check was sent")
	<-left
	for range 10 {
		g.answer <- nil
	}
	wg.Wait()
	claim.Cost = 0
	if d, err := s.Take(t.Context(), claim); err != nil || d.Remaining != 98 {
		t.Errorf("%+v, %v: want two charges", d, err)
	}
}

// A call that was sent and not answered returns an error, and is not sent again.
func TestUnknownOutcomeIsNotRepeated(t *testing.T) {
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "100/h"), Cost: 1}
	for name, c := range map[string]struct {
		happens func(g *gate)
		code    stint.Code
		says    string
	}{
		// The deadline ends the call on both sides, and either side may be first.
		"the caller's deadline": {func(*gate) {}, stint.CodeTimeout, "before the "},
		"the connection breaks": {func(g *gate) { go g.server.Stop() }, stint.CodeUnavailable, ""},
		"the server says so":    {func(g *gate) { g.answer <- status.Error(codes.Unavailable, "no") }, stint.CodeUnavailable, ": no"},
		"it has no room":        {func(g *gate) { g.answer <- status.Error(codes.ResourceExhausted, "full") }, stint.CodeExhausted, "full"},
		"it is another program": {func(g *gate) { g.answer <- status.Error(codes.Unimplemented, "unknown service") }, stint.CodeUnavailable, "--grpc listener"},
		"it ends the call":      {func(g *gate) { g.answer <- status.Error(codes.Canceled, "over") }, stint.CodeTimeout, "before the answer came"},
		"it has a bug":          {func(g *gate) { g.answer <- status.Error(codes.Internal, "oh") }, stint.CodeInternal, "oh"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.code == stint.CodeTimeout {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			ended := make(chan error, 1)
			go func() { _, err := s.Take(ctx, claim); ended <- err }()
			<-g.came
			c.happens(g)
			wantError(t, name, <-ended, c.code, c.says)
			if n := g.calls.Load(); n != 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// The store's timeout ends a call to a server that has frozen.
func TestFrozenServerTimesOut(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: 20 * time.Millisecond})
	_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, "1/h"), Cost: 1})
	wantError(t, "frozen", err, stint.CodeTimeout, "")
}

func TestServerThatComesBackIsFound(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "100/h"), Cost: 1}
	g.answer <- nil
	if _, err := s.Take(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	g.server.Stop()
	_, err := s.Take(t.Context(), claim)
	wantError(t, "gone", err, stint.CodeUnavailable, g.addr)
	again := newGateAt(t, g.addr)
	for range cap(again.answer) {
		again.answer <- nil
	}
	await(t, "the return", func() bool { _, err := s.Take(t.Context(), claim); return err == nil })
	await(t, "the state", s.Up) // the client uses a connection a moment before it says so
}

func TestClosedStoreSaysSo(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	claim := stint.Claim{Key: "k", Limit: mustLimit(t, "100/h"), Cost: 1}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := s.Take(t.Context(), claim)
			wantError(t, "on its way", err, stint.CodeUnavailable, "the store is closed")
		})
	}
	<-g.came
	<-g.came
	await(t, "the wait", func() bool { return s.Queued() == 8 })
	_ = s.Close()
	wg.Wait()
	_, err := s.Take(t.Context(), claim)
	wantError(t, "afterwards", err, stint.CodeUnavailable, "the store is closed")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// No call is lost when callers give up, answers arrive and new callers come at the
// same time.
func TestManyCallersLoseNothing(t *testing.T) {
	s := remote(t, nil)
	limit := counted(t, 1_000_000)
	var wg sync.WaitGroup
	var charged, unknown atomic.Int64
	for i := range 32 {
		wg.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*j)%40)*100*time.Microsecond)
				_, err := s.Take(ctx, stint.Claim{Key: "k", Limit: limit, Cost: 1})
				cancel()
				switch {
				case err == nil:
					charged.Add(1)
				case !strings.Contains(err.Error(), "before the check was sent"):
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit})
	used := limit.Max() - d.Remaining
	if err != nil || used < charged.Load() || used > charged.Load()+unknown.Load() {
		t.Errorf("%d used, %d charged, %d unknown: %v", used, charged.Load(), unknown.Load(), err)
	}
	if charged.Load() == 0 {
		t.Error("none was charged")
	}
}

// Shadows that do not fit into the call of their group are still decided in order, and
// charged only if the group is.
func TestShadowsOfSeveralCallsFollowTheirGroup(t *testing.T) {
	s := remote(t, nil)
	limit, narrow := counted(t, 10_000), mustLimit(t, "1/h")
	const shadows, wrong = 3 * maxClaims, 1000
	for name, c := range map[string]struct {
		claims  []stint.Claim
		dry     bool
		charged bool
	}{
		"admitted": {claims: []stint.Claim{{Limit: narrow, Cost: 1}}, charged: true},
		"denied":   {claims: []stint.Claim{{Limit: narrow, Cost: 2}}},
		"invalid":  {claims: []stint.Claim{{Cost: 1}}},
		"dry":      {claims: []stint.Claim{{Limit: narrow, Cost: 1}}, dry: true},
		"none":     {charged: true},
	} {
		g := stint.Group{Claims: c.claims, Dry: c.dry}
		for i := range g.Claims {
			g.Claims[i].Key = name
		}
		for range shadows {
			g.Shadows = append(g.Shadows, []stint.Claim{{Key: name, Limit: limit, Cost: 1}})
		}
		g.Shadows[wrong-1] = []stint.Claim{{}}
		out := make([]stint.Decision, len(g.Claims)+shadows)
		errs, whole := storekit.PartErrors(s.TakeGroups(t.Context(), []stint.Group{g}, out), 1+shadows)
		if whole != nil || errs == nil || errs[wrong] == nil || (errs[0] != nil) != (name == "invalid") {
			t.Fatalf("%s: %v, %v", name, errs, whole)
		}
		errs[0], errs[wrong] = nil, nil
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := limit.Max()
		if c.charged {
			want -= shadows - 1
		}
		d, err := s.Take(t.Context(), stint.Claim{Key: name, Limit: limit})
		if err != nil || d.Remaining != want {
			t.Errorf("%s: %d remain, want %d: %v", name, d.Remaining, want, err)
		}
	}
}

func TestGroupTooLargeIsRefused(t *testing.T) {
	s := remote(t, nil)
	limit := mustLimit(t, "5/h")
	var claims []stint.Claim
	for i := range 300 {
		claims = append(claims, stint.Claim{Key: strings.Repeat("k", 4000) + fmt.Sprint(i), Limit: limit, Cost: 1})
	}
	err := s.TakeGroups(t.Context(), []stint.Group{{Claims: claims}}, make([]stint.Decision, len(claims)))
	wantError(t, "300 long keys", err, stint.CodeInvalid, "do not fit into one call")
	groups := make([]stint.Group, len(claims))
	for i := range claims {
		groups[i].Claims = claims[i : i+1]
	}
	if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, len(claims))); err != nil {
		t.Errorf("each by itself: %v", err)
	}
}

// The longest claims, each with limits of its own, still fit into the megabyte that a
// server accepts.
func TestLongestClaimsFitIntoACall(t *testing.T) {
	s := remote(t, nil)
	name := strings.Repeat("n", 60)
	limit := func(i int, kind string) stint.Limit {
		l, err := stint.Spec{
			Namespace: name + "abcd", Rule: name + "abcd", Name: fmt.Sprintf("%s%s%03d", name, kind, i),
			Algorithm: stint.Quota, Limit: 1_000_000_000, Period: "399d", Anchor: "2026-01-31T00:00:00.123456+02:00", UTCOffset: "+02:00",
		}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	groups := make([]stint.Group, 2*maxClaims)
	for i := range groups {
		groups[i].Claims = []stint.Claim{{
			Key: fmt.Sprintf("%s%d", strings.Repeat("k", 1000), i), Limit: limit(i, "o"), Cost: stint.MaxCost, Extra: stint.MaxCost,
			Local: &stint.Local{Key: strings.Repeat("l", 700), Limit: limit(i, "l")},
		}}
	}
	if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, len(groups))); err != nil {
		t.Error(err)
	}
}

func TestKeysAreAnyBytes(t *testing.T) {
	s := remote(t, nil)
	limit := mustLimit(t, "5/h")
	for _, key := range []string{"\xff\xfe", "\xff", stint.JoinKey("a", "b"), "ä"} {
		for i := range int64(2) {
			if d, err := s.Take(t.Context(), stint.Claim{Key: key, Limit: limit, Cost: 1}); err != nil || d.Remaining != 4-i {
				t.Errorf("%q: %+v, %v", key, d, err)
			}
		}
	}
}
