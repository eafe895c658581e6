package postgresstore

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stintdev/stint/internal/cas"
)

// statements are the texts of the statements, with the names of the tables in them. Each
// statement is sent with its parameters in one message and is never named: PgBouncer may
// run the next one on another connection to the server.
//
// A batch of swaps waits for locks for a moment at most (see swapFunction). If that is not
// enough, it is sent again as a statement that locks rows by SKIP LOCKED: a row that another
// transaction is writing then counts as a lost swap. With longer waits, one stopped writer of one
// key would hold up all keys of each batch with that key. Groups across identities lock by
// SKIP LOCKED too.
//
// Rows that exist are locked in the order of the parameters, which is that of the keys, so batches
// do not wait for each other in a circle. Lateral subqueries, and conditions by which the server finds a row
// in the index for each parameter but no other way round, keep that order.
type statements struct {
	tables

	load, swap, skip, swapAll, lock   string
	announce, leave                   string
	claimSweep, sweep, sweep13, clear string
	create                            []string
	setLogged, setUnlogged            string
}

// tables are the names of the tables and functions, quoted for statements.
type tables struct{ items, nodes, loadFunction, swapFunction, skipFunction string }

func tablesIn(schema string) tables {
	name := func(table string) string {
		if schema == "" {
			return pgx.Identifier{table}.Sanitize()
		}
		return pgx.Identifier{schema, table}.Sanitize()
	}
	return tables{
		items: name("stint_items"), nodes: name("stint_nodes"),
		loadFunction: name("stint_load_1"), swapFunction: name("stint_swap_1"), skipFunction: name("stint_skip_1"),
	}
}

func newStatements(t tables, durable bool) *statements {
	kind := "UNLOGGED"
	if durable {
		kind = ""
	}
	r := strings.NewReplacer("{items}", t.items, "{nodes}", t.nodes, "{load}", t.loadFunction, "{swap}", t.swapFunction, "{skip}", t.skipFunction, "{unlogged}", kind, "{layout}", layout,
		"{itemsText}", strings.ReplaceAll(t.items, "'", "''"), "{expires}", `clock_timestamp() + s.ttl * interval '1 microsecond'`)
	s := &statements{
		tables: t,
		load:   r.Replace(loadText), swap: r.Replace(swapText), skip: r.Replace(skipText), swapAll: r.Replace(swapAllText), lock: r.Replace(lockText),
		announce: r.Replace(announceText), leave: r.Replace(leaveText),
		claimSweep: r.Replace(claimSweepText), sweep: r.Replace(sweepText), sweep13: r.Replace(sweep13Text), clear: r.Replace(clearText),
		setLogged: r.Replace("ALTER TABLE {items} SET LOGGED"), setUnlogged: r.Replace("ALTER TABLE {items} SET UNLOGGED"),
	}
	for _, text := range slices.Concat(createTexts, []string{loadFunction, swapFunction, skipFunction, markText}) {
		s.create = append(s.create, r.Replace(text))
	}
	return s
}

// The statements of most checks call functions. Without names for statements, the
// server would plan each one anew, which takes several times as long as to run it for a
// few rows; it keeps the plans of functions for each of its sessions.
const (
	loadText = `SELECT now, key, state, version FROM {load} ($1)`
	swapText = `SELECT {swap} ($1, $2, $3, $4, $5, $6)` // not in FROM: the plan of a lone call is cheaper
	skipText = `SELECT now, version FROM {skip} ($1, $2, $3, $4, $5, $6)`
)

// planned makes a function plan its statements once, and find rows by the primary key alone:
// the server keeps a plan that it made when the table was small.
const planned = `LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off`

// lockWait is how long the functions that swap wait for one lock.
const (
	lockWait = 10 * time.Millisecond
	waits    = " SET lock_timeout = '10ms'"
)

