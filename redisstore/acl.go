package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

//go:embed acl.lua
var aclText string

// aclState records which missing permissions of a server's user have been logged. A
// missing permission that only some algorithms need fails only their checks, and the
// server does not count as down, so a log line names the missing permission. The
// zero value is ready for use and safe for concurrent use.
type aclState struct {
	mu      sync.Mutex
	missing string    // the missing permissions that were found last
	next    time.Time // earliest time of the next look after a refused check
}

// aclInterval is the shortest interval between looks that refused checks cause.
const aclInterval = 10 * time.Second

// due reports whether to look again, and sets the time of the next look if so.
func (a *aclState) due(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.next) {
		return false
	}
	a.next = now.Add(aclInterval)
	return true
}

// changed stores what is missing, and reports whether that has changed and is not empty.
func (a *aclState) changed(missing string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := missing != a.missing
	a.missing = missing
	return changed && missing != ""
}

// aclCommand is the command that finds out what the user may not do. It is sent
// as text: there is no second call.
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

// deniedByACL reports whether a server refused a call for lack of a right.
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
