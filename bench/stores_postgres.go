package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/postgresstore"
)

// naiveName is the way to limit in PostgreSQL that most programs begin with.
const naiveName = "SELECT FOR UPDATE, a transaction a check"

// designRate is what the document that Stint began from expects of PostgreSQL, in checks a
// second.
const designRate = 10_000

// overPostgres compares the store in PostgreSQL with a transaction for each check, on one
// server and with the same settings of the tables. It then changes a million keys for some
// minutes, and looks at what that leaves of the table.
func overPostgres(ctx context.Context, o options, out io.Writer, b *bars) error {
	return withHost(out, func(host *host) error {
		s := pgtest.Start(host)
		db := newDatabase(s)
		fmt.Fprintf(out, "\nstores: PostgreSQL %s, not pinned\n", s.Must("SHOW server_version"))
		keys := identities(min(o.keys, 100_000))
		for _, c := range []calling{{1, false}, {64, false}, {64, true}} {
			if err := errors.Join(db.race(o, c, keys, out, b), ctx.Err()); err != nil {
				return err
			}
		}
		return db.churn(ctx, o, out, b)
	})
}

// database is a server of PostgreSQL with the contestants on it.
type database struct {
	server *pgtest.Server
	url    string // with the password
}

func newDatabase(s *pgtest.Server) *database {
	return &database{server: s, url: strings.Replace(s.URL(), "stint@", "stint:"+url.QueryEscape(pgtest.Password)+"@", 1)}
}

