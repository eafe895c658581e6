// Package postgresstore implements [stint.Store] on PostgreSQL 13 or newer. All processes
// that use the same database and the same prefix share one set of limits.
//
// Use [New] when several processes limit the same callers and a PostgreSQL server is there
// anyway. Package [github.com/stintdev/stint/postgresstore/postgresopen] opens it with a
// guard, which decides while the server fails, and with leases. Without a guard a server
// failure is an error of the call. Package redisstore is several times faster.
//
// It promises:
//
//   - Decisions equal those of package stint, to the microsecond, at the server's own time:
//     the clocks of the processes do not matter. The time of a decision is between the begin
//     and the end of its call. If the server's clock is set forward, this is so again after
//     its next answer, and within 20 ms.
//   - A group of claims is charged as one, also across identities: one transaction writes
//     all of its rows or none.
//   - Checks that wait at the same time share statements. A check on a key costs a write, and
//     a read before it unless this process wrote the key last; a denial and a peek cost a read.
//     A hot key has one write in flight per node,
//     which carries every check that waits for it.
//   - A write is made only if the row is still the one that was read. Nodes wait for each
//     other's locks for 10 ms at most, except for a key on which a node lost three times in a
//     row: it then locks the row, for the time of one statement.
//   - A call that may have written is never repeated unless it is certain that it charges
//     once. Its error has CodeTimeout or CodeCanceled.
//   - [New] needs no reachable server. The store recovers by itself from a server that
//     restarts, and from a failover if the URL names all servers or a name that moves.
//   - Unless Options.Durable is set, the tables are UNLOGGED: a crash of the server empties
//     them, and a promoted standby begins with empty ones. All keys then have their whole
//     allowance again. With Durable a failover loses nothing only if the standby is
//     synchronous.
//   - It works by way of PgBouncer that pools transactions: statements have no names, and
//     no lock belongs to a session.
//   - No error, log line or printed [Options] contains a password.
//
// The store makes its tables, stint_items and stint_nodes, when they are missing. For a
// user who may not do so, [Migrate] or stint store migrate makes them. The user needs SELECT,
// INSERT, UPDATE and DELETE on both.
//
// The way through the package: store.go and internal/cas take claims, backend.go reads and
// writes rows by the texts of statements.go, pool.go has the connections, schema.go makes
// the tables, sweep.go deletes expired rows, and errors.go explains what a server answers.
package postgresstore