// The types of the parameters of the functions.
const (
	loadSignature = "(bytea[])"
	swapSignature = "(bytea[], int8[], bytea[], int8[], int8[], timestamptz)" //nolint:dupword // two parameters have one type
)

// loadFunction has a row for each key, so that there is a row with the time.
const loadFunction = `
CREATE OR REPLACE FUNCTION {load} (wanted bytea[]) RETURNS TABLE (now timestamptz, key bytea, state bytea, version bigint)
` + planned + ` AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT clock_timestamp(), t.key, t.state, t.version
	FROM unnest(wanted) AS w (key) LEFT JOIN {items} AS t ON t.key = w.key;
END
$$`

// The parameters of the statements that write.
const writes = `unnest($1::bytea[], $2::int8[], $3::bytea[], $4::int8[], $5::int8[]) AS s (key, old, state, version, ttl)`

// swapFunction writes a batch the fastest way: it waits for locked rows, for a moment at most, and
// expects that rows that were not there are still missing. If it is wrong in either, it fails and
// writes nothing, and skipFunction makes the swaps.
//
// It returns the time at which it began, and the versions that it wrote, or NULL if it wrote all. It
// begins at the latest time at which the store decided a row without a read, or later. Nearly always
// that time has come, or is some microseconds ahead, for which the function waits in a loop: no
// sleep is that short. It writes nothing if the time is later than that. Rows that exist come
// before new ones. It looks up no rows that were not there: that would cost a third of what it
// takes to insert them.
//
// A key is compared by >= and <=, not by =. With =, the server could plan to read the whole index
// and look for each row in the parameters, which is what it does while the table is empty, and
// would lock the rows in another order.
const swapFunction = `
CREATE OR REPLACE FUNCTION {swap} (keys bytea[], olds int8[], states bytea[], versions int8[], ttls int8[], earliest timestamptz,
	OUT now timestamptz, OUT done int8[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off ` + waits + ` AS $$
#variable_conflict use_column
DECLARE
	began timestamptz := clock_timestamp();
	updated int8 := 0;
	inserted int8 := 0;
BEGIN
	FOR turn IN 1..300 LOOP
		EXIT WHEN earliest <= began;
		began := clock_timestamp();
	END LOOP;
	now := began;
	IF earliest > began THEN
		done := '{}';
		RETURN;
	END IF;
	IF NOT 0 = ALL (olds) THEN
		UPDATE {items} AS t SET state = s.state, version = s.version, expires = began + s.ttl * interval '1 microsecond'
		FROM ` + rowsText + ` WHERE s.old <> 0 AND t.key >= s.key AND t.key <= s.key AND t.version = s.old;
		GET DIAGNOSTICS updated = ROW_COUNT;
	END IF;
	IF 0 = ANY (olds) THEN
		INSERT INTO {items} (key, state, version, expires)
		SELECT s.key, s.state, s.version, began + s.ttl * interval '1 microsecond' FROM ` + rowsText + ` WHERE s.old = 0;
		GET DIAGNOSTICS inserted = ROW_COUNT;
	END IF;
	IF updated + inserted < cardinality(keys) THEN
		done := ARRAY (SELECT t.version FROM ` + rowsText + ` JOIN {items} AS t ON t.key >= s.key AND t.key <= s.key AND t.version = s.version);
	END IF;
END
$$`

// rowsText has the parameters of swapFunction as rows. In a list of columns, unlike in FROM,
// unnest stores no rows in between.
const rowsText = `(SELECT unnest(keys) AS key, unnest(olds) AS old, unnest(states) AS state, unnest(versions) AS version, unnest(ttls) AS ttl) AS s`

