package pgrules

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// The record of the emergency is the only row of the table PREFIX_rules_emergency. The first
// switching creates the table: sources of older nodes lack it, and a role that may not
// create tables must still be able to read the rules.

// Emergency returns the newest record. The server's clock ends it.
func (s *Source) Emergency(ctx context.Context) (r emergency.Record, left time.Duration, err error) {
	var text string
	var seconds float64
	err = s.pool.QueryRow(ctx, `SELECT record, since, until, extract(epoch FROM until - now())::float8
		FROM `+s.emergency+` WHERE until > now()`).Scan(&text, &r.Since, &r.Until, &seconds)
	if missing, ok := errors.AsType[*pgconn.PgError](err); errors.Is(err, pgx.ErrNoRows) || ok && missing.Code == undefinedTable {
		return emergency.Record{}, 0, nil
	}
	if err != nil {
		return emergency.Record{}, 0, s.explain(err)
	}
	since, until := r.Since, r.Until
	if r, err = emergency.Decode(text); err != nil {
		return emergency.Record{}, 0, s.explain(err)
	}
	r.Since, r.Until = since.UTC(), until.UTC()
	return r, time.Duration(seconds * float64(time.Second)), nil
}

// SwitchEmergency makes r the newest record.
func (s *Source) SwitchEmergency(ctx context.Context, r emergency.Record, d time.Duration, after string) (emergency.Record, error) {
	stored, err := s.switchEmergency(ctx, r, d, after)
	if missing, ok := errors.AsType[*pgconn.PgError](err); ok && missing.Code == undefinedTable {
		if err = s.createEmergency(ctx); err == nil {
			stored, err = s.switchEmergency(ctx, r, d, after)
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return r, emergency.ErrChanged
	}
	return stored, s.explain(err)
}

func (s *Source) switchEmergency(ctx context.Context, r emergency.Record, d time.Duration, after string) (emergency.Record, error) {
	text, err := emergency.Encode(r)
	if err != nil {
		return r, err
	}
	const times = `now(), now() + make_interval(secs => $3)`
	condition := ""
	if after == emergency.NoRecord {
		condition = ` WHERE ` + s.emergency + `.until <= now()`
	}
	statement, values := `INSERT INTO `+s.emergency+` (revision, record, since, until) VALUES ($1::text, $2::text, `+times+`)
		ON CONFLICT (one) DO UPDATE SET (revision, record, since, until) = (excluded.revision, excluded.record, excluded.since, excluded.until)`+condition+`
		RETURNING since, until`, []any{r.Revision, text, d.Seconds()}
	if after != "" && after != emergency.NoRecord {
		statement = `UPDATE ` + s.emergency + ` SET (revision, record, since, until) = ($1::text, $2::text, ` + times + `)
			WHERE revision = $4::text AND until > now() RETURNING since, until`
		values = append(values, after)
	}
	err = s.pool.QueryRow(ctx, statement, values...).Scan(&r.Since, &r.Until)
	r.Since, r.Until = r.Since.UTC(), r.Until.UTC()
	return r, err
}

func (s *Source) createEmergency(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTables); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+s.emergency+` (
			one      boolean PRIMARY KEY DEFAULT true CHECK (one),
			revision text NOT NULL,
			record   text NOT NULL,
			since    timestamptz NOT NULL,
			until    timestamptz NOT NULL)`)
		return err
	})
}
