package postgresstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

// A batch waits for a row that another transaction holds, but not for long, and the batches after it
// do not wait at all. Rows that were inserted since they were read do not fail it either.
func TestBatchesSkipWhatIsInTheWay(t *testing.T) {
	s := pgtest.Start(t)
	b := open(t, withPassword(s.URL()))
	u, w := swapOf("u", 0, "1"), swapOf("w", 0, "1")
	swapped(t, b.Swap, []cas.Swap{u, w}, cas.Done, cas.Done)

	held, end, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	go func() {
		defer close(released)
		_, _ = b.Locked(inTime(t), []string{"u"}, func([]cas.Item, time.Time) []cas.Swap { close(held); <-end; return nil })
	}()
	<-held
	swapped(t, b.Swap, []cas.Swap{swapOf("a", 0, "1"), swapOf("u", u.Version, "2"), swapOf("w", 9, "late")}, cas.Done, cas.Lost, cas.Lost)
	if got := b.skips.Load(); got != skipsAfterConflict {
		t.Errorf("%d batches skip locked rows after one that waited", got)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf("u", u.Version, "2"), swapOf("w", w.Version, "2")}, cas.Lost, cas.Done)
	release()
	<-released
	if got := b.skips.Load(); got != skipsAfterConflict-1 {
		t.Errorf("%d batches skip locked rows after the next one", got)
	}

	// A call with less time than a wait and a second statement take does not wait either.
	b.skips.Store(0)
	short, cancel := context.WithTimeout(t.Context(), 2*lockWait)
	defer cancel()
	if !b.skipNext(short) || b.skipNext(inTime(t)) {
		t.Error("what is skipped does not depend on the time left")
	}

	swapped(t, b.Swap, []cas.Swap{swapOf("c", 0, "1"), swapOf("u", u.Version, "2"), swapOf("w", 0, "late")}, cas.Done, cas.Done, cas.Lost)
	if got := b.skips.Load(); got != skipsAfterConflict {
		t.Errorf("%d batches skip locked rows after one with a row that was there", got)
	}
	if got := loaded(t, b, "a", "c", "u", "w"); string(got[0].Value)+string(got[1].Value)+string(got[2].Value)+string(got[3].Value) != "1122" {
		t.Error(got)
	}
}

// Two connections, one of them by way of PgBouncer, swap overlapping batches, while a third locks
// rows of theirs in transactions. The function has no bound on waits here, so a circle of waits is
// a deadlock, which the server counts.
func TestBatchesLockInTheOrderOfTheirKeys(t *testing.T) {
	s := pgtest.Start(t, "deadlock_timeout=20ms")
	nodes := []*backend{open(t, withPassword(s.URL())), open(t, withPassword(s.PgBouncer().URL())), open(t, withPassword(s.URL()))}
	loaded(t, nodes[0], "k")
	const keys, rounds = 40, 300
	var all []string
	for k := range keys {
		all = append(all, fmt.Sprintf("k%02d", k))
	}
	rewrite(t, nodes[0], all, false) // the order is that of rows that exist
	s.Must("ALTER FUNCTION stint_swap_1 SET lock_timeout = 0")
	wrote := make([]int, len(nodes))
	var done sync.WaitGroup
	for n, node := range nodes {
		done.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range rounds {
				var batch []string
				for _, k := range r.Perm(keys)[:1+r.IntN(keys)] {
					batch = append(batch, fmt.Sprintf("k%02d", k))
				}
				slices.Sort(batch)
				if n == 2 {
					batch = batch[:1+len(batch)/4]
				}
				wrote[n] += rewrite(t, node, batch, n == 2)
			}
		})
	}
	done.Wait()
	if got := s.Must("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); got != "0" {
		t.Errorf("%s deadlocks", got)
	}
	for n, rows := range wrote {
		if rows < rounds {
			t.Errorf("node %d wrote %d rows in %d rounds", n, rows, rounds)
		}
	}
}

// rewrite reads rows and swaps them, in a transaction that locks them if lock is set. It returns
// how many it wrote.
func rewrite(t *testing.T, b *backend, keys []string, lock bool) (wrote int) {
	swapsOf := func(items []cas.Item) (swaps []cas.Swap) {
		for i := range items {
			swaps = append(swaps, swapOf(keys[i], items[i].Version, "v"))
		}
		return swaps
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var swaps []cas.Swap
	var err error
	if lock {
		swaps, err = b.Locked(ctx, keys, func(items []cas.Item, _ time.Time) []cas.Swap { return swapsOf(items) })
	} else {
		b.skips.Store(0)
		swaps = swapsOf(loaded(t, b, keys...))
		_, err = b.Swap(ctx, swaps)
	}
	if err != nil {
		t.Error(err)
	}
	for i := range swaps {
		if swaps[i].Outcome == cas.Done {
			wrote++
		}
	}
	return wrote
}

// A session that planned the functions for an empty table does not read all of it once it is
// large, and a batch then still locks its rows in the order of its keys.
func TestPlansOfAnEmptyTableSuitALargeOne(t *testing.T) {
	s := pgtest.Start(t, "autovacuum=off")
	o, err := ParseURL(withPassword(s.URL()))
	if err != nil {
		t.Fatal(err)
	}
	o.Pool.MaxConns = 1 // all calls are those of one session
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	b, err := newBackend(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	loaded(t, b, "k")
	s.Must("VACUUM ANALYZE stint_items") // the table is known to be empty
	swapped(t, b.Swap, []cas.Swap{swapOf("n", 7, "2"), swapOf("o", 0, "1")}, cas.Lost, cas.Done)
	const rows = 20_000
	s.Must(`INSERT INTO stint_items SELECT convert_to('stint:' || lpad(n::text, 5, '0'), 'UTF8'), 'v', n, now() + interval '1 hour' FROM generate_series(1, ` + strconv.Itoa(rows) + `) AS n`)
	read := func() (n int) {
		n, err := strconv.Atoi(s.Must("SELECT idx_tup_read + seq_tup_read FROM pg_stat_user_indexes JOIN pg_stat_user_tables USING (relid) WHERE indexrelname = 'stint_items_pkey'"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	swapped(t, b.Swap, []cas.Swap{swapOf("00007", 7, "2"), swapOf("00008", 1, "late"), swapOf("01000", 1000, "2")}, cas.Done, cas.Lost, cas.Done)
	b.close() // the session reports what it read
	got := 0
	redistest.Await(t, func() error {
		if got = read() - before; got < 2 {
			return fmt.Errorf("a batch of 3 keys read %d rows", got)
		}
		return nil
	})
	if got > rows/10 {
		t.Errorf("a batch of 3 keys read %d rows", got)
	}
}

// The server waits some microseconds for the time at which a row was decided.
func TestBatchesThatAreHardlyEarlyWait(t *testing.T) {
	s := pgtest.Start(t)
	loaded(t, open(t, withPassword(s.URL())), "k")
	got := s.Must(`SELECT count(*) FILTER (WHERE done IS NOT NULL) < 50, count(*) FILTER (WHERE done IS NULL AND now < earliest)
		FROM generate_series(1, 500) AS n CROSS JOIN LATERAL (SELECT clock_timestamp() + interval '20 microseconds' AS earliest, n OFFSET 0) AS e
		CROSS JOIN LATERAL stint_swap_1('{}', '{}', '{}', '{}', '{}', earliest)`)
	if got != "t|0" {
		t.Errorf("few of 500 batches are refused, and how many are made early: %s", got)
	}
}
