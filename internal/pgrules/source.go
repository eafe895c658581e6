// Package pgrules keeps versions of the rules in PostgreSQL, for any number of
// nodes.
//
// A version is a row of the table PREFIX_rules, which is made when it is
// missing. Each names the one that it follows, and no two may follow the same:
// that compares and sets. A version is announced by NOTIFY; what an announcement
// misses, a poll finds within [ruleset.PollEvery]. Every version is kept whole;
// old rows may be deleted by hand.
package pgrules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/secret"
)

// Options are where the database is. URL is required.
type Options struct {
	// URL is a postgres:// URL, as libpq reads it.
	URL string
	// Password wins over that of the environment. It is read for each connection
	// that is made, and a mistake where the URL has one. Nil is none.
	Password *secret.Text
	// Prefix begins the names of the tables: letters, digits, _, - and :, at
	// most 40. Empty means "stint".
	Prefix string
	// Logger hears what an operator should mend. Nil means silence.
	Logger *slog.Logger
}

// Source is a [ruleset.Source] and a [ruleset.Fleet] in PostgreSQL. Make it by
// [New]. It is safe for use by many goroutines at once.
type Source struct {
	pool    *pgxpool.Pool
	config  *pgx.ConnConfig
	renew   func(*pgx.ConnConfig)
	log     *slog.Logger
	rules   string // the name of the table, quoted
	nodes   string // that of the nodes'
	channel string

	making sync.Mutex  // held while tables are made
	ready  atomic.Bool // the tables are there
}

// connectTime bounds making a connection.
const connectTime = 2 * time.Second

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_:-]{1,40}$`)

// New returns a source. It makes no connection yet. No error shows the URL.
func New(o Options) (*Source, error) {
	if o.Prefix == "" {
		o.Prefix = "stint"
	}
	if !prefixes.MatchString(o.Prefix) {
		return nil, errors.New("key-prefix: must be 1 to 40 letters, digits, _, - or : to be that of tables in PostgreSQL")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("rules: not a URL of PostgreSQL (write it as postgres://user@host:5432/database, and @ : / ? # % in a password as %40 and so on)")
	}
	if u, err := url.Parse(o.URL); err == nil && o.Password != nil {
		if _, twice := u.User.Password(); twice {
			return nil, errors.New("rules: the URL has a password, and there is another (remove it from the URL)")
		}
	}
	settle(config, &o)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return &Source{
		pool: pool, config: config.ConnConfig, renew: o.renew, log: o.Logger, channel: o.Prefix + "_rules",
		rules: pgx.Identifier{o.Prefix + "_rules"}.Sanitize(), nodes: pgx.Identifier{o.Prefix + "_rules_nodes"}.Sanitize(),
	}, nil
}

// settle completes what the URL says. Statements are not prepared, so that a
// pooler may stand in between; it must then pool sessions, for LISTEN.
func settle(config *pgxpool.Config, o *Options) {
	c := config.ConnConfig
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { o.renew(c); return nil }
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTime
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "stint-rules"
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.MaxConns = 2
}

// renew has a connection that is made now show what the files of the URL and of
// the password hold now: a certificate, authorities, a .pgpass. The URL was read
// before, so it fails only for such a file; what was read before is used then.
func (o *Options) renew(c *pgx.ConnConfig) {
	if now, err := pgx.ParseConfig(o.URL); err == nil {
		c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
	} else {
		o.Logger.Error("secret file rejected; what was read before stays in force", "flag", "rules", "error", "a file that the URL of the rules names cannot be used")
	}
	c.Password = cmp.Or(o.Password.Fresh(), c.Password)
}

// String says where the versions are, without passwords.
func (s *Source) String() string {
	host := s.config.Host
	if !strings.HasPrefix(host, "/") {
		host = fmt.Sprintf("%s:%d", host, s.config.Port)
	}
	return fmt.Sprintf("postgres://%s/%s %s", host, s.config.Database, s.channel)
}

// Close ends the connections.
func (s *Source) Close() { s.pool.Close() }

const columns = `number, published, author, comment, hash`

// sane is what rows Stint has written: others may write what no version can have,
// and must not keep the rest from being read.
const (
	sane        = `number BETWEEN 1 AND 9007199254740991` // ruleset.MaxNumber
	saneColumns = `number, least(greatest(published, 'epoch'::timestamptz), '9999-01-01 00:00:00+00'::timestamptz), author, comment, hash`
)

// History lists the newest versions.
func (s *Source) History(ctx context.Context, n int) (versions []ruleset.Version, err error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT `+saneColumns+` FROM `+s.rules+` WHERE `+sane+` ORDER BY number DESC LIMIT $1`, n)
	if err != nil {
		return nil, s.explain(err)
	}
	versions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v ruleset.Version, err error) {
		err = row.Scan(&v.Number, &v.Time, &v.Author, &v.Comment, &v.Hash)
		return v, err
	})
	return versions, s.explain(err)
}

