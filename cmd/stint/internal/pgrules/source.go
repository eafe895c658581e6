// Package pgrules stores versions of the rules in PostgreSQL, for any number of
// nodes.
//
// A version is a row of the table PREFIX_rules, which is created if missing.
// Each row names the version that it follows, and no two rows may follow the
// same version. This makes a publish a compare-and-set. NOTIFY announces a
// version; a poll finds missed announcements within [ruleset.PollEvery]. Every
// version is kept whole. Old rows may be deleted by hand.
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

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/secret"
)

// Options locate the database. URL is required.
type Options struct {
	// URL is a postgres:// URL, as libpq reads it.
	URL string
	// Password takes precedence over the environment. It is read for each new
	// connection. It is an error if the URL has a password too. Nil means no
	// password here.
	Password *secret.Text
	// Prefix is the prefix of the table names: 1 to 40 letters, digits, _, - and :.
	// Empty means "stint".
	Prefix string
	// Logger receives problems that an operator should fix. Nil disables logging.
	Logger *slog.Logger
}

// Source is a [ruleset.Source], a [ruleset.Fleet] and an [emergency.Source] in PostgreSQL.
// Make it by [New]. It is safe for concurrent use.
type Source struct {
	pool    *pgxpool.Pool
	config  *pgx.ConnConfig
	renew   func(*pgx.ConnConfig)
	log     *slog.Logger
	rules   string // quoted name of the table of versions
	nodes   string // quoted name of the table of nodes
	channel string

	emergency string // quoted name of the table of the emergency
	secret    string // quoted name of the table of the secret

	making sync.Mutex  // held while the tables are created
	ready  atomic.Bool // whether the tables exist
}

// connectTime is the timeout of connecting.
const connectTime = 2 * time.Second

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_:-]{1,40}$`)

// New returns a source. It does not connect yet. No error contains the URL.
func New(o Options) (*Source, error) {
	if o.Prefix == "" {
		o.Prefix = "stint"
	}
	if !prefixes.MatchString(o.Prefix) {
		return nil, errors.New("key-prefix: must be 1 to 40 letters, digits, _, - or :, because it begins the names of tables in PostgreSQL")
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
			return nil, errors.New("rules: the URL has a password, and a second one is given (remove it from the URL)")
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
		emergency: pgx.Identifier{o.Prefix + "_rules_emergency"}.Sanitize(), secret: pgx.Identifier{o.Prefix + "_rules_secret"}.Sanitize(),
	}, nil
}

// settle adds defaults to the configuration from the URL. Statements are not
// prepared, so a connection pooler may stand in between. It must pool sessions,
// because of LISTEN.
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

// renew updates the configuration of a new connection from the current content
// of the files that the URL and the password name: certificates, authorities, a
// .pgpass. The URL itself was valid before, so parsing can fail only because of
// such a file. The previous content is used then.
func (o *Options) renew(c *pgx.ConnConfig) {
	if now, err := pgx.ParseConfig(o.URL); err == nil {
		c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
	} else {
		o.Logger.Error("secret file rejected; its previous content stays in force", "setting", "rules", "error", "a file that the URL of the rules names cannot be used")
	}
	c.Password = cmp.Or(o.Password.Fresh(), c.Password)
}

// String describes where the versions are stored, without passwords.
func (s *Source) String() string {
	host := s.config.Host
	if !strings.HasPrefix(host, "/") {
		host = fmt.Sprintf("%s:%d", host, s.config.Port)
	}
	return fmt.Sprintf("postgres://%s/%s %s", host, s.config.Database, s.channel)
}

// Close closes the connections.
func (s *Source) Close() { s.pool.Close() }

const columns = `number, published, author, comment, hash`

// sane selects the rows that can be versions. Other programs may write rows
// with values that no version can have; these must not prevent reading the
// others.
const (
	sane        = `number BETWEEN 1 AND 9007199254740991` // ruleset.MaxNumber
	saneColumns = `number, least(greatest(published, 'epoch'::timestamptz), '9999-01-01 00:00:00+00'::timestamptz), author, comment, hash`
	// listedCanary is the canary of a version, as JSON without its files, or ''. The members
	// of a version before its files are short, so only their part of the text is searched. A
	// text within JSON cannot contain the pattern, because its quotation marks are escaped.
	listedCanary = `coalesce(substring(left(version, 20000) from '"canary":(\{[^][]*),"files":\[') || '}', '')`
)

// History lists the newest versions.
func (s *Source) History(ctx context.Context, n int) (versions []ruleset.Version, err error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT `+saneColumns+`, `+listedCanary+` FROM `+s.rules+` WHERE `+sane+` ORDER BY number DESC LIMIT $1`, n)
	if err != nil {
		return nil, s.explain(err)
	}
	versions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v ruleset.Version, err error) {
		var canary string
		err = row.Scan(&v.Number, &v.Time, &v.Author, &v.Comment, &v.Hash, &canary)
		v.Canary = ruleset.DecodeCanary(canary)
		return v, err
	})
	return versions, s.explain(err)
}

// Get returns a version with its files.
func (s *Source) Get(ctx context.Context, number uint64) (v ruleset.Version, err error) {
	if number > math.MaxInt64 {
		return v, ruleset.ErrNone // a bigint column cannot hold it
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

// Truncate forgets the versions numbered higher than above, and rows that are
// not versions. It also removes the nodes, which announce themselves again, and
// replaces the secret.
func (s *Source) Truncate(ctx context.Context, above uint64) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// A version follows one with a lower number. A row that violates this would
		// block the number that it claims to follow.
		const forged = ` WHERE number > $1::bigint OR number < 1 OR after >= number OR after < 0`
		if _, err := tx.Exec(ctx, `DELETE FROM `+s.rules+forged, min(above, math.MaxInt64)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM `+s.nodes)
		return err
	})
	if err == nil {
		err = s.replaceSecret(ctx)
	}
	return s.explain(err)
}

// Publish adds a version and announces it in the same transaction.
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
	uniqueViolation       = "23505"
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
)

// conflict returns the reason why a version was not added. If the newest
// version is still the expected one, a row that is not a version already
// follows it.
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

// explain adds the source to an error. Messages of the server and the client
// contain no passwords. If the tables were dropped, the next call creates them
// again.
func (s *Source) explain(err error) error {
	if err == nil {
		return nil
	}
	if gone, ok := errors.AsType[*pgconn.PgError](err); ok && gone.Code == undefinedTable {
		s.ready.Store(false)
	}
	return fmt.Errorf("rules in %s: %w", s, err)
}

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

// lockTables serializes transactions that create tables.
const lockTables = `SELECT pg_advisory_xact_lock(7238241)`

// create creates the tables. A lock serializes nodes that start together,
// because concurrent CREATE TABLE IF NOT EXISTS statements can fail.
func (s *Source) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			lockTables,
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
