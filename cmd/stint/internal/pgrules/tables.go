package pgrules

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// prepare creates the tables if they are missing.
func (s *Source) prepare(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if s.ready.Load() {
		return nil
	}
	there, err := s.tables(ctx)
	if err == nil && !there {
		err = s.create(ctx)
	}
	s.ready.Store(err == nil)
	return s.explain(err)
}

// tables reports whether the tables exist. The check lets a role work that may
// not create tables.
func (s *Source) tables(ctx context.Context) (there bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`, s.rules, s.nodes).Scan(&there)
	return there, err
}

// create creates the tables. A lock serializes nodes that start together,
// because concurrent CREATE TABLE IF NOT EXISTS statements can fail.
func (s *Source) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`SELECT pg_advisory_xact_lock(7238241)`,
			`CREATE TABLE IF NOT EXISTS ` + s.rules + ` (
				number    bigint PRIMARY KEY,
				after     bigint NOT NULL UNIQUE,
				published timestamptz NOT NULL,
				author    text NOT NULL,
				comment   text NOT NULL,
				hash      text NOT NULL,
				version   text NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS ` + s.nodes + ` (
				id   text PRIMARY KEY,
				node text NOT NULL,
				seen timestamptz NOT NULL)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
