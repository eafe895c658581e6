package pgrules

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// Watch listens for announcements and polls.
func (s *Source) Watch(ctx context.Context, changed func()) {
	ruleset.Hear(ctx, changed, s.listen, s.log)
}

// listen receives announcements on its own connection until that fails. It
// calls changed once after LISTEN, for versions that were published before.
func (s *Source) listen(ctx context.Context, changed func()) error {
	config := s.config.Copy()
	s.renew(config)
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closing) // the connection has failed or is no longer needed
	}()
	if _, err := c.Exec(ctx, `LISTEN `+pgx.Identifier{s.channel}.Sanitize()); err != nil {
		return err
	}
	for {
		changed()
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// Announce publishes the state of a node and removes the nodes that have been
// silent for too long.
func (s *Source) Announce(ctx context.Context, n ruleset.Node) error {
	text, err := ruleset.EncodeNode(n)
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return err
	}
	if _, err = s.pool.Exec(ctx, `INSERT INTO `+s.nodes+` (id, node, seen) VALUES ($1, $2, now())
		ON CONFLICT (id) DO UPDATE SET node = excluded.node, seen = excluded.seen`, n.ID, text); err != nil {
		return s.explain(err)
	}
	_, err = s.pool.Exec(ctx, `DELETE FROM `+s.nodes+` WHERE seen < now() - make_interval(secs => $1)`, ruleset.ForgetAfter.Seconds())
	return s.explain(err)
}

// Nodes lists the nodes that have announced themselves.
func (s *Source) Nodes(ctx context.Context) ([]ruleset.Node, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT node FROM `+s.nodes+` WHERE seen >= now() - make_interval(secs => $1)`, ruleset.ForgetAfter.Seconds())
	if err != nil {
		return nil, s.explain(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.explain(err)
	}
	return ruleset.DecodeNodes(texts), nil
}
