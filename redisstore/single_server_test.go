package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/internal/redistest"
)

// soleCaller is the only caller of its store, so its checks are singles, and the only one
// of its key, so it knows what must remain.
type soleCaller struct {
	*testing.T

	store *Store
	claim stint.Claim
	taken int64
}

func newSoleCaller(t *testing.T, s *Store) *soleCaller {
	t.Helper()
	return &soleCaller{T: t, store: s, claim: stint.Claim{Key: "sole", Limit: named(t, "slow", stint.TokenBucket, 1000), Cost: 1}}
}

// take checks that a check is allowed and charged once.
func (l *soleCaller) take() {
	l.Helper()
	d, err := l.store.Take(context.Background(), l.claim)
	if l.taken++; err != nil || !d.Allowed || d.Remaining != 1000-l.taken {
		l.Fatalf("check %d: %+v, %v", l.taken, d, err)
	}
}

func TestSingleSendsALostScriptAgain(t *testing.T) {
	server := redistest.Server(t)
	l := newSoleCaller(t, open(t, Options{Addrs: []string{server.Addr()}, Heartbeat: -1}))
	l.take()
	before := l.store.Stats().NoScript
	server.Must("SCRIPT", "FLUSH")
	l.take()
	l.take()
	if n := l.store.Stats().NoScript - before; n != 1 {
		t.Errorf("%d scripts were missing, want 1", n)
	}
}

func TestSingleFollowsItsSlot(t *testing.T) {
	servers := redistest.Cluster(t, 2, 0)
	l := newSoleCaller(t, open(t, Options{Topology: Cluster, Addrs: servers.Addrs(), Heartbeat: -1}))
	l.take()
	slot := servers.Slot("{" + l.claim.Key + "}")
	to := servers.Masters()[0]
	if to == servers.Owner(slot) {
		to = servers.Masters()[1]
	}
	servers.BeginMove(slot, to)
	l.take()
	servers.MoveKeys(slot, to)
	l.take() // the server answers ASK
	servers.EndMove(slot, to)
	l.take() // the server answers MOVED
	l.take()
}

func TestSingleIsNotSentToAStoppedServer(t *testing.T) {
	l := newSoleCaller(t, open(t, Options{Addrs: []string{redistest.Server(t).Addr()}, Heartbeat: -1}))
	l.take()
	l.store.topology.nodeOf(0).stop()
	for range 2 * coalesce.MaxInFlight {
		_, err := l.store.Take(context.Background(), l.claim)
		wantError(t, err, stint.CodeUnavailable, "stopped")
	}
	l.store.topology.nodeOf(0).start()
	l.take()
}

// A caller that gives up while its check is in flight gets CodeCanceled or CodeTimeout,
// and does not wait for the server.
func TestSingleEndsWithItsCaller(t *testing.T) {
	server := redistest.Server(t)
	l := newSoleCaller(t, open(t, Options{Addrs: []string{server.Addr()}, Timeout: time.Minute, Heartbeat: -1}))
	l.take()
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	time.AfterFunc(time.Millisecond, cancel)
	start := time.Now()
	_, err := l.store.Take(ctx, l.claim)
	var e *stint.Error
	if took := time.Since(start); !errors.As(err, &e) || e.Code != stint.CodeTimeout && e.Code != stint.CodeCanceled || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	server.Thaw()
	if d, err := l.store.Take(context.Background(), stint.Claim{Key: l.claim.Key, Limit: l.claim.Limit}); err != nil || d.Remaining < 998 {
		t.Errorf("%+v, %v; want at most 2 charges", d, err)
	}
}
