package quorumstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// meaning explains an error of a server to an operator.
type meaning struct {
	kind          stint.Kind
	problem, mend string
}

// meanings has the known errors by their first word. With each of them the script has not
// run.
var meanings = map[string]meaning{
	"READONLY":   {"readonly", "is a replica and accepts no writes", "name servers that replicate nothing: the quorum is the replication"},
	"LOADING":    {"loading", "is still loading its data set", "wait until it is ready"},
	"BUSY":       {"busy", "is busy with a slow script of another client", "end it with SCRIPT KILL, and keep slow scripts off this server"},
	"OOM":        {"oom", "has no memory left", "raise its maxmemory"},
	"NOAUTH":     {"noauth", "asks for a password", "set it in the store's URL or STINT_STORE_PASSWORD_FILE"},
	"WRONGPASS":  {"noauth", "does not accept the user name and password", "check the store's URL and STINT_STORE_PASSWORD_FILE"},
	"NOPERM":     {"noperm", "does not permit the user what Stint needs", "grant +evalsha +eval +info +select +time +get +set +scan on the keys below the prefix"},
	"NOSCRIPT":   {"noscript", "lost a script twice in a row", "find the client that calls SCRIPT FLUSH"},
	"MOVED":      {"cluster", "is part of a cluster", "use a redis-cluster:// URL, or servers that know nothing of each other"},
	"CROSSSLOT":  {"cluster", "is part of a cluster", "use a redis-cluster:// URL, or servers that know nothing of each other"},
	"MISCONF":    {"misconf", "refuses writes because it cannot save to disk", "see its log: the disk is full or not writable; or set stop-writes-on-bgsave-error no"},
	"NOREPLICAS": {"no_replicas", "refuses writes because it has too few replicas", "set min-replicas-to-write 0: the quorum is the replication"},
	"MASTERDOWN": {"master_down", "is a replica without its master", "name servers that replicate nothing: the quorum is the replication"},
	"WRONGTYPE":  {stint.KindWrongType, "holds a value of another type under one of the keys", "find the client that writes below the prefix, or choose another prefix"},
}

// explain makes a refusal an error that says what an operator does about it.
func (s *redisServer) explain(r *refusal) *stint.Error {
	m, known := meanings[codeOf(r.text)]
	if known {
		return &stint.Error{Code: stint.CodeUnavailable, Kind: m.kind, Problem: "the server " + s.address + " " + m.problem, Mend: m.mend, Err: r}
	}
	e := &stint.Error{Code: stint.CodeUnavailable, Kind: "server", Problem: "the server " + s.address + " answered with an error", Err: r}
	if strings.Contains(r.text, "user_script") {
		e.Code, e.Kind, e.Problem = stint.CodeInternal, stint.KindScript, "a script failed on the server "+s.address
	}
	return e
}

// codeOf returns the first word of a server's error. Before Redis 7 the error of a command
// inside a script is wrapped in the script's error, after ": -".
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

// redact hides the password in the text of an error. A server that does not know a command
// repeats the begin of its arguments.
func redact(err error, password string) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	text, _, _ := strings.Cut(r.text, ", with args beginning with:")
	if password != "" {
		text = strings.ReplaceAll(text, password, "***")
	}
	return &refusal{text}
}

var (
	errBusy       = errors.New("quorumstore: all connections are busy")
	errNoGreeting = errors.New("quorumstore: no connection in time")
	errRechecked  = errors.New("quorumstore: the server may be used again from the next call on")
	errNoRun      = errors.New("quorumstore: INFO has no run_id")
)

// notSent returns the error of a call that was not sent, because there is no connection.
func (s *redisServer) notSent(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*stint.Error](err); ok {
		return known
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		e := s.explain(r)
		e.Code = stint.CodeUnavailable // no script was sent
		return e
	}
	e := &stint.Error{
		Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection to the server " + s.address,
		Mend: "check that it runs, its address, and whether the port uses TLS", Err: err,
	}
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return storekit.Ended(ctx, false)
	case errors.Is(err, errBusy):
		e.Problem, e.Mend = "all connections to the server "+s.address+" are busy", "see whether the server answers"
	case errors.Is(err, errNoRun), errors.Is(err, errGarbled):
		e.Kind, e.Problem, e.Mend = "version", "the server "+s.address+" does not say what Redis and Valkey say of themselves", "use Redis 6.2 or newer, or Valkey, and no proxy before it"
	case errors.As(err, &op) && op.Op == "remote error":
		e.Kind, e.Mend = "tls", "see its log; if it requires a client certificate, give tls_cert and tls_key of an authority that it trusts"
	case tlsFailed(err):
		e.Kind, e.Mend = "tls", "check its certificate, the authorities that this client trusts, and that the port uses TLS"
	}
	return e
}

// tlsFailed reports whether this side refused the TLS handshake.
func tlsFailed(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &unknown)
}

// noAnswer returns the error of a call that was sent and that failed.
func (s *redisServer) noAnswer(ctx context.Context, err error) error {
	r, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		return s.explain(r)
	case errors.Is(err, errGarbled):
		return s.garbled(err)
	case errors.Is(ctx.Err(), context.Canceled):
		return storekit.Ended(ctx, true)
	}
	return cas.NoAnswer(ctx, "the server "+s.address, err)
}

func (s *redisServer) garbled(err error) *stint.Error {
	return &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the server " + s.address + " answered what Redis does not answer", Mend: "check the address in the store's URL", Err: err}
}

// corrupt returns the error of a row that cannot be read.
func (s *redisServer) corrupt(key string) *stint.Error {
	return &stint.Error{
		Code: stint.CodeInternal, Kind: stint.KindCorrupt, Problem: fmt.Sprintf("the server %s has a row of %.80q that this version cannot read", s.address, key),
		Mend: "find the client that writes below the prefix, delete the key on that server, and let all nodes run one version of Stint", Err: errRow,
	}
}

// refusal returns the error of a call that is not sent.
func (s *redisServer) refusal() *stint.Error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "the connections to the server " + s.address + " are closed"}
}

// fits returns an error if a server that says this of itself in INFO must not be a member.
func (s *redisServer) fits(info string) error {
	wrong := func(kind stint.Kind, problem, mend string) error {
		return &stint.Error{Code: stint.CodeUnavailable, Kind: kind, Problem: "the server " + s.address + " " + problem, Mend: mend}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(field(info, "redis_version"), "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		return wrong("version", "is of version "+field(info, "redis_version"), "use Redis 6.2 or newer, or Valkey")
	}
	if role := field(info, "role"); role != "" && role != "master" {
		return wrong("readonly", "is a replica", "name servers that replicate nothing: the quorum is the replication")
	}
	if field(info, "cluster_enabled") == "1" {
		return wrong("cluster", "is part of a cluster", "use a redis-cluster:// URL, or servers that know nothing of each other")
	}
	policy, memory := field(info, "maxmemory_policy"), field(info, "maxmemory")
	if policy != "" && policy != "noeviction" && memory != "0" {
		return wrong("eviction", "may evict keys to make room (maxmemory-policy "+policy+"), and a quorum must forget nothing", "set maxmemory-policy noeviction")
	}
	if evicted, _ := strconv.ParseUint(field(info, "evicted_keys"), 10, 64); evicted > 0 {
		return wrong("eviction", "has evicted keys since it started, and may have forgotten counts", "restart it empty, with maxmemory-policy noeviction")
	}
	return nil
}

// field returns one field of INFO, or an empty text.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
