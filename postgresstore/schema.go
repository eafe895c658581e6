package postgresstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint"
)

// layout is the comment of the table of items. The last word is the version of the layout.
const (
	layout       = "stint: layout 1"
	layoutNumber = 1
)

// oldestServer is the oldest version of the server that works, and tidRanges the first one
// that finds the rows of a range of pages without reading the whole table.
const (
	oldestServer = 13_00_00
	tidRanges    = 14_00_00
)

// createTexts make the tables; functions follow. All of them run in one transaction, and the
// lock makes nodes that start together take turns. The lock belongs to the transaction,
// because PgBouncer may give the session to another client.
//
// A page keeps 30 % of its room free. A changed row then finds room in its own page, needs
// no new entry in the index (a HOT update), and the next statement that reads a page with
// too little room removes its old versions. No index but the primary key exists, because an
// index on a column that changes would rule such updates out. Values are not compressed:
// most are too small for it to help.
var createTexts = []string{
	`SELECT pg_advisory_xact_lock(1398034004, 1)`,
	`CREATE {unlogged} TABLE IF NOT EXISTS {items} (
	key     bytea PRIMARY KEY,
	state   bytea NOT NULL,
	version bigint NOT NULL,
	expires timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2)`,
	// Only if it is needed: it locks out all others, and waits for readers such as a backup.
	`DO $$ BEGIN
	IF (SELECT attstorage <> 'e' FROM pg_attribute WHERE attrelid = '{itemsText}'::regclass AND attname = 'state') THEN
		ALTER TABLE {items} ALTER COLUMN state SET STORAGE EXTERNAL;
	END IF;
END $$`,
	`CREATE UNLOGGED TABLE IF NOT EXISTS {nodes} (
	id     text PRIMARY KEY,
	until  timestamptz NOT NULL
) WITH (fillfactor = 50)`,
	`COMMENT ON TABLE {nodes} IS 'stint: the nodes that use the store'`,
}

// markText marks the tables and functions as complete.
const markText = `COMMENT ON TABLE {items} IS '{layout}'`

// describeText describes the server and the tables. Its parameters are the names of the
// tables and the signatures of the functions. If one of them is missing, all are made again.
const describeText = `
SELECT current_setting('server_version_num'), current_setting('transaction_read_only'), current_user,
	CASE WHEN to_regclass($2) IS NULL OR to_regprocedure($3) IS NULL OR to_regprocedure($4) IS NULL OR to_regprocedure($5) IS NULL THEN ''
		ELSE coalesce(obj_description(to_regclass($1), 'pg_class'), '') END,
	coalesce((SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass($1)), ''),
	coalesce((SELECT string_agg(r || ' ON ' || t, ', ')
		FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r, unnest(ARRAY[$1, $2]) AS t
		WHERE NOT has_table_privilege(to_regclass(t), r)), '')`

// schema makes the tables of the store.
type schema struct {
	sql     *statements
	durable bool

	ready   atomic.Bool   // the tables exist, and the user may use them
	version atomic.Int64  // of the server, such as 150004
	warned  atomic.Bool   // that the tables are not as durable as they should be
	making  chan struct{} // has room for one: who makes the tables
}

func newSchema(o *Options) *schema {
	return &schema{sql: newStatements(tablesIn(o.Schema), o.Durable), durable: o.Durable, making: make(chan struct{}, 1)}
}

// ensure makes the tables if they are missing, once.
func (s *schema) ensure(ctx context.Context, p *pool, c *pgx.Conn) error {
	if s.ready.Load() {
		return nil
	}
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-ctx.Done():
		return &notConnected{ctx.Err()}
	}
	if s.ready.Load() {
		return nil
	}
	return s.check(ctx, p, c)
}

// check looks at the server and the tables, and makes the tables if they are missing.
func (s *schema) check(ctx context.Context, p *pool, c *pgx.Conn) error {
	found, err := s.describe(ctx, c)
	if err != nil {
		return unwritten(p.explain(ctx, err))
	}
	s.version.Store(found.version)
	if err := found.usable(p.server); err != nil {
		return err
	}
	if found.layout == 0 {
		if err := s.create(ctx, p, c, found.user); err != nil {
			return err
		}
		if found, err = s.describe(ctx, c); err != nil {
			return unwritten(p.explain(ctx, err))
		}
	}
	if found.missing != "" {
		return &stint.Error{
			Code: stint.CodeUnavailable, Kind: "noperm",
			Problem: "the server " + p.server + " does not permit the user what Stint needs: " + found.missing,
			Mend:    "as the owner of the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON " + s.sql.items + ", " + s.sql.nodes + " TO " + pgx.Identifier{found.user}.Sanitize(),
		}
	}
	if s.durable != found.durable && s.warned.CompareAndSwap(false, true) {
		p.log.Warn("the table of the store is not as durable as the URL says: another node made it (stint store migrate URL changes it, and locks it meanwhile)",
			"table", s.sql.items, "wanted", durability(s.durable), "found", durability(found.durable))
	}
	s.ready.Store(true)
	return nil
}

