package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redirection is the answer of a Cluster node that did not run a call, because
// another node owns the slot or the slot migrates.
type redirection struct {
	slot   uint16
	addr   string
	asking bool // ASK: the slot migrates to addr, which may already have the missing keys
	later  bool // TRYAGAIN: the slot migrates, and each side has some of the call's keys
}

// redirected reads a redirection out of an error of the server at from.
func redirected(err error, from string) (redirection, bool) {
	var answer *rueidis.RedisError
	if err == nil || !errors.As(err, &answer) {
		return redirection{}, false
	}
	words := strings.Fields(answer.Error())
	switch {
	case len(words) > 0 && words[0] == "TRYAGAIN":
		return redirection{later: true}, true
	case len(words) < 3 || words[0] != "MOVED" && words[0] != "ASK":
		return redirection{}, false
	}
	slot, err := strconv.ParseUint(words[1], 10, 14)
	cut := strings.LastIndexByte(words[2], ':') // also right for IPv6, which comes without brackets
	if err != nil || cut < 0 {
		return redirection{}, false
	}
	return redirection{
		slot: uint16(slot), addr: reachable(words[2][:cut], words[2][cut+1:], from), asking: words[0] == "ASK",
	}, true
}

// reachable returns the address of a server that the server at from names. A server
// that does not know its own host leaves the host out. A loopback address from a
// server that is not on loopback is wrong for this process. In both cases the host of
// from replaces it.
func reachable(host, port, from string) string {
	asked, _, err := net.SplitHostPort(from)
	if err == nil && (host == "" || host == "?" || loopback(host) && !loopback(asked)) {
		host = asked
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// route sends the calls of a node that has left the Cluster to the current owners of
// their slots.
func (m *slotMap) route(ctx context.Context, from *node, calls []invocation, replies []reply, hops int) {
	var all []redirect
	for i := range calls {
		all = addTo(all, redirect{to: m.nodeOf(slotOf(calls[i].keys[0]))}, i)
	}
	for _, r := range all {
		if r.to == from {
			r.fail(replies, from.refusal())
			continue
		}
		r.exec(ctx, calls, replies, hops+1)
	}
}

// tooMany bounds how often a call follows redirections before its error is returned.
const tooMany = 8

// redirect sends again the calls that a server did not run, because their slot is at
// another server or migrates.
func (m *slotMap) redirect(ctx context.Context, at redirect, c *conn, calls []invocation, replies []reply, hops int) {
	var all []redirect
	for i := range replies {
		r, ok := redirected(replies[i].err, c.addr)
		switch {
		case !ok:
		case r.later:
			all = addTo(all, redirect{to: at.to, asking: at.asking, later: true}, i)
		case hops < tooMany:
			all = addTo(all, redirect{to: m.ownerFrom(r), asking: r.asking}, i)
		}
	}
	for _, r := range all {
		if r.asking {
			r.to.introduce(ctx, calls[r.calls[0]].keys[0])
		}
		if !r.later {
			r.exec(ctx, calls, replies, hops+1)
		} else if pause(ctx) {
			r.exec(ctx, calls, replies, hops)
		}
	}
}

// ownerFrom returns the node that a redirection names. MOVED changes the map; ASK concerns
// only one call.
func (m *slotMap) ownerFrom(r redirection) *node {
	n := m.nodeAt(r.addr)
	if !r.asking {
		m.owners[r.slot].Store(n)
		m.stale.Store(true)
	}
	return n
}

// pause waits before another try on a migrating slot. It returns false if ctx ends
// first.
func pause(ctx context.Context) bool {
	t := time.NewTimer(5 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// redirect is a set of calls that are redirected together.
type redirect struct {
	to     *node
	asking bool  // with ASKING, because the node is importing the slot
	later  bool  // after a pause, because the slot's migration must proceed
	calls  []int // indexes of the calls
}

// addTo adds call i to the set with the same destination, or to a new set.
func addTo(all []redirect, way redirect, i int) []redirect {
	at := slices.IndexFunc(all, func(r redirect) bool { return r.to == way.to && r.asking == way.asking && r.later == way.later })
	if at < 0 {
		at = len(all)
		all = append(all, way)
	}
	all[at].calls = append(all[at].calls, i)
	return all
}

func (r *redirect) exec(ctx context.Context, calls []invocation, replies []reply, hops int) {
	some, answers := make([]invocation, len(r.calls)), make([]reply, len(r.calls))
	for i, at := range r.calls {
		some[i] = calls[at]
	}
	r.to.exec(ctx, some, answers, hops, r.asking)
	for i, at := range r.calls {
		replies[at] = answers[i]
	}
}

func (r *redirect) fail(replies []reply, err error) {
	for _, at := range r.calls {
		replies[at] = reply{err: err}
	}
}
