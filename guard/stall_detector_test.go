package guard

import (
	"testing"
	"testing/synctest"
	"time"
)

// watched runs a test with a detector that is already watching.
func watched(t *testing.T, test func(t *testing.T, w *stallDetector)) {
	synctest.Test(t, func(t *testing.T) {
		var m background
		m.init()
		defer m.close()
		var w stallDetector
		w.init(&m)
		if !w.excuses(20 * time.Millisecond) {
			t.Error("a call before the watch is held against the store")
		}
		time.Sleep(100 * time.Millisecond)
		test(t, &w)
	})
}

func TestSlowCallsOfAProcessInTimeAreTheStores(t *testing.T) {
	watched(t, func(t *testing.T, w *stallDetector) {
		if w.excuses(50 * time.Millisecond) {
			t.Error("a slow call is excused, and the process was never late")
		}
	})
}

func TestSlowCallsOfALateProcessAreItsOwn(t *testing.T) {
	watched(t, func(t *testing.T, w *stallDetector) {
		w.check(w.checked.Load() + int64(watchEvery+lateness))
		if w.excuses(50 * time.Millisecond) {
			t.Error("a slow call is excused by a timer that was late as they are")
		}
		w.check(w.checked.Load() + int64(watchEvery+lateness+1))
		time.Sleep(30 * time.Millisecond)
		if !w.excuses(50 * time.Millisecond) {
			t.Error("a call is held against the store although the process was late meanwhile")
		}
		if w.excuses(20 * time.Millisecond) {
			t.Error("a call that began after the process was late is excused")
		}
	})
}

func TestWatchEndsWhenCallsAreQuickAgain(t *testing.T) {
	watched(t, func(t *testing.T, w *stallDetector) {
		time.Sleep(watchFor)
		if w.watching.Load() {
			t.Error("the watch goes on")
		}
		if !w.excuses(20*time.Millisecond) || !w.watching.Load() {
			t.Error("the next slow call does not begin a watch of its own")
		}
	})
}
