package postgresstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/internal/cas"
)

// backend reads and writes the rows of items: a [cas.Backend] that is [cas.Atomic], a
// [cas.Locker], a [cas.Prober] and a [cas.Announcer].
type backend struct {
	*pool

	sql    *statements
	prefix string // of every key
}

// Load implements [cas.Backend]. Its time is that of the first row, which is the closest to the
// time at which the call was sent.
func (b *backend) Load(ctx context.Context, loads []cas.Load) (now time.Time, err error) {
	index := make(map[string]int, len(loads))
	for i := range loads {
		index[loads[i].Key] = i
	}
	keys := keysOf(b.prefix, loads, func(l *cas.Load) string { return l.Key })
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, call{b.sql.load, keys, keysTypes, func(row [][]byte) (err error) {
			if now.IsZero() {
				now, err = timeOf(row[0])
			}
			if err != nil || row[1] == nil { // without a key: the key has no item
				return err
			}
			i, known := index[string(row[1][min(len(b.prefix), len(row[1])):])]
			if !known {
				return errGarbled
			}
			loads[i].Item, err = itemOf(row[2], row[3])
			return err
		}})
	})
	return now, err
}

func itemOf(state, version []byte) (cas.Item, error) {
	n, err := int8Of(version)
	if err != nil || n <= 0 {
		return cas.Item{}, errGarbled
	}
	return cas.Item{Value: append(make([]byte, 0, len(state)), state...), Version: uint64(n)}, nil
}

// Swap implements [cas.Backend].
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	done := make(map[uint64]bool, len(swaps))
	row := func(row [][]byte) (err error) {
		if now, err = timeOf(row[0]); err != nil || row[1] == nil { // without a version: none was written
			return err
		}
		version, err := int8Of(row[1])
		done[uint64(version)] = true
		return err
	}
	c := call{b.sql.swap, append(writesOf(b.prefix, swaps), notBefore(swaps)), swapTypes, row}
	err = b.do(ctx, func(ctx context.Context, conn *pgconn.PgConn) error { return run(ctx, conn, c) })
	if err != nil {
		return now, settle(swaps, err)
	}
	for i := range swaps {
		swaps[i].Outcome = cas.Lost
		if done[swaps[i].Version] {
			swaps[i].Outcome, swaps[i].Written = cas.Done, swaps[i].Version
		}
	}
	return now, nil
}

// SwapAll implements [cas.Atomic].
func (b *backend) SwapAll(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	var ok bool
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, b.swapAll(swaps, &now, &ok))
	})
	if err != nil {
		return now, settle(swaps, err)
	}
	setAll(swaps, ok)
	return now, nil
}

// swapAll makes all swaps or none. It stores whether it made them in ok.
func (b *backend) swapAll(swaps []cas.Swap, now *time.Time, ok *bool) call {
	return call{b.sql.swapAll, writesOf(b.prefix, swaps), writeTypes, func(row [][]byte) (err error) {
		*now, err = timeOf(row[0])
		*ok = len(row[1]) == 1 && row[1][0] != 0
		return err
	}}
}

func setAll(swaps []cas.Swap, ok bool) {
	outcome := cas.Lost
	if ok {
		outcome = cas.Done
	}
	for i := range swaps {
		swaps[i].Outcome = outcome
	}
}

// settle sets the outcomes of swaps after a call that failed: Lost if another transaction
// was in the way, Failed if nothing was written, and Unknown if the answer is missing. It
// returns the error that the caller of the backend gets.
func settle(swaps []cas.Swap, err error) error {
	outcome := cas.Unknown
	switch {
	case errors.Is(err, errConflict):
		outcome, err = cas.Lost, nil
	case nothingWritten(err):
		outcome = cas.Failed
	}
	for i := range swaps {
		swaps[i].Outcome = outcome
	}
	return err
}

