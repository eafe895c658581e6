package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// warned records which warnings about a server have been logged, so that each is
// logged once.
type warned struct {
	eviction, scripts, splitBrain, coverage, settings atomic.Bool
	acl                                               aclState
}

// inspect loads the scripts on a newly connected server. It returns an error if the
// server is too old, and warns about its memory policy, its settings and the user's
// missing permissions. It ignores what the user may not read.
func (d *dialer) inspect(ctx context.Context, c *conn, known *warned) error {
	b := c.client.B()
	commands := rueidis.Commands{
		b.Info().Section("server").Build(), b.Info().Section("memory").Build(), b.Info().Section("replication").Build(),
		b.ConfigGet().Parameter("min-replicas-to-write").Build(), b.ConfigGet().Parameter("cluster-require-full-coverage").Build(),
	}
	asked := len(commands)
	for _, s := range d.scripts {
		commands = append(commands, b.ScriptLoad().Script(s.text).Build())
	}
	results := c.client.DoMulti(ctx, append(commands, d.aclCommand(b))...)
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
	d.warnOfEviction(c, memory, known)
	d.warnOfSettings(c, server, results[2:asked], known)
	d.warnOfACL(c, results[last], &known.acl)
	return d.loaded(c, results[asked:last], known)
}

// answer returns the text of a reply, or an empty text if the server refused the
// command.
func answer(r rueidis.RedisResult) (string, error) {
	text, err := r.ToString()
	if refused(err) {
		return "", nil
	}
	return text, err
}

// refused reports whether the user may not call a command, or the server does not have
// it.
func refused(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) &&
		(strings.HasPrefix(e.Error(), "NOPERM") || strings.Contains(e.Error(), "unknown command"))
}

func (d *dialer) loaded(c *conn, results []rueidis.RedisResult, known *warned) error {
	for _, r := range results {
		err := r.Error()
		switch {
		case err == nil:
		case !refused(err):
			return err
		case !known.scripts.Swap(true):
			d.log.Debug("SCRIPT LOAD is refused: scripts are sent with their first call", "server", c.addr, "error", err)
		}
	}
	return nil
}

// versionFits returns an error for servers before 6.2. A server that hides its version
// passes. Valkey reports in redis_version the version that it is
// compatible with.
func versionFits(server string) error {
	major, minor, ok := versionOf(server)
	if !ok || major > 6 || major == 6 && minor >= 2 {
		return nil
	}
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "version",
		Problem: "the server's version is " + field(server, "redis_version"),
		Mend:    "use Redis 6.2 or newer, or Valkey",
	}
}

