package quorumstore

import (
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
