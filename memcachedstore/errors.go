package memcachedstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// errGarbled is the error of an answer that is not one of Memcached.
var errGarbled = errors.New("memcachedstore: an answer that is not one of Memcached")

// refusal is an answer that refuses a command.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// refusalOf returns the error of an answer that is not the expected one. A refusal of
// Memcached begins with ERROR, CLIENT_ERROR or SERVER_ERROR.
func refusalOf(line []byte) error {
	first, _, _ := bytes.Cut(line, []byte(" "))
	switch string(first) {
	case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
		return &refusal{string(line)}
	}
	return errGarbled
}

// meanings are what refusals mean, by a part of their text.
var meanings = []struct {
	text string
	code stint.Code
	kind stint.Kind

	problem, mend string
}{
	{"object too large", stint.CodeExhausted, cas.KindItemFull, "takes no item of the size that the key needs", "start it with -I 1m, which is the default"},
	{"out of memory", stint.CodeUnavailable, "oom", "is full", "give it more memory with -m, or let it evict items: start it without -M"},
	{"too many open connections", stint.CodeUnavailable, "connections", "has no free connection", "raise its -c, or lower Conns of the store's options"},
	{"unauthenticated", stint.CodeUnavailable, "noauth", "asks for a password", "start it without -Y, and let only the nodes reach it: the store has no credentials for Memcached"},
}

// explain makes a refusal an error that says what an operator does about it.
func (r *refusal) explain(server string) *stint.Error {
	for _, m := range meanings {
		if strings.Contains(strings.ToLower(r.text), m.text) {
			return &stint.Error{Code: m.code, Kind: m.kind, Problem: "the server " + server + " " + m.problem, Mend: m.mend, Err: r}
		}
	}
	return &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the server " + server + " refused a command", Mend: "see whether it is Memcached 1.5 or newer, and not a proxy", Err: r}
}

// notSent returns the error of a call that was not sent, because there is no connection.
func (s *server) notSent(ctx context.Context, err error) error {
	e := &stint.Error{
		Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection to the server " + s.name,
		Mend: "check that it runs, its address, and that it listens there", Err: err,
	}
	answer, refused := errors.AsType[*refusal](err)
	explained, known := errors.AsType[*stint.Error](err)
	switch {
	case known:
		return explained
	case refused:
		e = answer.explain(s.name)
		if e.Code != stint.CodeUnavailable {
			e.Code, e.Kind = stint.CodeUnavailable, "version"
		}
	case errors.Is(ctx.Err(), context.Canceled):
		return storekit.Ended(ctx, false)
	case errors.Is(err, errBusy):
		e.Problem, e.Mend = "all connections to the server "+s.name+" were busy until the time of the call ended", "see whether the server is overloaded"
	case errors.Is(err, errNoGreeting):
		e.Problem = "the server " + s.name + " does not answer on a new connection"
		e.Mend = "see whether it is overloaded; the store speaks the text protocol, so start Memcached without -S, -Z and -B binary"
	}
	return e
}

// noAnswer returns the error of a call that was sent and that failed.
func (s *server) noAnswer(ctx context.Context, err error) error {
	answer, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		return answer.explain(s.name)
	case errors.Is(err, errGarbled):
		return &stint.Error{Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the server " + s.name + " answered what Memcached does not answer", Mend: "check the address in the store's URL", Err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		return storekit.Ended(ctx, true)
	}
	return cas.NoAnswer(ctx, "the server "+s.name, err)
}

var (
	errBusy       = errors.New("memcachedstore: all connections are busy")
	errNoGreeting = errors.New("memcachedstore: no answer on a new connection")
)

// stopped returns the error of a call after Close.
func (s *server) stopped() error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "the connections to the server " + s.name + " are closed"}
}

// usable returns an error if the store cannot use a server that tells such statistics.
func (s statistics) usable(server string) error {
	var major, minor int
	if _, err := fmt.Sscanf(s.version, "%d.%d", &major, &minor); err != nil || major < 1 || major == 1 && minor < 5 {
		return &stint.Error{
			Code: stint.CodeUnavailable, Kind: "version", Problem: "the server " + server + " is Memcached " + s.version + ", which is too old",
			Mend: "use Memcached 1.5 or newer",
		}
	}
	if s.noCAS {
		return &stint.Error{
			Code: stint.CodeUnavailable, Kind: "version", Problem: "the server " + server + " keeps no versions of items",
			Mend: "start it without -C",
		}
	}
	return nil
}

// wrongOption returns the error of an invalid option.
func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "memcachedstore: " + problem, Mend: mend}
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
}