// Get returns a version whole.
func (s *Source) Get(ctx context.Context, number uint64) (v ruleset.Version, err error) {
	if number > math.MaxInt64 {
		return v, ruleset.ErrNone // nor could there be
	}
	if err := s.prepare(ctx); err != nil {
		return v, err
	}
	var text string
	err = s.pool.QueryRow(ctx, `SELECT version FROM `+s.rules+` WHERE number = $1`, number).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return v, ruleset.ErrNone
	case err != nil:
		return v, s.explain(err)
	}
	return ruleset.DecodeNumbered(number, []byte(text))
}

// Truncate forgets versions above a number, and rows that are none. The nodes
// announce themselves anew.
func (s *Source) Truncate(ctx context.Context, above uint64) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.explain(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// A version follows one that is below it: a row that says otherwise would keep
		// the number that it names from being followed.
		const forged = ` WHERE number > $1::bigint OR number < 1 OR after >= number OR after < 0`
		if _, err := tx.Exec(ctx, `DELETE FROM `+s.rules+forged, min(above, math.MaxInt64)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM `+s.nodes)
		return err
	}))
}

// Publish adds a version, and announces it as it commits.
func (s *Source) Publish(ctx context.Context, after uint64, v ruleset.Version) (ruleset.Version, error) {
	text, err := ruleset.Encode(v)
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return v, err
	}
	var added int64
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, `INSERT INTO `+s.rules+` (`+columns+`, after, version)
			SELECT $1::bigint, $2::timestamptz, $3::text, $4::text, $5::text, $6::bigint, $7::text
			WHERE coalesce((SELECT max(number) FROM `+s.rules+` WHERE `+sane+`), 0) = $6::bigint`,
			v.Number, v.Time, v.Author, v.Comment, v.Hash, after, string(text))
		if added = done.RowsAffected(); err != nil || added == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, $2::text)`, s.channel, strconv.FormatUint(v.Number, 10))
		return err
	})
	if taken, ok := errors.AsType[*pgconn.PgError](err); ok && taken.Code == uniqueViolation {
		added, err = 0, nil
	}
	if err != nil || added == 1 {
		return v, s.explain(err)
	}
	return v, s.conflict(ctx, after)
}

const (
	uniqueViolation = "23505"
	undefinedTable  = "42P01"
)

// conflict is why a version was not added. Where the newest is still the one that
// it was to follow, a row that is no version says that it follows that one.
func (s *Source) conflict(ctx context.Context, after uint64) error {
	listed, err := s.History(ctx, 1)
	if err != nil {
		return err
	}
	var newest ruleset.Version
	if len(listed) > 0 {
		newest = listed[0]
	}
	if newest.Number == after {
		return s.explain(ruleset.ErrNumbers)
	}
	return &ruleset.ConflictError{Newest: newest}
}

// explain says whose error it is. What the server and the client say holds no
// password. Tables that somebody has dropped are made again by the next call.
func (s *Source) explain(err error) error {
	if err == nil {
		return nil
	}
	if gone, ok := errors.AsType[*pgconn.PgError](err); ok && gone.Code == undefinedTable {
		s.ready.Store(false)
	}
	return fmt.Errorf("rules in %s: %w", s, err)
}
