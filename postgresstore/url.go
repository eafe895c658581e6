package postgresstore

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ParseURL reads the URL of a store:
//
//	postgres://[user[:password]@]host[:5432][,host[:5432]…]/database[?parameters]
//
// It is a URL as libpq reads it, with its parameters, environment variables and the file
// .pgpass. Of several hosts the store uses the one that accepts writes. Write URL characters
// in a password (@ : / ? # %) percent-encoded, such as %40. Beside sslmode, sslrootcert,
// sslcert, sslkey, connect_timeout and the like it may have these parameters:
//
//	durable=true      make tables that survive a crash: see Options.Durable
//	schema=NAME       the schema of the tables
//	timeout=1s        of one call
//	pool_max_conns=8  the greatest number of connections
//
// Errors are an [*stint.Error] of CodeInvalid and never contain a password.
func ParseURL(text string) (Options, error) {
	var o Options
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "postgres" && scheme != "postgresql" {
		return Options{}, wrongURL("it does not begin with postgres://", "write it as postgres://user@host:5432/database")
	}
	place, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B")) // a + stands for itself, not for a space
	if err != nil {
		return Options{}, wrongURL("the query is not name=value&name=value", "")
	}
	for name := range values {
		if len(values[name]) > 1 {
			return Options{}, wrongURL("a parameter is given twice", "")
		}
	}
	if err := o.readOwn(values); err != nil {
		return Options{}, err
	}
	conns := values.Has("pool_max_conns")
	o.url = "postgres://" + place
	if len(values) > 0 {
		o.url += "?" + strings.ReplaceAll(values.Encode(), "+", "%20")
	}
	if o.Pool, err = pgxpool.ParseConfig(o.url); err != nil {
		return Options{}, whatIsWrong(place, values)
	}
	if !conns {
		o.Pool.MaxConns = defaultConns
	}
	for name := range o.Pool.ConnConfig.RuntimeParams {
		if values.Has(name) && !slices.Contains([]string{"application_name", "options", "search_path"}, name) {
			return Options{}, wrongURL("the query has an unknown parameter", "known are durable, schema, timeout, pool_max_conns and the parameters of libpq")
		}
	}
	// pgx.ParseConfig, which reads the files again, takes the parameters of a pool for those of a session.
	for name := range values {
		if strings.HasPrefix(name, "pool_") {
			values.Del(name)
		}
	}
	o.url = "postgres://" + place + "?" + strings.ReplaceAll(values.Encode(), "+", "%20")
	return o, nil
}

// parameters are those of libpq and of the pool that can be wrong; those of one line belong
// together.
var parameters = [][]string{
	{"sslmode"}, {"sslrootcert"}, {"sslcert", "sslkey", "sslpassword"}, {"sslnegotiation"}, {"channel_binding"}, {"require_auth"},
	{"connect_timeout"}, {"target_session_attrs"}, {"port"}, {"service", "servicefile"}, {"passfile"},
	{"min_protocol_version", "max_protocol_version"},
	{"pool_max_conns"}, {"pool_min_conns"}, {"pool_min_idle_conns"}, {"pool_max_conn_lifetime"}, {"pool_max_conn_lifetime_jitter"},
	{"pool_max_conn_idle_time"}, {"pool_health_check_period"}, {"pool_ping_timeout"},
}

// whatIsWrong returns the error of a URL that pgx does not accept. It finds the part without
// which pgx accepts the URL: the error of pgx may contain a password.
func whatIsWrong(place string, values url.Values) error {
	for _, names := range parameters {
		without := maps.Clone(values)
		maps.DeleteFunc(without, func(name string, _ []string) bool { return slices.Contains(names, name) })
		if _, err := pgxpool.ParseConfig("postgres://" + place + "?" + without.Encode()); len(without) < len(values) && err == nil {
			return wrongURL(strings.Join(names, ", ")+": a value is not one that PostgreSQL knows, or names a file that cannot be read",
				"see the parameters of libpq, and let the user of this process read the files")
		}
	}
	if _, err := pgxpool.ParseConfig("postgres://h/d"); err != nil {
		return wrongURL("a variable of the environment whose name begins with PG is wrong, or names a file that cannot be read", "see the variables of libpq")
	}
	return wrongURL("not a URL of PostgreSQL: the user, the password, a host, a port or a parameter is wrong",
		"write it as postgres://user@host:5432/database, and @ : / ? # % in a user or password as %40 and so on")
}

// readOwn reads the parameters that PostgreSQL does not know, and deletes them.
func (o *Options) readOwn(values url.Values) error {
	for name, read := range map[string]func(string) error{
		"durable": func(text string) (err error) {
			if o.Durable, err = strconv.ParseBool(text); err != nil {
				return errors.New("is neither true nor false")
			}
			return nil
		},
		"schema": func(text string) error {
			if o.Schema = text; text == "" {
				return errors.New("is empty")
			}
			return nil
		},
		"timeout": func(text string) (err error) {
			if o.Timeout, err = time.ParseDuration(text); err != nil || o.Timeout <= 0 {
				return errors.New("is not a time above 0, such as 250ms")
			}
			return nil
		},
	} {
		if !values.Has(name) {
			continue
		}
		if err := read(values.Get(name)); err != nil {
			return wrongURL(name+" "+err.Error(), "")
		}
		values.Del(name)
	}
	return nil
}
