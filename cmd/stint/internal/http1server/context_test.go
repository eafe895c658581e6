package http1server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

type valueKey struct{}

// A request's context ends with the request or its connection, whether or not anything waits.
func TestRequestContextEnds(t *testing.T) {
	for name, c := range map[string]struct {
		await, awaitAfter bool
		connection        bool // ends, and not the request
	}{
		"notAwaited":             {},
		"awaited":                {await: true},
		"awaitedAfterwards":      {awaitAfter: true},
		"connection":             {connection: true},
		"connectionAwaited":      {connection: true, await: true},
		"connectionAwaitedAfter": {connection: true, awaitAfter: true},
	} {
		t.Run(name, func(t *testing.T) {
			connection, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
			defer cancel()
			r := &requestContext{Context: connection}
			if c.await {
				r.Done()
			}
			if err := r.Err(); err != nil {
				t.Errorf("before its end, the error is %v", err)
			}
			if c.connection {
				cancel()
			} else {
				r.end()
			}
			if c.awaitAfter {
				<-r.Done()
			}
			if err := r.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(r), context.Canceled) {
				t.Errorf("the error is %v, its cause %v", err, context.Cause(r))
			}
			<-r.Done()
			if r.Value(valueKey{}) != "value" {
				t.Error("the value is lost")
			}
		})
	}
}

// What derives from the context of a request ends with it, and not later.
func TestRequestContextEndsWhatDerivesFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &requestContext{Context: t.Context()}
		child, cancel := context.WithCancel(context.WithValue(r, valueKey{}, "value"))
		defer cancel()
		called := false
		context.AfterFunc(r, func() { called = true })
		synctest.Wait()
		if child.Err() != nil || called {
			t.Error("they ended before the request")
		}
		r.end()
		synctest.Wait()
		if child.Err() == nil || !called || child.Value(valueKey{}) != "value" {
			t.Errorf("the child has ended with %v, the function was called: %v", child.Err(), called)
		}
	})
}
