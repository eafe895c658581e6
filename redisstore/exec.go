package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the server names scripts by it; it protects nothing
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// invocation is one call of a script. On a Cluster it has at least one key, and all its
// keys are in one slot.
type invocation struct {
	script *script
	keys   []string
	args   []string
	claims int // decided by the call
	// replicas is how many replicas must confirm the charges of the call before its
	// reply counts. The other calls of the batch wait with it.
	replicas uint8
	// charged, if not nil, is called after the server has charged something and
	// before the wait for replicas.
	charged func()
}

func (i *invocation) noteCharged() {
	if i.charged != nil {
		i.charged()
	}
}

// reply is the result of an invocation: the script's text, or an error. The error of a
// batch is an [*stint.Error] for the callers. Its codes CodeTimeout and CodeCanceled mean
// that the script may have run; CodeUnavailable means that it has not.
//
// If too few replicas confirmed a charge in time, there is data and no error: acked has
// their number.
type reply struct {
	data  string
	acked int
	err   error
}

// mayHaveRun reports whether a script may have run although its call failed.
func mayHaveRun(err error) bool {
	var e *stint.Error
	return !errors.As(err, &e) || e.Code == stint.CodeTimeout || e.Code == stint.CodeCanceled
}

// script is a Lua program.
type script struct {
	text string
	sha  string // the script's name for EVALSHA
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// exec sends the calls in one write, in order, and reads one reply each. If the server
// has lost a script, it has not run it, and exec sends that call again with the script's
// text. exec does not explain errors.
func (c *conn) exec(ctx context.Context, d *dialer, calls []invocation, replies []reply) {
	if len(calls) == 1 && calls[0].replicas == 0 {
		c.execOne(ctx, d, &calls[0], &replies[0])
		return
	}
	c.sendAll(ctx, d, calls, replies, evalsha)
	var again []invocation // calls whose script the server has lost
	var at []int
	for i := range replies {
		if err := replies[i].err; err != nil && lacksScript(err) {
			again, at = append(again, calls[i]), append(at, i)
		}
	}
	if len(again) == 0 {
		return
	}
	d.noScript.Add(int64(len(again)))
	answers := make([]reply, len(again))
	c.sendAll(ctx, d, again, answers, eval)
	for i, a := range answers {
		replies[at[i]] = a
	}
}

// execOne is exec for a batch of one call without replicas, the most common case.
func (c *conn) execOne(ctx context.Context, d *dialer, call *invocation, r *reply) {
	r.data, r.err = textOf(c.client.Do(ctx, evalsha(c.client.B(), call)))
	if r.err != nil && lacksScript(r.err) {
		d.noScript.Add(1)
		r.data, r.err = textOf(c.client.Do(ctx, eval(c.client.B(), call)))
	}
}

// ask runs one call behind ASKING, which lets it use a slot that this server is still
// importing.
func (c *conn) ask(ctx context.Context, d *dialer, call *invocation, r *reply) {
	for _, build := range []builder{evalsha, eval} {
		b := c.client.B()
		results := c.client.DoMulti(ctx, b.Asking().Build(), build(b, call))
		if r.data, r.err = textOf(results[1]); r.err == nil || !lacksScript(r.err) {
			break
		}
		d.noScript.Add(1)
	}
	if call.replicas > 0 && charged(r) {
		call.noteCharged()
		r.acked = c.awaitReplicas(ctx, d, call, asking)
	}
}

// builder makes the command of a call.
type builder func(rueidis.Builder, *invocation) rueidis.Completed

func evalsha(b rueidis.Builder, i *invocation) rueidis.Completed {
	return b.Evalsha().Sha1(i.script.sha).Numkeys(int64(len(i.keys))).Key(i.keys...).Arg(i.args...).Build()
}

func eval(b rueidis.Builder, i *invocation) rueidis.Completed {
	return b.Eval().Script(i.script.text).Numkeys(int64(len(i.keys))).Key(i.keys...).Arg(i.args...).Build()
}

// sendAll sends the calls. If a call that asks for replicas charged something, it then
// waits for the replicas.
func (c *conn) sendAll(ctx context.Context, d *dialer, calls []invocation, replies []reply, build builder) {
	commands := make(rueidis.Commands, 0, len(calls))
	for i := range calls {
		commands = append(commands, build(c.client.B(), &calls[i]))
	}
	for i, result := range c.client.DoMulti(ctx, commands...) {
		replies[i].data, replies[i].err = textOf(result)
	}
	last := lastCharged(calls, replies)
	if last < 0 {
		return
	}
	acked := c.awaitReplicas(ctx, d, &calls[last], !asking)
	for i := range replies {
		replies[i].acked = acked
	}
}

// lastCharged returns the index of the last call that asks for replicas and charged
// something, and -1 if there is none. It marks all such calls as charged.
func lastCharged(calls []invocation, replies []reply) (last int) {
	last = -1
	for i := range calls {
		if calls[i].replicas > 0 && charged(&replies[i]) {
			calls[i].noteCharged()
			last = i
		}
	}
	return last
}

// charged reports whether a script's reply says that it charged a caller. Every
// script for checks replies with that count after the time.
func charged(r *reply) bool {
	if r.err != nil {
		return false
	}
	_, allowed, _, err := readHead([]byte(r.data), 0)
	return err == nil && allowed > 0
}

// asking marks a call whose slot the server is still importing.
const asking = true

// awaitReplicas waits until the number of replicas that a call asks for have all writes of
// the server so far. It returns how many replicas have them, or 0 if the server does not
// say in time.
//
// The wait is a separate round trip, so that a call that charges nothing does not
// wait and a slow replica does not look like a slow server. WAIT covers only the
// writes of its own connection, and the call may have used another one. Replicas
// receive all writes in one order, so a dummy write just before the WAIT covers all
// earlier writes.
func (c *conn) awaitReplicas(ctx context.Context, d *dialer, call *invocation, asking bool) int {
	// An idle server checks for the expired timeout of a WAIT only ten times a second,
	// unless a command arrives.
	nudge := time.AfterFunc(d.opts.ReplicaTimeout+time.Millisecond, func() {
		_ = c.client.Do(ctx, c.client.B().Ping().Build()).Error() // the reply does not matter
	})
	defer nudge.Stop()
	b, commands := c.client.B(), rueidis.Commands(nil)
	if asking {
		commands = append(commands, b.Asking().Build())
	}
	ms := max(1, d.opts.ReplicaTimeout.Milliseconds()) // 0 would wait forever
	commands = append(commands,
		b.Psetex().Key(call.keys[0]+waitSuffix).Milliseconds(1).Value("").Build(),
		b.Wait().Numreplicas(int64(call.replicas)).Timeout(ms).Build())
	results := c.client.DoMulti(ctx, commands...)
	if results[len(results)-2].Error() != nil {
		return 0
	}
	acked, _ := results[len(results)-1].AsInt64() // 0 if the server refused WAIT
	return int(acked)
}

// waitSuffix turns a key of a call into a key of the same slot that no claim has. The
// last part of a claim's key is a hash, which has no colon.
const waitSuffix = ":wait"

// textOf returns the text that a script returned. Any other type of reply is a bug and
// not a connection error.
func textOf(r rueidis.RedisResult) (string, error) {
	m, err := r.ToMessage()
	if err != nil {
		return "", err
	}
	text, err := m.ToString()
	if err != nil {
		err = &stint.Error{Code: stint.CodeInternal, Kind: "reply", Problem: "a script returned something other than text", Err: err}
	}
	return text, err
}

func lacksScript(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}
