package retry

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/deadline"
)

// Calls that another resilience package refuses are not retried, unless their error is
// marked.
func TestRefusalsAreNotRepeated(t *testing.T) {
	broken, err := breaker.New(breaker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	broken.ForceOpen()
	full, err := bulkhead.New(bulkhead.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := full.TryAcquire(); !ok {
		t.Fatal("no place")
	}
	nothing := func(context.Context) error { return nil }
	late := &deadline.Transport{Timeout: time.Second, Reserve: time.Minute}
	for _, refuse := range []func() error{
		func() error { return broken.Do(t.Context(), func(context.Context) error { return nil }) },
		func() error { return full.Do(t.Context(), nothing) },
		func() error {
			_, err := late.RoundTrip(request(t.Context(), t, "GET", nil))
			return err
		},
	} {
		for _, mark := range []struct {
			with func(error) error
			want int
		}{
			{func(err error) error { return err }, 1},
			{func(err error) error { return fmt.Errorf("orders: %w", err) }, 1},
			{func(err error) error { return After(err, time.Second) }, 3},
		} {
			var last error
			calls := 0
			_ = quick(t, Options{}).Do(t.Context(), func(context.Context) error {
				calls++
				last = mark.with(refuse())
				return last
			})
			if calls != mark.want {
				t.Errorf("%v: %d calls, want %d", last, calls, mark.want)
			}
		}
		sent := 0
		tr := &Transport{Policy: quick(t, Options{}), Base: trip(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, refuse()
		})}
		if resp, err := tr.RoundTrip(request(t.Context(), t, "GET", nil)); err == nil || sent != 1 {
			t.Errorf("%v, %v: %d attempts", resp, err, sent)
		}
	}
}
