package quorumstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// A check that comes while another process founds the quorum waits for it.
func TestACheckWaitsForTheFounding(t *testing.T) {
	t.Parallel()
	for _, marked := range []int{1, 2, 3} { // members that have a mark when the check begins
		synctest.Test(t, func(t *testing.T) {
			servers := newMemoryServers(3)
			founder := newBackend(servers, backendOptions{})
			marks, err := founder.marks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			own := make([]mark, 3)
			set := func(i int, old, now mark) {
				if err := founder.setMark(t.Context(), founder.members[i], old, now); err != nil {
					t.Error(err)
				}
			}
			for i := range 3 {
				own[i] = founder.newMark(marks[i])
				if i < marked {
					set(i, mark{}, own[i])
				}
			}
			time.AfterFunc(200*time.Millisecond, func() {
				for i := range 3 {
					ever := own[i]
					ever.ever = true
					if i >= marked {
						set(i, mark{}, own[i])
					}
					set(i, own[i], ever)
				}
			})
			s := newTestStore(t, servers)
			if d, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); err != nil || !d.Allowed {
				t.Errorf("with %d marks: %+v %v", marked, d, err)
			}
			_ = s.Close()
		})
	}
}

// A check does not wait for servers that were marked long ago, or belong to a quorum that this
// process has seen whole.
func TestACheckDoesNotWaitForYoungServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := newMemoryServers(3)
		b := newBackend(servers, backendOptions{})
		marks, err := b.marks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range b.members {
			if err := b.setMark(t.Context(), m, mark{}, b.newMark(marks[i])); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		s := cas.New(newBackend(servers, backendOptions{}), cas.Options{Name: "quorumstore", Heartbeat: -1})
		defer s.Close()
		start := time.Now()
		if _, err := s.Take(t.Context(), testClaim(t, "k", "5/h")); stint.CodeOf(err) != stint.CodeUnavailable || !isYoung(err) {
			t.Error(err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the check waited for %v", took)
		}
	})
}

// A founding that an error has stopped goes on, unless a member has lost what it may have
// accepted meanwhile.
func TestAFoundingGoesOn(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name      string
		server    int
		call      int // to the server: it reads the mark, sets it, and says that it knows all
		restart   bool
		after     time.Duration
		wantWhole bool
	}{
		{"a mark is not set", 2, 2, false, time.Second, true},
		{"one is not said to know all", 1, 3, false, time.Minute, true},
		{"one without a mark restarts", 2, 2, true, time.Second, true},
		{"one with a mark restarts", 1, 3, true, time.Minute, false},
		{"a mark is not set for long", 2, 2, false, time.Minute, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			_, wrong := simulate(t, rules{}, func(s *simulation) error {
				for _, sv := range s.servers {
					sv.restart(false)
				}
				founder, calls := s.addNode(), 0
				founder.holds(step.server, func(*request) time.Duration {
					if calls++; calls == step.call {
						founder.setCut(step.server)
					}
					return 0
				})
				if err := founder.backend.tend(context.Background()); err == nil {
					t.Error("the founding did not stop")
				}
				time.Sleep(step.after)
				if step.restart {
					s.servers[step.server].restart(false)
				}
				founder.setCut()
				if err := founder.backend.tend(context.Background()); step.wantWhole && err != nil {
					t.Error(err)
				}
				whole := 0
				for _, sv := range s.servers {
					if sv.mark.ever {
						whole++
					}
				}
				if (whole == 3) != step.wantWhole {
					t.Errorf("%d servers are said to know all", whole)
				}
				return nil
			})
			if wrong != nil {
				t.Error(wrong)
			}
		})
	}
}
