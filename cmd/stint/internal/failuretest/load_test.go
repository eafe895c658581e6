package failuretest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// sample is one check as its caller observed it.
type sample struct {
	claim int // index in the claims of the load
	begun time.Time
	took  time.Duration
	d     stint.Decision
	err   error
	// stalled is the part of took during which the process did not run.
	stalled time.Duration
	// ran is the processor time of the check. It is valid if atOnce: the check did not
	// wait.
	ran    time.Duration
	atOnce bool
}

// net returns the duration of the check without the delays of the host.
func (s *sample) net() time.Duration {
	if s.atOnce {
		return min(s.took, s.ran)
	}
	return s.took - s.stalled
}

// load makes checks while servers fail. Its pace leaves the processors mostly idle.
type load struct {
	store    stint.Store
	claims   []stint.Claim
	done     atomic.Int64 // number of samples
	degraded atomic.Int64 // end of the last check that was degraded or failed, in ns since begun
	begun    time.Time

	stopping chan struct{}
	workers  sync.WaitGroup
	samples  [][]sample // the samples of each worker
	stalls   stalls
}

const (
	workers = 32
	pace    = 10 * time.Millisecond // time between two checks of a worker
	normal  = 300                   // successful samples in a row until service counts as normal
)

// start starts a load. It assigns the claims to the workers in turn.
func start(t *testing.T, store stint.Store, claims ...stint.Claim) *load {
	t.Helper()
	l := &load{store: store, claims: claims, begun: time.Now(), stopping: make(chan struct{}), samples: make([][]sample, workers)}
	// No garbage collection: it stops every thread, so on a busy host it waits for the
	// slowest one. The memory suffices without it.
	runtime.GC()
	collect := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(collect) })
	l.workers.Go(func() { l.stalls.watch(l.stopping) })
	for w := range workers {
		l.workers.Go(func() { l.work(w) })
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// work is the loop of one worker. The workers start at different times, so that their
// checks do not compete for the processors.
func (l *load) work(w int) {
	<-time.After(pace * time.Duration(w) / workers)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := w % len(l.claims); ; {
		select {
		case <-tick.C:
			l.samples[w] = append(l.samples[w], l.take(i))
			l.done.Add(1)
		case <-l.stopping:
			return
		}
	}
}

func (l *load) take(i int) sample {
	before := threadNow()
	s := sample{claim: i, begun: time.Now()}
	s.d, s.err = l.store.Take(context.Background(), l.claims[i])
	s.took = time.Since(s.begun)
	s.ran, s.atOnce = threadNow().ranSince(before)
	if s.err != nil || s.d.Degraded {
		l.degraded.Store(int64(time.Since(l.begun)))
	}
	return s
}

// stop ends the load and returns its samples.
func (l *load) stop() (all []sample) {
	select {
	case <-l.stopping:
	default:
		close(l.stopping)
	}
	l.workers.Wait()
	for _, s := range l.samples {
		all = append(all, s...)
	}
	for i := range all {
		s := &all[i]
		s.stalled = l.stalls.within(s.begun, s.begun.Add(s.took))
	}
	return all
}

// await waits for n further checks.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	before := l.done.Load()
	redistest.Await(t, func() error {
		if have := l.done.Load() - before; have < n {
			return fmt.Errorf("%d of %d checks are done", have, n)
		}
		return nil
	})
}

// awaitNormal waits until the store has answered every check for a while. It returns
// the time from since to the last check that was answered without the store.
func (l *load) awaitNormal(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	last, from := l.degraded.Load(), l.done.Load()
	redistest.Await(t, func() error {
		if now := l.degraded.Load(); now != last {
			last, from = now, l.done.Load()
		}
		if l.done.Load()-from < normal {
			return errors.New("checks are still answered without the store")
		}
		return nil
	})
	return max(0, l.begun.Add(time.Duration(last)).Sub(since))
}
