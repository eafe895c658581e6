package resp

import (
	"errors"
	"time"

	"github.com/stintdev/stint"
)

// The bounds of the work of one connection.
const (
	maxBatch = 256      // claims in one call of the store
	maxOut   = 16 << 10 // bytes of answers after which they are written; the last may exceed this
)

// work holds the claims, decisions and answers of a connection while it processes
// commands. It is pooled, so that an idle connection holds none of it.
type work struct {
	claims    [maxBatch]stint.Claim
	groups    [maxBatch]stint.Group // one claim each
	decisions [maxBatch]stint.Decision
	n         int // claims that are queued
	out       []byte
	started   time.Time
}

func newWork() any {
	w := &work{out: make([]byte, 0, maxOut+1<<10)}
	for i := range w.groups {
		w.groups[i].Claims = w.claims[i : i+1 : i+1]
	}
	return w
}

// release puts the work back into the pool, without the memory of long answers.
func (s *Server) release(w *work) {
	if cap(w.out) > 4*maxOut {
		w.out = nil
	}
	w.n, w.out = 0, w.out[:0]
	s.works.Put(w)
}

// Batch reports one call of the store.
type Batch struct {
	Took                      time.Duration // from reading the commands to the decisions
	Allowed, Denied, Degraded int           // numbers of decisions; a degraded one counts only as Degraded
}

// throttle queues a CL.THROTTLE. The queue is decided when it is full, before any
// other command, and when no further command has arrived.
func (c *conn) throttle(args [][]byte) {
	w := c.work
	if err := c.readThrottle(args, &w.claims[w.n]); err != nil {
		c.decide() // answers keep the order of the commands
		c.fail(err)
		return
	}
	w.n++
	if w.n == maxBatch {
		c.decide()
	}
}

// decide decides the queued claims by one call of the store, and answers them.
func (c *conn) decide() {
	w := c.work
	n := w.n
	if n == 0 {
		return
	}
	w.n = 0
	out := w.decisions[:n]
	err := c.server.options.Store.TakeGroups(c.server.base, w.groups[:n], out)
	if err == nil {
		for i := range out {
			w.out = appendDecision(w.out, &out[i])
		}
		c.count(out, 0)
	} else {
		c.answerEach(out, err)
	}
	c.flushIfLong()
}

// answerEach answers the claims of a call of the store that failed, for all claims or
// for some.
func (c *conn) answerEach(out []stint.Decision, err error) {
	groups, some := errors.AsType[*stint.GroupsError](err)
	failed, told := 0, false
	for i := range out {
		each := err
		if some {
			each = groups.Errs[i]
		}
		if each == nil {
			c.work.out = appendDecision(c.work.out, &out[i])
			continue
		}
		out[failed], out[i] = out[i], out[failed]
		failed++
		c.fail(each)
		told = told || c.tell(each)
	}
	c.count(out[failed:], failed)
}

// tell reports a store failure to Options.Failed, and returns whether it did.
func (c *conn) tell(err error) bool {
	failed := storeFailure(err)
	if failed == nil || c.server.options.Failed == nil {
		return false
	}
	c.server.options.Failed(failed)
	return true
}

// count reports decisions to Options.Observe.
func (c *conn) count(decisions []stint.Decision, failed int) {
	observe := c.server.options.Observe
	if observe == nil || len(decisions)+failed == 0 {
		return
	}
	b := Batch{Took: time.Since(c.work.started)}
	for i := range decisions {
		switch d := &decisions[i]; {
		case d.Degraded:
			b.Degraded++
		case d.Allowed:
			b.Allowed++
		default:
			b.Denied++
		}
	}
	observe(b)
}

// fail answers a command with an error.
func (c *conn) fail(err error) {
	c.work.out = appendError(c.work.out, errorText(err))
}
