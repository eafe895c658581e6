package postgresstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Migrate makes the tables of a store if they are missing, and makes them durable or not as
// the options say. A table that changes is locked and rewritten: checks fail meanwhile. New
// makes missing tables by itself; Migrate is for a user with more rights than the one
// that decides.
func Migrate(ctx context.Context, o Options) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	p, err := newPool(&o)
	if err != nil {
		return err
	}
	defer p.close()
	return p.use(ctx, func(c *pgxpool.Conn) error { return p.schema.migrate(ctx, p, c.Conn()) })
}
