package redisstore

import (
	"sync"
	"time"
)

// clocks compares the clocks of the store and of this node from heartbeat to
// heartbeat, and logs what an operator should know of them: once for each change.
type clocks struct {
	epoch time.Time // what the steady clock of readings counts from

	mu     sync.Mutex
	last   reading // guarded by mu
	known  bool    // guarded by mu: there is a last
	skewed bool    // guarded by mu: and logged
}

// reading is the clocks at one moment, as far as a round trip lets them be
// known.
type reading struct {
	store  time.Duration // since the Unix epoch
	steady time.Duration // this process's steady clock
	skew   time.Duration // how far the store's clock is ahead of the node's
	unsure time.Duration // half of the round trip
}

const (
	// skewMatters is how far the clock of a node that decides by it may be off.
	skewMatters = 100 * time.Millisecond
	// jumpMatters is how far the store's clock may go back between heartbeats.
	jumpMatters = 100 * time.Millisecond
)

func (c *clocks) compare(d *dialer, now reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		c.warnOfJump(d, now)
	}
	if d.opts.Clock != nil {
		c.warnOfSkew(d, now)
	}
	c.last, c.known = now, true
}

// warnOfJump warns when the store's clock has gone back: it was set, or another
// server is the master now.
func (c *clocks) warnOfJump(d *dialer, now reading) {
	back := (now.steady - c.last.steady) - (now.store - c.last.store)
	if back-now.unsure-c.last.unsure < jumpMatters {
		return
	}
	d.log.Warn("the clock of the store went back: callers that it has counted wait longer by that time, once (keep the clocks of all servers in step)",
		"back", back.Round(time.Millisecond))
}

// warnOfSkew warns of a node whose own clock decides and is not the store's.
func (c *clocks) warnOfSkew(d *dialer, now reading) {
	off := now.skew.Abs() - now.unsure
	switch {
	case !c.skewed && off >= skewMatters:
		c.skewed = true
		d.log.Warn("this node decides by its own clock, which is not in step with the store's: a node that is ahead gains what refills in that time, and starves the keys that it charges on every other node for as long (keep clocks in step, or let the store's clock decide)",
			"node_ahead", -now.skew.Round(time.Millisecond))
	case c.skewed && off < skewMatters/2:
		c.skewed = false
		d.log.Info("this node's clock is in step with the store's again", "node_ahead", -now.skew.Round(time.Millisecond))
	}
}
