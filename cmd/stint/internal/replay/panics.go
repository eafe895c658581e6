package replay

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// PanicError is a panic in a replay, such as while a line is read. The replay fails with it, and the
// program goes on: a server replays what callers send.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error returns the text of the panic without its stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("replay: panic: %v (this is a defect of stint; report it with the recording)", e.Value)
}

// panics ends a replay at the first panic in one of its goroutines.
type panics struct {
	end   context.CancelFunc
	first atomic.Pointer[PanicError]
}

// catch ends the replay if the goroutine that defers it panics.
func (p *panics) catch() {
	if value := recover(); value != nil {
		p.first.CompareAndSwap(nil, &PanicError{value, debug.Stack()})
		p.end()
	}
}

// any reports whether a goroutine has panicked.
func (p *panics) any() bool { return p.first.Load() != nil }

// guarded calls run, and returns its error or the first panic in it or in a goroutine that defers
// catch.
func guarded(ctx context.Context, run func(context.Context, *panics) error) (err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	p := &panics{end: end}
	defer func() {
		if first := p.first.Load(); first != nil {
			err = first
		}
	}()
	defer p.catch()
	return run(ctx, p)
}
