package http1client

import (
	"slices"
	"sync"
	"time"
)

// pool holds idle connections. The one that was used last is used next, so that surplus
// connections become idle for long and are closed.
type pool struct {
	most    int // connections of a host
	timeout time.Duration

	mu    sync.Mutex
	hosts map[string][]*conn // the most recently used last
	timer *time.Timer
	armed bool
}

// get removes and returns a connection to the host, or nil.
func (p *pool) get(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.hosts[host]
	if len(all) == 0 {
		return nil
	}
	last := len(all) - 1
	c := all[last]
	all[last] = nil
	p.hosts[host] = all[:last]
	return c
}

// put keeps a connection, or closes it if its host has enough.
func (p *pool) put(c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.hosts[c.host]
	if len(all) >= p.most {
		c.close()
		return
	}
	if p.hosts == nil {
		p.hosts = map[string][]*conn{}
	}
	p.hosts[c.host] = append(all, c)
	p.sweepLaterLocked()
}

// sweepLaterLocked schedules a sweep, unless one is scheduled.
func (p *pool) sweepLaterLocked() {
	switch {
	case p.armed:
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(p.timeout, p.sweep)
	default:
		p.timer.Reset(p.timeout)
	}
	p.armed = true
}

// sweep closes the connections that have been idle for the timeout.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	oldest := time.Now().Add(-p.timeout)
	for host, all := range p.hosts {
		all = slices.DeleteFunc(all, func(c *conn) bool {
			expired := !c.since.After(oldest)
			if expired {
				c.close()
			}
			return expired
		})
		if len(all) == 0 {
			delete(p.hosts, host)
			continue
		}
		p.hosts[host] = all
		p.sweepLaterLocked()
	}
}

func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.hosts {
		for _, c := range all {
			c.close()
		}
	}
	clear(p.hosts)
}
