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
var rightsText string

// missingRights records which missing permissions of a server's user have been logged. A
// missing permission that only some algorithms need fails only their checks, and the
// server does not count as down, so a log line names the missing permission. The
// zero value is ready for use and safe for concurrent use.
type missingRights struct {
	mu   sync.Mutex
	told string    // the missing permissions that were found last
	next time.Time // earliest time of the next look after a refused check
}

// rightsEvery is the shortest interval between looks that refused checks cause.
const rightsEvery = 10 * time.Second

// due reports whether to look again, and sets the time of the next look if so.
func (m *missingRights) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.next) {
		return false
	}
	m.next = now.Add(rightsEvery)
	return true
}

// news stores what is missing, and reports whether that has changed and is not empty.
func (m *missingRights) news(missing string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := missing != m.told
	m.told = missing
	return changed && missing != ""
}

// askRights is the command that finds out what the user may not do. It is sent
// as text: there is no second call.
func (d *dialer) askRights(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(rightsText).Numkeys(0).Arg(d.opts.Prefix + ":rights").Build()
}

// warnOfRights logs missing permissions. If the server does not answer, it logs nothing.
func (d *dialer) warnOfRights(c *conn, result rueidis.RedisResult, known *missingRights) {
	missing, err := result.ToString()
	if err == nil && known.news(missing) {
		d.log.Warn("the user of the store may not call commands that checks need: those checks fail (grant them, or +@read +@write on the keys below the prefix)",
			"server", c.addr, "user", cmp.Or(d.shown().username, "default"), "missing", missing)
	}
}

// lacksRight reports whether a server refused a call for lack of a right.
func lacksRight(err error) bool {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && codeOf(answer.Error()) == "NOPERM"
}

// refusedRight checks the permissions in the background after a refused check.
func (n *node) refusedRight(c *conn) {
	if !n.warned.rights.due(time.Now()) {
		return
	}
	n.dialer.background(func() {
		if !c.enter() {
			return
		}
		defer c.leave()
		ctx, cancel := context.WithTimeout(c.ctx, n.dialer.opts.Timeout)
		defer cancel()
		n.dialer.warnOfRights(c, c.client.Do(ctx, n.dialer.askRights(c.client.B())), &n.warned.rights)
	})
}
