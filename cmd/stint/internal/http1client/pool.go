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
	if !p.armed {
		p.sweepLocked(p.timeout)
	}
}

// sweepLocked schedules the next sweep.
func (p *pool) sweepLocked(after time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(after, p.sweep)
		return
	}
	p.timer.Reset(after)
}

// sweep closes the connections that have been idle for the timeout, and schedules the next
// sweep for when the next one will have been.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	next := p.timeout
	for host, all := range p.hosts {
		all = slices.DeleteFunc(all, func(c *conn) bool {
			left := p.timeout - time.Since(c.since)
			if left <= 0 {
				c.close()
				return true
			}
			next = min(next, left)
			return false
		})
		if len(all) == 0 {
			delete(p.hosts, host)
			continue
		}
		p.hosts[host] = all
		p.armed = true
	}
	if p.armed {
		p.sweepLocked(next)
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
