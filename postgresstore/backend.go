package postgresstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/internal/cas"
)

// backend reads and writes the rows of items: a [cas.Backend] that is [cas.Atomic], a
// [cas.Locker], a [cas.Prober] and a [cas.Announcer].
type backend struct {
	*pool

	sql    *statements
	prefix string       // of every key
	skips  atomic.Int64 // batches of swaps that are still to skip locked rows
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

// Swap implements [cas.Backend]. A batch that another transaction is in the way of is sent again as
// one that skips what others have locked or inserted, and so are the batches after it: what is in
// the way may stay there, and a stopped transaction would hold up each of them.
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	params := append(writesOf(b.prefix, swaps), notBefore(swaps))
	if !b.skipNext(ctx) {
		if now, err = b.swap(ctx, swaps, params); err != nil {
			b.skips.Store(skipsAfterConflict) // also without an answer: the wait may have taken all the time
		}
		if !errors.Is(err, errConflict) {
			return now, settle(swaps, err)
		}
	}
	now, err = b.swapOrSkip(ctx, swaps, params)
	return now, settle(swaps, err)
}

// skipsAfterConflict is how many batches skip locked rows after one that failed. It is a part of a
// second if there are many callers.
const skipsAfterConflict = 256

// skipNext reports whether the next batch is to skip what is in its way: a batch before it failed, or
// there is no time for a wait and a second statement.
func (b *backend) skipNext(ctx context.Context) bool {
	if n := b.skips.Load(); n > 0 {
		b.skips.CompareAndSwap(n, n-1)
		return true
	}
	end, bounded := ctx.Deadline()
	return bounded && time.Until(end) < 3*lockWait
}

// swap makes all swaps whose versions are the current ones. It waits for other transactions.
func (b *backend) swap(ctx context.Context, swaps []cas.Swap, params [][]byte) (now time.Time, err error) {
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, call{b.sql.swap, params, swapTypes, func(row [][]byte) (err error) {
			var list []byte
			if now, list, err = swapRow(row[0]); err != nil {
				return err
			}
			if list == nil {
				for i := range swaps {
					setDone(&swaps[i])
				}
				return nil
			}
			done, err := int8sOf(list)
			for i := range swaps {
				if setLost(&swaps[i]); slices.Contains(done, int64(swaps[i].Version)) {
					setDone(&swaps[i])
				}
			}
			return err
		}})
	})
	return now, err
}

func setDone(s *cas.Swap) { s.Outcome, s.Written = cas.Done, s.Version }
func setLost(s *cas.Swap) { s.Outcome, s.Written = cas.Lost, 0 }

// swapOrSkip makes those swaps whose versions are the current ones and whose rows no other
// transaction is writing. The others are lost. If another transaction inserts one of the rows for
// longer than lockWait, all are.
func (b *backend) swapOrSkip(ctx context.Context, swaps []cas.Swap, params [][]byte) (now time.Time, err error) {
	done := make(map[uint64]bool, len(swaps))
	row := func(row [][]byte) (err error) {
		if now, err = timeOf(row[0]); err != nil || row[1] == nil { // without a version: none was written
			return err
		}
		version, err := int8Of(row[1])
		done[uint64(version)] = true
		return err
	}
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, call{b.sql.skip, params, swapTypes, row})
	})
	for i := range swaps {
		if setLost(&swaps[i]); done[swaps[i].Version] {
			setDone(&swaps[i])
		}
	}
	return now, err
}

// SwapAll implements [cas.Atomic].
func (b *backend) SwapAll(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	var ok bool
	err = b.do(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, b.swapAll(swaps, &now, &ok))
	})
	setAll(swaps, ok)
	return now, settle(swaps, err)
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

// settle sets the outcomes of swaps if a call failed: Lost if another transaction
// was in the way, Failed if nothing was written, and Unknown if the answer is missing. It
// returns the error that the caller of the backend gets.
func settle(swaps []cas.Swap, err error) error {
	if err == nil {
		return nil
	}
	outcome := cas.Unknown
	switch {
	case errors.Is(err, errConflict):
		outcome, err = cas.Lost, nil
	case nothingWritten(err):
		outcome = cas.Failed
	}
	for i := range swaps {
		swaps[i].Outcome, swaps[i].Written = outcome, 0
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
	c.Frontend().Send(sizeOf(calls))
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

// room is no message. It makes room for those that follow, whose buffer would otherwise grow, and be
// copied, several times for each batch.
type room int

func sizeOf(calls []call) (r room) {
	const heads = 256 // of the messages of a call
	for i := range calls {
		r += room(heads + len(calls[i].sql))
		for _, p := range calls[i].params {
			r += room(4 + len(p))
		}
	}
	return r
}

// Encode implements [pgproto3.FrontendMessage].
func (r room) Encode(to []byte) ([]byte, error) { return slices.Grow(to, int(r)), nil }

// Decode implements [pgproto3.FrontendMessage].
func (room) Decode([]byte) error { return errGarbled }

// Frontend implements [pgproto3.FrontendMessage].
func (room) Frontend() {}

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
