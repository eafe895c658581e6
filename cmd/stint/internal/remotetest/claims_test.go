package remotetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stintdev/stint/remotestore"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/grpcapi"
	"github.com/stintdev/stint/storekit"
)

// recorder is a store that records its claims as text.
type recorder struct {
	stint.Store

	asked []string
}

func (r *recorder) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		r.asked = append(r.asked, groupText(&groups[i]))
	}
	return r.Store.TakeGroups(ctx, groups, out)
}

// groupText returns every field of a group that a store sees.
func groupText(g *stint.Group) string {
	var b strings.Builder
	for part := range g.Parts() {
		fmt.Fprintf(&b, "; part %d", part)
		for _, c := range g.Part(part) {
			b.WriteString(claimText(&c))
		}
	}
	return b.String()
}

func claimText(c *stint.Claim) string {
	p := c.Policy
	text := fmt.Sprintf("; %q %+v cost %d extra %d at %d any %d policy %d %d %d",
		c.Key, c.Limit.Spec(), c.Cost, c.Extra, c.At, c.AnyOf, p.Consistency, p.OnFailure, p.Replicas)
	if c.Local != nil {
		text += fmt.Sprintf(" local %q %+v", c.Local.Key, c.Local.Limit.Spec())
	}
	return text
}

// asCallers marks limits without a scope as the server does.
func asCallers(t *testing.T, groups []stint.Group) []stint.Group {
	t.Helper()
	mark := func(l stint.Limit) stint.Limit {
		s := l.Spec()
		s.FromCaller = s.FromCaller || s.Rule == "" && s.Namespace == ""
		marked, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return marked
	}
	return storekit.MapClaims(groups, func(c *stint.Claim) {
		if c.Limit = mark(c.Limit); c.Local != nil {
			c.Local = &stint.Local{Key: c.Local.Key, Limit: mark(c.Local.Limit)}
		}
	})
}

// Every field of a claim reaches the server's store. A limit that names neither a rule
// nor a namespace becomes the caller's own.
func TestClaimsArriveAsTheyWereSent(t *testing.T) {
	store := &recorder{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})}
	server := grpc.NewServer()
	g := &gate{Service: grpcapi.New(grpcapi.Options{Decider: decide.New(decide.Options{Store: store}), Private: true}), server: server, answer: make(chan error)}
	g.Register(server)
	g.listen(t, "127.0.0.1:0")
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	a, b := mustLimit(t, "5/m"), counted(t, 7)
	scoped, err := stint.Spec{Namespace: "n", Rule: "r", Name: "x", Algorithm: stint.SlidingWindowCounter, Limit: 6, Window: patience, Buckets: 4}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	scopedCallers, err := stint.Spec{Rule: "r", Name: "x", Limit: 6, Window: patience, FromCaller: true}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	groups := []stint.Group{
		{Claims: []stint.Claim{
			{Key: "a", Limit: a, Cost: 2, Extra: 3, AnyOf: 1, Policy: stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailClosed, Replicas: 2}},
			{Key: "a", Limit: scoped, Cost: 1, AnyOf: 255, Policy: stint.Policy{Consistency: stint.Partitioned, OnFailure: stint.FailLocal, Replicas: 255},
				Local: &stint.Local{Key: "l\xff", Limit: b}},
		}, Shadows: [][]stint.Claim{{{Key: "b", Limit: b}}, {{Key: "c", Limit: b}, {Key: "d", Limit: b}}}},
		{Claims: []stint.Claim{{Key: "b\xff", Limit: a, Cost: -1, At: 1_700_000_000_000_000}}},
		{Claims: []stint.Claim{{Key: "c", Limit: a, Cost: stint.Forget, Local: &stint.Local{Limit: scoped}}}},
		{Claims: []stint.Claim{{Key: "d", Limit: scopedCallers, Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLastKnown}}}},
		{},
	}
	if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, 8)); err != nil {
		t.Fatal(err)
	}
	wanted := asCallers(t, groups)
	for i := range groups {
		if got, want := store.asked[i], groupText(&wanted[i]); got != want {
			t.Errorf("group %d:\ngot  %s\nwant %s", i, got, want)
		}
	}
}

// A batch has at most maxClaims claims, however many wait.
func TestFlightsAreBounded(t *testing.T) {
	g := newGate(t)
	s := open(t, remotestore.Options{Addr: g.addr, Timeout: patience})
	limit := mustLimit(t, "100000/h")
	var wg sync.WaitGroup
	take := func() {
		wg.Go(func() {
			if _, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxInFlight {
		take()
	}
	for range maxInFlight {
		<-g.came
	}
	const crowd = 2*maxClaims + maxClaims/2
	for range crowd {
		take()
	}
	await(t, "the wait of the crowd", func() bool { return s.Queued() == crowd })
	for range 10 {
		g.answer <- nil
	}
	wg.Wait()
	for n := crowd; n > 0; {
		keys := len((<-g.came).GetKeys())
		if n -= keys; keys > maxClaims {
			t.Errorf("a batch has %d claims", keys)
		}
	}
}