func (db *database) race(o options, c calling, keys []string, out io.Writer, b *bars) error {
	var runners []runner
	seen := map[string]*answers{}
	contestants := []networked{{stintName, db.stint}, {naiveName, db.naive}}
	for _, one := range contestants {
		t, leave, err := one.build(ample())
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		defer leave()
		seen[one.name] = newAnswers(c.callers, c.parts())
		runners = append(runners, c.runner(one.name, t, keys, seen[one.name]))
	}
	race := c.race(o)
	race.slice *= 2 // rows that are not there yet take longer
	if o.busy {
		race.clock = func() func() time.Duration { return sharedClock(db.server.Processes(), 2)() }
	}
	r := networkRace{c, race.interleave(runners), seen}
	title := strings.Replace(r.String(), "redis", "postgres", 1)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%s\t\n\tchecks/s\tratio\tp50\tp99\tnot admitted\t\n", title)
	for _, one := range contestants {
		a := seen[one.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%v\t%.2g %%\t\n", one.name, 1e9/r.timings.ns(one.name), r.timings.ratio(naiveName, one.name),
			readable(a.P50), readable(a.P99), 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
	switch {
	case c.hot:
		b.judgeLeast(title, r.timings.ratio(naiveName, stintName), 30, "of a transaction a check")
	case c.callers == 64:
		b.judgeLeast(title, r.timings.ratio(naiveName, stintName), 8, "of a transaction a check")
		fmt.Fprintf(out, "the design document expects %d checks a second of PostgreSQL\n", designRate)
	}
	return nil
}

func (db *database) stint(a allowance) (take, func(), error) {
	o, err := postgresstore.ParseURL(db.url)
	if err != nil {
		return nil, nil, err
	}
	o.Timeout = 10 * time.Second
	store, err := postgresstore.New(o)
	if err != nil {
		return nil, nil, err
	}
	t, err := takeOf(store, a)
	return t, func() { _ = store.Close() }, err
}

// naive is a token bucket whose row each check locks, reads and writes, with a connection
// for each caller.
func (db *database) naive(a allowance) (take, func(), error) {
	config, err := pgxpool.ParseConfig(db.url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = 64
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	_, err = pool.Exec(ctx, `CREATE UNLOGGED TABLE IF NOT EXISTS naive (key bytea PRIMARY KEY, tokens float8 NOT NULL, at timestamptz NOT NULL)
		WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)`)
	rate := 1 / a.every.Seconds()
	return func(key string) bool {
		allowed := false
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			allowed, err = naiveStep(ctx, tx, []byte(key), float64(a.burst), rate)
			return err
		})
		return err == nil && allowed
	}, pool.Close, err
}

func naiveStep(ctx context.Context, tx pgx.Tx, key []byte, capacity, rate float64) (allowed bool, err error) {
	var tokens float64
	var at, now time.Time
	err = tx.QueryRow(ctx, `SELECT tokens, at, clock_timestamp() FROM naive WHERE key = $1 FOR UPDATE`, key).Scan(&tokens, &at, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, `INSERT INTO naive VALUES ($1, $2, clock_timestamp()) ON CONFLICT DO NOTHING`, key, capacity-1)
		return true, err
	}
	if err != nil {
		return false, err
	}
	tokens = min(capacity, tokens+rate*now.Sub(at).Seconds())
	if tokens < 1 {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE naive SET tokens = $2, at = $3 WHERE key = $1`, key, tokens-1, now)
	return true, err
}

// churn changes keys at random, and judges what the table is like afterwards. The rows do not
// expire meanwhile, so that a slow machine changes as many rows as a fast one, and has none swept.
func (db *database) churn(ctx context.Context, o options, out io.Writer, b *bars) error {
	db.server.Must("TRUNCATE stint_items; DROP TABLE IF EXISTS naive; SELECT pg_stat_reset()")
	t, leave, err := db.stint(heldLong())
	if err != nil {
		return err
	}
	defer leave()
	keys := min(o.keys, 1_000_000)
	begun, calls := time.Now(), atomic.Int64{}
	var callers sync.WaitGroup
	for range 128 {
		callers.Go(func() {
			for time.Since(begun) < o.churn && ctx.Err() == nil {
				t(fmt.Sprint("user:", rand.IntN(keys)))
				calls.Add(1)
			}
		})
	}
	callers.Wait()
	time.Sleep(time.Second) // sessions report their counts when they are idle
	var hot, updates, dead, live, size, fresh int64
	row := db.server.Must(`CREATE UNLOGGED TABLE fresh (LIKE stint_items INCLUDING STORAGE) WITH (fillfactor = 70); INSERT INTO fresh SELECT * FROM stint_items;
		SELECT n_tup_hot_upd, n_tup_upd, n_dead_tup, (SELECT count(*) FROM stint_items), pg_relation_size('stint_items'), pg_relation_size('fresh')
		FROM pg_stat_user_tables WHERE relname = 'stint_items'`)
	if _, err := fmt.Sscanf(strings.ReplaceAll(row, "|", " "), "%d %d %d %d %d %d", &hot, &updates, &dead, &live, &size, &fresh); err != nil {
		return fmt.Errorf("%q: %w", row, err)
	}
	fmt.Fprintf(out, "\npostgres, %v of churn: %d checks, %d rows, %d dead ones, %d updates, %.2f MiB\n",
		o.churn, calls.Load(), live, dead, updates, float64(size)/(1<<20))
	b.judgeLeast("postgres, churn, updates without a change of the index", 100*float64(hot)/float64(max(updates, 1)), 95, "%")
	b.judge("postgres, churn, dead rows", 100*float64(dead)/float64(max(live, 1)), 100, "% of the live ones")
	b.judge("postgres, churn, size", float64(size)/float64(max(fresh, 1)), 2, "of a fresh table with the same rows")
	return nil
}

// host runs servers of package pgtest for a program that is no test.
type host struct {
	out     io.Writer
	cleanup []func()
}

// hostFailed and hostSkipped are what host panics with: the reason.
type (
	hostFailed  string
	hostSkipped string
)

// withHost calls f, and then ends its servers.
func withHost(out io.Writer, f func(*host) error) (err error) {
	h := &host{out: out}
	defer func() {
		for _, end := range slices.Backward(h.cleanup) {
			end()
		}
	}()
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case hostFailed:
			err = errors.New(string(reason))
		case hostSkipped:
			fmt.Fprintln(out, "\nstores: skipped,", string(reason))
		default:
			panic(reason)
		}
	}()
	return f(h)
}

func (h *host) Helper()                      {}
func (h *host) Cleanup(f func())             { h.cleanup = append(h.cleanup, f) }
func (h *host) Fatal(args ...any)            { panic(hostFailed(fmt.Sprint(args...))) }
func (h *host) Fatalf(f string, args ...any) { panic(hostFailed(fmt.Sprintf(f, args...))) }
func (h *host) Skip(args ...any)             { panic(hostSkipped(fmt.Sprint(args...))) }
func (h *host) Skipf(f string, args ...any)  { panic(hostSkipped(fmt.Sprintf(f, args...))) }