// skipFunction writes a batch although other transactions are in its way: rows that they have
// locked, and rows that are no longer missing, are lost. It waits for a moment for those that insert
// the same rows, and then fails and writes nothing. It writes nothing if it is early. It returns the
// time at which it began, with each version that it wrote. In all else it is as swapFunction.
const skipFunction = `
CREATE OR REPLACE FUNCTION {skip} ` + swapSignature + ` RETURNS TABLE (now timestamptz, version bigint)
` + planned + waits + ` AS $$
#variable_conflict use_column
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	IF $6 > began THEN
		RETURN QUERY SELECT began, NULL::bigint;
		RETURN;
	END IF;
	IF NOT 0 = ALL ($2) THEN
		RETURN QUERY UPDATE {items} AS t SET state = s.state, version = s.version, expires = {expires}
		FROM ` + writes + `
		CROSS JOIN LATERAL (SELECT i.ctid FROM {items} AS i WHERE i.key = s.key AND i.version = s.old FOR UPDATE SKIP LOCKED) AS i
		WHERE s.old <> 0 AND t.ctid = i.ctid
		RETURNING began, t.version;
	END IF;
	IF 0 = ANY ($2) THEN
		RETURN QUERY INSERT INTO {items} AS t (key, state, version, expires)
		SELECT s.key, s.state, s.version, {expires} FROM ` + writes + ` WHERE s.old = 0
		ON CONFLICT (key) DO NOTHING
		RETURNING began, t.version;
	END IF;
	RETURN QUERY SELECT began, NULL::bigint;
END
$$`

// swapAllText writes if all rows to update have the versions that were read and could be
// locked. A new row that exists by now fails the statement with unique_violation, and the
// server rolls all of it back.
const swapAllText = `
WITH s AS MATERIALIZED (SELECT s.key, s.old, s.state, s.version, s.ttl FROM ` + writes + `),
same AS MATERIALIZED (
	SELECT i.ctid AS row, s.key, s.old, s.state, s.version, s.ttl FROM s
	CROSS JOIN LATERAL (SELECT i.ctid FROM {items} AS i WHERE i.key = s.key AND i.version = s.old FOR UPDATE SKIP LOCKED) AS i
	WHERE s.old <> 0
),
go AS MATERIALIZED (SELECT (SELECT count(*) FROM same) = (SELECT count(*) FROM s WHERE s.old <> 0) AS ok),
updated AS (
	UPDATE {items} AS t SET state = s.state, version = s.version, expires = {expires}
	FROM same AS s WHERE t.ctid = s.row AND (SELECT ok FROM go)
),
inserted AS (
	INSERT INTO {items} (key, state, version, expires)
	SELECT s.key, s.state, s.version, {expires} FROM s WHERE s.old = 0 AND (SELECT ok FROM go)
)
SELECT clock_timestamp(), ok FROM go`

// lockText waits for the locks of the rows, in the order of their keys.
const lockText = `
SELECT key, state, version FROM {items} WHERE key = ANY ($1) ORDER BY key FOR UPDATE`

// The formats and types of parameters and results.
const (
	oidBytea       = 17
	oidInt8        = 20
	oidText        = 25
	oidByteaArray  = 1001
	oidInt8Array   = 1016
	oidTimestamptz = 1184
)

var (
	keysTypes  = []uint32{oidByteaArray}
	writeTypes = []uint32{oidByteaArray, oidInt8Array, oidByteaArray, oidInt8Array, oidInt8Array}
	swapTypes  = slices.Concat(writeTypes, []uint32{oidTimestamptz})
	binaryAll  = []int16{1} // all parameters, or all columns of the result
)

// appendArray begins the binary form of an array without nulls, of n elements.
func appendArray(to []byte, elements uint32, n int) []byte {
	if n == 0 {
		to = binary.BigEndian.AppendUint32(to, 0) // dimensions
		to = binary.BigEndian.AppendUint32(to, 0) // whether there are nulls
		return binary.BigEndian.AppendUint32(to, elements)
	}
	for _, field := range [...]uint32{1, 0, elements, uint32(n), 1} { // the last one is the index of the first element
		to = binary.BigEndian.AppendUint32(to, field)
	}
	return to
}