func durability(durable bool) string {
	if durable {
		return "logged"
	}
	return "unlogged"
}

// unwritten returns an error for the time before a call itself begins: whatever failed, the
// call wrote nothing.
func unwritten(err error) error {
	known, ok := err.(*stint.Error) //nolint:errorlint // explain returns it as it is
	if !ok || known.Code == stint.CodeUnavailable {
		return err
	}
	return &stint.Error{Code: stint.CodeUnavailable, Kind: known.Kind, Problem: "the tables of the store could not be looked at: nothing was charged", Mend: known.Mend, Err: known}
}

// create makes the tables.
func (s *schema) create(ctx context.Context, p *pool, c *pgx.Conn, user string) error {
	calls := make([]call, len(s.sql.create))
	for i, text := range s.sql.create {
		calls[i].sql = text
	}
	err := run(ctx, c.PgConn(), calls...)
	if err == nil {
		p.log.Info("the tables of the store are made", "items", s.sql.items, "nodes", s.sql.nodes, "kind", durability(s.durable))
		return nil
	}
	if codeOf(err) == noPrivilege {
		return &stint.Error{
			Code: stint.CodeUnavailable, Kind: "noperm", Err: err,
			Problem: "the tables or functions of the store are missing or belong to another user, and the server " + p.server + " does not permit the user " + user + " to make or change them",
			Mend:    "run stint store migrate with the URL of a user who may (their owner if they exist), and let that user GRANT SELECT, INSERT, UPDATE, DELETE ON " + s.sql.items + ", " + s.sql.nodes + " TO " + pgx.Identifier{user}.Sanitize() + "; or grant this one CREATE on the schema",
		}
	}
	return unwritten(p.explain(ctx, err))
}

// migrate makes the tables, and gives them the durability of the options.
func (s *schema) migrate(ctx context.Context, p *pool, c *pgx.Conn) error {
	if err := s.check(ctx, p, c); err != nil {
		return err
	}
	found, err := s.describe(ctx, c)
	if err == nil {
		err = s.create(ctx, p, c, found.user) // functions that are missing
	}
	if err == nil && found.durable != s.durable {
		change := s.sql.setUnlogged
		if s.durable {
			change = s.sql.setLogged
		}
		err = run(ctx, c.PgConn(), call{sql: s.sql.create[0]}, call{sql: change})
	}
	if err != nil {
		return p.explain(ctx, err)
	}
	return nil
}

// description is what a server says of itself and of the tables.
type description struct {
	version  int64
	readOnly bool
	user     string
	layout   int    // 0: a table or a function is missing
	durable  bool   // the table is logged
	missing  string // rights, such as "SELECT ON stint_items"
}

func (s *schema) describe(ctx context.Context, c *pgx.Conn) (d description, err error) {
	names := [][]byte{[]byte(s.sql.items), []byte(s.sql.nodes), []byte(s.sql.loadFunction + loadSignature), []byte(s.sql.swapFunction + swapSignature), []byte(s.sql.skipFunction + swapSignature)}
	err = run(ctx, c.PgConn(), call{describeText, names, []uint32{oidText, oidText, oidText, oidText, oidText}, func(row [][]byte) error {
		number, err := strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil {
			return errGarbled
		}
		d = description{version: number, readOnly: string(row[1]) == "on", user: string(row[2]), durable: string(row[4]) == "p", missing: string(row[5])}
		if text, ok := strings.CutPrefix(string(row[3]), "stint: layout "); ok {
			if d.layout, err = strconv.Atoi(text); err != nil {
				return errGarbled
			}
		}
		return nil
	}})
	return d, err
}

// usable returns an error if the store cannot work with the server.
func (d *description) usable(server string) error {
	e := &stint.Error{Code: stint.CodeUnavailable}
	switch {
	case d.version < oldestServer:
		e.Kind, e.Mend = "version", "use PostgreSQL 13 or newer"
		e.Problem = fmt.Sprintf("the server %s is PostgreSQL %d.%d, which is too old", server, d.version/10000, d.version%10000)
	case d.readOnly:
		m := meanings[readOnly]
		e.Kind, e.Problem, e.Mend = m.kind, "the server "+server+" "+m.problem, m.mend
	case d.layout > layoutNumber:
		e.Kind, e.Mend = "schema", "update this node, or give it another schema: ?schema=NAME"
		e.Problem = fmt.Sprintf("the tables on the server %s have layout %d, of a newer version of Stint", server, d.layout)
	default:
		return nil
	}
	return e
}

func codeOf(err error) string {
	if answer, ok := err.(*pgconn.PgError); ok { //nolint:errorlint // run returns it as it is
		return answer.Code
	}
	return ""
}
