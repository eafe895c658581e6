package redisstore

import (
	"sync"
	"time"
)

// clocks compares the clock of the store with that of this node at each heartbeat. It
// logs a jump and a skew that change decisions, each change once.
type clocks struct {
	epoch time.Time // start of the monotonic clock of readings

	mu     sync.Mutex
	last   reading // guarded by mu
	known  bool    // guarded by mu: last is set
	skewed bool    // guarded by mu: a skew was logged
}

// reading is one measurement of the clocks, exact to half a round trip.
type reading struct {
	store  time.Duration // since the Unix epoch
	steady time.Duration // this process's monotonic clock
	skew   time.Duration // how far the store's clock is ahead of the node's
	unsure time.Duration // half of the round trip
}

const (
	// maxSkew is the skew from which a node that decides by its own clock warns.
	maxSkew = 100 * time.Millisecond
	// maxJump is the backward step of the store's clock, between heartbeats, from which
	// it warns.
	maxJump = 100 * time.Millisecond
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

// warnOfJump warns if the store's clock went back: somebody set it, or another server
// became the master.
func (c *clocks) warnOfJump(d *dialer, now reading) {
	back := (now.steady - c.last.steady) - (now.store - c.last.store)
	if back-now.unsure-c.last.unsure < maxJump {
		return
	}
	d.log.Warn("the store's clock went back: callers that were charged before wait longer by that time, once (keep the clocks of all servers in step)",
		"back", back.Round(time.Millisecond))
}

// warnOfSkew warns if this node decides by its own clock and that clock differs from the
// store's.
func (c *clocks) warnOfSkew(d *dialer, now reading) {
	off := now.skew.Abs() - now.unsure
	switch {
	case !c.skewed && off >= maxSkew:
		c.skewed = true
		d.log.Warn("this node decides by its own clock, which differs from the store's: a node that is ahead grants early what refills in that time, and all other nodes deny the keys that it charged for as long (keep clocks in step, or let the store's clock decide)",
			"node_ahead", -now.skew.Round(time.Millisecond))
	case c.skewed && off < maxSkew/2:
		c.skewed = false
		d.log.Info("this node's clock is in step with the store's again", "node_ahead", -now.skew.Round(time.Millisecond))
	}
}