// Locked implements [cas.Locker] by a transaction that locks the rows, and waits for those
// that others have locked. A key without a row is not locked: its swap is lost if another
// node is faster.
//
// If this process stops in between, the server ends the transaction, and so unlocks the
// rows, once the transaction has been idle for the time that the call had left.
func (b *backend) Locked(ctx context.Context, keys []string, decide func([]cas.Item, time.Time) []cas.Swap) (swaps []cas.Swap, err error) {
	var decided, ok bool
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		items, now, err := b.lock(ctx, c, keys)
		if err != nil {
			return err
		}
		decided, swaps = true, decide(items, now)
		if len(swaps) == 0 {
			return run(ctx, c, call{sql: "ROLLBACK"})
		}
		return run(ctx, c, b.swapAll(swaps, &now, &ok), call{sql: "COMMIT"})
	})
	switch {
	case !decided:
		return nil, err
	case err == nil:
		setAll(swaps, ok)
	default:
		err = settle(swaps, err)
		for i := range swaps {
			swaps[i].Err = err
		}
	}
	return swaps, nil
}

// lock begins a transaction and locks the rows of keys. The time is read after the wait for
// the locks.
func (b *backend) lock(ctx context.Context, c *pgconn.PgConn, keys []string) (items []cas.Item, now time.Time, err error) {
	items = make([]cas.Item, len(keys))
	left := "1000"
	if end, ok := ctx.Deadline(); ok {
		left = strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10)
	}
	bounds := [][]byte{[]byte(left)}
	err = run(ctx, c,
		call{sql: "BEGIN ISOLATION LEVEL READ COMMITTED"},
		call{sql: boundsText, params: bounds, types: []uint32{oidText}},
		call{b.sql.lock, keysOf(b.prefix, keys, func(key *string) string { return *key }), keysTypes, func(row [][]byte) (err error) {
			i, known := slices.BinarySearch(keys, string(row[0][min(len(b.prefix), len(row[0])):]))
			if !known {
				return errGarbled
			}
			items[i], err = itemOf(row[1], row[2])
			return err
		}},
		call{sql: "SELECT clock_timestamp()", row: func(row [][]byte) (err error) { now, err = timeOf(row[0]); return err }},
	)
	return items, now, err
}

// call is a statement with its parameters.
type call struct {
	sql    string
	params [][]byte
	types  []uint32                 // of the parameters
	row    func(row [][]byte) error // called for each row of the result; nil: there are none
}

// run sends calls in one round trip. They are one transaction, unless they begin or end
// one themselves.
func run(ctx context.Context, c *pgconn.PgConn, calls ...call) error {
	p := c.StartPipeline(ctx)
	for i := range calls {
		p.SendQueryParams(calls[i].sql, calls[i].params, calls[i].types, binaryAll, binaryAll)
	}
	err := p.Sync()
	for i := 0; err == nil && i < len(calls); i++ {
		var results any
		if results, err = p.GetResults(); err == nil {
			err = read(results, calls[i].row)
		}
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return err
}

// read reads the rows of a result.
func read(results any, row func([][]byte) error) error {
	r, ok := results.(*pgconn.ResultReader)
	if !ok {
		return errGarbled
	}
	var wrong error
	for r.NextRow() {
		if row != nil && wrong == nil {
			wrong = row(r.Values())
		}
	}
	if _, err := r.Close(); err != nil {
		return err
	}
	return wrong
}

func newBackend(o *Options) (*backend, error) {
	p, err := newPool(o)
	if err != nil {
		return nil, err
	}
	return &backend{pool: p, sql: p.schema.sql, prefix: o.Prefix + ":"}, nil
}

// background makes the first connection and the tables, and then sweeps, until ctx ends.
func (b *backend) background(ctx context.Context, o *Options) {
	go func() {
		first, cancel := context.WithTimeout(ctx, o.Timeout)
		if err := b.do(first, func(context.Context, *pgconn.PgConn) error { return nil }); err != nil {
			b.log.Debug("the first connection failed: the next check connects again", "error", err)
		}
		cancel()
		if o.Sweep > 0 {
			(&sweeper{backend: b, interval: o.Sweep, timeout: sweepTimeout}).run(ctx)
		}
	}()
}
