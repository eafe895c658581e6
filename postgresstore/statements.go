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
// Statements that write items lock rows by SKIP LOCKED: a row that another transaction is
// writing counts as a lost swap. A batch of swaps thus never waits for a lock. With waits,
// one slow writer of one key would hold up all keys of each batch with that key, and two
// batches could wait for each other.
//
// The lateral subquery makes the server look up and lock the rows one by one, in the order
// of the parameters.
type statements struct {
	tables

	load, swap, swapAll, lock         string
	announce, leave                   string
	claimSweep, sweep, sweep13, clear string
	create                            []string
	setLogged, setUnlogged            string
}

// tables are the names of the tables and functions, quoted for statements.
type tables struct{ items, nodes, loadFunction, swapFunction string }

func tablesIn(schema string) tables {
	name := func(table string) string {
		if schema == "" {
			return pgx.Identifier{table}.Sanitize()
		}
		return pgx.Identifier{schema, table}.Sanitize()
	}
	return tables{items: name("stint_items"), nodes: name("stint_nodes"), loadFunction: name("stint_load_1"), swapFunction: name("stint_swap_1")}
}

func newStatements(t tables, durable bool) *statements {
	kind := "UNLOGGED"
	if durable {
		kind = ""
	}
	r := strings.NewReplacer("{items}", t.items, "{nodes}", t.nodes, "{load}", t.loadFunction, "{swap}", t.swapFunction, "{unlogged}", kind, "{layout}", layout,
		"{expires}", `clock_timestamp() + s.ttl * interval '1 microsecond'`)
	s := &statements{
		tables: t,
		load:   r.Replace(loadText), swap: r.Replace(swapText), swapAll: r.Replace(swapAllText), lock: r.Replace(lockText),
		announce: r.Replace(announceText), leave: r.Replace(leaveText),
		claimSweep: r.Replace(claimSweepText), sweep: r.Replace(sweepText), sweep13: r.Replace(sweep13Text), clear: r.Replace(clearText),
		setLogged: r.Replace("ALTER TABLE {items} SET LOGGED"), setUnlogged: r.Replace("ALTER TABLE {items} SET UNLOGGED"),
	}
	for _, text := range slices.Concat(createTexts, []string{loadFunction, swapFunction, markText}) {
		s.create = append(s.create, r.Replace(text))
	}
	return s
}

// The two statements of most checks call functions. Without names for statements, the
// server would plan each one anew, which takes several times as long as to run it for a
// few rows; it keeps the plans of functions for each of its sessions.
const (
	loadText = `SELECT now, key, state, version FROM {load} ($1)`
	swapText = `SELECT now, version FROM {swap} ($1, $2, $3, $4, $5, $6)`
)

// planned makes a function plan its statements once, and find rows by the primary key alone:
// the server keeps a plan that it made when the table was small.
const planned = `LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off`

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

// swapFunction returns the time at which it began and the versions that it wrote. It writes
// nothing if it begins before $6, the latest time at which the store decided a row without a read.
// Rows that exist come before new ones. It looks up no rows that were not there: that would
// cost a third of what it takes to insert them.
const swapFunction = `
CREATE OR REPLACE FUNCTION {swap} ` + swapSignature + ` RETURNS TABLE (now timestamptz, version bigint)
` + planned + ` AS $$
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

func appendBytes(to []byte, element string) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(element))), element...)
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
		array = appendBytes(array, prefix+key(&list[i]))
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

// notBefore returns the parameter of swapFunction that is the latest NotBefore of the swaps. If
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
