package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// meaning explains an error of a server to an operator.
type meaning struct {
	kind          stint.Kind
	problem, mend string
}

// meanings has the known errors by their first word. With each of them the script has
// not run. The caller gets an error with CodeUnavailable. A guard counts it as a
// failure of the server (guard/classify.go), except the kinds that concern one key or one
// slot.
var meanings = map[string]meaning{
	"READONLY":    {"readonly", "is a replica and accepts no writes", "name the master, or let Stint find it: redis-sentinel:// or redis-cluster://"},
	"LOADING":     {"loading", "is still loading its data set", "wait until it is ready"},
	"BUSY":        {"busy", "is busy with a slow script of another client", "end it with SCRIPT KILL, and keep slow scripts off this server"},
	"OOM":         {"oom", "has no memory left", "raise its maxmemory: with noeviction a full server refuses new keys"},
	"NOAUTH":      {"noauth", "asks for a password", "set it in the store's URL or STINT_STORE_PASSWORD_FILE; a sentinel's own is sentinel_password"},
	"WRONGPASS":   {"noauth", "does not accept the user name and password", "check the store's URL and STINT_STORE_PASSWORD_FILE"},
	"NOPERM":      {"noperm", "does not permit the user what Stint needs", "grant +evalsha +eval +script|load +info +time +@read +@write on the keys below the prefix"},
	"NOSCRIPT":    {"noscript", "lost a script twice in a row", "find the client that calls SCRIPT FLUSH"},
	"CLUSTERDOWN": {"cluster_down", "says that the cluster is down", "start the masters of all slots, or set cluster-require-full-coverage no"},
	"TRYAGAIN":    {stint.KindTryAgain, "is moving the slot's keys to another server", "wait until resharding is over"},
	"MOVED":       {"moved", "does not own the slot", "use a redis-cluster:// URL; if it is one, check that all nodes see the same slots"},
	"ASK":         {"moved", "has moved the slot's keys to another server", "use a redis-cluster:// URL; if it is one, check the migration of the slot"},
	"CROSSSLOT":   {"cross_slot", "is part of a cluster", "use a redis-cluster:// URL"},
	"MISCONF":     {"misconf", "refuses writes because it cannot save to disk", "see its log: the disk is full or not writable; or set stop-writes-on-bgsave-error no"},
	"NOREPLICAS":  {"no_replicas", "refuses writes because it has too few replicas", "start its replicas, or lower min-replicas-to-write"},
	"MASTERDOWN":  {"master_down", "is a replica without its master", "name the master, or start it"},
	"WRONGTYPE":   {stint.KindWrongType, "holds a value of another type under one of the keys", "find the client that writes below the prefix, or choose another prefix"},
}

// explain turns the failure of a call into the error that callers get. It contains no
// password.
func (d *dialer) explain(err error, addr string) error {
	var known *stint.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	}
	if answer, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return answered(d.redact(answer), addr)
	}
	return unanswered(d.redact(err), addr)
}

// redact hides passwords and identities in the text of an error. A server that does not
// know a command repeats the beginning of its arguments.
func (d *dialer) redact(err error) error {
	text, _, repeats := strings.Cut(err.Error(), ", with args beginning with:")
	if repeats {
		err = errors.New(text)
	}
	passwords := []string{d.opts.Password, d.lastLogin().password, d.opts.SentinelPassword, d.opts.sentinel.Value()}
	if l := d.sentinel.Load(); l != nil {
		passwords = append(passwords, l.password)
	}
	for _, secret := range passwords {
		if secret != "" && strings.Contains(text, secret) {
			text = strings.ReplaceAll(text, secret, "***")
			err = errors.New(text)
		}
	}
	return err
}

// answered explains an error reply of the server.
func answered(err error, addr string) error {
	m, ok := meanings[codeOf(err.Error())]
	if !ok {
		return unknownAnswer(err, addr)
	}
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: m.kind,
		Problem: "the server " + addr + " " + m.problem, Mend: m.mend, Err: err,
	}
}

