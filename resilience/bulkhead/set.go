package bulkhead

import (
	"cmp"
	"context"
	"sync"

	"github.com/stintdev/stint/resilience/internal/check"
)

// SetOptions says which bulkheads a [Set] makes.
type SetOptions struct {
	// Each is the options of every name, unless For changes them.
	Each Options

	// For returns the options of one name, given Each. If they are invalid, the calls of
	// that name fail. For runs under the set's lock: it must be quick and must not use
	// the set. Nil: Each for every name.
	For func(name string, each Options) Options

	// MaxNames bounds the names that the set holds, so that names from outside, such as
	// hosts, cannot fill the memory. When a new name would exceed it, the set drops a
	// name that is not in use, with its counts. Defaults to 1024.
	MaxNames int
}

// Set has a bulkhead for each name, so that each dependency has its own places. Make one
// with [NewSet]; the zero value refuses every call, and a nil *Set lets every call
// through. It is safe for concurrent use.
type Set struct {
	options SetOptions

	mu      sync.Mutex
	members map[string]*Bulkhead // guarded by mu
}

// NewSet returns a set without names. The error lists every invalid option.
func NewSet(o SetOptions) (*Set, error) {
	o.MaxNames = cmp.Or(o.MaxNames, 1024)
	if err := check.Unless(o.MaxNames > 0, "bulkhead: MaxNames: is %d, which is below 0", o.MaxNames); err != nil {
		return nil, err
	}
	if err := o.Each.check(); err != nil && o.For == nil {
		return nil, err
	}
	return &Set{options: o, members: map[string]*Bulkhead{}}, nil
}

// Acquire is [Bulkhead.Acquire] of the name's bulkhead.
func (s *Set) Acquire(ctx context.Context, name string) (*Slot, error) {
	if s == nil {
		return (*Bulkhead)(nil).Acquire(ctx)
	}
	b, err := s.join(name)
	if err != nil {
		return nil, err
	}
	slot, err := b.Acquire(ctx)
	if err != nil {
		s.leave(b)
		return nil, err
	}
	return slot, nil
}

// DoNamed is [Do] with the name's bulkhead.
func DoNamed[T any](ctx context.Context, s *Set, name string, f func(context.Context) (T, error)) (v T, err error) {
	slot, err := s.Acquire(ctx, name)
	if err != nil {
		return v, err
	}
	defer slot.Release()
	return f(ctx)
}

// Do is [Bulkhead.Do] with the name's bulkhead.
func (s *Set) Do(ctx context.Context, name string, f func(context.Context) error) error {
	slot, err := s.Acquire(ctx, name)
	if err != nil {
		return err
	}
	defer slot.Release()
	return f(ctx)
}

// Usage returns the usage of every name that the set knows.
func (s *Set) Usage() map[string]Usage {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Usage, len(s.members))
	for name, b := range s.members {
		all[name] = b.Usage()
	}
	return all
}

// join returns the name's bulkhead. The set keeps it until the caller calls leave.
func (s *Set) join(name string) (*Bulkhead, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.members[name]
	if !ok {
		made, err := s.addLocked(name)
		if err != nil {
			return nil, err
		}
		b = made
	}
	b.users++
	return b, nil
}

func (s *Set) addLocked(name string) (*Bulkhead, error) {
	o := s.options.Each
	if s.options.For != nil {
		o = s.options.For(name, o)
	}
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	if len(s.members) >= s.options.MaxNames && !s.forgetLocked() {
		return nil, &RefusedError{Name: name, Reason: ErrNames, Limit: o.Limit}
	}
	b.name, b.set = name, s
	s.members[name] = b
	return b, nil
}

// forgetLocked drops a name that is not in use, and reports whether there was one.
func (s *Set) forgetLocked() bool {
	for name, b := range s.members {
		if b.users == 0 {
			delete(s.members, name)
			return true
		}
	}
	return false
}

// leave ends the use of a bulkhead that join began. On a nil set it does nothing.
func (s *Set) leave(b *Bulkhead) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
}
