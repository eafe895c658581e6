package httplimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// A request whose deadline is earlier than the end of its delay is denied and takes no
// place in the queue.
func TestDelayEndsBeforeTheDeadline(t *testing.T) {
	leaky := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 100}
	for name, specs := range map[string][]stint.Spec{"alone": {leaky}, "with another": {leaky, stint.PerHour(1000)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var limits []stint.Limit
				for _, s := range specs {
					limits = append(limits, compile(t, s))
				}
				limiter, start := over(t, stint.NewMemory(stint.MemoryOptions{}), limits...), time.Now()
				handler := mustLimit(t, limiter, Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				if d, err := limiter.AllowN(t.Context(), "ip:192.0.2.1", 5); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				for _, c := range []struct {
					within time.Duration
					want   int
					after  time.Duration
				}{{499 * time.Millisecond, 429, 0}, {300 * time.Millisecond, 429, 0}, {501 * time.Millisecond, 200, 500 * time.Millisecond}, {time.Hour, 200, 600 * time.Millisecond}} {
					ctx, cancel := context.WithTimeout(t.Context(), c.within)
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
					cancel()
					if w.Code != c.want || time.Since(start) != c.after {
						t.Errorf("within %v: %d after %v; want %d after %v", c.within, w.Code, time.Since(start), c.want, c.after)
					}
				}
			})
		})
	}
}
