package migrating

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stintdev/stint/resilience/breaker"
)

func circuitBefore() *gobreaker.CircuitBreaker[string] {
	return gobreaker.NewCircuitBreaker[string](gobreaker.Settings{Name: "orders", Timeout: 10 * time.Second})
}

func orderBefore(ctx context.Context, circuit *gobreaker.CircuitBreaker[string]) (string, error) {
	return circuit.Execute(func() (string, error) { return fetch(ctx) })
}

func circuitAfter() (*breaker.Breaker, error) {
	return breaker.New(breaker.Options{ConsecutiveFailures: 6, OpenFor: 10 * time.Second})
}

func orderAfter(ctx context.Context, circuit *breaker.Breaker) (string, error) {
	return breaker.Do(ctx, circuit, fetch)
}

// fetch stands for a call to another service.
var fetch = func(context.Context) (string, error) { return "", errDown }

var errDown = errors.New("the service is down")

func TestGobreakerOpensTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := circuitBefore()
		after, err := circuitAfter()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			_, was := orderBefore(t.Context(), before)
			_, is := orderAfter(t.Context(), after)
			if errors.Is(was, gobreaker.ErrOpenState) != errors.Is(is, breaker.ErrRefused) || errors.Is(was, errDown) != (i < 6) {
				t.Errorf("call %d: gobreaker says %v, Stint %v", i+1, was, is)
			}
		}
		time.Sleep(10*time.Second + 1)
		if before.State() != gobreaker.StateHalfOpen || after.State() != breaker.Open {
			t.Errorf("gobreaker is %v, Stint is %v", before.State(), after.State())
		}
		_, was := orderBefore(t.Context(), before)
		_, is := orderAfter(t.Context(), after)
		if !errors.Is(was, errDown) || !errors.Is(is, errDown) {
			t.Errorf("the probe of gobreaker says %v, that of Stint %v", was, is)
		}
		if before.State() != gobreaker.StateOpen || after.State() != breaker.Open {
			t.Errorf("gobreaker is %v, Stint is %v", before.State(), after.State())
		}
	})
}

// A caller that gives up counts as a failure in gobreaker, and not in Stint.
func TestGobreakerCountsCancellations(t *testing.T) {
	before := circuitBefore()
	_, _ = before.Execute(func() (string, error) { return "", context.Canceled })
	if n := before.Counts().TotalFailures; n != 1 {
		t.Errorf("gobreaker counts %d failures", n)
	}
	after, err := circuitAfter()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = breaker.Do(t.Context(), after, func(context.Context) (string, error) { return "", context.Canceled })
	if n := after.Counts().Failures; n != 0 {
		t.Errorf("Stint counts %d failures", n)
	}
}

// A probe that never ends keeps gobreaker half-open. Stint lets another probe through.
func TestGobreakerLosesProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := circuitBefore()
		after, err := circuitAfter()
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			_, _ = orderBefore(t.Context(), before)
			_, _ = orderAfter(t.Context(), after)
		}
		time.Sleep(10*time.Second + 1)
		lost := make(chan struct{})
		hang := func(context.Context) (string, error) { <-lost; return "", errDown }
		go func() { _, _ = before.Execute(func() (string, error) { return hang(t.Context()) }) }()
		go func() { _, _ = breaker.Do(t.Context(), after, hang) }()
		synctest.Wait()
		time.Sleep(time.Hour)
		if _, err := orderBefore(t.Context(), before); !errors.Is(err, gobreaker.ErrTooManyRequests) {
			t.Errorf("gobreaker says %v", err)
		}
		if _, err := orderAfter(t.Context(), after); !errors.Is(err, errDown) {
			t.Errorf("Stint says %v", err)
		}
		close(lost)
		synctest.Wait()
	})
}
