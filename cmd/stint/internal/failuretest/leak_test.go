package failuretest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

// held returns the number of goroutines and open files of the process. The number of
// files is 0 on systems that do not report it.
func held() (goroutines, files int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(entries)
}

// After a failure the process releases everything that it used to survive it:
// connections, probes, and abandoned calls.
func TestFailuresLeaveNothingBehind(t *testing.T) {
	skipShort(t)
	p := redistest.Server(t)
	n, claims := newNode(t, single(p.Addr()), patient()), claims(t)
	awaitAnswer(t, n, claims[opens])
	l := start(t, n, claims...)
	l.await(t, normal)
	goroutines, files := held()
	for range 4 {
		p.Kill()
		awaitOpen(t, n)
		p.Restart()
		l.awaitNormal(t, time.Now())
		p.Freeze()
		awaitOpen(t, n)
		p.Thaw()
		l.awaitNormal(t, time.Now())
	}
	redistest.Await(t, func() error {
		g, f := held()
		if g > goroutines+2 || f > files+2 { // the heartbeat, and the read of /proc
			return fmt.Errorf("%d goroutines and %d files are held, and %d and %d before the failures", g, f, goroutines, files)
		}
		return nil
	})
}