// unknownAnswer explains an error reply that meanings does not have. If a script raised
// it, it is a bug.
func unknownAnswer(err error, addr string) error {
	e := &stint.Error{Code: stint.CodeUnavailable, Kind: "server", Problem: "the server " + addr + " answered with an error", Err: err}
	if strings.Contains(err.Error(), "user_script") {
		e.Code, e.Kind, e.Problem = stint.CodeInternal, stint.KindScript, "a script failed on the server "+addr
	}
	return e
}

// codeOf returns the first word of a server's error. Before Redis 7 the error of a
// command inside a script is wrapped in the script's error, after ": -".
func codeOf(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if _, known := meanings[word]; known {
		return word
	}
	if _, inner, wrapped := strings.Cut(text, ": -"); wrapped {
		word, _, _ = strings.Cut(inner, " ")
	}
	if strings.Contains(text, "user executing the script can't") || strings.Contains(text, "ACL failure in script") {
		return "NOPERM" // inside a script this error has no code word; the texts are those before and since Redis 7.2
	}
	return word
}

// unanswered explains a call without a reply.
func unanswered(err error, addr string) error {
	e := &stint.Error{Err: err, Problem: "no answer from the server " + addr + ": whether it was charged is unknown"}
	var never *notConnected
	switch {
	case errors.As(err, &never), dialFailed(err):
		notConnectedTo(addr, err, e)
	case errors.Is(err, context.Canceled):
		e.Code, e.Kind = stint.CodeCanceled, "canceled"
	case timedOut(err):
		e.Code, e.Kind, e.Mend = stint.CodeTimeout, "timeout", "see whether the server or the network is overloaded"
	default:
		e.Code, e.Kind, e.Problem = stint.CodeTimeout, "connection", "the connection to the server "+addr+" broke: whether it was charged is unknown"
	}
	return e
}

// notConnectedTo explains a missing connection. Nothing was sent.
func notConnectedTo(addr string, err error, e *stint.Error) {
	e.Code, e.Kind = stint.CodeUnavailable, "connection"
	e.Problem, e.Mend = "no connection to the server "+addr, "check that it runs, its address, and whether the port uses TLS"
	switch {
	case unixSocket(addr) && errors.Is(err, os.ErrPermission):
		e.Mend = "let the user of this process write to the socket: unixsocketperm 770 in the server's settings, and a common group"
	case unixSocket(addr):
		e.Mend = "check that the server runs, and that unixsocket in its settings is this path"
	case remoteAlert(err):
		e.Kind, e.Mend = "tls", "see its log; if it requires a client certificate, give tls_cert and tls_key of an authority that it trusts"
	case tlsFailed(err):
		e.Kind, e.Mend = "tls", "check its certificate, the authorities that this client trusts, and that the port uses TLS"
	}
}

// dialFailed reports whether a client of the program could not connect. The store's own
// connections mark that error themselves.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// tlsFailed reports whether this side refused the TLS handshake.
func tlsFailed(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &unknown)
}

// remoteAlert reports whether the server refused the TLS handshake by an alert. With TLS
// 1.3 the alert can be lost when the server closes the connection.
func remoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// replicasMissing returns the error of a charge that too few replicas have confirmed.
// The charge stands at the master and is not refunded.
func replicasMissing(have, want int) error {
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: stint.KindReplicas,
		Problem: fmt.Sprintf("%d of %d replicas have confirmed the charge; it stands", have, want),
		Mend:    "start the missing replicas, or ask for fewer",
	}
}

// replicasLate returns the error of a caller whose time ended while its charge waited
// for replicas. The server had answered.
func replicasLate(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		e := storekit.Ended(ctx, true)
		e.Problem = "the charge stands; the number of replicas that have it is unknown"
		return e
	}
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: stint.KindReplicas,
		Problem: "the caller's time ended before the replicas confirmed the charge; it stands",
		Mend:    "start the missing replicas, ask for fewer, or allow more time than replica_timeout",
		Err:     ctx.Err(),
	}
}
