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

//go:embed rights.lua
var rightsText string

// rights is what has been said of what the user of a server may not do. A
// right that only some algorithms need fails their checks alone, and the
// server does not pass for down: it is the log that tells which one is missing.
// Its zero value is ready for use by many goroutines.
type rights struct {
	mu   sync.Mutex
	told string    // what was last found missing
	next time.Time // when a check that is refused has it looked at again
}

// rightsEvery is how often checks that are refused have the rights looked at.
const rightsEvery = 10 * time.Second

// due reports whether to look again, and if so not again for a while.
func (r *rights) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		return false
	}
	r.next = now.Add(rightsEvery)
	return true
}

// news reports whether what is missing has changed, and something is.
func (r *rights) news(missing string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := missing != r.told
	r.told = missing
	return changed && missing != ""
}

// askRights is the command that finds out what the user may not do. It is sent
// as text: there is no second call.
func (d *dialer) askRights(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(rightsText).Numkeys(0).Arg(d.opts.Prefix + ":rights").Build()
}

// warnOfRights tells of rights that are missing. What the server does not
// answer is not held against it.
func (d *dialer) warnOfRights(l *link, result rueidis.RedisResult, known *rights) {
	missing, err := result.ToString()
	if err == nil && known.news(missing) {
		d.log.Warn("the user of the store may not call commands that checks need: those checks fail (grant them, or +@read +@write on the keys below the prefix)",
			"server", l.addr, "user", cmp.Or(d.shown().username, "default"), "missing", missing)
	}
}

// lacksRight reports whether a server refused a call for lack of a right.
func lacksRight(err error) bool {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && codeOf(answer.Error()) == "NOPERM"
}

// refusedRight has a look at the rights, after a check that was refused one.
func (n *node) refusedRight(l *link) {
	if !n.warned.rights.due(time.Now()) {
		return
	}
	n.dialer.background(func() {
		if !l.enter() {
			return
		}
		defer l.leave()
		ctx, cancel := context.WithTimeout(l.ctx, n.dialer.opts.Timeout)
		defer cancel()
		n.dialer.warnOfRights(l, l.client.Do(ctx, n.dialer.askRights(l.client.B())), &n.warned.rights)
	})
}
