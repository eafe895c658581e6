package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// warned is what has been said of a server, so that it is said once.
type warned struct {
	eviction, scripts atomic.Bool
	rights            rights
}

// inspect loads the scripts on a server that has been connected to, and looks
// at its version, its memory policy and the user's rights. What the user may
// not ask is not held against the server.
func (d *dialer) inspect(ctx context.Context, l *link, known *warned) error {
	b := l.client.B()
	commands := rueidis.Commands{b.Info().Section("server").Build(), b.Info().Section("memory").Build()}
	for _, s := range d.scripts {
		commands = append(commands, b.ScriptLoad().Script(s.text).Build())
	}
	results := l.client.DoMulti(ctx, append(commands, d.askRights(b))...)
	last := len(results) - 1
	server, err := answer(results[0])
	if err != nil {
		return err
	}
	memory, err := answer(results[1])
	if err != nil {
		return err
	}
	if err := versionFits(server); err != nil {
		return err
	}
	d.warnOfEviction(l, memory, known)
	d.warnOfRights(l, results[last], &known.rights)
	return d.loaded(l, results[2:last], known)
}

// answer is a text that the server may refuse to tell: then it is empty.
func answer(r rueidis.RedisResult) (string, error) {
	text, err := r.ToString()
	if refused(err) {
		return "", nil
	}
	return text, err
}

// refused reports whether an error says that this user, or this server, has
// no such command.
func refused(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) &&
		(strings.HasPrefix(e.Error(), "NOPERM") || strings.Contains(e.Error(), "unknown command"))
}

func (d *dialer) loaded(l *link, results []rueidis.RedisResult, known *warned) error {
	for _, r := range results {
		err := r.Error()
		switch {
		case err == nil:
		case !refused(err):
			return err
		case !known.scripts.Swap(true):
			d.log.Debug("scripts are sent with the first call, not before: SCRIPT LOAD is refused", "server", l.addr, "error", err)
		}
	}
	return nil
}

// versionFits refuses servers before 6.2. Who does not tell its version
// passes. Valkey tells in redis_version what it is compatible with.
func versionFits(server string) error {
	version := field(server, "redis_version")
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 || major > 6 || major == 6 && minor >= 2 {
		return nil
	}
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "version",
		Problem: "the server's version is " + version,
		Mend:    "use Redis 6.2 or newer, or Valkey",
	}
}

// warnOfEviction warns of a server that drops keys when its memory is full:
// who loses a key has a full allowance again.
func (d *dialer) warnOfEviction(l *link, memory string, known *warned) {
	policy := field(memory, "maxmemory_policy")
	if policy == "" || policy == "noeviction" || known.eviction.Swap(true) {
		return
	}
	d.log.Warn("the server may evict keys, and who is evicted has a full allowance again (set maxmemory-policy noeviction)",
		"server", l.addr, "maxmemory_policy", policy, "maxmemory", field(memory, "maxmemory_human"))
}

// field returns one field of INFO, empty when it is not there.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
