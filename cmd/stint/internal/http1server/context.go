package http1server

import (
	"context"
	"sync"
	"sync/atomic"
)

// requestContext is the context of a request. It ends with the request or the connection.
// Nothing waits for the end of most requests, so what waiting needs is made by the first
// call of Done.
type requestContext struct {
	context.Context //nolint:containedctx // that of the connection, which this one extends

	making sync.Mutex // held while awaited is set
	ended  atomic.Bool
	inner  atomic.Pointer[awaited] // nil: nothing has waited
}

type awaited struct {
	context.Context //nolint:containedctx // the one that something waits for

	cancel context.CancelFunc
}

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	if a := c.inner.Load(); a != nil {
		return a.Done()
	}
	c.making.Lock()
	defer c.making.Unlock()
	a := c.inner.Load()
	if a == nil {
		a = &awaited{}
		a.Context, a.cancel = context.WithCancel(c.Context)
		c.inner.Store(a)
		if c.ended.Load() { // if not, end finds a
			a.cancel()
		}
	}
	return a.Done()
}

// Err implements [context.Context].
func (c *requestContext) Err() error {
	if a := c.inner.Load(); a != nil {
		return a.Err()
	}
	if err := c.Context.Err(); err != nil || !c.ended.Load() {
		return err
	}
	return context.Canceled
}

// Value implements [context.Context]. By a value, package context finds the context to which
// it adds others.
func (c *requestContext) Value(key any) any {
	if a := c.inner.Load(); a != nil {
		return a.Value(key)
	}
	return c.Context.Value(key)
}

// end ends the context.
func (c *requestContext) end() {
	c.ended.Store(true)
	if a := c.inner.Load(); a != nil {
		a.cancel()
	}
}
