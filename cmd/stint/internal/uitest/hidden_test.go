//go:build linux

package uitest

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A tab that nobody sees holds no stream of the server, and no connection of the browser. When it is
// seen again, it goes on after the last second.
func TestAHiddenTabHoldsNoStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var open, again, begun atomic.Int64
	b := newTab(t, w.prefixed(func(r *http.Request) {
		if r.URL.Path != "/v1/live" {
			return
		}
		open.Add(1)
		begun.Add(1)
		if r.Header.Get("Last-Event-ID") != "" {
			again.Add(1)
		}
		ended := r.Context().Done()
		go func() { <-ended; open.Add(-1) }()
	}), desk)
	b.signIn(viewer)
	b.await("document.querySelector('canvas')")
	turn := func(hidden string) {
		b.eval("Object.defineProperty(document, 'hidden', {value: " + hidden + ", configurable: true}); document.dispatchEvent(new Event('visibilitychange')); 0")
	}
	turn("true")
	until(t, "the stream is closed", func() bool { return open.Load() == 0 })
	b.lacks("The live view is interrupted")
	turn("false")
	until(t, "the stream goes on", func() bool { return open.Load() == 1 && again.Load() == 1 })
	b.lacks("The live view is interrupted")
	// A page that is left while the tab is hidden opens none that nothing would end.
	turn("true")
	until(t, "the stream is closed again", func() bool { return open.Load() == 0 })
	b.goTo("#/versions")
	b.sees("in force")
	turn("false")
	b.goTo("#/nodes")
	b.sees("Servers of the store")
	if n := begun.Load(); n != 2 {
		t.Errorf("%d streams were begun, not 2", n)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}
