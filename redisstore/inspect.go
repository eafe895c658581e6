package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// warned records which warnings about a server have been logged, so that each is
// logged once.
type warned struct {
	eviction, scripts, splitBrain, coverage, settings atomic.Bool
	rights                                            missingRights
}

// inspect loads the scripts on a server that has been connected to, and looks
// at its version, its memory policy, what it does without replicas, and the
// user's rights. What the user may not ask is not held against the server.
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
	results := c.client.DoMulti(ctx, append(commands, d.askRights(b))...)
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
	d.warnOfRights(c, results[last], &known.rights)
	return d.loaded(c, results[asked:last], known)
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

func (d *dialer) loaded(c *conn, results []rueidis.RedisResult, known *warned) error {
	for _, r := range results {
		err := r.Error()
		switch {
		case err == nil:
		case !refused(err):
			return err
		case !known.scripts.Swap(true):
			d.log.Debug("scripts are sent with the first call, not before: SCRIPT LOAD is refused", "server", c.addr, "error", err)
		}
	}
	return nil
}

// versionFits returns an error for servers before 6.2. A server that does not tell
// its version passes. Valkey reports in redis_version the version that it is
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

// versionOf returns the version that a server tells; not ok when it tells none.
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
	d.log.Warn("the server may evict keys, and who is evicted has a full allowance again (set maxmemory-policy noeviction)",
		"server", c.addr, "maxmemory_policy", policy, "maxmemory", field(memory, "maxmemory_human"))
}

// warnOfSettings warns of two settings by which limits hold less than an
// operator may think. The results are INFO's section on replication and both
// settings. Managed services refuse CONFIG GET; the settings are then unknown.
func (d *dialer) warnOfSettings(c *conn, server string, results []rueidis.RedisResult, known *warned) {
	replication, _ := results[0].ToString() // without it the server counts as one without replicas
	atLeast, err1 := setting(results[1])
	coverage, err2 := setting(results[2])
	if err := cmp.Or(err1, err2); err != nil && !known.settings.Swap(true) {
		d.log.Debug("the server's settings are not known: CONFIG GET is refused (min-replicas-to-write should be 1 where there are replicas, cluster-require-full-coverage no)",
			"server", c.addr, "error", err)
	}
	d.warnOfSplitBrain(c, server, field(replication, "connected_slaves"), atLeast, known)
	if d.opts.Topology == Cluster && coverage == "yes" && !known.coverage.Swap(true) {
		d.log.Warn("when one master of the cluster fails without a replica, all the others refuse their keys, too (set cluster-require-full-coverage no)",
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
		mend = "use Redis 7 or newer, or Valkey, with min-replicas-to-write 1; this version does not apply that setting to scripts, by which limits are counted"
	}
	if (old || atLeast == "0") && !known.splitBrain.Swap(true) {
		d.log.Warn("a master that is cut off from its replicas goes on granting beside its successor: limits then hold on each side, not together ("+mend+")",
			"server", c.addr, "version", field(server, "redis_version"), "replicas", replicas, "min_replicas_to_write", atLeast)
	}
}

// setting is the value in the reply to a CONFIG GET; empty when the server has
// no such setting.
func setting(r rueidis.RedisResult) (string, error) {
	pairs, err := r.AsStrMap()
	for _, value := range pairs {
		return value, nil
	}
	return "", err
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
