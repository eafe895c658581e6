package simulate

import (
	"context"
	"iter"
	"time"
)

// Loop is a clock and what is to happen by it. The zero value stands at 0.
type Loop struct {
	now    time.Duration
	events events
	count  int
}

// Now is the virtual time.
func (l *Loop) Now() time.Duration { return l.now }

// At calls f at a time, after what was asked for that time before.
func (l *Loop) At(t time.Duration, f func()) {
	l.count++
	l.events.push(event{max(t, l.now), l.count, f})
}

// Run goes on until nothing is left to happen.
func (l *Loop) Run() {
	for len(l.events) > 0 {
		e := l.events.pop()
		l.now = e.at
		e.f()
	}
}

// Go starts a task at a time. Tasks take turns: each runs until it sleeps.
func (l *Loop) Go(at time.Duration, f func(*Task)) {
	l.At(at, func() {
		t := &Task{loop: l}
		next, _ := iter.Pull(func(yield func(struct{}) bool) {
			t.yield = yield
			f(t)
		})
		t.resume = func() { next() }
		t.resume()
	})
}

// Task is a thread of virtual time.
type Task struct {
	loop   *Loop
	resume func()
	yield  func(struct{}) bool
}

// Sleep lets others run until the time has passed.
func (t *Task) Sleep(d time.Duration) {
	t.loop.At(t.loop.now+max(0, d), t.resume)
	t.yield(struct{}{})
}

// Park lets others run until one of them calls wake, once.
func (t *Task) Park(park func(wake func())) {
	park(func() { t.loop.At(t.loop.now, t.resume) })
	t.yield(struct{}{})
}

// epoch is 0 as a moment. It lies so far ahead that no deadline in virtual
// time has passed by the system's clock.
func epoch() time.Time { return time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) }

// clock is the loop's time for a retry.Policy.
type clock struct{ loop *Loop }

func (c clock) Now() time.Time { return epoch().Add(c.loop.now) }

func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	taskOf(ctx).Sleep(d)
	return ctx.Err()
}

// life is the context of a call: its task, and when its time is over.
type life struct {
	context.Context //nolint:containedctx // it is one

	task *Task
	end  time.Duration
}

func (l *life) Deadline() (time.Time, bool) { return epoch().Add(l.end), true }

func (l *life) Err() error {
	if l.task.loop.now >= l.end {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *life) Value(key any) any {
	if key == (taskKey{}) {
		return l.task
	}
	return l.Context.Value(key)
}

type taskKey struct{}

func taskOf(ctx context.Context) *Task {
	return ctx.Value(taskKey{}).(*Task) //nolint:forcetypeassert // every call here has one
}
