package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
	"github.com/stintdev/stint/storetest"
)

// Table is a table of a database with one row per key.
type Table interface {
	// Load returns the values of the keys that have one.
	Load(ctx context.Context, keys []string) (map[string][]byte, error)

	// Save makes the changes if each of the keys still has the value that was
	// loaded, or still has none. Otherwise it changes nothing and returns false.
	Save(ctx context.Context, keys []string, loaded map[string][]byte, changes []storekit.Change) (saved bool, err error)
}

// Store is a stint.Store that keeps its states in a table.
type Store struct {
	table Table
	clock func() time.Time // of the database
}

func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, s, c)
}

func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	return storekit.EachGroup(groups, out, func(group []stint.Group, out []stint.Decision) error {
		return s.takeGroup(ctx, group, out)
	})
}

// takeGroup decides one group and its shadows. It starts again if another process has
// changed a value in the meantime.
func (s *Store) takeGroup(ctx context.Context, group []stint.Group, out []stint.Decision) error {
	keys := storekit.Keys(group)
	for ctx.Err() == nil {
		values, err := s.table.Load(ctx, keys)
		if err != nil {
			return failed(ctx, err)
		}
		changes, decided := storekit.Decide(group, values, s.clock(), out)
		saved, err := s.table.Save(ctx, keys, values, changes)
		if err != nil {
			return failed(ctx, err)
		}
		if saved {
			return decided
		}
	}
	return storekit.Ended(ctx, false)
}

// failed returns the error of a call that the database did not answer.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return storekit.Ended(ctx, true)
	}
	return &stint.Error{Code: stint.CodeUnavailable, Problem: "the database failed", Mend: "see its log", Err: err}
}

// mapTable is a Table in memory.
type mapTable struct {
	mu   sync.Mutex
	rows map[string][]byte
}

func (m *mapTable) Load(_ context.Context, keys []string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := make(map[string][]byte, len(keys))
	for _, key := range keys {
		if value, ok := m.rows[key]; ok {
			values[key] = value
		}
	}
	return values, nil
}

func (m *mapTable) Save(_ context.Context, keys []string, loaded map[string][]byte, changes []storekit.Change) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if !bytes.Equal(m.rows[key], loaded[key]) {
			return false, nil
		}
	}
	for _, c := range changes {
		m.rows[c.Key] = c.Value
	}
	maps.DeleteFunc(m.rows, func(_ string, value []byte) bool { return value == nil })
	return true, nil
}

func TestExampleStore(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) stint.Store {
		return &Store{table: &mapTable{rows: map[string][]byte{}}, clock: clock}
	})
}

// A store over a table of a database.
func Example_store() {
	store := &Store{table: &mapTable{rows: map[string][]byte{}}, clock: time.Now}
	limiter, err := stint.NewLimiter(store, "login", stint.MustParseLimit("2/m"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}