// versionOf reads the version of a server from INFO.
func versionOf(server string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(field(server, "redis_version"), "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// warnOfEviction warns of a server that evicts keys when its memory is full: an
// evicted key gets a full allowance again.
func (d *dialer) warnOfEviction(c *conn, memory string, known *warned) {
	policy := field(memory, "maxmemory_policy")
	if policy == "" || policy == "noeviction" || known.eviction.Swap(true) {
		return
	}
	d.log.Warn("the server may evict keys, and an evicted key gets a full allowance again (set maxmemory-policy noeviction)",
		"server", c.addr, "maxmemory_policy", policy, "maxmemory", field(memory, "maxmemory_human"))
}

// warnOfSettings warns of two settings that weaken limits or availability. The results
// are INFO's section on replication and both settings. Managed services refuse CONFIG
// GET; the settings are then unknown.
func (d *dialer) warnOfSettings(c *conn, server string, results []rueidis.RedisResult, known *warned) {
	replication, _ := results[0].ToString() // if it fails, the server counts as one without replicas
	atLeast, err1 := setting(results[1])
	coverage, err2 := setting(results[2])
	if err := cmp.Or(err1, err2); err != nil && !known.settings.Swap(true) {
		d.log.Debug("CONFIG GET is refused, so the server's settings are unknown (min-replicas-to-write should be 1 where there are replicas, cluster-require-full-coverage no)",
			"server", c.addr, "error", err)
	}
	d.warnOfSplitBrain(c, server, field(replication, "connected_slaves"), atLeast, known)
	if d.opts.Topology == Cluster && coverage == "yes" && !known.coverage.Swap(true) {
		d.log.Warn("if one master of the cluster fails without a replica, all other masters refuse their keys too (set cluster-require-full-coverage no)",
			"server", c.addr, "cluster_require_full_coverage", coverage)
	}
}

// warnOfSplitBrain warns of a master with replicas that grants while it is cut off
// from them. Before version 7 the setting that forbids it does not apply to what
// scripts write.
func (d *dialer) warnOfSplitBrain(c *conn, server, replicas, atLeast string, known *warned) {
	if replicas == "" || replicas == "0" {
		return
	}
	mend := "set min-replicas-to-write 1"
	major, _, ok := versionOf(server)
	old := ok && major < 7
	if old {
		mend = "use Redis 7 or newer, or Valkey, with min-replicas-to-write 1; this version does not apply that setting to scripts, which charge the limits"
	}
	if (old || atLeast == "0") && !known.splitBrain.Swap(true) {
		d.log.Warn("a master that is cut off from its replicas keeps granting beside its successor: each side then grants the whole limit ("+mend+")",
			"server", c.addr, "version", field(server, "redis_version"), "replicas", replicas, "min_replicas_to_write", atLeast)
	}
}

// setting returns the value in the reply to a CONFIG GET, or an empty text if the server
// has no such setting.
func setting(r rueidis.RedisResult) (string, error) {
	pairs, err := r.AsStrMap()
	for _, value := range pairs {
		return value, nil
	}
	return "", err
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

//go:embed acl.lua
var aclText string

// aclState records which missing permissions of a server's user have been logged. A
// missing permission that only some algorithms need fails only their checks, and the
// server does not count as down, so a log line names the missing permission. The
// zero value is ready for use and safe for concurrent use.
type aclState struct {
	mu      sync.Mutex
	missing string    // the missing permissions that were found last
	next    time.Time // earliest time of the next check of the permissions
}

// aclInterval is the shortest interval between checks of the permissions after refused
// calls.
const aclInterval = 10 * time.Second

// due reports whether to check the permissions again. If so, it sets the time of the next
// check.
func (a *aclState) due(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.next) {
		return false
	}
	a.next = now.Add(aclInterval)
	return true
}

// changed stores the missing permissions. It reports whether they have changed and are not
// empty.
func (a *aclState) changed(missing string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := missing != a.missing
	a.missing = missing
	return changed && missing != ""
}

// aclCommand returns the command that lists the user's missing permissions. It sends the
// script's text, because it is called too seldom for EVALSHA.
func (d *dialer) aclCommand(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(aclText).Numkeys(0).Arg(d.opts.Prefix + ":rights").Build()
}

// warnOfACL logs missing permissions. If the server does not answer, it logs nothing.
func (d *dialer) warnOfACL(c *conn, result rueidis.RedisResult, known *aclState) {
	missing, err := result.ToString()
	if err == nil && known.changed(missing) {
		d.log.Warn("the user of the store may not call commands that checks need: those checks fail (grant them, or +@read +@write on the keys below the prefix)",
			"server", c.addr, "user", cmp.Or(d.lastLogin().username, "default"), "missing", missing)
	}
}

// deniedByACL reports whether a server refused a call for a missing permission.
func deniedByACL(err error) bool {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && codeOf(answer.Error()) == "NOPERM"
}

// recheckACL checks the permissions in the background after a refused check.
func (n *node) recheckACL(c *conn) {
	if !n.warned.acl.due(time.Now()) {
		return
	}
	n.dialer.background(func() {
		if !c.enter() {
			return
		}
		defer c.leave()
		ctx, cancel := context.WithTimeout(c.ctx, n.dialer.opts.Timeout)
		defer cancel()
		n.dialer.warnOfACL(c, c.client.Do(ctx, n.dialer.aclCommand(c.client.B())), &n.warned.acl)
	})
}
