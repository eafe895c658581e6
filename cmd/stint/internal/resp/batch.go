package resp

import (
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// The bounds of the work of one connection.
const (
	maxBatch = 256      // claims in one call of the store
	maxOut   = 16 << 10 // bytes of answers after which they are written; the last may exceed this
)

// work holds the claims, decisions and answers of a connection while it processes
// commands. It is pooled, so that an idle connection holds none of it. Each command is one
// claim of a group of its own, so the groups are made once.
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

// throttle queues a CL.THROTTLE. The queue is decided when it is full, before any
// other command, and when no further command has arrived.
func (c *conn) throttle(args [][]byte) {
	w := c.work
	if err := c.readThrottle(args, &w.claims[w.n]); err != nil {
		c.decide() // answers keep the order of the commands
		c.server.options.Decider.Reject(true)
		c.fail(err)
		return
	}
	w.n++
	if w.n == maxBatch {
		c.decide()
	}
}

// decide decides the queued claims by one call of the store, and answers them. It reports
// the first failure only: when the store fails, all claims fail alike.
func (c *conn) decide() {
	w, o := c.work, &c.server.options
	n := w.n
	if n == 0 {
		return
	}
	w.n = 0
	errs, err := o.Decider.TakeGroups(c.server.base, w.started, "", w.groups[:n], w.decisions[:n])
	var failure error
	for i := range w.decisions[:n] {
		if errs != nil {
			err = errs[i]
		}
		if err == nil {
			w.out = appendDecision(w.out, &w.decisions[i])
			continue
		}
		c.fail(err)
		if failure == nil && decide.IsFailure(err) {
			failure = err
		}
	}
	if failure != nil && o.Failed != nil {
		o.Failed(failure)
	}
	c.flushIfLong()
}

// fail answers a command with an error.
func (c *conn) fail(err error) {
	c.work.out = appendError(c.work.out, errorText(err))
}
