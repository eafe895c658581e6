package postgresstore

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/internal/cas"
)

// claimSweepText makes this node the one that sweeps for a while, if no other is. A lock of
// a session would not do: PgBouncer may give the session to another client. It also deletes
// what nodes that are gone have announced.
const claimSweepText = `
WITH gone AS (
	DELETE FROM {nodes} WHERE id IN (SELECT id FROM {nodes} WHERE until < clock_timestamp() - interval '1 minute' AND id <> '' FOR UPDATE SKIP LOCKED)
), claimed AS (
	INSERT INTO {nodes} AS n (id, until) VALUES ('', clock_timestamp() + $1::int8 * interval '1 microsecond')
	ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE n.until <= clock_timestamp()
	RETURNING 1
)
SELECT pg_relation_size('{items}') / current_setting('block_size')::int8, (SELECT count(*) FROM claimed)`

// sweepText deletes at most 1,000 expired rows of the pages from $1 to $2, and returns
// their number. It leaves out rows that others have locked, so it never waits. The lock
// makes it delete nothing while another node does.
const sweepText = `
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(1398034004, 2) AS ok),
dead AS MATERIALIZED (
	SELECT ctid FROM {items}
	WHERE ctid >= format('(%s,0)', $1)::tid AND ctid < format('(%s,0)', $2)::tid
	AND expires < clock_timestamp() AND (SELECT ok FROM alone)
	LIMIT 1000 FOR UPDATE SKIP LOCKED
),
deleted AS (DELETE FROM {items} WHERE ctid = ANY (ARRAY (SELECT ctid FROM dead)) RETURNING 1)
SELECT count(*) FROM deleted`

// sweep13Text is sweepText for PostgreSQL 13, which reads the whole table for a range of
// pages. It names every row that the pages can have instead.
const sweep13Text = `
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(1398034004, 2) AS ok),
dead AS MATERIALIZED (
	SELECT ctid FROM {items}
	WHERE ctid = ANY (ARRAY (
		SELECT format('(%s,%s)', page, row)::tid
		FROM generate_series($1::int8, $2::int8 - 1) AS page, generate_series(1, 300) AS row))
	AND expires < clock_timestamp() AND (SELECT ok FROM alone)
	LIMIT 1000 FOR UPDATE SKIP LOCKED
),
deleted AS (DELETE FROM {items} WHERE ctid = ANY (ARRAY (SELECT ctid FROM dead)) RETURNING 1)
SELECT count(*) FROM deleted`

// clearText deletes at most 1,000 rows with keys from $1 to $2, and returns their number.
const clearText = `
WITH deleted AS (
	DELETE FROM {items} WHERE ctid = ANY (ARRAY (SELECT ctid FROM {items} WHERE key >= $1 AND key < $2 LIMIT 1000 FOR UPDATE))
	RETURNING 1
)
SELECT count(*) FROM deleted`

const (
	// sweepPages is the number of pages of one statement, and sweepRows the number of rows
	// that it deletes at most.
	sweepPages = 64
	sweepRows  = 1000
	// sweepShare is the part of the time in which a sweep keeps the server busy: it rests
	// for the others.
	sweepShare = 5
	// sweepTimeout bounds a statement. A server that is slow must get to an end.
	sweepTimeout = 10 * time.Second
)

// sweeper deletes rows that have expired. One node at a time does it, for all nodes and
// prefixes that share the tables.
type sweeper struct {
	backend  *backend
	interval time.Duration
	timeout  time.Duration // of a statement
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.backend.log.Debug("sweeping stopped before the end of the table: the next sweep begins anew", "error", err)
		}
	}
}

// sweep deletes the expired rows of the whole table, if no other node has done so lately.
func (s *sweeper) sweep(ctx context.Context) error {
	pages, mine, err := s.claim(ctx)
	if err != nil || !mine {
		return err
	}
	for page := int64(0); page < pages; {
		begun := time.Now()
		n, err := s.sweepPages(ctx, page, page+sweepPages)
		if err != nil {
			return err
		}
		if n < sweepRows {
			page += sweepPages
		}
		if err := rest(ctx, (sweepShare-1)*time.Since(begun)); err != nil {
			return err
		}
	}
	return nil
}

// claim returns the number of pages, and whether this node is the one to sweep them.
func (s *sweeper) claim(ctx context.Context) (pages int64, mine bool, err error) {
	claimed := int64(0)
	claim := [][]byte{[]byte(strconv.FormatInt((s.interval * 9 / 10).Microseconds(), 10))}
	err = s.do(ctx, call{s.backend.sql.claimSweep, claim, []uint32{oidText}, func(row [][]byte) (err error) {
		if pages, err = int8Of(row[0]); err == nil {
			claimed, err = int8Of(row[1])
		}
		return err
	}})
	return pages, claimed > 0, err
}

// sweepPages deletes the expired rows of some pages and returns their number.
func (s *sweeper) sweepPages(ctx context.Context, from, to int64) (n int64, err error) {
	text := s.backend.sql.sweep
	if s.backend.schema.version.Load() < tidRanges {
		text = s.backend.sql.sweep13
	}
	bounds := [][]byte{[]byte(strconv.FormatInt(from, 10)), []byte(strconv.FormatInt(to, 10))}
	err = s.do(ctx, call{text, bounds, []uint32{oidText, oidText}, func(row [][]byte) (err error) { n, err = int8Of(row[0]); return err }})
	return n, err
}

// clear deletes all rows of the prefix. The rows of a longer prefix, such as stint:blue for
// stint, stay: what follows it in their keys is no mark.
func (b *backend) clear(ctx context.Context) error {
	for _, mark := range cas.Marks {
		if err := b.clearRange(ctx, append([]byte(b.prefix), mark), append([]byte(b.prefix), mark+1)); err != nil {
			return err
		}
	}
	return nil
}

// clearRange deletes the rows whose keys are at least begin and below end.
func (b *backend) clearRange(ctx context.Context, begin, end []byte) error {
	for n := int64(1); n > 0; {
		c := call{b.sql.clear, [][]byte{begin, end}, []uint32{oidBytea, oidBytea}, func(row [][]byte) (err error) { n, err = int8Of(row[0]); return err }}
		if err := b.do(ctx, func(ctx context.Context, conn *pgconn.PgConn) error { return run(ctx, conn, c) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) do(ctx context.Context, c call) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.backend.do(ctx, func(ctx context.Context, conn *pgconn.PgConn) error { return run(ctx, conn, c) })
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
