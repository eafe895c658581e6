package postgresstore

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/internal/cas"
)

// announceText sees the rows as they were before it: the count leaves out the node itself.
// The sweeper deletes rows that have run out: if each node did, two of them could wait for
// each other.
const announceText = `
WITH announced AS (
	INSERT INTO {nodes} AS n (id, until) VALUES ($1, clock_timestamp() + $2::int8 * interval '1 microsecond')
	ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT clock_timestamp(), count(*) FILTER (WHERE id <> $1) + 1, coalesce(bool_or(id = $1), false)
FROM {nodes} WHERE until > clock_timestamp() AND starts_with(id, $3)`

const leaveText = `DELETE FROM {nodes} WHERE id = $1`

// Announce implements [cas.Announcer].
func (b *backend) Announce(ctx context.Context, id string, lasts time.Duration) (a cas.Announced, err error) {
	own := b.nodePrefix()
	c := call{b.sql.leave, [][]byte{[]byte(own + id)}, []uint32{oidText}, nil}
	if lasts > 0 {
		c.sql, c.types = b.sql.announce, []uint32{oidText, oidText, oidText}
		c.params = append(c.params, []byte(strconv.FormatInt(lasts.Microseconds(), 10)), []byte(own))
		c.row = func(row [][]byte) (err error) {
			if a.Now, err = timeOf(row[0]); err != nil {
				return err
			}
			n, err := int8Of(row[1])
			a.Nodes, a.Known = int(n), len(row[2]) == 1 && row[2][0] != 0
			return err
		}
	}
	err = b.do(ctx, func(ctx context.Context, conn *pgconn.PgConn) error { return run(ctx, conn, c) })
	return a, err
}

// nodePrefix begins the ids of the nodes that share the keys of this store.
func (b *backend) nodePrefix() string { return b.prefix + "node:" }
