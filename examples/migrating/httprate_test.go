package migrating

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func httprateBefore(hello http.Handler) http.Handler {
	byKey := func(r *http.Request) (string, error) { return r.Header.Get("X-API-Key"), nil }
	return httprate.LimitBy(100, time.Minute, byKey)(hello)
}

func httprateAfter(hello http.Handler) (http.Handler, error) {
	window, err := stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Minute}.Compile()
	if err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "hello", window)
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{By: []string{"header:X-API-Key"}})
	if err != nil {
		return nil, err
	}
	return limited.Wrap(hello), nil
}

// The time of a bubble begins at the start of a minute, where the windows of both begin.
func TestHTTPRateAllowsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := httprateBefore(hello)
		after, err := httprateAfter(hello)
		if err != nil {
			t.Fatal(err)
		}
		was, is := 0, 0
		for range 300 {
			if get(before, ann).Code == 200 {
				was++
			}
			if get(after, ann).Code == 200 {
				is++
			}
			time.Sleep(500 * time.Millisecond)
		}
		if was < is || was > is+3 { // httprate rounds the weighted count
			t.Errorf("httprate allowed %d, Stint %d", was, is)
		}
	})
}

// On a denial httprate asks for a wait of a whole window. Stint asks for the exact one.
func TestHTTPRateAsksForAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := httprateBefore(hello)
		after, err := httprateAfter(hello)
		if err != nil {
			t.Fatal(err)
		}
		var was *httptest.ResponseRecorder
		for range 101 {
			was = get(before, ann)
			get(after, ann)
		}
		if was.Code != 429 || was.Header().Get("Retry-After") != "60" {
			t.Errorf("httprate answers %d, %v", was.Code, was.Header())
		}
		time.Sleep(59500 * time.Millisecond)
		is := get(after, ann)
		if is.Code != 429 || is.Header().Get("Retry-After") != "2" {
			t.Errorf("Stint answers %d, %v", is.Code, is.Header())
		}
		time.Sleep(2 * time.Second)
		if w := get(after, ann); w.Code != 200 {
			t.Errorf("Stint answers %d after the wait", w.Code)
		}
		if w := get(before, ann); w.Code != 200 {
			t.Errorf("httprate answers %d after the wait", w.Code)
		}
	})
}
