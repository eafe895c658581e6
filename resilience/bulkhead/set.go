package bulkhead

import (
	"context"
	"sync"
)

// SetOptions says which bulkheads a [Set] makes.
type SetOptions struct {
	// Each is for every name that For does not change.
	Each Options

	// For returns the options of one name, given Each. Options that cannot be
	// fail the calls of that name. The whole set waits for it: it must be
	// quick, and may not use the set. Defaults to Each for all.
	For func(name string, each Options) Options

	// MaxNames is how many names the set knows at once, so that names which
	// come from outside, such as hosts, cannot fill the memory. When there
	// are more, one that nobody uses is forgotten, with what it counted.
	// Defaults to 1024.
	MaxNames int
}

const defaultMaxNames = 1024

// Set is a bulkhead for each name: the places of one dependency are not those
// of another. Make one with [NewSet]. It is safe for use by many goroutines at
// once.
type Set struct {
	options SetOptions

	mu      sync.Mutex
	members map[string]*Bulkhead // guarded by mu
}

// NewSet returns a set without names. The error names every option that cannot
// be.
func NewSet(o SetOptions) (*Set, error) {
	if o.MaxNames == 0 {
		o.MaxNames = defaultMaxNames
	}
	if err := unless(o.MaxNames > 0, "MaxNames: is %d, which is below 0", o.MaxNames); err != nil {
		return nil, err
	}
	if err := o.Each.check(); err != nil && o.For == nil {
		return nil, err
	}
	return &Set{options: o, members: map[string]*Bulkhead{}}, nil
}

// Acquire is [Bulkhead.Acquire] of the name's bulkhead.
func (s *Set) Acquire(ctx context.Context, name string) (*Slot, error) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Usage, len(s.members))
	for name, b := range s.members {
		all[name] = b.Usage()
	}
	return all
}

// join returns the name's bulkhead, which is not forgotten before its caller
// leaves.
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

// forgetLocked forgets a name that nobody uses, and reports whether there was
// one.
func (s *Set) forgetLocked() bool {
	for name, b := range s.members {
		if b.users == 0 {
			delete(s.members, name)
			return true
		}
	}
	return false
}

// leave is the end of what join began. A nil set has no names.
func (s *Set) leave(b *Bulkhead) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
}
