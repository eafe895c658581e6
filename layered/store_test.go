package layered_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/layered"
	"github.com/stintdev/stint/lease"
)

// recorder is a memory store that records refunds and its closing in order.
type recorder struct {
	stint.Store

	mu     sync.Mutex
	events []string
}

func newRecorder() *recorder { return &recorder{Store: stint.NewMemory(stint.MemoryOptions{})} }

func (r *recorder) record(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorder) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for _, g := range groups {
		if g.Claims[0].Cost < 0 {
			r.record("refund")
		}
	}
	return r.Store.TakeGroups(ctx, groups, out)
}

func (r *recorder) Close() error {
	r.record("close")
	return errors.New("closing failed")
}

func perMinute(t *testing.T, n string) stint.Limit {
	t.Helper()
	limit, err := stint.ParseLimit(n + "/m")
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func TestCloseGoesFromTheTopToTheBase(t *testing.T) {
	base := newRecorder()
	s, err := layered.New(t.Context(), base, layered.Options{Lease: lease.Options{Time: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	c := stint.Claim{Key: "k", Limit: perMinute(t, "100000"), Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
	for s.Stats().Lease.Held == 0 {
		if d, err := s.Take(t.Context(), c); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	for range 2 {
		if err := s.Close(); err == nil || err.Error() != "closing failed" {
			t.Errorf("Close: %v; want the error of the base store", err)
		}
	}
	if want := []string{"refund", "close"}; !slices.Equal(base.events, want) {
		t.Errorf("%q; want %q", base.events, want)
	}
}

func TestAFailedNewClosesTheBase(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		options layered.Options
		want    string
	}{
		"guard": {layered.Options{Guard: guard.Options{Nodes: -1}}, "Nodes"},
		"lease": {layered.Options{Lease: lease.Options{Time: time.Hour}}, "Time"},
		"wait":  {layered.Options{Wait: true}, "not ready"},
	} {
		for _, keep := range []bool{false, true} {
			base := newRecorder()
			c.options.KeepOpen = keep
			down := &failing{Store: base}
			down.left.Store(1 << 30)
			s, err := layered.New(ended, down, c.options)
			if s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, %v; want an error about %s", name, s, err, c.want)
			}
			if closed := slices.Equal(base.events, []string{"close"}); closed == keep {
				t.Errorf("%s: closed: %v, with KeepOpen %v", name, closed, keep)
			}
		}
	}
}

func TestKeepOpenKeepsTheBaseOpen(t *testing.T) {
	base := newRecorder()
	s, err := layered.New(t.Context(), base, layered.Options{KeepOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || len(base.events) > 0 {
		t.Errorf("%v, %q", err, base.events)
	}
}

// failing fails its first calls.
type failing struct {
	stint.Store

	left atomic.Int64
}

var errDown = &stint.Error{Code: stint.CodeUnavailable, Problem: "no connection"}

func (f *failing) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if f.left.Add(-1) >= 0 {
		return stint.Decision{}, errDown
	}
	return f.Store.Take(ctx, c)
}

func (f *failing) Close() error {
	if c, ok := f.Store.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

func TestWaitReturnsOnceTheBaseServes(t *testing.T) {
	base := &failing{Store: stint.NewMemory(stint.MemoryOptions{})}
	base.left.Store(3)
	s, err := layered.New(t.Context(), base, layered.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if d, err := s.Take(t.Context(), stint.Claim{Key: "ping", Limit: perMinute(t, "1"), Cost: 1}); err != nil || !d.Allowed || d.Degraded {
		t.Errorf("%+v, %v: waiting has charged something", d, err)
	}
	base.left.Store(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = layered.New(ctx, base, layered.Options{Wait: true, KeepOpen: true})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, error(errDown)) {
		t.Errorf("%v; want the end of the context and the store's error", err)
	}
}

// A store that does not wait decides by the failure policy until the base store serves.
func TestNewNeedsNoServer(t *testing.T) {
	base := &failing{Store: stint.NewMemory(stint.MemoryOptions{})}
	base.left.Store(2)
	s, err := layered.New(t.Context(), base, layered.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Ping(t.Context()); !errors.Is(err, error(errDown)) {
		t.Errorf("Ping: %v", err)
	}
	for _, degraded := range []bool{true, false} {
		d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perMinute(t, "10"), Cost: 1})
		if err != nil || !d.Allowed || d.Degraded != degraded {
			t.Errorf("%+v, %v; want degraded: %v", d, err, degraded)
		}
	}
}

// pinged has a Ping of its own.
type pinged struct{ stint.Store }

func (pinged) Ping(context.Context) error { return errDown }

// observer wraps a store, and Unwrap returns that store.
type observer struct{ stint.Store }

func (o observer) Unwrap() stint.Store { return o.Store }

func TestPingIsTheBasesOwn(t *testing.T) {
	for name, base := range map[string]stint.Store{"itself": pinged{newRecorder()}, "observed": observer{pinged{newRecorder()}}} {
		s, err := layered.New(t.Context(), base, layered.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); !errors.Is(err, error(errDown)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// events is a [stint.Observer] that keeps the names of store calls.
type events struct {
	mu    sync.Mutex
	names []string
}

func (e *events) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (e *events) Observe(_ context.Context, event stint.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, event.Name)
}

// An observed store can be a base, and its calls are observed beside those of the guard.
func TestLayersAreObserved(t *testing.T) {
	var seen events
	base := stint.ObserveStore(newRecorder(), "base", &seen)
	s, err := layered.New(t.Context(), base, layered.Options{Observer: &seen})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perMinute(t, "10"), Cost: 1}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"base", "guard"}; !slices.Equal(seen.names, want) {
		t.Errorf("%q; want %q", seen.names, want)
	}
}

func TestLayersCanBeSeen(t *testing.T) {
	base := stint.NewMemory(stint.MemoryOptions{})
	s, err := layered.New(t.Context(), base, layered.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	leasing, ok := s.Unwrap().(*lease.Store)
	if !ok {
		t.Fatalf("the top is a %T", s.Unwrap())
	}
	guarded, ok := leasing.Unwrap().(*guard.Store)
	if !ok || guarded.Unwrap() != stint.Store(base) || s.Base() != stint.Store(base) {
		t.Errorf("the layers are in the wrong order: %T", leasing.Unwrap())
	}
	if !s.Up() {
		t.Error("it is down before any failure")
	}
}

func TestWrongOrdersAreRefused(t *testing.T) {
	inner := func() *layered.Store {
		s, err := layered.New(t.Context(), newRecorder(), layered.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	guarded, ok := inner().Unwrap().(*lease.Store)
	if !ok {
		t.Fatal("the top does not lease")
	}
	for name, c := range map[string]struct {
		base stint.Store
		want string
	}{
		"nil":             {nil, "the store is nil"},
		"a nil pointer":   {(*recorder)(nil), "the store is nil"},
		"layered":         {inner(), "leases"},
		"layered, hidden": {observer{inner()}, "leases"},
		"leases":          {inner().Unwrap(), "leases"},
		"a guard":         {guarded.Unwrap(), "guarded already"},
	} {
		if _, err := layered.New(t.Context(), c.base, layered.Options{KeepOpen: true}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := guard.New(inner(), guard.Options{}); err == nil || !strings.Contains(err.Error(), "leases") {
		t.Errorf("a guard over a layered store: %v", err)
	}
	if _, err := lease.New(inner(), lease.Options{}); err == nil || !strings.Contains(err.Error(), "leases already") {
		t.Errorf("leases over a layered store: %v", err)
	}
}

func TestZeroValues(t *testing.T) {
	claim := stint.Claim{Key: "k", Limit: perMinute(t, "1"), Cost: 1}
	for name, s := range map[string]*layered.Store{"zero": {}, "nil": nil} {
		if _, err := s.Take(t.Context(), claim); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: Take: %v", name, err)
		}
		if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, make([]stint.Decision, 1)); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: TakeGroups: %v", name, err)
		}
		if err := s.Ping(t.Context()); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: Ping: %v", name, err)
		}
		if err := s.Close(); err != nil || s.Up() || s.Base() != nil || s.Unwrap() != nil || s.Stats().Guard.Shards != nil {
			t.Errorf("%s: it is up, or has layers", name)
		}
	}
}
