package pgrules

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// The secret of all nodes is the only row of the table PREFIX_rules_secret. The first node that
// needs it creates the table: sources of older nodes lack it, and a role that may not create tables
// must still be able to read the rules. Nodes of such a role share no secret.

// Secret returns the secret of all nodes.
func (s *Source) Secret(ctx context.Context, proposed string) (string, error) {
	text, err := s.readSecret(ctx)
	if missing, ok := errors.AsType[*pgconn.PgError](err); ok && missing.Code == undefinedTable {
		if err = s.createSecret(ctx); err == nil {
			err = pgx.ErrNoRows
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = s.pool.Exec(ctx, `INSERT INTO `+s.secret+` (secret) VALUES ($1::text) ON CONFLICT (one) DO NOTHING`, proposed); err == nil {
			text, err = s.readSecret(ctx) // another node may have been first
		}
	}
	if err == nil {
		err = ruleset.CheckSecret(text)
	}
	if err != nil {
		return "", s.explain(err)
	}
	return text, nil
}

func (s *Source) readSecret(ctx context.Context) (text string, err error) {
	err = s.pool.QueryRow(ctx, `SELECT secret FROM `+s.secret).Scan(&text)
	return text, err
}

// replaceSecret stores another secret, if the table exists. A role that may not write the secret can
// still repair the rules, unless [ruleset.CheckSecret] refuses the secret.
func (s *Source) replaceSecret(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM `+s.secret); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO `+s.secret+` (secret) VALUES ($1::text) ON CONFLICT (one) DO NOTHING`, rand.Text())
		return err
	})
	failed, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && failed.Code == undefinedTable:
		return nil
	case ok && failed.Code == insufficientPrivilege:
		if text, unread := s.readSecret(ctx); unread != nil || ruleset.CheckSecret(text) == nil {
			return nil //nolint:nilerr // the rules can be repaired nevertheless
		}
	}
	return err
}

func (s *Source) createSecret(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTables); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+s.secret+` (
			one    boolean PRIMARY KEY DEFAULT true CHECK (one),
			secret text NOT NULL)`)
		return err
	})
}
