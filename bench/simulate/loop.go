package simulate

import (
	"context"
	"iter"
	"time"
)

// Loop is a virtual clock and the events to come. The zero value is at time 0.
type Loop struct {
	now    time.Duration
	events events
	count  int
}

// Now returns the virtual time.
func (l *Loop) Now() time.Duration { return l.now }

// At calls f at a time, after earlier events of the same time.
func (l *Loop) At(t time.Duration, f func()) {
	l.count++
	l.events.push(event{max(t, l.now), l.count, f})
}

// Run runs all events.
func (l *Loop) Run() {
	for len(l.events) > 0 {
		e := l.events.pop()
		l.now = e.at
		e.f()
	}
}

// Go starts a task at a time. Tasks take turns: each runs until it sleeps or parks.
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

// Sleep lets other tasks run until the time has passed.
func (t *Task) Sleep(d time.Duration) {
	t.loop.At(t.loop.now+max(0, d), t.resume)
	t.yield(struct{}{})
}

// Park lets other tasks run until one of them calls wake, once.
func (t *Task) Park(park func(wake func())) {
	park(func() { t.loop.At(t.loop.now, t.resume) })
	t.yield(struct{}{})
}

// epoch returns time 0 as a time.Time. It is so far in the future that no deadline in
// virtual time has passed by the system's clock.
func epoch() time.Time { return time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Clock returns the virtual time as a time.Time.
func (l *Loop) Clock() time.Time { return epoch().Add(l.now) }

// sleep makes the task of a call wait.
func sleep(ctx context.Context, d time.Duration) error {
	taskOf(ctx).Sleep(d)
	return ctx.Err()
}

// life is the context of a call: it holds the call's task and the end of its time.
type life struct {
	context.Context //nolint:containedctx // a Task is a context

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
	return ctx.Value(taskKey{}).(*Task) //nolint:forcetypeassert // every context here has a Task
}

// event is a function to call at a time. Events of the same time run in order.
type event struct {
	at    time.Duration
	order int
	f     func()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// events is a binary heap: the event at place i comes before those at 2i+1 and 2i+2.
type events []event

func (e *events) push(x event) {
	h := append(*e, x)
	for i := len(h) - 1; i > 0 && h[i].before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	*e = h
}

// pop removes the first event.
func (e *events) pop() event {
	h := *e
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(&h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*e = h
	return first
}
