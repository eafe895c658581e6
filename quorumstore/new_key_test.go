package quorumstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// watched notes the operations that a server gets.
type watched struct {
	memberServer

	verbs []verb
}

func (w *watched) call(ctx context.Context, r *request) (*reply, error) {
	w.mu.Lock()
	for i := range r.ops {
		w.verbs = append(w.verbs, r.ops[i].verb)
	}
	w.mu.Unlock()
	return w.memberServer.call(ctx, r)
}

// seen returns the operations since the last call of seen.
func (w *watched) seen() []verb {
	w.mu.Lock()
	defer w.mu.Unlock()
	verbs := w.verbs
	w.verbs = nil
	return verbs
}

// watchedStore returns a store that has made a call, and one of its servers.
func watchedStore(t *testing.T) (take func(stint.Group), w *watched) {
	t.Helper()
	servers := newMemoryServers(3)
	w = &watched{memberServer: servers[0].(memberServer)}
	servers[0] = w
	s := newTestStore(t, servers)
	take = func(g stint.Group) {
		t.Helper()
		if err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, len(g.Claims))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the watched server has answered too
	}
	take(stint.Group{Claims: []stint.Claim{testClaim(t, "other", "10/s")}})
	elapse(time.Minute) // until the servers promise ballots of now for keys without a row
	w.seen()
	return take, w
}

// The read of a new key prepares its write, and the write keeps a promise for the next one.
func TestAChargeOfANewKeyIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		take, w := watchedStore(t)
		for i, want := range [][]verb{{verbPrepareNew, verbAccept}, {verbAccept}} {
			take(stint.Group{Claims: []stint.Claim{testClaim(t, "k", "10/s")}})
			if got := w.seen(); !slices.Equal(got, want) {
				t.Errorf("charge %d: operations %v, want %v", i, got, want)
			}
		}
	})
}

// A call that charges nothing writes nothing, not even a promise.
func TestADenialOfANewKeyWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		take, w := watchedStore(t)
		peek, large := testClaim(t, "k", "10/s"), testClaim(t, "k", "10/s")
		peek.Cost, large.Cost = 0, 11
		for _, g := range []stint.Group{
			{Claims: []stint.Claim{peek}}, {Claims: []stint.Claim{large}},
			{Claims: []stint.Claim{testClaim(t, "k", "20/h"), large}}, {Claims: []stint.Claim{testClaim(t, "k", "10/s")}, Dry: true},
		} {
			take(g)
			if got := w.seen(); !slices.Equal(got, []verb{verbRead}) {
				t.Errorf("%+v: operations %v", g, got)
			}
		}
	})
}

// The read of a key that another process has written prepares nothing: it would take the promise
// from that process.
func TestAReadOfAnotherProcessKeepsThePromise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		c := testClaim(t, "k", "1/h")
		own, other := newTestStore(t, servers), newTestStore(t, servers)
		var promises [2]ballot
		for i, s := range []*cas.Store{own, other} {
			if _, err := s.Take(t.Context(), testClaim(t, "other", "10/s")); err != nil {
				t.Fatal(err)
			}
			elapse(time.Minute)
			if d, err := s.Take(t.Context(), c); err != nil || d.Allowed != (s == own) {
				t.Fatal(d, err)
			}
			synctest.Wait() // a majority answers the call, and this server may be the third one
			promises[i] = servers[0].(memberServer).rowOf("=k").promise
		}
		if promises[0] != promises[1] || promises[0] == (ballot{}) {
			t.Errorf("the promise was %v and is %v", promises[0], promises[1])
		}
	})
}

// A read prepares the write of a new key at one server alone, and the next one, at a time when the clocks of
// no majority are known to agree, prepares nothing. The promise of the one server is then not that of a
// majority.
func TestARepeatedReadForgetsWhatTheFirstOnePrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(newMemoryServers(3), backendOptions{})
		if err := b.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		if _, err := b.marks(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := []*reading{{key: "k", isNew: true}}
		for _, m := range b.members[1:] {
			m.server = failingServer{m.server, errLost}
		}
		if _, _, err := b.read(t.Context(), all); err == nil || all[0].prepared == (ballot{}) {
			t.Fatal(err, all[0].prepared)
		}
		for i, m := range b.members {
			if failing, ok := m.server.(failingServer); ok {
				m.server = failing.server
			}
			m.mu.about.time -= int64(i) * 2 * maxSkew.Microseconds() // as if this process had stood still between the answers
		}
		if at := b.quorumTime(); at != 0 {
			t.Fatal(at)
		}
		if _, left, err := b.read(t.Context(), all); err != nil || len(left) > 0 || all[0].err != nil {
			t.Fatal(left, err, all[0].err)
		}
		if m := all[0].item.Memo.(*memo); m.kept != nil {
			t.Errorf("a majority is taken to have promised %+v", m.kept.next)
		}
	})
}