func appendKey(to []byte, prefix, key string) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(prefix)+len(key)))
	return append(append(to, prefix...), key...)
}

func appendInt8(to []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(to, 8), uint64(n))
}

// keysOf returns the parameter of a statement on keys.
func keysOf[T any](prefix string, list []T, key func(*T) string) [][]byte {
	size := 20
	for i := range list {
		size += 4 + len(prefix) + len(key(&list[i]))
	}
	array := appendArray(make([]byte, 0, size), oidBytea, len(list))
	for i := range list {
		array = appendKey(array, prefix, key(&list[i]))
	}
	return [][]byte{array}
}

// writesOf returns the parameters of a statement that writes.
func writesOf(prefix string, swaps []cas.Swap) [][]byte {
	n := len(swaps)
	keys := keysOf(prefix, swaps, func(s *cas.Swap) string { return s.Key })
	old := appendArray(make([]byte, 0, 20+12*n), oidInt8, n)
	versions := appendArray(make([]byte, 0, 20+12*n), oidInt8, n)
	ttls := appendArray(make([]byte, 0, 20+12*n), oidInt8, n)
	size := 20
	for i := range swaps {
		size += 4 + len(swaps[i].Value)
	}
	states := appendArray(make([]byte, 0, size), oidBytea, n)
	for i := range swaps {
		s := &swaps[i]
		old, versions, ttls = appendInt8(old, int64(s.Old)), appendInt8(versions, int64(s.Version)), appendInt8(ttls, min(s.TTL, longestTTL).Microseconds())
		states = append(binary.BigEndian.AppendUint32(states, uint32(len(s.Value))), s.Value...)
	}
	return append(keys, old, states, versions, ttls)
}

// notBefore returns the parameter of the functions that swap that is the latest NotBefore of the swaps. If
// the store read all rows, it is the time before all others ('-infinity').
func notBefore(swaps []cas.Swap) []byte {
	latest := int64(math.MinInt64)
	for i := range swaps {
		if at := swaps[i].NotBefore; !at.IsZero() {
			latest = max(latest, at.UnixMicro()-epoch2000)
		}
	}
	return binary.BigEndian.AppendUint64(nil, uint64(latest))
}

// longestTTL keeps the time of expiry within what the server can represent.
const longestTTL = 200 * 365 * 24 * time.Hour

// epoch2000 is the time that the server counts from, in µs since the Unix epoch.
const epoch2000 = 946_684_800_000_000

// timeOf decodes a time in binary form.
func timeOf(data []byte) (time.Time, error) {
	n, err := int8Of(data)
	return time.UnixMicro(n + epoch2000), err
}

func int8Of(data []byte) (int64, error) {
	if len(data) != 8 {
		return 0, errGarbled
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

// boundsText bounds, in milliseconds, how long a transaction waits for a lock and how long
// it is idle.
const boundsText = `
SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true)`

// swapRow decodes the row of swapFunction, which is one column. done is nil if it wrote all.
func swapRow(record []byte) (now time.Time, done []byte, err error) {
	const (
		heads  = 4 + 8 // the number of fields; the type and length of the first one
		nowEnd = heads + 8
		doneAt = nowEnd + 8
	)
	if len(record) < doneAt || binary.BigEndian.Uint32(record) != 2 {
		return now, nil, errGarbled
	}
	if now, err = timeOf(record[heads:nowEnd]); int32(binary.BigEndian.Uint32(record[doneAt-4:])) >= 0 {
		done = record[doneAt:]
	}
	return now, done, err
}

// int8sOf decodes an array of numbers without nulls in binary form.
func int8sOf(data []byte) (list []int64, err error) {
	const head, element = 20, 12
	if len(data) < head { // empty
		return nil, nil
	}
	for data = data[head:]; err == nil && len(data) >= element; data = data[element:] {
		var n int64
		n, err = int8Of(data[4:element])
		list = append(list, n)
	}
	return list, err
}
