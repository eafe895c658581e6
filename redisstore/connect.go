package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// dialing is a connection attempt that several calls may wait for.
type dialing struct {
	done chan struct{}
	link *link // set before done is closed
	err  error
}

// connected returns an entered link, and connects if there is none. It waits at most
// until ctx ends. The caller must leave the link when it is done.
func (n *node) connected(ctx context.Context, probe bool) (*link, error) {
	for {
		l := n.link.Load()
		if l == nil {
			var err error
			if l, err = n.connect(ctx, probe); err != nil {
				return nil, err
			}
		}
		if l.enter() {
			return l, nil
		}
	}
}

// connect starts or joins a connection attempt and waits for its result.
func (n *node) connect(ctx context.Context, probe bool) (*link, error) {
	d := n.dial(probe)
	if d == nil {
		return nil, n.refusal()
	}
	select {
	case <-d.done:
		return d.link, d.err
	case <-ctx.Done():
		return nil, n.unconnected(ctx)
	}
}

// unconnected returns the error of a call whose time ended before there was a
// connection. If the caller's own deadline ended it, the error does not blame the
// server.
func (n *node) unconnected(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errOverdue) {
		return n.dialer.explain(errOverdue, n.place())
	}
	e := ended(ctx, "no connection to the server "+n.place()+" in the caller's time: nothing was charged")
	e.Kind, e.Mend = "connection", "see whether the server and the network are well, or allow more time"
	return e
}

// explain returns the error that a caller gets for a failed call. A link reconnects by
// itself, within the time of the call. A failed reconnection therefore does not mean
// that the server is down if the caller had little time.
func (n *node) explain(ctx context.Context, err error, l *link) error {
	if _, never := errors.AsType[*notConnected](err); never && timedOut(err) && over(ctx) {
		return n.unconnected(ctx)
	}
	return n.dialer.explain(err, l.addr)
}

// over reports whether ctx has ended. If the deadline has passed but the context's
// timer is late, over waits for it.
func over(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// dial joins the connection attempt in progress, or starts one. It returns nil if the
// node is closed, or if it is stopped and probe is not set.
func (n *node) dial(probe bool) *dialing {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.closed, n.stopped.Load() && !probe:
		return nil
	case n.mu.dialing == nil:
		d := &dialing{done: make(chan struct{})}
		if l := n.link.Load(); l != nil {
			d.link = l
			close(d.done)
			return d
		}
		if !n.dialer.background(func() { n.establish(d) }) {
			return nil
		}
		n.mu.dialing = d
	}
	return n.mu.dialing
}

// establish runs a connection attempt and wakes the calls that wait for it.
func (n *node) establish(d *dialing) {
	defer close(d.done)
	ctx, cancel := context.WithTimeout(context.Background(), n.dialer.opts.Timeout)
	defer cancel()
	addr, err := n.resolve(ctx)
	if err != nil {
		n.made(d, nil, err)
		return
	}
	l := newLink(addr)
	if !n.begin(d, l) {
		d.err = n.refusal()
		return
	}
	n.made(d, l, n.dialer.open(l, &n.warned))
}

// begin stores the link of an attempt, so that stop can cut it. It returns false if
// the attempt has been aborted.
func (n *node) begin(d *dialing, l *link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.link = l
	return n.mu.dialing == d
}

func (n *node) made(d *dialing, l *link, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.dialing != d:
		err = errCut
	case err == nil:
		n.link.Store(l)
	}
	if n.mu.dialing == d {
		n.mu.dialing = nil
	}
	if err == nil {
		return
	}
	addr := n.place()
	if l != nil {
		addr = l.addr
		n.dialer.drop(l)
	}
	d.link, d.err = nil, n.dialer.explain(unsent(err), addr)
}

// unsent marks an error of connecting, which means that no call was sent.
func unsent(err error) error {
	if _, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return err
	}
	return &notConnected{err}
}
