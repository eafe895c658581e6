package dynamoopen_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/dynamostore/dynamoopen"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/dynamotest"
)

// TestLeasedHotKeyCostsFewWrites checks that two processes that lease one key write it at
// most once in 100 checks, because DynamoDB makes at most 1,000 writes of a key a second.
func TestLeasedHotKeyCostsFewWrites(t *testing.T) {
	for name, value := range dynamotest.Environment {
		t.Setenv(name, value)
	}
	client, err := dynamostore.ParseURL(dynamotest.Dynalite(t).URL("limits"))
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 10 * time.Second
	if err := dynamostore.Migrate(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	claim := stint.Claim{Key: "hot", Limit: stint.MustParseLimit("100000000/s"), Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
	const checks = 100_000
	var nodes sync.WaitGroup
	for range 2 {
		store, err := dynamoopen.New(t.Context(), client, dynamoopen.Options{Guard: guard.Options{Deadline: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		base, ok := store.Base().(*dynamostore.Store)
		if !ok {
			t.Fatalf("the base is a %T", store.Base())
		}
		nodes.Go(func() {
			for range checks {
				if d, err := store.Take(t.Context(), claim); err != nil || !d.Allowed || d.Degraded {
					t.Errorf("%+v %v", d, err)
					return
				}
			}
			if writes := base.Stats().Swaps; writes == 0 || writes > checks/100 {
				t.Errorf("%d checks cost %d writes", checks, writes)
			}
		})
	}
	nodes.Wait()
}
