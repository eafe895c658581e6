package cas_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
)

// meddling is a backend that calls a function before each load of some keys, and each write.
type meddling struct {
	*casmem.Backend

	load, write func(key string)
}

func (m meddling) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	for i := range loads {
		m.load(loads[i].Key)
	}
	return m.Backend.Load(ctx, loads)
}

func (m meddling) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	for i := range swaps {
		m.write(swaps[i].Key)
	}
	return m.Backend.Swap(ctx, swaps)
}

// contendedStore returns a store that loses its first write of one key, and another one writes the other key
// before the store can undo its own write of that.
func contendedStore(t *testing.T, server *casmem.Server, lost, undone string, take func(key string)) *cas.Store {
	var losing, undoing atomic.Int32
	return newStore(t, meddling{casmem.New(server), func(key string) {
		if key == "="+undone && losing.Load() == 1 && undoing.CompareAndSwap(0, 1) {
			take(undone)
		}
	}, func(key string) {
		if key == "="+lost && losing.CompareAndSwap(0, 1) {
			take(lost)
		}
	}}, cas.Options{})
}

// A group of two keys is remembered by the first one. It loses that, and the next time it loses the other one,
// while another process has written both. What was charged is refunded: the group must not be found as one
// that was admitted.
func TestAnUndoneGroupIsNotRemembered(t *testing.T) {
	server := casmem.NewServer(nil)
	other := newStore(t, casmem.New(server), cas.Options{})
	var written []string
	s := newStore(t, meddling{casmem.New(server), func(string) {}, func(key string) {
		written = append(written, key)
		switch {
		case key == "=a" && len(written) == 2: // the first attempt, which has written b
			take(t, other, claim("a", "10/h", 1))
		case key == "=b" && len(written) > 3 && !slices.Contains(written[3:len(written)-1], "=b"):
			take(t, other, claim("a", "10/h", 1))
			take(t, other, claim("b", "10/h", 1))
		}
	}}, cas.Options{})
	g := stint.Group{Once: &stint.Once{ID: "x"}, Claims: []stint.Claim{claim("a", "10/h", 1), claim("b", "10/h", 1)}}
	out := make([]stint.Decision, 2)
	if err := s.TakeGroups(t.Context(), []stint.Group{g}, out); err != nil || !out[0].Allowed || !out[1].Allowed {
		t.Fatalf("%+v, %v", out, err)
	}
	a, b := 10-take(t, other, claim("a", "10/h", 0)).Remaining, 10-take(t, other, claim("b", "10/h", 0)).Remaining
	if a != 3 || b != 2 || out[0].Repeated {
		t.Errorf("%d and %d units are used, not 3 and 2: %+v", a, b, out)
	}
}

// Two groups that are remembered come in one call. One of them loses an item, and so both are undone.
func TestNoneOfSeveralUndoneGroupsIsRemembered(t *testing.T) {
	server := casmem.NewServer(nil)
	other := newStore(t, casmem.New(server), cas.Options{})
	s := contendedStore(t, server, "c", "a", func(key string) { take(t, other, claim(key, "10/h", 1)) })
	groups := []stint.Group{
		{Once: &stint.Once{ID: "x"}, Claims: []stint.Claim{claim("a", "10/h", 1), claim("b", "10/h", 1)}},
		{Once: &stint.Once{ID: "y"}, Claims: []stint.Claim{claim("c", "10/h", 1), claim("d", "10/h", 1)}},
	}
	out := make([]stint.Decision, 4)
	if err := s.TakeGroups(t.Context(), groups, out); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"a", "b", "c", "d"} {
		used, others := 10-take(t, other, claim(key, "10/h", 0)).Remaining, int64(1-i%2)
		if !out[i].Allowed || out[i].Repeated || used < 1 || used > 1+others {
			t.Errorf("%s: %d units are used: %+v", key, used, out[i])
		}
	}
}

// A refund of two keys loses one of them, after another process has written the other one. It must not
// refund that twice.
func TestAGroupIsRefundedOnce(t *testing.T) {
	server := casmem.NewServer(nil)
	other := newStore(t, casmem.New(server), cas.Options{})
	for _, key := range []string{"a", "b"} {
		take(t, other, claim(key, "100/h", 50))
	}
	s := contendedStore(t, server, "b", "a", func(key string) { take(t, other, claim(key, "100/h", 1)) })
	g := stint.Group{Claims: []stint.Claim{claim("a", "100/h", -5), claim("b", "100/h", -5)}}
	err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, 2))
	for _, key := range []string{"a", "b"} {
		if used := 100 - take(t, other, claim(key, "100/h", 0)).Remaining; used < 46 {
			t.Errorf("%s: %d units are used of 51 after a refund of 5 (%v)", key, used, err)
		}
	}
}

// batches is a backend that notes how many keys each load has. The first one waits.
type batches struct {
	*casmem.Backend

	mu    sync.Mutex
	sizes []int // guarded by mu
	begin chan struct{}
}

func (b *batches) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(loads))
	first := len(b.sizes) == 1
	b.mu.Unlock()
	if first {
		<-b.begin
	}
	return b.Backend.Load(ctx, loads)
}

// Callers wait for a round. Those whose groups are remembered get rounds of their own, and the others share one.
func TestARoundHasOneRememberedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Backend: casmem.New(casmem.NewServer(nil)), begin: make(chan struct{})}
		s := newStore(t, b, cas.Options{})
		var all sync.WaitGroup
		for i, id := range []string{"", "x", "", "", "y", "z"} {
			g := stint.Group{Claims: []stint.Claim{claim(fmt.Sprint("a", i), "10/h", 1), claim(fmt.Sprint("b", i), "10/h", 1)}}
			if id != "" {
				g.Once = &stint.Once{ID: id}
			}
			all.Go(func() {
				if err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, 2)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(b.begin)
		all.Wait()
		if want := []int{2, 2, 4, 2, 2}; !slices.Equal(b.sizes, want) {
			t.Errorf("the rounds have %v keys, not %v", b.sizes, want)
		}
	})
}
