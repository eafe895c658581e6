package quorumstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// failingServer is a server whose calls all fail.
type failingServer struct {
	server

	err error
}

func (s failingServer) call(context.Context, *request) (*reply, error)         { return nil, s.err }
func (s failingServer) mark(context.Context, *markRequest) (*markReply, error) { return nil, s.err }

// The error of a check tells the reason of the servers if it is that of all that failed.
func TestTheCommonReasonIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := func(kind stint.Kind) error {
			return &stint.Error{Code: stint.CodeUnavailable, Kind: kind, Mend: "mend of " + string(kind)}
		}
		unanswered := &stint.Error{Code: stint.CodeTimeout, Kind: "connection"}
		for _, c := range []struct {
			name string
			errs [3]error
			kind stint.Kind
		}{
			{"all", [3]error{refused("noauth"), refused("noauth"), refused("noauth")}, "noauth"},
			{"a majority", [3]error{refused("eviction"), nil, refused("eviction")}, "eviction"},
			{"two reasons", [3]error{refused("noauth"), refused("version"), refused("noauth")}, "quorum"},
			{"down", [3]error{refused("connection"), refused("connection"), refused("connection")}, "quorum"},
			{"one refuses, one is silent", [3]error{refused("noauth"), unanswered, nil}, "quorum"},
		} {
			servers := newMemoryServers(3)
			if err := newBackend(servers, backendOptions{}).initialize(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, err := range c.errs {
				if err != nil {
					servers[i] = failingServer{servers[i], err}
				}
			}
			_, err := newTestStore(t, servers).Take(t.Context(), testClaim(t, "k", "5/h"))
			e, ok := errors.AsType[*stint.Error](err)
			if !ok || e.Kind != c.kind || e.Code != stint.CodeUnavailable || c.kind != "quorum" && e.Mend != "mend of "+string(c.kind) {
				t.Errorf("%s: %#v", c.name, err)
			}
		}
	})
}

// A process with the list of before a replacement is told so, by checks and by a repair.
func TestAnotherListOfMembersIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(4)
		before, after := newBackend(servers[:3], backendOptions{}), newBackend(servers[1:], backendOptions{})
		if err := before.initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := after.replace(t.Context(), 2, before.hash); err != nil {
			t.Fatal(err)
		}
		told := func(err error) {
			t.Helper()
			if e, ok := errors.AsType[*stint.Error](err); !ok || e.Kind != kindMembers || e.Mend != mendMembers {
				t.Errorf("%#v", err)
			}
		}
		told(before.repair(t.Context(), before.members[0]))
		told(before.repair(t.Context(), before.members[1]))
		_, err := newTestStore(t, servers[:3]).Take(t.Context(), testClaim(t, "k", "5/h"))
		told(err)
	})
}

// unwritable is a server that may be full, and then only reads.
type unwritable struct {
	memberServer

	full  atomic.Bool
	takes atomic.Int64 // nanoseconds
}

var errFull = &stint.Error{Code: stint.CodeUnavailable, Kind: "oom", Problem: "the server is full"}

func (s *unwritable) call(ctx context.Context, r *request) (*reply, error) {
	if takes := s.takes.Load(); takes > 0 {
		elapse(time.Duration(takes))
	}
	if !s.full.Load() {
		return s.memberServer.call(ctx, r)
	}
	reads := *r
	reads.ops = slices.Clone(r.ops)
	for i := range reads.ops {
		reads.ops[i].verb = verbRead
	}
	re, err := s.memberServer.call(ctx, &reads)
	for i := range r.ops {
		if r.ops[i].verb != verbRead && len(re.results) > 0 {
			re.results[i] = result{err: errFull}
		}
	}
	return re, err
}

// The error of a check on servers that are full tells so, whether the node wrote the key last or not.
// One full server of three is of no matter, whichever answers first.
func TestFullServersAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		var all []*unwritable
		for i := range servers {
			u := &unwritable{memberServer: servers[i].(memberServer)}
			all, servers[i] = append(all, u), u
		}
		own, other := newTestStore(t, servers), newTestStore(t, servers)
		admits := func(s *cas.Store, key string) {
			t.Helper()
			if d, err := s.Take(t.Context(), testClaim(t, key, "100/h")); err != nil || !d.Allowed {
				t.Errorf("%s: %+v %v", key, d, err)
			}
		}
		admits(own, "k")
		admits(own, "k")
		all[0].full.Store(true)
		all[2].full.Store(true)
		for _, s := range []*cas.Store{own, own, other} {
			for _, key := range []string{"k", "new"} {
				if _, err := s.Take(t.Context(), testClaim(t, key, "100/h")); !errors.Is(err, errFull) || stint.CodeOf(err) == stint.CodeTimeout && key == "new" {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
		all[2].full.Store(false)
		for slow := range all {
			all[slow].takes.Store(int64(30 * time.Millisecond))
			for range 5 {
				admits(other, "k")
				admits(own, "k")
				admits(other, rand.Text())
			}
			all[slow].takes.Store(0)
		}
	})
}

// markless is a server that cannot set its mark.
type markless struct{ memberServer }

var errNoRight = &stint.Error{Code: stint.CodeUnavailable, Kind: "noperm", Problem: "the server does not permit it", Mend: "grant +set"}

func (s markless) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	if r.new != (mark{}) {
		return nil, errNoRight
	}
	return s.memberServer.mark(ctx, r)
}

// The error of the first check says why the servers cannot become a quorum.
func TestWhyThereIsNoQuorumYetIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			change func(servers []server)
			kind   stint.Kind
			want   string
		}{
			{"a missing right", func(servers []server) { servers[0] = markless{servers[0].(memberServer)} }, "noperm", "(grant +set)"},
			{"one is not empty", func(servers []server) { servers[1].(memberServer).rows["=k"] = row{} }, "quorum", "s1 is not empty"},
			{"one is down", func(servers []server) {
				servers[2] = failingServer{servers[2], &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "s2 is down"}}
			}, "quorum", "s2 is down"},
		} {
			servers := newMemoryServers(3)
			c.change(servers)
			_, err := newTestStore(t, servers).Take(t.Context(), testClaim(t, "k", "5/h"))
			e, ok := errors.AsType[*stint.Error](err)
			if !ok || e.Code != stint.CodeUnavailable || e.Kind != c.kind || !strings.Contains(err.Error(), "no quorum yet") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}
