package bulkhead

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// process is a program with a bounded number of workers. For its callers it calls two
// dependencies, each call in a worker.
type process struct {
	workers *Bulkhead
	each    *Set // nil: the dependencies share all workers
	hangs   bool
}

const (
	callers = 1000
	answers = 10 * time.Millisecond // how long a call to a healthy dependency takes
	givesUp = 30 * time.Second      // the timeout of a caller
)

func (p *process) call(dependency string) error {
	ctx, cancel := context.WithTimeout(context.Background(), givesUp)
	defer cancel()
	work := func(ctx context.Context) error {
		return p.workers.Do(ctx, func(ctx context.Context) error {
			if p.hangs && dependency == "hung" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(answers)
			return nil
		})
	}
	if p.each == nil {
		return work(ctx)
	}
	return p.each.Do(ctx, dependency, work)
}

// p99OfHealthy returns the longest of a hundred calls to the healthy dependency, while
// half of the callers call the other one. Each caller calls once a second, ten times.
func (p *process) p99OfHealthy(t *testing.T) (p99 time.Duration) {
	synctest.Test(t, func(*testing.T) {
		var took [callers / 2][]time.Duration
		for i := range callers {
			go func() {
				time.Sleep(time.Duration(i) * time.Second / callers)
				for range 10 {
					if i%2 == 0 {
						_ = p.call("hung")
					} else {
						start := time.Now()
						_ = p.call("healthy")
						took[i/2] = append(took[i/2], time.Since(start))
					}
					time.Sleep(time.Second)
				}
			}()
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait() // all calls have ended
		all := slices.Concat(took[:]...)
		slices.Sort(all)
		p99 = all[len(all)*99/100]
	})
	return p99
}

// If each dependency has its own places, one that hangs does not slow down the other. If
// they share places, the other hangs too.
func TestHungDependencyLeavesTheOtherAlone(t *testing.T) {
	workers := func() *Bulkhead { return mustNew(t, Options{Limit: 100, Queue: callers}) }
	own := func() *Set { return mustNewSet(t, SetOptions{Each: Options{Limit: 50}}) }
	before := (&process{workers: workers()}).p99OfHealthy(t)
	shared := (&process{workers: workers(), hangs: true}).p99OfHealthy(t)
	apart := (&process{workers: workers(), each: own(), hangs: true}).p99OfHealthy(t)
	t.Logf("p99 of the healthy dependency, of %d callers: %v before; with the other hung %v without bulkheads, %v with", callers, before, shared, apart)
	if apart > before*11/10 {
		t.Errorf("with bulkheads %v, before %v: want at most a tenth more", apart, before)
	}
	if shared < 100*before {
		t.Errorf("without bulkheads %v, before %v: this test shows nothing", shared, before)
	}
}
