package postgresstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// Errors of the server that the store acts on.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
	undefinedFunc   = "42883"
	noPrivilege     = "42501"
	readOnly        = "25006"
	uniqueViolation = "23505"
	tooMany         = "53300"
)

// conflicts are errors that mean that another transaction was first. The server has rolled
// back.
var conflicts = map[string]bool{uniqueViolation: true, "40001": true, "40P01": true, "55P03": true}

// meaning explains an error of the server to an operator.
type meaning struct {
	kind          stint.Kind
	problem, mend string
}

// meanings has the known errors by their SQLSTATE. Nothing was written.
var meanings = map[string]meaning{
	"28P01":         {"noauth", "does not accept the user name and password", "check the store's URL and STINT_STORE_PASSWORD_FILE"},
	"28000":         {"noauth", "does not let the user in", "check the user in the store's URL, and the lines of pg_hba.conf for it"},
	"3D000":         {"database", "does not have the database", "check the name in the store's URL, or create it by CREATE DATABASE"},
	"3F000":         {"schema", "does not have the schema of the tables", "create it by CREATE SCHEMA, or name another one in the store's URL: ?schema=NAME"},
	noPrivilege:     {"noperm", "does not permit the user what Stint needs", "grant SELECT, INSERT, UPDATE and DELETE on the tables stint_items and stint_nodes, and EXECUTE on the functions stint_load_1, stint_swap_1 and stint_skip_1, or run stint store migrate as their owner"},
	undefinedTable:  {"schema", "lost the tables of the store", "find who drops them; the next check makes them again"},
	undefinedColumn: {"schema", "has tables of another layout", "run stint store migrate, and use one version of Stint"},
	undefinedFunc:   {"schema", "lost the functions of the store", "find who drops them; the next check makes them again"},
	readOnly:        {"readonly", "is a standby or accepts no writes", "name the primary, or all servers: postgres://host1,host2/db; if it is the primary, see whether default_transaction_read_only is set or its disk is full"},
	tooMany:         {"connections", "has no connection left", "raise its max_connections, lower pool_max_conns in the store's URL, or put PgBouncer in front of it"},
	"53100":         {"full", "has no space left on its disk", "free space on the disk of its data"},
	"53200":         {"oom", "has no memory left", "lower its max_connections or work_mem, or give it more memory"},
	"57P03":         {"starting", "is starting up or shutting down", "wait until it is ready"},
	"57P01":         {"connection", "is shutting down", "wait until it is back"},
	"57P02":         {"connection", "has crashed and restarts", "see its log"},
	"57014":         {"canceled", "has canceled the statement", "see whether its statement_timeout is too low, or who canceled it"},
}

var (
	errGarbled     = &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the rows of the tables are not those of the store", Mend: "make sure that nothing else writes stint_items, and that no trigger or view changes them"}
	errConflict    = &stint.Error{Code: stint.CodeExhausted, Kind: cas.KindThrottled, Problem: "another transaction was first, or held the lock of a row for too long: nothing was charged", Mend: "lease the hot keys: consistency: leased"}
	errNothingSent = errors.New("nothing was sent")
)

// notConnected is the error of a call that got no connection. Nothing was sent.
type notConnected struct{ error }

func (e *notConnected) Unwrap() error { return e.error }

// nothingWritten reports whether the call that failed with this error of explain has
// certainly written nothing, now and later.
func nothingWritten(err error) bool {
	known, ok := errors.AsType[*stint.Error](err)
	return ok && (known.Code == stint.CodeUnavailable || known.Code == stint.CodeExhausted)
}

// explain turns the failure of a call into an error of a [cas.Backend]. The errors of the
// driver contain no password.
func (p *pool) explain(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*stint.Error](err); ok {
		return known
	}
	never, unsent := errors.AsType[*notConnected](err)
	answer, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case answered && conflicts[answer.Code]:
		return errConflict
	case answered && (unsent || answer.Severity != "FATAL"):
		return p.answered(answer)
	case unsent:
		return p.notConnectedTo(ctx, never.error)
	case pgconn.SafeToRetry(err):
		return p.notConnectedTo(ctx, err)
	case p.ended():
		return cas.NoAnswer(ctx, p.server, errNothingSent)
	}
	return cas.NoAnswer(ctx, p.server, err)
}

// answered explains an error that the server answered with.
func (p *pool) answered(err *pgconn.PgError) error {
	m, known := meanings[err.Code]
	switch {
	case strings.Contains(err.Message, "no schema has been selected"):
		m.kind, m.problem = "noperm", "permits the user no schema of its search_path, or has none of them"
		m.mend = "grant USAGE on the schema of the tables, and CREATE unless another user makes them, or name it in the store's URL: ?schema=NAME"
	case err.Code == noPrivilege && strings.Contains(err.Message, "for schema"):
		m.problem, m.mend = "does not permit the user to use the schema of the tables", "grant USAGE on it, or name another one in the store's URL: ?schema=NAME"
	case known:
	case strings.Contains(err.Message, "no more connections allowed"): // of PgBouncer, without a code of its own
		m = meanings[tooMany]
		m.mend = "raise max_client_conn of PgBouncer, or lower pool_max_conns in the store's URL"
	default:
		m = meaning{"server", "answered with an error", "see its log"}
	}
	return &stint.Error{Code: stint.CodeUnavailable, Kind: m.kind, Problem: "the server " + p.server + " " + m.problem, Mend: m.mend, Err: err}
}

// notConnectedTo explains a missing connection.
func (p *pool) notConnectedTo(ctx context.Context, err error) error {
	e := &stint.Error{
		Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection to the server " + p.server,
		Mend: "check that it runs, its address, and that it listens there", Err: err,
	}
	busy := p.conns.Stat().AcquiredConns() >= p.conns.Config().MaxConns
	switch {
	case strings.Contains(err.Error(), "read only connection"), strings.Contains(err.Error(), "read-only connection"):
		m := meanings[readOnly]
		e.Kind, e.Problem, e.Mend = m.kind, "the server "+p.server+" "+m.problem, m.mend
	case tlsFailed(err), strings.Contains(err.Error(), "server refused TLS") && !p.triesWithoutTLS():
		e.Kind, e.Mend = "tls", "check its certificate, sslrootcert and sslmode in the store's URL, and whether the server has ssl = on"
	case errors.Is(err, os.ErrPermission):
		e.Mend = "let the user of this process write to the server's Unix socket: unix_socket_permissions"
	case ctx.Err() != nil && busy:
		e.Problem = "all connections to the server " + p.server + " were busy until the time of the call ended"
		e.Mend = "see whether the server is overloaded; pool_max_conns in the store's URL allows more connections"
	}
	return e
}

// tlsFailed reports whether TLS could not be agreed on.
func tlsFailed(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &unknown) || strings.Contains(err.Error(), "tls: ")
}

// triesWithoutTLS reports whether a connection may also be plain, as by sslmode=prefer: a server that
// refuses TLS is then not what failed.
func (p *pool) triesWithoutTLS() bool {
	c := p.conns.Config().ConnConfig
	plain := c.TLSConfig == nil
	for _, f := range c.Fallbacks {
		plain = plain || f.TLSConfig == nil
	}
	return plain
}

// wrongOption returns the error of an invalid option.
func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "postgresstore: " + problem, Mend: mend}
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
}
