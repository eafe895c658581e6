package bulkhead

import (
	"context"
	"time"
)

// Usage is how a bulkhead is used now, and what it did since it was made.
type Usage struct {
	Limit      int
	InUse      int // places held
	Waiting    int // callers in the queue
	MaxInUse   int // the most that InUse has been
	MaxWaiting int // the most that Waiting has been

	Admitted int64 // calls that got a place
	Full     int64 // refused: no place, and none in the queue
	Waited   int64 // refused: MaxWait was over
	GaveUp   int64 // their context had ended
}

// Usage returns the usage now.
func (b *Bulkhead) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.usage
	u.Limit, u.Waiting = b.options.Limit, b.queue.length
	return u
}

// countAdmitted is for who was granted a place while it waited. It counts late,
// because a caller that has given up by then does not take it.
func (b *Bulkhead) countAdmitted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.Admitted++
}

func (b *Bulkhead) countWaited(d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.Waited++
	return b.refusal(ErrWaited, d)
}

func (b *Bulkhead) gaveUp(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.GaveUp++
	return ctx.Err()
}

func (b *Bulkhead) refusal(why error, waited time.Duration) *RefusedError {
	return &RefusedError{Name: b.name, Reason: why, Limit: b.options.Limit, Waited: waited}
}
