package redisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// run sends the calls in one write, in order, and reads one reply each. Where
// the server has lost a script, and so has not run it, the call is sent once
// more with the script's text. Errors are left as they came.
func (l *link) run(ctx context.Context, d *dialer, calls []invocation, replies []reply) {
	if len(calls) == 1 && calls[0].replicas == 0 {
		l.runOne(ctx, d, &calls[0], &replies[0])
		return
	}
	l.send(ctx, d, calls, replies, evalsha)
	again, at := missing(calls, replies)
	if len(again) == 0 {
		return
	}
	d.noScript.Add(int64(len(again)))
	answers := make([]reply, len(again))
	l.send(ctx, d, again, answers, eval)
	for i, a := range answers {
		replies[at[i]] = a
	}
}

// runOne is run for the call that most flights are.
func (l *link) runOne(ctx context.Context, d *dialer, call *invocation, r *reply) {
	r.data, r.err = textOf(l.client.Do(ctx, evalsha(l.client.B(), call)))
	if r.err != nil && lacksScript(r.err) {
		d.noScript.Add(1)
		r.data, r.err = textOf(l.client.Do(ctx, eval(l.client.B(), call)))
	}
}

// ask is run after the ASKING that lets one call through to a slot that is
// still on its way here.
func (l *link) ask(ctx context.Context, d *dialer, call *invocation, r *reply) {
	for _, build := range []builder{evalsha, eval} {
		b := l.client.B()
		commands := append(rueidis.Commands{b.Asking().Build(), build(b, call)}, l.wait(d, call.replicas)...)
		l.read(l.client.DoMulti(ctx, commands...)[1:], []*reply{r})
		if r.err == nil || !lacksScript(r.err) {
			return
		}
		d.noScript.Add(1)
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

// send sends the calls, and behind them one WAIT for all their writes when one
// asks for replicas.
func (l *link) send(ctx context.Context, d *dialer, calls []invocation, replies []reply, build builder) {
	commands, into, replicas := make(rueidis.Commands, 0, len(calls)+1), make([]*reply, len(calls)), uint8(0)
	for i := range calls {
		commands = append(commands, build(l.client.B(), &calls[i]))
		into[i] = &replies[i]
		replicas = max(replicas, calls[i].replicas)
	}
	commands = append(commands, l.wait(d, replicas)...)
	if replicas > 0 {
		defer l.nudge(ctx, d).Stop()
	}
	l.read(l.client.DoMulti(ctx, commands...), into)
}

// nudge asks the server something when the time of a WAIT is over. One with
// nothing else to do looks only ten times a second whose time is.
func (l *link) nudge(ctx context.Context, d *dialer) *time.Timer {
	return time.AfterFunc(d.opts.ReplicaTimeout+time.Millisecond, func() {
		_ = l.client.Do(ctx, l.client.B().Ping().Build()).Error() // that it was asked is all
	})
}

// wait is the command that waits for replicas; none when none are asked for.
// It goes over the same connection as the writes, whose replication it waits
// for, and nobody else uses that meanwhile.
func (l *link) wait(d *dialer, replicas uint8) rueidis.Commands {
	if replicas == 0 {
		return nil
	}
	ms := max(1, d.opts.ReplicaTimeout.Milliseconds()) // 0 would wait for ever
	return rueidis.Commands{l.client.B().Wait().Numreplicas(int64(replicas)).Timeout(ms).Build()}
}

// read reads the results of calls, and of the WAIT that may follow them. A
// WAIT that is refused has found no replica.
func (l *link) read(results []rueidis.RedisResult, into []*reply) {
	for i, r := range into {
		r.data, r.err = textOf(results[i])
	}
	if len(results) == len(into) {
		return
	}
	acked, _ := results[len(into)].AsInt64()
	for _, r := range into {
		r.acked = int(acked)
	}
}

// textOf is what a script returned. Anything but a text is a bug, and has
// nothing to do with the connection.
func textOf(r rueidis.RedisResult) (string, error) {
	m, err := r.ToMessage()
	if err != nil {
		return "", err
	}
	text, err := m.ToString()
	if err != nil {
		err = &stint.Error{Code: stint.CodeInternal, Kind: "reply", Problem: "a script returned something that is no text", Err: err}
	}
	return text, err
}

// missing returns the calls whose script the server has lost, and where they
// stand.
func missing(calls []invocation, replies []reply) (again []invocation, at []int) {
	for i := range replies {
		if err := replies[i].err; err != nil && lacksScript(err) {
			again, at = append(again, calls[i]), append(at, i)
		}
	}
	return again, at
}

func lacksScript(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}
