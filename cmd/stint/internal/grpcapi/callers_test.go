package grpcapi

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// marked is a store that records for each claim whether its limit is a caller's own.
type marked struct {
	stint.Store

	mu   sync.Mutex
	seen []bool
}

func (m *marked) note(claims ...stint.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range claims {
		m.seen = append(m.seen, claims[i].Limit.FromCaller())
	}
}

func (m *marked) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	m.note(c)
	return m.Store.Take(ctx, c)
}

func (m *marked) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		m.note(groups[i].Claims...)
	}
	return m.Store.TakeGroups(ctx, groups, out)
}

// Every call with limits marks those that are callers' own. An untrusted caller cannot
// use the limits of rules, and a mark that a caller sets stays set.
func TestCallersLimitsAreMarked(t *testing.T) {
	limit := func(rule, namespace string, brought bool) *stintv1.Limit {
		return &stintv1.Limit{Rule: rule, Namespace: namespace, Limit: 5, WindowUs: 1_000_000, FromCaller: brought}
	}
	for _, test := range []struct {
		name    string
		limit   *stintv1.Limit
		known   bool
		mark    bool
		refused bool
	}{
		{"a stranger's", limit("", "", false), false, true, false},
		{"a stranger's that says so", limit("", "", true), false, true, false},
		{"a stranger's of a rule", limit("r", "", false), false, false, true},
		{"a stranger's of a namespace that says so", limit("", "n", true), false, false, true},
		{"without a scope", limit("", "", false), true, true, false},
		{"of a rule", limit("r", "", false), true, false, false},
		{"of a namespace", limit("", "n", false), true, false, false},
		{"of another server's caller", limit("r", "n", true), true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := &marked{Store: stint.NewMemory(stint.MemoryOptions{})}
			r := runOver(t, store, Options{Private: test.known})
			limits, calls := []*stintv1.Limit{test.limit}, 0
			check := func(what string, err error) {
				t.Helper()
				switch {
				case test.refused:
					wantCode(t, what, err, codes.PermissionDenied, "to name")
					return
				case err != nil:
					t.Fatalf("%s: %v", what, err)
				}
				if calls++; len(store.seen) != calls || store.seen[calls-1] != test.mark {
					t.Errorf("%s: marks %v, want %v", what, store.seen, test.mark)
				}
			}
			ctx := t.Context()
			_, err := r.Take(ctx, &stintv1.TakeRequest{Key: "k", Limits: limits})
			check("take", err)
			_, err = r.TakeBatch(ctx, &stintv1.TakeBatchRequest{Keys: []string{"k"}, Limits: limits})
			check("batch", err)
			_, err = r.Peek(ctx, &stintv1.PeekRequest{Key: "k", Limits: limits})
			check("peek", err)
			_, err = r.GiveBack(ctx, &stintv1.GiveBackRequest{Key: "k", Limits: limits})
			check("give back", err)
			if test.known {
				_, err = r.Reset(ctx, &stintv1.ResetRequest{Key: "k", Limits: limits})
				check("reset", err)
			}
			if test.refused {
				return
			}
			stream, err := r.Stream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: &stintv1.TakeRequest{Key: "k", Limits: limits}}}); err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			check("stream", err)
		})
	}
}
